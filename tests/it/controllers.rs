//! The life of a controller: its first lists, suspension, limits, removal, replacement and shutdown.

use std::time::Duration;

use homeostat_component::Limits;
use homeostat_fixtures::{Fault, FaultyStore, On, demo, demo_key, memory_store};
use homeostat_runtime::events::{Event, EventFilter};
use homeostat_runtime::{ControllerState, Definition, Options, Overrides, QueueEntry, Suspend};
use homeostat_store::{Key, Kind, Precondition, Propagation, Write};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest};
use serde_json::{Value, json};

pub(crate) async fn event(test: &TestHost, name: &str, reason: &str) -> Event {
    let filter = EventFilter { key: Some(demo_key("Hostile", name)), ..EventFilter::default() };
    eventually(&format!("{reason} of {name}"), async || {
        test.host.events().list(&filter).into_iter().find(|event| event.reason == reason)
    })
    .await
}

/// Starts a host with the hostile guest under these settings, and waits until the controller is ready.
pub(crate) async fn hostile(limits: Limits, overrides: Overrides) -> TestHost {
    let test = TestHost::start().await;
    let definition = test.definition("hostile", &guest("guest-hostile")).await;
    test.host.put(Definition { limits, overrides, ..definition }).await.unwrap();
    eventually("the controller", async || (test.status("hostile").state == ControllerState::Ready).then_some(())).await;
    test
}

/// W1: No key is reconciled before every watch has listed once, as a worker would see only a part of the
/// world.
#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_reconciled_before_every_watch_has_listed_once() {
    let store = FaultyStore::over(memory_store());
    store.fault(On::List, "Note", Fault::Wait);
    let test = TestHost::over(store.clone()).await;
    let definition = test.definition("follower", &guest("guest-follower")).await;
    test.host.put(definition).await.unwrap();
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    // The watch of the managed kind has queued its key, which waits for the first list of the other watch.
    let held = eventually("the key to come", async || {
        let status = test.status("follower");
        (status.counts.ready == 1).then_some(status)
    })
    .await;
    assert_eq!((held.state, held.reconciles), (ControllerState::Syncing, 0));
    assert!(held.message.is_some_and(|message| message.contains("watch")));
    let passed = tokio::time::timeout(Duration::from_millis(300), async {
        while test.status("follower").reconciles == 0 {
            tokio::task::yield_now().await;
        }
    });
    assert!(passed.await.is_err(), "it was reconciled before the notes were listed");
    store.heal(On::List, "Note");
    test.until(&demo_key("Follower", "a"), "is reconciled", |document| !document["status"].is_null()).await;
}

/// Returns the queue's entry of one key.
pub(crate) fn entry(test: &TestHost, name: &str) -> Option<QueueEntry> {
    test.host.queue("hostile", 100).unwrap().into_iter().find(|entry| entry.key.name() == name)
}

async fn running(test: &TestHost) {
    eventually("the key to run", async || (test.status("hostile").counts.running == 1).then_some(())).await;
}

/// A suspension by a person and one by the manifest are independent: neither ends the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspension_by_a_person_survives_a_change_of_the_definition() {
    let test = hostile(Limits::default(), Overrides::default()).await;
    test.host.suspend("hostile", true).unwrap();
    let definition = test.host.definition("hostile").unwrap();
    let overrides = Overrides { concurrency: Some(2), ..Overrides::default() };
    test.host.put(Definition { overrides, ..definition.clone() }).await.unwrap();
    assert_eq!(test.status("hostile").state, ControllerState::Suspended);
    test.host.put(Definition { suspend: Suspend::Yes, ..definition }).await.unwrap();
    test.host.suspend("hostile", false).unwrap();
    assert_eq!(test.status("hostile").state, ControllerState::Suspended);
}

/// C2: Removing a controller lets running reconciles finish, and drops and reports the queued keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_finishes_running_reconciles_and_drops_queued_keys() {
    let limits = Limits { deadline: Duration::from_millis(800), ..Limits::default() };
    let test = hostile(limits, Overrides { concurrency: Some(1), ..Overrides::default() }).await;
    test.apply(demo("Hostile", "slow", json!({}))).await;
    running(&test).await;
    test.apply(demo("Hostile", "other", json!({}))).await;
    eventually("another to queue", async || (test.status("hostile").counts.ready == 1).then_some(())).await;
    let removed = test.host.remove("hostile").await.unwrap();
    assert_eq!((removed.finished, removed.interrupted.len()), (1, 0), "{removed:?}");
    assert!(removed.dropped.contains(&demo_key("Hostile", "other")), "{removed:?}");
    assert!(
        event(&test, "slow", "LimitExceeded").await.message.contains("deadline"),
        "the call ended at its own deadline"
    );
}

/// C2: A removal interrupts and reports the reconciles that still run at its deadline.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_interrupts_and_reports_reconciles_at_its_deadline() {
    let store = memory_store();
    let deadline = Duration::from_millis(100);
    let test = TestHost::with(store, |options| Options { drain_deadline: deadline, ..options }).await;
    let definition = test.definition("hostile", &guest("guest-hostile")).await;
    let limits = Limits { deadline: Duration::from_secs(600), ..Limits::default() };
    test.host.put(Definition { limits, ..definition }).await.unwrap();
    test.apply(demo("Hostile", "slow", json!({}))).await;
    running(&test).await;
    let removed = test.host.remove("hostile").await.unwrap();
    assert_eq!((removed.finished, removed.interrupted), (0, vec![demo_key("Hostile", "slow")]));
}

/// C1: A controller is undisturbed while another one is added and removed. One of its keys always runs again,
/// one waits for centuries, one is parked.
#[tokio::test(flavor = "multi_thread")]
async fn adding_and_removing_a_controller_disturbs_no_other() {
    let test = hostile(Limits::default(), Overrides::default()).await;
    for name in ["again", "centuries", "fail-never"] {
        test.apply(demo("Hostile", name, json!({}))).await;
    }
    let settled = async || {
        (test.status("hostile").counts.waiting == 1 && test.status("hostile").counts.parked == 1).then_some(())
    };
    eventually("two to be through", settled).await;
    let definition = test.definition("other", &guest("greeter")).await;
    for _ in 0..10 {
        let before = test.status("hostile").reconciles;
        test.host.put(definition.clone()).await.unwrap();
        test.host.remove("other").await.unwrap();
        eventually("the other controller to reconcile", async || {
            (test.status("hostile").reconciles > before).then_some(())
        })
        .await;
    }
    let after = test.status("hostile");
    assert_eq!((after.generation, after.failures, after.counts.waiting, after.counts.parked), (1, 1, 1, 1));
    assert_eq!(entry(&test, "centuries").unwrap().state, "waiting");
}

/// C1: The name of a removed controller is free at once, and no key runs on both controllers.
#[tokio::test(flavor = "multi_thread")]
async fn a_successor_runs_nothing_before_its_predecessor_has_finished() {
    let limits = Limits { deadline: Duration::from_millis(800), ..Limits::default() };
    let test = hostile(limits, Overrides::default()).await;
    test.apply(demo("Hostile", "slow", json!({}))).await;
    running(&test).await;
    let definition = test.host.definition("hostile").unwrap();
    let host = test.host.clone();
    let removing = tokio::spawn(async move { host.remove("hostile").await.unwrap() });
    eventually("the name to be free", async || test.host.controllers().is_empty().then_some(())).await;
    test.host.put(definition).await.unwrap();
    eventually("the successor to run", async || (test.status("hostile").counts.running == 1).then_some(())).await;
    let filter = EventFilter { key: Some(demo_key("Hostile", "slow")), ..EventFilter::default() };
    let ends = test.host.events().list(&filter).into_iter().filter(|event| event.reason == "LimitExceeded").count();
    assert_eq!(ends, 1, "the removed controller has ended its run");
    assert_eq!(removing.await.unwrap().finished, 1);
}

/// C4: A suspended controller keeps changes and deletions as keys, and reconciles each key once when it
/// resumes.
#[tokio::test(flavor = "multi_thread")]
async fn changes_and_deletions_during_a_suspension_are_reconciled_once_after_it() {
    let test = hostile(Limits::default(), Overrides::default()).await;
    test.host.suspend("hostile", true).unwrap();
    for name in ["kept", "gone"] {
        test.apply(demo("Hostile", name, json!({}))).await;
        test.apply(demo("Hostile", name, json!({"changed": true}))).await;
    }
    delete(&test, "gone").await;
    test.apply(demo("Hostile", "last", json!({}))).await;
    eventually("all keys to be queued", async || (test.status("hostile").counts.ready == 3).then_some(())).await;
    assert_eq!(test.status("hostile").reconciles, 0);
    test.host.suspend("hostile", false).unwrap();
    test.until(&demo_key("Hostile", "kept"), "is well", |document| !document["status"].is_null()).await;
    assert_eq!(test.idle("hostile").await.failures, 0);
}

fn pod(name: &str) -> Value {
    let container = json!({"name": "main", "image": "main:1"});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}})
}

/// C4: A controller with `suspend: exceptDeletes` removes its finalizers, and runs no other key. A suspension
/// by a person holds deletions back too.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_completes_under_a_suspension_except_for_deletions() {
    let test = TestHost::start().await;
    test.add("kubelet", &guest("kubelet")).await;
    let key = |name: &str| Key::new(Kind::new("", "v1", "Pod"), "default", name);
    let is_running = |document: &Value| document["status"]["phase"] == "Running";
    for name in ["before", "during", "stays"] {
        test.apply(pod(name)).await;
    }
    for name in ["before", "during", "stays"] {
        test.until(&key(name), "runs", is_running).await;
    }
    test.idle("kubelet").await;
    let is_gone = async |name: &str| {
        eventually(&format!("{name} to go"), async || test.get(&key(name)).await.is_none().then_some(())).await;
    };
    // While a person suspends the controller, the deletion waits although the manifest lets it pass.
    test.host.suspend("kubelet", true).unwrap();
    let definition = Definition { suspend: Suspend::ExceptDeletes, ..test.host.definition("kubelet").unwrap() };
    test.host.put(definition.clone()).await.unwrap();
    delete_key(&test, key("before")).await;
    test.apply(pod("new")).await;
    eventually("all keys to be queued", async || (test.status("kubelet").counts.ready == 4).then_some(())).await;
    let held = test.status("kubelet");
    assert_eq!((held.state, held.counts.running, &held.message), (ControllerState::Suspended, 0, &None));
    assert!(test.get(&key("before")).await.is_some());
    test.host.suspend("kubelet", false).unwrap();
    is_gone("before").await;
    delete_key(&test, key("during")).await;
    is_gone("during").await;
    let status = eventually("the rest to be kept", async || {
        let status = test.status("kubelet");
        (status.counts.ready == 2 && status.counts.running == 0).then_some(status)
    })
    .await;
    assert_eq!((status.state, status.message.as_deref()), (ControllerState::Suspended, Some("only deletions run")));
    let new = test.get(&key("new")).await.unwrap();
    assert_eq!((new.finalizers().count(), new.document()["status"].is_null()), (0, true), "no reconcile has seen it");
    test.host.put(Definition { suspend: Suspend::No, ..definition }).await.unwrap();
    test.until(&key("new"), "runs", is_running).await;
    assert_eq!(test.idle("kubelet").await.failures, 0);
}

async fn delete(test: &TestHost, name: &str) {
    delete_key(test, demo_key("Hostile", name)).await;
}

async fn delete_key(test: &TestHost, key: Key) {
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    let delete = Write::Delete { key, precondition, propagation, grace_seconds: None };
    test.host.store().write(delete).await.unwrap();
}

/// B12: A key is reconciled when its resource is gone, because the guest may have to clean up.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_resource_is_gone_is_reconciled() {
    let test = hostile(Limits::default(), Overrides::default()).await;
    test.host.suspend("hostile", true).unwrap();
    test.apply(demo("Hostile", "gone", json!({}))).await;
    eventually("the key", async || entry(&test, "gone")).await;
    delete(&test, "gone").await;
    assert_eq!(test.status("hostile").reconciles, 0);
    test.host.suspend("hostile", false).unwrap();
    let status = eventually("the key to be reconciled", async || {
        let status = test.status("hostile");
        (status.reconciles > 0).then_some(status)
    })
    .await;
    assert_eq!((status.failures, test.get(&demo_key("Hostile", "gone")).await), (0, None));
}

/// B11: A limit on bytes fails the call under the name of the limit, and the next key is reconciled. The
/// limits are low, because the guest does not reach the defaults.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_on_bytes_ends_a_call_under_its_name_and_not_the_next_key() {
    let (effects_max, effect_bytes_max, transfer_bytes_max) = (1_000_000, 100_000, 1 << 20);
    let effects = Limits { effects_max, effect_bytes_max, ..Limits::default() };
    let transfer = Limits { transfer_bytes_max, ..Limits::default() };
    for (name, limits, limit) in [("calls", effects, "limit effect-bytes"), ("huge-error", transfer, "limit transfer")]
    {
        let test = hostile(limits, Overrides { concurrency: Some(1), ..Overrides::default() }).await;
        test.apply(demo("Hostile", name, json!({}))).await;
        let exceeded = event(&test, name, "LimitExceeded").await;
        assert!(exceeded.message.contains(limit), "{}", exceeded.message);
        test.apply(demo("Hostile", "good", json!({}))).await;
        test.until(&demo_key("Hostile", "good"), "is well", |document| !document["status"].is_null()).await;
    }
}

/// B11: Too many open handles fail the call under the name of the limit. The next call starts without
/// handles.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_with_too_many_handles_is_stopped_and_the_next_key_is_reconciled() {
    for handles_max in [Limits::default().handles_max, 20] {
        let limits = Limits { handles_max, ..Limits::default() };
        let test = hostile(limits, Overrides { concurrency: Some(1), ..Overrides::default() }).await;
        test.apply(demo("Hostile", "handles", json!({}))).await;
        let exceeded = event(&test, "handles", "LimitExceeded").await;
        let told = format!("limit handles: the guest holds more than {handles_max} handles");
        assert!(exceeded.message.contains(&told), "{}", exceeded.message);
        test.apply(demo("Hostile", "good", json!({}))).await;
        test.until(&demo_key("Hostile", "good"), "is well", |document| !document["status"].is_null()).await;
    }
}

/// C8: Feeders stop first. Changes during the last reconciles are left to the next host.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_accepts_no_changes_while_it_finishes_running_reconciles() {
    let limits = Limits { deadline: Duration::from_secs(4), ..Limits::default() };
    let test = hostile(limits, Overrides::default()).await;
    test.apply(demo("Hostile", "slow", json!({}))).await;
    running(&test).await;
    let host = test.host.clone();
    let stopping = tokio::spawn(async move { host.shutdown(Duration::from_secs(60)).await });
    let stops = async || (test.status("hostile").state == ControllerState::Stopping).then_some(());
    eventually("the host to stop", stops).await;
    test.apply(demo("Hostile", "late", json!({}))).await;
    let report = stopping.await.unwrap();
    let left = &report["hostile"];
    // The running reconcile hit its own deadline, so its key would have been retried.
    let slow = demo_key("Hostile", "slow");
    assert_eq!((left.finished, &*left.dropped, &*left.interrupted), (1, &[slow][..], &[][..]));
    assert_eq!(test.status("hostile").reconciles, 1);
}

/// W9: A failing poll is reported, and the next one keeps the rate.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_poll_is_reported_and_the_next_one_is_on_time() {
    let test = TestHost::start().await;
    let definition = test.definition("poller", &guest("guest-poller")).await;
    test.host.put(definition.clone()).await.unwrap();
    eventually("three failed polls", async || {
        let events = test.host.events().list(&EventFilter::default());
        events.into_iter().find(|event| event.reason == "PollFailed" && event.count >= 3)
    })
    .await;
    let config = [("items".to_owned(), "a".to_owned())].into();
    test.host.put(Definition { config, ..definition }).await.unwrap();
    test.until(&demo_key("Tally", "a"), "is counted", |document| document["spec"]["count"].is_u64()).await;
}

/// W4: A failing `map` is reported, and delays no other change.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_map_is_reported_and_delays_no_other_change() {
    let test = TestHost::start().await;
    test.add("mapped", &guest("guest-mapped")).await;
    for name in ["one", "two"] {
        test.apply(demo("Mapped", name, json!({}))).await;
    }
    test.apply(demo("Source", "wrong", json!({"through": 3}))).await;
    eventually("the failure", async || {
        let events = test.host.events().list(&EventFilter::default());
        events.into_iter().find(|event| event.reason == "MapFailed" && event.message.contains("wrong"))
    })
    .await;
    // After its repair the source is mapped like any other.
    test.apply(demo("Source", "wrong", json!({"through": "one"}))).await;
    test.apply(demo("Source", "right", json!({"through": "two"}))).await;
    for (name, source) in [("one", "wrong"), ("two", "right")] {
        let key = demo_key("Mapped", name);
        test.until(&key, "sees it", |document| document["status"]["sources"] == json!([source])).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_above_the_limit_is_refused_until_another_one_is_removed() {
    let store = memory_store();
    let test = TestHost::with(store, |options| Options { controllers_max: 2, ..options }).await;
    for name in ["a", "b"] {
        test.add(name, &guest("guest-scripted")).await;
    }
    let third = test.definition("c", &guest("guest-scripted")).await;
    let refused = test.host.put(third.clone()).await.unwrap_err();
    assert!(refused.to_string().starts_with("limit controllers: "), "{refused}");
    let known = test.definition("a", &guest("guest-scripted")).await;
    test.host.put(Definition { config: [("x".to_owned(), "y".to_owned())].into(), ..known }).await.unwrap();
    let room = test.host.measure().room;
    assert_eq!((room.controllers, room.controllers_max), (2, 2));
    test.host.remove("b").await.unwrap();
    test.host.put(third).await.unwrap();
}
