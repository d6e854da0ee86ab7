use homeostat_component::{Engine, EngineOptions};
use homeostat_fixtures::{Fault, FaultyStore, On, memory_store, until_gone};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Error, Key, Propagation, Revision, Scope};
use homeostat_testing::{BOUND, soon};
use serde_json::Value;

use super::*;
use crate::{Host, Options};

async fn host<S: Store>(store: &Arc<S>) -> Host {
    let engine = Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() }).unwrap();
    Host::start(Options::new(engine, store.clone())).await.unwrap()
}

/// All tasks in here are dropped when this returns, as if the process were killed.
fn process<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let done = runtime.block_on(async { soon(run).await });
    runtime.shutdown_timeout(BOUND);
    done
}

fn version(name: &str, is_stored: bool) -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({ "name": name, "served": true, "storage": is_stored, "schema": { "openAPIV3Schema": schema } })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "sites.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "kind": "Site", "plural": "sites" },
            "versions": [version("v1", true)],
        },
    })
}

fn definition_key() -> Key {
    Key::new(definitions(), "", "sites.example.com")
}

fn sites() -> Kind {
    Kind::new("example.com", "v1", "Site")
}

async fn write(host: &Host, write: Write) {
    host.write(write.into()).await.unwrap();
}

/// Waits until a condition of the definition holds.
async fn until_it_says(store: &MemoryStore, condition: &str) {
    let mut watch = store.watch(Scope::Kind(definitions()), Revision::ZERO).await.unwrap();
    let says_so = |definition: &Resource| {
        let conditions = definition.status().get("conditions").and_then(Value::as_array).into_iter().flatten().cloned();
        conditions.into_iter().any(|found| found["type"] == condition && found["status"] == "True")
    };
    while !says_so(&watch.next().await.unwrap().resource) {}
}

#[test]
fn a_deletion_of_a_definition_continues_after_a_restart() {
    let store = memory_store();
    let (free, held) = (Key::new(sites(), "", "free"), Key::new(sites(), "", "held"));
    process(async {
        let host = host(&store).await;
        write(&host, Write::Create { document: definition() }).await;
        until_it_says(&store, "Established").await;
        for (key, finalizers) in [(&free, json!([])), (&held, json!(["example.com/hold"]))] {
            let metadata = json!({ "name": key.name(), "finalizers": finalizers });
            let document = json!({ "apiVersion": "example.com/v1", "kind": "Site", "metadata": metadata });
            write(&host, Write::Create { document }).await;
        }
        let (precondition, propagation) = (Precondition::default(), Propagation::Background);
        write(&host, Write::Delete { key: definition_key(), precondition, propagation, grace_seconds: None }).await;
        until_gone(&*store, &free).await;
    });
    assert!(process(store.get(&held)).unwrap().is_deleting());

    process(async {
        let host = host(&store).await;
        until_it_says(&store, "Terminating").await;
        assert!(host.kinds().stores(&sites()), "who has to see the last of a resource can");
        assert!(store.get(&definition_key()).await.unwrap().is_deleting());
        let change = Change::Merge(json!({ "metadata": { "finalizers": [] } }));
        write(&host, Write::Patch { key: held.clone(), change, precondition: Precondition::default() }).await;
        until_gone(&*store, &definition_key()).await;
        assert!(!host.kinds().stores(&sites()));
        assert!(matches!(store.get(&held).await, Err(Error::NotFound { .. })));
    });
}

#[test]
fn migrating_resources_holds_up_no_other_definition() {
    let store = memory_store();
    let faulty = FaultyStore::over(store.clone());
    process(async {
        let host = host(&faulty).await;
        write(&host, Write::Create { document: definition() }).await;
        until_it_says(&store, "Established").await;
        let site = json!({ "apiVersion": "example.com/v1", "kind": "Site", "metadata": { "name": "one" } });
        write(&host, Write::Create { document: site }).await;

        // Written like a guest's: the host's task migrates the resources, and one of its writes hangs.
        faulty.fault(On::Write, "Site", Fault::Wait);
        let versions = |stored: &str| {
            let versions = ["v1", "v2", "v3"].map(|name| version(name, name == stored));
            let change = json!({ "spec": { "versions": versions } });
            Write::Patch { key: definition_key(), change: Change::Merge(change), precondition: Precondition::default() }
        };
        store.write(versions("v2")).await.unwrap();
        let mut other = definition();
        other["metadata"]["name"] = "pages.example.com".into();
        other["spec"]["names"] = json!({ "kind": "Page", "plural": "pages" });
        store.write(Write::Create { document: other }).await.unwrap();
        let mut watch = store.watch(Scope::Kind(definitions()), Revision::ZERO).await.unwrap();
        let established = |definition: &Resource| definition.status()["storedVersions"] == json!(["v1"]);
        loop {
            let definition = watch.next().await.unwrap().resource;
            if definition.key().name() == "pages.example.com" && established(&definition) {
                break;
            }
        }
        assert!(host.kinds().stores(&Kind::new("example.com", "v1", "Page")));

        // The newest version aborts the work for an older one.
        store.write(versions("v3")).await.unwrap();
        faulty.heal(On::Write, "Site");
        loop {
            let definition = watch.next().await.unwrap().resource;
            if definition.status()["storedVersions"] == json!(["v3"]) {
                break;
            }
        }
        assert!(host.kinds().stores(&Kind::new("example.com", "v3", "Site")));
        let site = store.get(&Key::new(sites(), "", "one")).await.unwrap();
        assert_eq!(site.key().kind().version, "v3");
    });
}

#[test]
fn a_kind_outlives_its_forcibly_removed_definition_for_waiting_resources() {
    let store = memory_store();
    let held = Key::new(sites(), "", "held");
    process(async {
        let host = host(&store).await;
        write(&host, Write::Create { document: definition() }).await;
        until_it_says(&store, "Established").await;
        let metadata = json!({ "name": "held", "finalizers": ["example.com/hold"] });
        let document = json!({ "apiVersion": "example.com/v1", "kind": "Site", "metadata": metadata });
        write(&host, Write::Create { document }).await;
        let (precondition, propagation) = (Precondition::default(), Propagation::Background);
        write(&host, Write::Delete { key: definition_key(), precondition, propagation, grace_seconds: None }).await;
        until_it_says(&store, "Terminating").await;
        let nothing = |key: &Key| {
            let change = Change::Merge(json!({ "metadata": { "finalizers": [] } }));
            Write::Patch { key: key.clone(), change, precondition: Precondition::default() }
        };
        store.write(nothing(&definition_key())).await.unwrap();
        assert!(matches!(store.get(&definition_key()).await, Err(Error::NotFound { .. })));
        // Another definition is watched after it.
        let mut other = definition();
        other["metadata"]["name"] = "pages.example.com".into();
        other["spec"]["names"] = json!({ "kind": "Page", "plural": "pages" });
        store.write(Write::Create { document: other }).await.unwrap();
        let page = Key::new(definitions(), "", "pages.example.com");
        let mut watch =
            store.watch(Scope::Kind(definitions()), store.revision(&Scope::Everything).await.unwrap()).await.unwrap();
        while store.get(&page).await.unwrap().status().get("conditions").is_none() {
            watch.next().await.unwrap();
        }
        assert!(host.kinds().stores(&sites()) && host.kinds().is_ending(&sites()));

        write(&host, nothing(&held)).await;
        assert!(matches!(store.get(&held).await, Err(Error::NotFound { .. })));
        while host.kinds().stores(&sites()) {
            tokio::task::yield_now().await;
        }
    });
}
