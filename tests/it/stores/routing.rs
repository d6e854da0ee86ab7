//! Several stores in one host: each kind lives in one of them, and guests cannot tell which.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{BackoffSpec, Grants};
use homeostat_fixtures::{FaultyStore, demo, demo_key, demo_kind, memory_store};
use homeostat_runtime::manifest::Manifest;
use homeostat_runtime::{ControllerState, Definition, Options, Overrides};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Error, Key, Query, Store};
use homeostat_testing::{eventually, eventually_blocking, eventually_built};
use homeostat_tests::{HostProcess, TestHost, guest, repository, routed_stores, run};
use serde_json::{Value, json};

use super::clusters::{GREETER, stores_ready};
use super::contents::store;
use crate::metrics::scrape::{Scrape, get};

const HEAD: &str = "apiVersion: homeostat.dev/v1alpha1\nkind: Stores\n";

/// Starts a host whose store `far` has the kinds of the patterns, and `home` all others.
async fn host(home: Arc<dyn Store>, far: Arc<dyn Store>, patterns: &[&str]) -> TestHost {
    let stores = routed_stores(home.clone(), far, patterns);
    TestHost::with(home, |options| Options { stores, ..options }).await
}

/// Adds the controller of the example `tenants`, with exactly the grants of its manifest.
async fn add_tenants(test: &TestHost) {
    let text = std::fs::read_to_string(repository().join("examples/tenants/controllers.yaml")).unwrap();
    let manifest: Manifest = serde_saphyr::from_str(&text).unwrap();
    let grants: Grants = manifest.spec.check().unwrap().grants;
    let component = test.load(&guest("tenants")).await;
    test.host.put(Definition { grants, ..Definition::new("tenants", component) }).await.unwrap();
}

async fn until_ready(test: &TestHost, controller: &str) {
    eventually(controller, async || (test.status(controller).state == ControllerState::Ready).then_some(())).await;
}

fn tenant() -> Value {
    json!({
        "apiVersion": "demo.homeostat.dev/v1", "kind": "Tenant", "metadata": {"name": "blue"},
        "spec": {"namespaces": ["blue-test", "blue-live"], "pods": 20},
    })
}

fn tenant_key() -> Key {
    Key::new(demo_kind("Tenant"), "", "blue")
}

fn quota(namespace: &str) -> Key {
    Key::new(demo_kind("Quota"), namespace, "blue")
}

async fn count(store: &dyn Store, kind: &str) -> usize {
    store.list(&Query::all(demo_kind(kind))).await.unwrap().items.len()
}

/// S15: A guest whose kind lives in one store, and whose secondaries live in another, runs unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_runs_unchanged_when_its_kinds_live_in_two_stores() {
    for (far_kind, near_kind) in [("Quota", "Tenant"), ("Tenant", "Quota")] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.redb");
        let home = Arc::new(EmbeddedStore::open(&file, homeostat_store::Options::default()).unwrap());
        let far = memory_store();
        let test = host(home.clone(), far.clone(), &[&format!("demo.homeostat.dev/{far_kind}")]).await;
        add_tenants(&test).await;
        until_ready(&test, "tenants").await;
        test.apply(tenant()).await;
        test.until(&tenant_key(), "counts its quotas", |tenant| tenant["status"]["quotas"] == 2).await;
        // A change of a secondary queues its owner, wherever both live.
        homeostat_fixtures::delete(&*test.host.store(), quota("blue-live")).await;
        test.until(&quota("blue-live"), "is back", |quota| quota["spec"]["pods"] == 20).await;
        assert!(count(&*far, far_kind).await > 0 && count(&*home, near_kind).await > 0);
        assert_eq!((count(&*far, near_kind).await, count(&*home, far_kind).await), (0, 0));
        assert_eq!(test.host.kinds().of(&demo_kind(far_kind)).unwrap().store.as_deref(), Some("far"));
        assert_eq!(test.host.kinds().of(&demo_kind(near_kind)).unwrap().store.as_deref(), Some("home"));
        test.host.shutdown(Duration::from_secs(10)).await;
        assert_eq!(far.get(&tenant_key()).await, Err(Error::Closed), "all stores are closed");
    }
}

/// S15: The kinds of a store that is away wait for it, and say so. Those of another store go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_holds_up_only_its_own_kinds() {
    let far = FaultyStore::over(memory_store());
    far.leave("connection refused");
    let test = host(memory_store(), far.clone(), &["demo.homeostat.dev/Quota"]).await;
    test.add("greeter", &guest("greeter")).await;
    add_tenants(&test).await;
    test.apply(demo("Greeting", "world", json!({"name": "world"}))).await;
    test.until(&demo_key("Greeting", "world"), "is greeted", |greeting| greeting["status"].is_object()).await;
    test.apply(tenant()).await;
    let waits = eventually("the tenants to wait", async || test.status("tenants").message).await;
    assert!(waits.contains("connection refused"), "{waits}");
    assert_eq!(test.status("tenants").state, ControllerState::Syncing);
    assert!(matches!(test.host.store().get(&quota("blue-live")).await, Err(Error::Unavailable { .. })));
    far.come_back();
    until_ready(&test, "tenants").await;
    test.until(&tenant_key(), "counts its quotas", |tenant| tenant["status"]["quotas"] == 2).await;
    let reasons =
        || test.host.events().list(&Default::default()).into_iter().map(|event| event.reason).collect::<Vec<_>>();
    eventually("the return to be reported", async || {
        reasons().iter().any(|reason| reason == "StoreBack").then_some(())
    })
    .await;
    // It leaves again, while everything runs.
    far.leave("connection reset");
    eventually("the absence to be reported", async || {
        reasons().iter().any(|reason| reason == "StoreAway").then_some(())
    })
    .await;
    test.apply(demo("Greeting", "moon", json!({"name": "moon"}))).await;
    test.until(&demo_key("Greeting", "moon"), "is greeted", |greeting| greeting["status"].is_object()).await;
    far.come_back();
    homeostat_fixtures::delete(&*far, quota("blue-live")).await;
    test.until(&quota("blue-live"), "is back", |quota| quota["spec"]["pods"] == 20).await;
}

/// S15: A host starts without a store that cannot be reached. Health, metrics, `homeostat stores` and the
/// controllers whose kinds live there name that store.
#[test]
fn health_metrics_and_controllers_name_the_store_that_is_away() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let stores = scratch.path().join("stores.yaml");
    // Nothing listens on this port.
    let far = "stores:\n  - name: far\n    nats: {servers: [\"nats://127.0.0.1:1\"], bucket: far}\n";
    let routes = "routes:\n  - {kinds: [\"demo.homeostat.dev/*\"], store: far}\n";
    std::fs::write(&stores, format!("{HEAD}{far}{routes}")).unwrap();
    write(folder.path(), "greeter.yaml", GREETER);
    std::fs::copy(guest("greeter"), folder.path().join("greeter.wasm")).unwrap();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &["--stores", stores.to_str().unwrap()]);
    // Its guest may have to be compiled first.
    let waits = eventually_built("the controller to wait for its store", || {
        stores_ready(&host, "greeter").filter(|condition| condition["status"] == "False")
    });
    assert_eq!(waits["reason"], "StoreAway", "{waits}");
    assert!(waits["message"].as_str().unwrap().contains("store far: "), "{waits}");
    let shown = store(&host, "far");
    assert_eq!(shown["state"], "Starting", "{shown}");
    assert!(shown["reason"].as_str().unwrap().contains("store far: "), "{shown}");
    // The controller waits for its lease, which is in that store: it is on standby, as where another host holds it.
    let checks = ["[-]store/far failed: ", "[+]controller/greeter ok\n", "[+]store ok\n", "[+]folder ok\n"];
    eventually_blocking("the store to be missed", || {
        let ready = get(scratch.path(), "/readyz?verbose", "*/*");
        (ready.code == 503 && checks.iter().all(|check| ready.body.contains(check))).then_some(())
    });
    assert_eq!(get(scratch.path(), "/readyz?exclude=store/far", "*/*").code, 200);
    let scrape = Scrape::of(scratch.path());
    let up = |store: &str| scrape.find("homeostat_store_up", &[("store", store)]);
    assert_eq!((up("far"), up("home")), (Some(0.0), Some(1.0)), "{}", scrape.text);
}

/// S15: A key that waits for its next try after a failure keeps its place and its count while its store is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_key_keeps_its_backoff_while_its_store_is_away() {
    let far = FaultyStore::over(memory_store());
    let test = host(memory_store(), far.clone(), &["demo.homeostat.dev/Scripted"]).await;
    let hour = Duration::from_secs(3600);
    let backoff = Some(BackoffSpec { base: hour, max: hour, retries_max: None });
    let definition = test.definition("scripted", &guest("guest-scripted")).await;
    let overrides = Overrides { backoff, ..Overrides::default() };
    test.host.put(Definition { overrides, ..definition }).await.unwrap();
    until_ready(&test, "scripted").await;
    test.apply(demo("Scripted", "fails", json!({"action": "fail"}))).await;
    let entry = || test.host.queue("scripted", 9).unwrap().into_iter().find(|entry| entry.key.name() == "fails");
    let before = eventually("the key to fail", async || entry().filter(|entry| entry.failures == 1)).await;

    let is_told =
        |reason: &str| test.host.events().list(&Default::default()).iter().any(|event| event.reason == reason);
    far.leave("connection reset");
    eventually("the absence to be reported", async || is_told("StoreAway").then_some(())).await;
    far.come_back();
    eventually("the return to be reported", async || is_told("StoreBack").then_some(())).await;
    // Its first reconcile shows that the changes of the store come again.
    test.apply(demo("Scripted", "after", json!({"action": "later"}))).await;
    eventually("a new key to wait", async || (test.status("scripted").counts.waiting == 2).then_some(())).await;
    let after = entry().expect("the key is in the queue");
    assert_eq!((&*after.state, after.failures, &after.last_error), ("waiting", 1, &before.last_error));
    assert!(after.due_in_ms <= before.due_in_ms && after.due_in_ms > Some(0), "{before:?} {after:?}");
}

/// S15: Each store collects its own garbage, and an owner that lives in another store is not gone.
#[tokio::test(flavor = "multi_thread")]
async fn each_store_collects_its_own_garbage() {
    let (home, far) = (memory_store(), FaultyStore::over(memory_store()));
    let test = host(home.clone(), far.clone(), &["demo.homeostat.dev/Far"]).await;
    let store = test.host.store();
    let owned = |kind: &str, name: &str, owner: &homeostat_store::Resource| {
        let mut document = demo(kind, name, json!({}));
        document["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "demo.homeostat.dev/v1", "kind": owner.key().kind().name, "name": owner.key().name(), "uid": owner.uid(),
        }]);
        document
    };
    for (kind, other) in [("Near", "Far"), ("Far", "Near")] {
        let owner = homeostat_fixtures::create(&*store, demo(kind, "owner", json!({}))).await;
        homeostat_fixtures::create(&*store, owned(kind, "leaf", &owner)).await;
        homeostat_fixtures::create(&*store, owned(other, "elsewhere", &owner)).await;
        // Another owner, whose dependent shows that the collector has been there.
        let second = homeostat_fixtures::create(&*store, demo(other, "second", json!({}))).await;
        homeostat_fixtures::create(&*store, owned(other, "second-leaf", &second)).await;
        homeostat_fixtures::delete(&*store, demo_key(other, "second")).await;
        homeostat_testing::soon(homeostat_fixtures::until_gone(&*store, &demo_key(other, "second-leaf"))).await;
        assert!(store.get(&demo_key(other, "elsewhere")).await.is_ok(), "its owner lives in another store");
        // A store that is away holds up the garbage of no other.
        if kind == "Near" {
            far.leave("connection refused");
        }
        homeostat_fixtures::delete(&*store, demo_key(kind, "owner")).await;
        homeostat_testing::soon(homeostat_fixtures::until_gone(&*store, &demo_key(kind, "leaf"))).await;
        far.come_back();
        drop(
            store
                .write(homeostat_store::Write::Delete {
                    key: demo_key(other, "elsewhere"),
                    precondition: homeostat_store::Precondition::default(),
                    propagation: homeostat_store::Propagation::Background,
                    grace_seconds: None,
                })
                .await,
        );
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// S15: A host reads its stores from its folder of manifests, shows them, and keeps what is in its own.
#[test]
fn a_host_reads_the_stores_of_its_folder_and_shows_them() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let stores = format!(
        "{HEAD}stores:\n  - name: bus\n    memory: {{}}\nroutes:\n  - {{kinds: [\"demo.homeostat.dev/Quota\"], store: bus}}\n"
    );
    write(folder.path(), "stores.yaml", &stores);
    for (name, from) in
        [("controllers.yaml", "examples/tenants/controllers.yaml"), ("tenants.yaml", "examples/tenants/tenants.yaml")]
    {
        std::fs::copy(repository().join(from), folder.path().join(name)).unwrap();
    }
    std::fs::copy(guest("tenants"), folder.path().join("tenants.wasm")).unwrap();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.until("tenants", "blue", "/status/quotas", &json!(2));
    let listed = host.json(&["stores"]);
    let shown: Vec<[&Value; 4]> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| [&item["name"], &item["storage"], &item["state"], &item["kinds"]])
        .collect();
    assert_eq!(
        json!(shown),
        json!([["home", "embedded", "Ready", []], ["bus", "memory", "Ready", ["demo.homeostat.dev/Quota"]]])
    );
    let table = host.ask(&["stores"]).stdout;
    assert!(table.lines().any(|line| line.starts_with("bus") && line.contains("memory")), "{table}");
    assert!(!host.stderr().contains("stores.yaml"), "it is no manifest: {}", host.stderr());
    assert_eq!(stores_ready(&host, "tenants").unwrap()["status"], "True");
    host.terminate();
    // What was in memory is gone, and is made again from what was not.
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.until("tenants", "blue", "/status/quotas", &json!(2));
    eventually_blocking("the quotas", || {
        (host.json(&["get", "quotas", "-A"])["items"].as_array()?.len() == 2).then_some(())
    });
    host.terminate();
}

/// S15: A file of stores with a mistake keeps the host from starting, and the message has the position.
#[test]
fn a_wrong_file_of_stores_is_refused_with_its_position() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("bad.yaml");
    let (named, socket) = (path.display().to_string(), format!("unix:{}", scratch.path().join("s").display()));
    let data = scratch.path().join("data").display().to_string();
    let start = |text: &str| {
        std::fs::write(&path, format!("{HEAD}{text}")).unwrap();
        let folder = folder.path().display().to_string();
        run(&["run", &folder, "--stores", &named, "--listen", &socket, "--data", &data])
    };
    for (text, expected) in [
        ("stores:\n  - {name: bus, memoy: {}}\n", "bad.yaml:4:17: unknown field `memoy`"),
        ("routes:\n  - {kinds: [\"apps/*\"], store: bus}\n", "bad.yaml:4:32: there is no store \"bus\""),
        (
            "stores: [{name: bus, memory: {}}]\nroutes:\n  - {kinds: [\"apps/*\"], store: bus}\n  - {kinds: [apps/Deployment], store: home}\n",
            "bad.yaml:6:14: apps/Deployment can never match: an earlier rule sends apps/* to store bus (line 5)",
        ),
    ] {
        let output = start(text);
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        assert!(output.stderr.contains(expected), "{expected}\n{}", output.stderr);
    }
}

/// S15: A rule that would hide resources of the host's own store is refused.
#[test]
fn a_rule_that_would_hide_resources_is_refused() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(
        folder.path(),
        "kinds.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.demo.dev}\nspec:\n  group: demo.dev\n  scope: Cluster\n  names: {plural: things, kind: Thing}\n  versions:\n    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n",
    );
    write(folder.path(), "thing.yaml", "apiVersion: demo.dev/v1\nkind: Thing\nmetadata: {name: one}\n");
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.until("things", "one", "/metadata/name", &json!("one"));
    host.terminate();
    let stores =
        format!("{HEAD}stores: [{{name: bus, memory: {{}}}}]\nroutes:\n  - {{kinds: [\"demo.dev/*\"], store: bus}}\n");
    write(folder.path(), "stores.yaml", &stores);
    let output = HostProcess::spawn("run", folder.path(), scratch.path(), &[]).wait_for_exit();
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(
        output.stderr.contains("stores.yaml:5:14: store `home` has resources of demo.dev/v1/Thing"),
        "{}",
        output.stderr
    );
}
