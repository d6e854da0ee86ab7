//! Controllers as resources: the host runs them, keeps their history, and rolls them back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use homeostat_component::Digest;
use homeostat_fixtures::{demo, demo_key};
use homeostat_runtime::controller_reconciler::SyncOutcome;
use homeostat_runtime::manifest::ComponentSource;
use homeostat_runtime::{CodeSource, ControllerState};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Change, Key, Kind, Query, Store, Write};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest, renamed};
use serde_json::{Value, json};

use crate::bombs::{leb128, section};

mod candidate;
mod folder;
mod kubectl;

/// Components in memory, by digest.
#[derive(Clone, Default)]
pub(crate) struct MemoryCode(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl MemoryCode {
    pub(crate) fn insert(&self, bytes: Vec<u8>) -> String {
        let digest = Digest::of(&bytes).to_string();
        self.0.lock().unwrap().insert(digest.clone(), bytes);
        digest
    }

    /// Adds the greeter as another component for each tag, and returns its digest.
    fn greeter(&self, tag: &str) -> String {
        self.insert(renamed(&std::fs::read(guest("greeter")).unwrap(), tag))
    }
}

#[async_trait]
impl CodeSource for MemoryCode {
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String> {
        let digest = source.digest.as_deref().unwrap_or_default();
        self.0.lock().unwrap().get(digest).cloned().ok_or_else(|| format!("no code {digest}"))
    }

    async fn sweep(&self, named: &BTreeSet<Digest>) {
        self.0.lock().unwrap().retain(|digest, _| named.iter().any(|named| named.as_str() == digest));
    }
}

fn grants() -> Value {
    json!({ "resources": [{ "kinds": ["*"], "verbs": ["*"], "namespaces": ["*"] }] })
}

pub(crate) fn controller(name: &str, digest: &str) -> Value {
    json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": { "name": name },
        "spec": { "component": { "digest": digest }, "grants": grants() },
    })
}

/// Starts a host that runs the controllers of its store, with code from memory.
pub(crate) async fn host_with_code() -> (TestHost, MemoryCode) {
    let (test, code) = (TestHost::start().await, MemoryCode::default());
    test.host.run_controllers(Arc::new(code.clone())).await.unwrap();
    (test, code)
}

#[tokio::test]
async fn a_running_component_is_loaded_for_another_name_without_its_source() {
    let (test, code) = host_with_code().await;
    let digest = code.greeter("a");
    for name in ["one", "two"] {
        let written = test.host.write(Write::Create { document: controller(name, &digest) }.into()).await.unwrap();
        let verdict = test.host.sync_result(name, written.resource.revision()).await;
        assert!(matches!(verdict.outcome, SyncOutcome::Put(_)), "{:?}", verdict.outcome);
        code.0.lock().unwrap().clear();
    }
}

/// Returns the greeter with an additional instance of a module with this initial memory.
pub(crate) fn with_memory(mebibytes: usize) -> Vec<u8> {
    let greeter = std::fs::read(guest("greeter")).unwrap();
    let module =
        [b"\0asm\x01\0\0\0".as_slice(), &section(5, &[&[1, 0], leb128(mebibytes * 16).as_slice()].concat())].concat();
    let number = wasmparser::Parser::new(0).parse_all(&greeter);
    let number = number.filter(|part| matches!(part, Ok(wasmparser::Payload::ModuleSection { .. }))).count();
    let instance = [&[1, 0], leb128(number).as_slice(), &[0]].concat();
    [greeter, section(1, &module), section(2, &instance)].concat()
}

#[tokio::test]
async fn a_component_with_a_large_initial_memory_needs_a_memory_limit_in_its_manifest() {
    let (test, code) = host_with_code().await;
    let digest = code.insert(with_memory(65));
    let mut document = controller("greeter", &digest);
    let written = test.host.write(Write::Create { document: document.clone() }.into()).await.unwrap();
    let verdict = test.host.sync_result("greeter", written.resource.revision()).await;
    let SyncOutcome::Refused(because) = &verdict.outcome else { panic!("{:?}", verdict.outcome) };
    assert!(because.contains("`spec.limits.memory`"), "{because}");
    document["spec"]["limits"] = json!({ "memory": "128Mi" });
    let written = test.host.apply_resource(document, "me", true).await.unwrap();
    let verdict = test.host.sync_result("greeter", written.resource.revision()).await;
    assert!(matches!(verdict.outcome, SyncOutcome::Put(_)), "{:?}", verdict.outcome);
    test.apply(demo("Greeting", "world", json!({ "name": "world" }))).await;
    test.until(&demo_key("Greeting", "world"), "was greeted", |document| !document["status"].is_null()).await;
}

/// Opens a store once the previous host has released it.
pub(crate) async fn opened(file: &Path) -> Arc<EmbeddedStore> {
    let open = async || EmbeddedStore::open(file, homeostat_store::Options::default()).ok();
    Arc::new(eventually("the store to be free", open).await)
}

/// Starts a host over a store file, which runs the controllers of the store.
async fn over(file: &Path, code: &MemoryCode) -> TestHost {
    let test = TestHost::over(opened(file).await).await;
    test.host.run_controllers(Arc::new(code.clone())).await.unwrap();
    test
}

async fn end(test: TestHost) {
    test.host.shutdown(Duration::ZERO).await;
}

async fn put(test: &TestHost, digest: &str) {
    let written = test.host.apply_resource(controller("greeter", digest), "me", true).await.unwrap();
    test.host.sync_result("greeter", written.resource.revision()).await;
}

pub(crate) fn of_host(kind: &str, name: &str) -> Key {
    Key::new(Kind::new("homeostat.dev", "v1alpha1", kind), "", name)
}

/// C4: A suspension by a person survives a restart, and so does the controller.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspension_by_a_person_survives_a_restart() {
    let (folder, code) = (tempfile::tempdir().unwrap(), MemoryCode::default());
    let file = folder.path().join("store.redb");
    let test = over(&file, &code).await;
    put(&test, &code.greeter("one")).await;
    test.host.suspend_for_good("greeter", true).await.unwrap();
    assert_eq!(test.status("greeter").state, ControllerState::Suspended, "the suspension holds once the call returns");
    end(test).await;
    let test = over(&file, &code).await;
    eventually("the controller to be suspended", async || {
        (test.status("greeter").state == ControllerState::Suspended).then_some(())
    })
    .await;
    test.apply(demo("Greeting", "world", json!({ "name": "World" }))).await;
    eventually("the key to be held", async || (test.status("greeter").counts.ready == 1).then_some(())).await;
    assert_eq!(test.status("greeter").reconciles, 0);
}

/// C5: After a restart, if the desired definition is refused, the host runs the newest revision that loads.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_a_refused_definition_runs_the_previous_revision() {
    let (folder, code) = (tempfile::tempdir().unwrap(), MemoryCode::default());
    let file = folder.path().join("store.redb");
    let (good, bad) = (code.greeter("one"), code.insert(b"no component".to_vec()));
    let test = over(&file, &code).await;
    for digest in [&good, &bad] {
        put(&test, digest).await;
        assert_eq!(test.status("greeter").digest, good);
    }
    end(test).await;
    let test = over(&file, &code).await;
    assert_eq!(test.status("greeter").digest, good, "the good revision runs once the host has started");
    let status = test.get(&of_host("Controller", "greeter")).await.unwrap().status().clone();
    let condition = |name: &str| {
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().find(|condition| condition["type"] == name).unwrap()["status"].clone()
    };
    assert_eq!((condition("Loaded"), condition("Degraded")), (json!("False"), json!("True")), "{status}");
    assert_eq!((&status["wantedDigest"], &status["digest"]), (&json!(bad), &json!(good)));
}

/// The host ends before it writes the revision, or between the revision and the swap. The next host completes
/// the swap, and no revision is in the history twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_ended_during_a_swap_completes_it_with_an_intact_history() {
    for has_recorded in [false, true] {
        let (folder, code) = (tempfile::tempdir().unwrap(), MemoryCode::default());
        let file = folder.path().join("store.redb");
        let (one, two) = (code.greeter("one"), code.greeter("two"));
        let test = over(&file, &code).await;
        put(&test, &one).await;
        let first = test.get(&of_host("ControllerRevision", "greeter-1")).await.unwrap().document().clone();
        end(test).await;
        // Writes what a killed host would leave in the store.
        let store = opened(&file).await;
        let change = Change::Merge(json!({ "spec": { "component": { "digest": two } } }));
        let key = of_host("Controller", "greeter");
        store.write(Write::Patch { key, change, precondition: Default::default() }).await.unwrap();
        if has_recorded {
            let mut document = first;
            document["metadata"] = json!({
                "name": "greeter-2", "ownerReferences": document["metadata"]["ownerReferences"],
            });
            document["spec"]["number"] = 2.into();
            document["spec"]["digest"] = json!(two);
            document["spec"]["spec"]["component"]["digest"] = json!(two);
            store.write(Write::Create { document }).await.unwrap();
        }
        store.close().await;
        drop(store);
        let test = over(&file, &code).await;
        assert_eq!(test.status("greeter").digest, two);
        let revisions = test.host.store().list(&Query::all(of_host("ControllerRevision", "").kind().clone())).await;
        let names: Vec<_> = revisions.unwrap().items.iter().map(|item| item.key().name().to_owned()).collect();
        assert_eq!(names, ["greeter-1", "greeter-2"], "{has_recorded}");
    }
}
