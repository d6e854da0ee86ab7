use std::sync::Arc;

use homeostat_component::{Engine, EngineOptions};
use homeostat_fixtures::{Fault, FaultyStore, On, memory_store};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Error, Key, Kind, Resource, Revision, Store, Write};
use homeostat_testing::soon;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::run;
use crate::native_controller::tests::Flaky;
use crate::{BuiltInGroups, Host, Options, Stores};

fn key(name: &str) -> Key {
    Key::new(Kind::new("", "v1", "Pod"), "default", name)
}

async fn create(store: &MemoryStore, name: &str, owner: Option<&Resource>) -> Arc<Resource> {
    let reference =
        |owner: &Resource| json!([{"apiVersion": "v1", "kind": "Pod", "name": owner.key().name(), "uid": owner.uid()}]);
    let owners = owner.map_or(Value::Null, reference);
    let metadata = json!({"name": name, "namespace": "default", "ownerReferences": owners});
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    store.write(Write::Create { document }).await.expect("well formed").resource
}

async fn delete(store: &MemoryStore, name: &str) {
    homeostat_fixtures::delete(store, key(name)).await;
}

async fn until_gone(store: &MemoryStore, name: &str) {
    soon(homeostat_fixtures::until_gone(store, &key(name))).await;
}

fn unavailable() -> Error {
    Error::unavailable("not now")
}

fn start(flaky: &Arc<Flaky>, end: &CancellationToken) -> JoinHandle<()> {
    tokio::spawn(run(Stores::One(Arc::clone(flaky) as Arc<dyn Store>), Arc::default(), Arc::default(), end.clone()))
}

#[tokio::test(start_paused = true)]
async fn garbage_collection_resumes_when_the_store_is_available_again() {
    let flaky = Flaky::new(std::iter::repeat_n(unavailable(), 200));
    let root = create(&flaky.inner, "root", None).await;
    create(&flaky.inner, "leaf", Some(&root)).await;
    delete(&flaky.inner, "root").await;
    let collector = start(&flaky, &CancellationToken::new());
    until_gone(&flaky.inner, "leaf").await;
    // Again, while it follows changes.
    for error in [unavailable(), unavailable(), Error::Expired { oldest: Revision(1) }, unavailable()] {
        let root = create(&flaky.inner, "root", None).await;
        create(&flaky.inner, "leaf", Some(&root)).await;
        flaky.errors.lock().push_back(error);
        delete(&flaky.inner, "root").await;
        until_gone(&flaky.inner, "leaf").await;
    }
    flaky.close().await;
    collector.await.expect("it ends with the store");
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_store_is_retried_ever_more_rarely() {
    let flaky = Flaky::new(std::iter::repeat_n(unavailable(), 1000));
    let end = CancellationToken::new();
    let collector = start(&flaky, &end);
    tokio::time::advance(std::time::Duration::ZERO).await;
    let left = || flaky.errors.lock().len();
    let clock = tokio::time::Instant::now();
    while left() > 980 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    // 50 ms doubled ten times is past the cap of 30 s: twenty tries take minutes.
    assert!(clock.elapsed() > std::time::Duration::from_secs(200), "{:?}", clock.elapsed());
    assert!(clock.elapsed() < std::time::Duration::from_secs(600), "{:?}", clock.elapsed());
    end.cancel();
    collector.await.expect("it ends when it is told");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_cannot_be_deleted_does_not_stop_the_others() {
    let flaky = Flaky::new([]);
    let root = create(&flaky.inner, "root", None).await;
    create(&flaky.inner, "one", Some(&root)).await;
    create(&flaky.inner, "two", Some(&root)).await;
    let collector = start(&flaky, &CancellationToken::new());
    let other = create(&flaky.inner, "other", None).await;
    create(&flaky.inner, "leaf", Some(&other)).await;
    flaky.errors.lock().push_back(Error::invalid("spec", "is forbidden by somebody"));
    delete(&flaky.inner, "root").await;
    delete(&flaky.inner, "other").await;
    until_gone(&flaky.inner, "leaf").await;
    flaky.close().await;
    collector.await.expect("it ends with the store");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_a_cache_does_not_have_yet_is_not_gone() {
    let memory = memory_store();
    let metadata = json!({"name": "owner", "namespace": "default"});
    let document = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let owner = memory.write(Write::Create { document }).await.expect("well formed").resource;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()});
    let metadata = json!({"name": "part", "namespace": "default", "ownerReferences": [reference]});
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    memory.write(Write::Create { document }).await.expect("well formed");
    let root = create(&memory, "root", None).await;
    create(&memory, "x-leaf", Some(&root)).await;
    delete(&memory, "root").await;
    let store = FaultyStore::over(memory.clone());
    store.fault(On::GetCached, "ConfigMap", Fault::NotInstalled);
    let end = CancellationToken::new();
    let collector = tokio::spawn(run(Stores::One(store.clone()), Arc::default(), Arc::default(), end.clone()));
    // The parts are checked in the order of their names.
    until_gone(&memory, "x-leaf").await;
    assert!(memory.get(&key("part")).await.is_ok());
    end.cancel();
    collector.await.expect("it ends when it is told");
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_a_namespace_never_counts_as_gone_for_a_cluster_scoped_resource() {
    let memory = memory_store();
    let engine = Engine::new(EngineOptions::default()).expect("the engine starts");
    let options = Options { built_in: BuiltInGroups::All, ..Options::new(engine, memory.clone()) };
    let host = Host::start(options).await.expect("the host starts");
    // Each names an owner that is not there; only the last one can have an owner of that kind.
    let owned = [
        ("v1", "Namespace", "precious", ("v1", "ConfigMap")),
        ("v1", "Namespace", "strange", ("demo.dev/v1", "Nobody")),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "leaf", ("rbac.authorization.k8s.io/v1", "ClusterRole")),
    ];
    for (api_version, kind, name, (of_version, of_kind)) in owned {
        let owner = json!({"apiVersion": of_version, "kind": of_kind, "name": "gone", "uid": "gone"});
        let metadata = json!({"name": name, "ownerReferences": [owner]});
        let document = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        host.store().write(Write::Create { document }).await.expect("well formed");
    }
    let leaf = Key::new(Kind::new("rbac.authorization.k8s.io", "v1", "ClusterRole"), "", "leaf");
    soon(homeostat_fixtures::until_gone(&*memory, &leaf)).await;
    for name in ["precious", "strange"] {
        let namespace = memory.get(&Key::new(Kind::new("", "v1", "Namespace"), "", name)).await.expect("it stays");
        assert!(!namespace.is_deleting(), "{name}");
    }
}
