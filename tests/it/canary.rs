//! Canaries: a candidate takes a share of the keys, and is then promoted step by step or rolled back without
//! help.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use homeostat_component::{Digest, Engine, EngineOptions};
use homeostat_fixtures::{demo, demo_key, memory_store};
use homeostat_runtime::events::EventFilter;
use homeostat_runtime::manifest::ComponentSource;
use homeostat_runtime::{CodeSource, ControllerState, Options};
use homeostat_store::{Change, Precondition, Query, Revision, Scope, Store, Write};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest};
use serde_json::{Value, json};

use crate::rollout::{of_host, opened};

/// The number of keys. The number of every twentieth key is a multiple of twenty.
const KEYS: u64 = 200;
const NAME: &str = "versioned";

mod asked;
mod disturbed;
mod time;
mod watches;

/// Returns the component `versioned` for every version. The settings say which version it plays.
struct VersionedCode;

#[async_trait]
impl CodeSource for VersionedCode {
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String> {
        let bytes = std::fs::read(guest("guest-versioned")).unwrap();
        let wanted = source.digest.as_deref().unwrap_or_default();
        if Digest::of(&bytes).as_str() == wanted { Ok(bytes) } else { Err(format!("no code {wanted}")) }
    }

    async fn sweep(&self, _: &BTreeSet<Digest>) {}
}

/// Returns the same component, and fails until `is_found` is set.
#[derive(Default)]
struct LateCode {
    is_found: AtomicBool,
}

#[async_trait]
impl CodeSource for LateCode {
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String> {
        if self.is_found.load(Ordering::SeqCst) {
            VersionedCode.fetch(source).await
        } else {
            Err("it is lost".to_owned())
        }
    }

    async fn sweep(&self, _: &BTreeSet<Digest>) {}
}

fn digest() -> String {
    Digest::of(&std::fs::read(guest("guest-versioned")).unwrap()).to_string()
}

/// Returns the `Controller` of a version, with this `spec.rollout`.
fn version(config: Value, rollout: Value) -> Value {
    json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": { "name": NAME },
        "spec": {
            "component": { "digest": digest() }, "config": config, "rollout": rollout,
            "grants": { "resources": [{ "kinds": ["*"], "verbs": ["*"], "namespaces": ["*"] }] },
            "limits": { "deadline": "10s", "cpu": "1s" }, "concurrency": 2,
        },
    })
}

/// A canary with this gate, which no step of a test outlasts.
fn watched(gate: Value) -> Value {
    let mut gate = gate;
    gate["for"] = json!("1h");
    json!({ "strategy": "canary", "share": "30%", "gate": gate })
}

/// A canary with two short steps.
fn quick() -> Value {
    json!({ "strategy": "canary", "steps": ["10%", "50%"], "gate": { "for": "100ms", "reconciles": 5, "duration": "100x" } })
}

/// A host whose controller runs version `one` for some keys.
struct World {
    test: TestHost,
}

impl World {
    async fn start(keys: u64) -> Self {
        Self::over(memory_store(), keys).await
    }

    async fn over(store: Arc<dyn Store>, keys: u64) -> Self {
        let world = Self::again(store).await;
        world.begin(version(json!({ "version": "one" }), json!({})), keys).await;
        world
    }

    /// Starts a host over an existing store.
    async fn again(store: Arc<dyn Store>) -> Self {
        Self::with_code(store, Arc::new(VersionedCode)).await
    }

    async fn with_code(store: Arc<dyn Store>, code: Arc<dyn CodeSource>) -> Self {
        let test = TestHost::with(store, |options| Options { seed: Some(7), ..options }).await;
        test.host.run_controllers(code).await.unwrap();
        Self { test }
    }

    /// Shuts the host down without time for the running reconciles.
    async fn end(self) {
        self.test.host.shutdown(Duration::ZERO).await;
    }

    /// As [`World::start`], in virtual time.
    async fn in_virtual_time(keys: u64) -> Self {
        let engine = Engine::new(EngineOptions { preemption: false, ..EngineOptions::default() }).unwrap();
        let store = memory_store();
        let test = TestHost::with(store, |options| Options { seed: Some(7), engine, ..options }).await;
        test.host.run_controllers(Arc::new(VersionedCode)).await.unwrap();
        let world = Self { test };
        world.begin(version(json!({ "version": "one" }), json!({})), keys).await;
        world
    }

    async fn begin(&self, first: Value, keys: u64) {
        let world = self;
        world.put(first).await;
        eventually("the controller to be ready", async || world.test.host.ready(NAME).await.ok()).await;
        for number in 0..keys {
            let labels = json!({ "tier": if number < 10 { "first" } else { "rest" } });
            let mut document = demo("Versioned", &format!("k{number}"), json!({}));
            document["metadata"]["labels"] = labels;
            world.test.apply(document).await;
        }
        world.test.idle(NAME).await;
    }

    async fn put(&self, document: Value) -> Revision {
        let written = self.test.host.apply_resource(document, "me", true).await.unwrap();
        self.test.host.sync_result(NAME, written.resource.revision()).await;
        written.resource.revision()
    }

    async fn patch(&self, change: Value) {
        let write = Write::Patch {
            key: of_host("Controller", NAME),
            change: Change::Merge(change),
            precondition: Precondition::default(),
        };
        let written = self.test.host.write(write.into()).await.unwrap();
        self.test.host.sync_result(NAME, written.resource.revision()).await;
    }

    async fn status(&self) -> Value {
        self.test.get(&of_host("Controller", NAME)).await.unwrap().status().clone()
    }

    async fn until_rollout(&self, pointer: &str, wanted: Value) -> Value {
        eventually(&format!("status.rollout{pointer} = {wanted}"), async || {
            let status = self.status().await;
            (status["rollout"].pointer(pointer) == Some(&wanted)).then_some(status)
        })
        .await
    }

    /// Returns each resource by name, with the versions that reconciled it, in order.
    async fn seen(&self) -> Vec<(String, Vec<String>)> {
        let kind = demo_key("Versioned", "").kind().clone();
        let page = self.test.host.store().list(&Query::all(kind)).await.unwrap();
        let by = |status: &Value| serde_json::from_value(status["by"].clone()).unwrap_or_default();
        page.items.iter().map(|item| (item.key().name().to_owned(), by(item.status()))).collect()
    }

    /// Returns the names of the keys that a version has reconciled.
    async fn touched(&self, version: &str) -> BTreeSet<String> {
        let seen = self.seen().await;
        let by = |by: &Vec<String>| by.iter().any(|by| by == version);
        seen.into_iter().filter(|(_, seen)| by(seen)).map(|(name, _)| name).collect()
    }

    /// Changes every key once. A second call needs another value, or changes nothing.
    async fn change_all(&self, keys: u64, value: &str) {
        for number in 0..keys {
            let mut document = demo("Versioned", &format!("k{number}"), json!({}));
            document["metadata"]["annotations"] = json!({ "changed": value });
            self.test.apply(document).await;
        }
    }

    fn events(&self, reason: &str) -> Vec<String> {
        let events = self.test.host.events().list(&EventFilter::default());
        events.into_iter().filter(|event| event.reason == reason).map(|event| event.message).collect()
    }
}

fn condition<'s>(status: &'s Value, name: &str) -> &'s Value {
    status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == name).unwrap()
}

fn config(version: &str, bad: &str, every: u32) -> Value {
    json!({ "version": version, "bad": bad, "every": every.to_string() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_version_gets_all_keys_step_by_step_and_no_key_changes_version_twice() {
    let world = World::start(KEYS).await;
    world.put(version(json!({ "version": "two" }), quick())).await;
    let status = world.until_rollout("/phase", json!("complete")).await;
    assert_eq!(
        (&status["rollout"]["from"], &status["rollout"]["to"], &status["revision"]),
        (&json!(1), &json!(2), &json!(2))
    );
    assert_eq!(condition(&status, "Progressing")["reason"], "Complete");
    world.test.idle(NAME).await;
    for (name, by) in world.seen().await {
        assert_eq!(by, ["one", "two"], "{name}");
    }
    let steps = world.events("Canary");
    assert!(steps[0].contains("10%") && steps[1].contains("50%") && steps.len() == 2, "{steps:?}");
    eventually("the event of the promotion", async || (world.events("Promoted").len() == 1).then_some(())).await;
}

/// The host rolls each kind of bad version back without help. The version touched no key outside its share.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_version_is_rolled_back_and_touches_only_its_share_of_the_keys() {
    let world = World::start(KEYS).await;
    // A bad version does more than the stable one, so it also takes longer on a busy machine.
    let any_duration = json!({ "duration": "1000x" });
    // Columns: behaviour, the interval between affected keys, gate, part of the reason, maximum of
    // reconciles.
    let table = [
        ("trap", 20, any_duration.clone(), "trapped", KEYS),
        ("error", 1, any_duration.clone(), "failed", 9 + 2),
        ("loop", 4, any_duration.clone(), "hit a limit", KEYS),
        ("again", 4, any_duration.clone(), "in a row", 31 * KEYS),
        ("wake", 4, json!({ "writes": "1000x", "duration": "1000x" }), "in a row", 31 * KEYS),
        ("slow", 1, json!({ "limits": 1_000_000 }), "take", KEYS),
        ("write", 1, any_duration, "writes", 2 * KEYS),
    ];
    let mut number = 1;
    for (bad, every, gate, says, runs_max) in table {
        let name = format!("bad-{bad}");
        let before = world.test.status(NAME).reconciles;
        world.put(version(config(&name, bad, every), watched(gate))).await;
        number += 1;
        world.until_rollout("/to", json!(number)).await;
        if ["write", "slow"].contains(&bad) {
            // Only a second reconcile of a key shows the needless writes, and the duration without the first
            // update.
            world.test.idle(NAME).await;
            world.change_all(KEYS, bad).await;
        }
        let status = world.until_rollout("/phase", json!("rolledBack")).await;
        let reason = status["rollout"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(says), "{bad}: {reason}");
        assert_eq!((&status["revision"], &status["rollout"]["from"]), (&json!(1), &json!(1)), "{bad}");
        let degraded = condition(&status, "Degraded");
        assert_eq!(
            (&degraded["status"], &degraded["reason"], &degraded["message"]),
            (&json!("True"), &json!("RolledBack"), &json!(reason))
        );
        assert_eq!(condition(&status, "Progressing")["status"], "False");
        // The status is written before the event.
        let told = async || world.events("RolledBack").iter().any(|message| message.contains(&reason)).then_some(());
        eventually("the event of the rollback", told).await;
        world.test.idle(NAME).await;
        let touched = world.touched(&name).await.len() as u64;
        assert!((1..KEYS * 4 / 10).contains(&touched) && touched <= runs_max, "{bad}: {touched} of {KEYS} keys");
        assert!(
            ["write", "slow"].contains(&bad) || world.test.status(NAME).reconciles - before <= runs_max + KEYS,
            "{bad}"
        );
        let seen = world.seen().await;
        assert!(
            seen.iter().all(|(_, by)| by.last().is_some_and(|last| last == "one")),
            "{bad}: the stable version has all keys"
        );
    }
    let definition = world.test.host.definition(NAME).unwrap();
    assert_eq!(definition.config["version"], "one");
}

/// The version fails only for keys that did not exist while it was a shadow.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_passes_its_shadow_and_fails_as_a_candidate_is_rolled_back() {
    let world = World::start(0).await;
    let keys = async |numbers: Vec<u64>| {
        for number in numbers {
            world.test.apply(demo("Versioned", &format!("k{number}"), json!({}))).await;
        }
    };
    keys((1..20).collect()).await;
    world.test.idle(NAME).await;
    let mut rollout = watched(json!({}));
    rollout["shadow"] = json!({ "for": "100ms", "reconciles": 5 });
    world.put(version(config("one", "error", 20), rollout)).await;
    let status = world.until_rollout("/share", json!("30%")).await;
    let shadow = &status["rollout"]["shadow"];
    assert!(shadow["equal"].as_u64() > Some(0) && shadow["differing"] == 0, "{status}");
    keys((1..100).map(|number| 20 * number).collect()).await;
    let status = world.until_rollout("/phase", json!("rolledBack")).await;
    assert!(status["rollout"]["reason"].as_str().unwrap().contains("failed"), "{status}");
    assert_eq!(status["revision"], 1);
    world.test.idle(NAME).await;
    let settled = world.seen().await;
    assert!(settled.len() == 118 && settled.iter().all(|(_, by)| by == &["one"]), "{settled:?}");
    assert!(world.test.status(NAME).failures < 30, "the candidate never had more than its share");
}

/// After a rollback only the stable version may run. If a restarted host cannot load it, the host reports why
/// and retries.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_after_a_rollback_reports_and_retries_a_stable_version_that_cannot_load() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let world = World::over(opened(&file).await, 20).await;
    world.put(version(config("two", "trap", 1), watched(json!({})))).await;
    world.until_rollout("/phase", json!("rolledBack")).await;
    world.end().await;

    let code = Arc::new(LateCode::default());
    let world = World::with_code(opened(&file).await, code.clone()).await;
    let told = async || world.events("Refused").iter().any(|message| message.contains("it is lost")).then_some(());
    eventually("the event with the reason", told).await;
    let status = world.status().await;
    assert_eq!(condition(&status, "Loaded")["reason"], "Refused");
    assert_eq!(status["rollout"]["phase"], "rolledBack", "the status still shows the rollback");

    code.is_found.store(true, Ordering::SeqCst);
    let running = eventually("the stable version to run", async || world.test.host.definition(NAME)).await;
    assert_eq!(running.config["version"], "one");
    eventually("the condition to say so", async || {
        let status = world.status().await;
        (condition(&status, "Loaded")["reason"] == "RolledBack").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_choose_the_keys_of_the_first_step() {
    let world = World::start(40).await;
    let mut rollout = watched(json!({}));
    rollout["selector"] = json!({ "matchLabels": { "tier": "first" } });
    world.put(version(json!({ "version": "two" }), rollout)).await;
    world.until_rollout("/phase", json!("canary")).await;
    let status = world.status().await;
    assert_eq!((&status["rollout"]["share"], &status["rollout"]["steps"]), (&json!("0%"), &json!(2)));
    let first: BTreeSet<String> = (0..10).map(|number| format!("k{number}")).collect();
    eventually("those to be reconciled", async || (world.touched("two").await == first).then_some(())).await;
    world.test.idle(NAME).await;
    assert_eq!(world.touched("two").await, first);
}

/// The selector picks the keys once. Neither a later change of labels nor a restart moves a key.
#[tokio::test(flavor = "multi_thread")]
async fn keys_pinned_by_labels_stay_pinned_over_a_restart_and_a_change_of_labels() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let keys = 40;
    let world = World::over(opened(&file).await, keys).await;
    let mut rollout = watched(json!({}));
    rollout["selector"] = json!({ "matchLabels": { "tier": "first" } });
    world.put(version(json!({ "version": "two" }), rollout)).await;
    world.until_rollout("/phase", json!("canary")).await;
    let first: BTreeSet<String> = (0..10).map(|number| format!("k{number}")).collect();
    eventually("those to be reconciled", async || (world.touched("two").await == first).then_some(())).await;
    world.test.idle(NAME).await;
    // Gives the label to other keys.
    let relabel = async |world: &World| {
        for number in 0..keys {
            let mut document = demo("Versioned", &format!("k{number}"), json!({}));
            document["metadata"]["labels"] = json!({ "tier": if number < 30 { "rest" } else { "first" } });
            document["metadata"]["annotations"] =
                json!({ "at": world.test.host.store().revision(&Scope::Everything).await.unwrap().to_string() });
            world.test.apply(document).await;
        }
        world.test.idle(NAME).await;
    };
    relabel(&world).await;
    assert_eq!(world.touched("two").await, first);
    world.end().await;

    let world = World::again(opened(&file).await).await;
    world.until_rollout("/share", json!("0%")).await;
    relabel(&world).await;
    assert_eq!(world.touched("two").await, first, "each key is where it was");
    assert!(world.seen().await.iter().all(|(_, by)| by.len() < 3), "and was nowhere else between");
    world.patch(json!({ "spec": { "rollout": { "gate": { "for": "100ms", "duration": "100x" } } } })).await;
    world.until_rollout("/phase", json!("complete")).await;
}

/// Failures in a row and due times belong to the queue, not to a version.
#[tokio::test(flavor = "multi_thread")]
async fn failures_and_due_times_survive_a_rollback_and_a_promotion() {
    let world = World::again(memory_store()).await;
    let slow = |mut version: Value| {
        version["spec"]["backoff"] = json!({ "base": "1h", "max": "1h" });
        version
    };
    world.begin(slow(version(config("one", "error", 10), json!({}))), 40).await;
    let wait = || {
        let entries = world.test.host.queue(NAME, 100).unwrap();
        let waits = entries.iter().filter(|entry| ["k10", "k30"].contains(&entry.key.name()));
        waits
            .map(|entry| (entry.key.name().to_owned(), entry.failures, entry.due_in_ms > Some(3_000_000)))
            .collect::<Vec<_>>()
    };
    let before = wait();
    assert_eq!(before.len(), 2, "{before:?}");
    world.put(slow(version(config("two", "trap", 1), watched(json!({}))))).await;
    world.until_rollout("/phase", json!("rolledBack")).await;
    world.test.idle(NAME).await;
    assert_eq!(wait(), before);
    world.put(slow(version(config("three", "error", 10), quick()))).await;
    world.until_rollout("/phase", json!("complete")).await;
    world.test.idle(NAME).await;
    assert_eq!(wait(), before);
}
