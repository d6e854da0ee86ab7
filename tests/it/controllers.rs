//! The life of a controller beside others: how it begins, is held back, changes its settings, gives up keys, and ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use homeostat_component::{BackoffSpec, DuringDelay, Limits};
use homeostat_runtime::events::{Event, EventFilter};
use homeostat_runtime::{
    ControllerState, Definition, Feeder, FeederError, Intake, Observer, Options, Overrides, Priority, QueueEntry,
    ReconcileRecord, Recorder, Suspend,
};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Key, Kind, Precondition, Propagation, Write};
use homeostat_tests::{Fault, FaultyStore, On, TestHost, demo, demo_key, eventually, guest};
use parking_lot::Mutex;
use serde_json::{Value, json};

async fn event(test: &TestHost, name: &str, reason: &str) -> Event {
    let filter = EventFilter { key: Some(demo_key("Hostile", name)), ..EventFilter::default() };
    eventually(&format!("{reason} of {name}"), async || {
        test.host.events().list(&filter).into_iter().find(|event| event.reason == reason)
    })
    .await
}

/// The hostile guest with these settings, ready.
async fn hostile(limits: Limits, overrides: Overrides) -> TestHost {
    let test = TestHost::start().await;
    let definition = test.definition("hostile", &guest("guest-hostile")).await;
    test.host.put(Definition { limits, overrides, ..definition }).await.unwrap();
    eventually("the controller", async || (test.status("hostile").state == ControllerState::Ready).then_some(())).await;
    test
}

/// W1: a worker that ran ahead of the second watch would see half of the world.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_reconciled_before_every_watch_had_its_first_list() {
    let store = FaultyStore::over(Arc::new(MemoryStore::new(homeostat_store::Options::default())));
    store.fault(On::List, "Note", Fault::Wait);
    let test = TestHost::over(store.clone()).await;
    let definition = test.definition("follower", &guest("guest-follower")).await;
    test.host.put(definition).await.unwrap();
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    // The managed kind is listed and watched: its key has come, and waits for the other watch.
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

/// What the queue has of one key.
fn entry(test: &TestHost, name: &str) -> Option<QueueEntry> {
    test.host.queue("hostile", 100).unwrap().into_iter().find(|entry| entry.key.name() == name)
}

async fn running(test: &TestHost) {
    eventually("it to run", async || (test.status("hostile").counts.running == 1).then_some(())).await;
}

/// A person's word stands beside the manifest's, and neither undoes the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_a_person_suspended_stays_so_when_its_definition_changes() {
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

/// C2
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_removed_finishes_what_runs_and_drops_what_is_queued() {
    let limits = Limits { deadline: Duration::from_millis(800), ..Limits::default() };
    let test = hostile(limits, Overrides { concurrency: Some(1), ..Overrides::default() }).await;
    test.apply(demo("Hostile", "slow", json!({}))).await;
    running(&test).await;
    test.apply(demo("Hostile", "other", json!({}))).await;
    eventually("another to queue", async || (test.status("hostile").counts.ready == 1).then_some(())).await;
    let removed = test.host.remove("hostile").await.unwrap();
    assert_eq!((removed.finished, removed.interrupted.len()), (1, 0), "{removed:?}");
    assert!(removed.dropped.contains(&demo_key("Hostile", "other")), "{removed:?}");
    assert!(event(&test, "slow", "LimitExceeded").await.message.contains("deadline"), "it ran to its own end");
}

/// C2
#[tokio::test(flavor = "multi_thread")]
async fn what_still_runs_at_the_deadline_of_a_removal_is_stopped_and_told() {
    let store = Arc::new(MemoryStore::new(homeostat_store::Options::default()));
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

/// C1: one key of the other runs without end, one waits for centuries, one is parked.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_that_come_and_go_disturb_no_other() {
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
        eventually("it to go on", async || (test.status("hostile").reconciles > before).then_some(())).await;
    }
    let after = test.status("hostile");
    assert_eq!((after.generation, after.failures, after.counts.waiting, after.counts.parked), (1, 1, 1, 1));
    assert_eq!(entry(&test, "centuries").unwrap().state, "waiting");
}

/// C1: the name is free at once, and no key runs on both.
#[tokio::test(flavor = "multi_thread")]
async fn a_successor_waits_until_the_one_before_it_runs_nothing_any_more() {
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
    assert_eq!(ends, 1, "the one before it still runs");
    assert_eq!(removing.await.unwrap().finished, 1);
}

/// C4: what is deleted while nothing runs is a key like any other, and is cleaned up afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn changes_and_deletions_during_a_suspension_are_kept_and_run_once_after_it() {
    let test = hostile(Limits::default(), Overrides::default()).await;
    test.host.suspend("hostile", true).unwrap();
    for name in ["kept", "gone"] {
        test.apply(demo("Hostile", name, json!({}))).await;
        test.apply(demo("Hostile", name, json!({"changed": true}))).await;
    }
    delete(&test, "gone").await;
    test.apply(demo("Hostile", "last", json!({}))).await;
    eventually("all to be kept", async || (test.status("hostile").counts.ready == 3).then_some(())).await;
    assert_eq!(test.status("hostile").reconciles, 0);
    test.host.suspend("hostile", false).unwrap();
    test.until(&demo_key("Hostile", "kept"), "is well", |document| !document["status"].is_null()).await;
    assert_eq!(test.idle("hostile").await.failures, 0);
}

fn pod(name: &str) -> Value {
    let container = json!({"name": "main", "image": "main:1"});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}})
}

/// C4: the finalizer is taken off while everything else waits; a person's word holds deletions back too.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_completes_while_its_controller_is_suspended_but_for_deletions() {
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
    // In full first: what is deleted is there still when the manifest lets it pass.
    test.host.suspend("kubelet", true).unwrap();
    let definition = Definition { suspend: Suspend::ExceptDeletes, ..test.host.definition("kubelet").unwrap() };
    test.host.put(definition.clone()).await.unwrap();
    delete_key(&test, key("before")).await;
    test.apply(pod("new")).await;
    eventually("all to be kept", async || (test.status("kubelet").counts.ready == 4).then_some(())).await;
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
    assert_eq!((new.finalizers().count(), new.document()["status"].is_null()), (0, true), "nobody has seen it");
    test.host.put(Definition { suspend: Suspend::No, ..definition }).await.unwrap();
    test.until(&key("new"), "runs", is_running).await;
    assert_eq!(test.idle("kubelet").await.failures, 0);
}

async fn delete(test: &TestHost, name: &str) {
    delete_key(test, demo_key("Hostile", name)).await;
}

async fn delete_key(test: &TestHost, key: Key) {
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    let delete = Write::Delete { key, precondition, propagation };
    test.host.store().write(delete).await.unwrap();
}

/// B12: the guest is asked all the same: there may be something to clean up, and it says itself when there is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_resource_is_gone_is_reconciled() {
    let test = hostile(Limits::default(), Overrides::default()).await;
    test.host.suspend("hostile", true).unwrap();
    test.apply(demo("Hostile", "gone", json!({}))).await;
    eventually("the key", async || entry(&test, "gone")).await;
    delete(&test, "gone").await;
    assert_eq!(test.status("hostile").reconciles, 0);
    test.host.suspend("hostile", false).unwrap();
    let status = eventually("it to run", async || {
        let status = test.status("hostile");
        (status.reconciles > 0).then_some(status)
    })
    .await;
    assert_eq!((status.failures, test.get(&demo_key("Hostile", "gone")).await), (0, None));
}

/// B10
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_asks_for_a_delay_waits_for_the_longer_of_that_and_the_backoff() {
    let hour_ms = 3_600_000;
    for (base, from_ms, to_ms) in [
        (Duration::from_millis(1), hour_ms - 600_000, hour_ms),
        (Duration::from_secs(4 * 3600), hour_ms + 1, 4 * hour_ms),
    ] {
        let backoff = Some(BackoffSpec { base, max: base, retries_max: None });
        let test = hostile(Limits::default(), Overrides { backoff, ..Overrides::default() }).await;
        test.apply(demo("Hostile", "fail-after", json!({}))).await;
        let due_ms = eventually("it to wait", async || entry(&test, "fail-after")?.due_in_ms).await;
        assert!((from_ms..=to_ms).contains(&due_ms), "{base:?}: {due_ms} ms");
    }
}

/// B11: limits that a guest hits only where they are low.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_on_bytes_ends_a_call_under_its_own_name_and_the_next_key_is_well() {
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

/// B11: the next call begins with none.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_holds_too_many_handles_is_stopped_and_the_next_key_is_well() {
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

/// B6
#[tokio::test(flavor = "multi_thread")]
async fn a_delay_that_was_asked_for_is_no_failure() {
    let test = hostile(Limits::default(), Overrides::default()).await;
    test.apply(demo("Hostile", "centuries", json!({}))).await;
    let waits =
        eventually("it to wait", async || entry(&test, "centuries").filter(|entry| entry.state == "waiting")).await;
    assert_eq!((waits.failures, waits.last_error, test.status("hostile").failures), (0, None, 0));
}

/// C8: feeders end first. What changes while the last ones run is left for the next host.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_stops_takes_no_more_changes_while_it_finishes_what_runs() {
    let limits = Limits { deadline: Duration::from_secs(4), ..Limits::default() };
    let test = hostile(limits, Overrides::default()).await;
    test.apply(demo("Hostile", "slow", json!({}))).await;
    running(&test).await;
    let host = test.host.clone();
    let stopping = tokio::spawn(async move { host.shutdown(Duration::from_secs(60)).await });
    let stops = async || (test.status("hostile").state == ControllerState::Stopping).then_some(());
    eventually("it to stop", stops).await;
    test.apply(demo("Hostile", "late", json!({}))).await;
    let report = stopping.await.unwrap();
    let left = &report["hostile"];
    // The one that ran has hit its own deadline, and would have been tried again.
    let slow = demo_key("Hostile", "slow");
    assert_eq!((left.finished, &*left.dropped, &*left.interrupted), (1, &[slow][..], &[][..]));
    assert_eq!(test.status("hostile").reconciles, 1);
}

/// T5
#[tokio::test(flavor = "multi_thread")]
async fn a_delay_that_is_held_is_not_cut_short_by_a_change() {
    let overrides = Overrides { during_delay: Some(DuringDelay::Hold), ..Overrides::default() };
    let test = hostile(Limits::default(), overrides).await;
    test.apply(demo("Hostile", "centuries", json!({}))).await;
    eventually("it to wait", async || (test.status("hostile").counts.waiting == 1).then_some(())).await;
    test.apply(demo("Hostile", "centuries", json!({"changed": true}))).await;
    // What comes after the change has been through, so the change has too.
    test.apply(demo("Hostile", "after", json!({}))).await;
    test.until(&demo_key("Hostile", "after"), "is well", |document| !document["status"].is_null()).await;
    test.idle("hostile").await;
    assert_eq!(entry(&test, "centuries").unwrap().state, "waiting");
}

/// The key comes back at once, for the change that it made itself, and then waits: the second write changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_own_change_of_the_status_cuts_the_delay_short_once_unless_it_is_held() {
    for (during_delay, runs) in [(DuringDelay::RunNow, 2), (DuringDelay::Hold, 1)] {
        let overrides = Overrides { during_delay: Some(during_delay), ..Overrides::default() };
        let test = hostile(Limits::default(), overrides).await;
        test.apply(demo("Hostile", "report-later", json!({}))).await;
        let waits = || {
            let status = test.status("hostile");
            (status.reconciles >= runs && status.counts.waiting == 1).then_some(())
        };
        eventually("it to wait", async || waits()).await;
        let status = test.idle("hostile").await;
        assert_eq!((status.reconciles, status.counts.waiting), (runs, 1), "{during_delay:?}");
    }
}

/// B9
#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_retries_are_used_up_is_parked_and_told() {
    let (base, max) = (Duration::from_millis(1), Duration::from_millis(2));
    let backoff = Some(BackoffSpec { base, max, retries_max: Some(3) });
    let test = hostile(Limits::default(), Overrides { backoff, ..Overrides::default() }).await;
    test.apply(demo("Hostile", "fail", json!({}))).await;
    event(&test, "fail", "RetriesUsedUp").await;
    assert_eq!(event(&test, "fail", "ReconcileFailed").await.count, 4, "one try and three retries");
    assert_eq!(test.status("hostile").counts.parked, 1);
}

/// W9: a poll that fails keeps its rate.
#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_fails_is_told_and_the_next_one_comes_in_its_time() {
    let test = TestHost::start().await;
    let definition = test.definition("poller", &guest("guest-poller")).await;
    test.host.put(definition.clone()).await.unwrap();
    eventually("three polls that fail", async || {
        let events = test.host.events().list(&EventFilter::default());
        events.into_iter().find(|event| event.reason == "PollFailed" && event.count >= 3)
    })
    .await;
    let config = [("items".to_owned(), "a".to_owned())].into();
    test.host.put(Definition { config, ..definition }).await.unwrap();
    test.until(&demo_key("Tally", "a"), "is counted", |document| document["spec"]["count"].is_u64()).await;
}

/// W4
#[tokio::test(flavor = "multi_thread")]
async fn a_map_that_fails_is_told_and_holds_back_no_other_change() {
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
    // Mended, it is mapped like any other.
    test.apply(demo("Source", "wrong", json!({"through": "one"}))).await;
    test.apply(demo("Source", "right", json!({"through": "two"}))).await;
    for (name, source) in [("one", "wrong"), ("two", "right")] {
        let key = demo_key("Mapped", name);
        test.until(&key, "sees it", |document| document["status"]["sources"] == json!([source])).await;
    }
}

/// C3: a swap that brings another resync disturbs no key that waits.
#[tokio::test(flavor = "multi_thread")]
async fn other_settings_cut_no_delay_short_and_wake_no_parked_key_by_themselves() {
    let test = hostile(Limits::default(), Overrides::default()).await;
    test.apply(demo("Hostile", "centuries", json!({}))).await;
    eventually("it to wait", async || (test.status("hostile").counts.waiting == 1).then_some(())).await;
    let definition = test.host.definition("hostile").unwrap();
    let overrides = Overrides { resync: Some(Duration::from_secs(7200)), ..Overrides::default() };
    test.host.put(Definition { overrides, ..definition }).await.unwrap();
    let status = test.idle("hostile").await;
    assert_eq!((status.reconciles, status.counts.waiting), (1, 1));
}

/// Counts the reconciles of two controllers, and how many of the busy one's have ended at each of the other's.
#[derive(Default)]
struct Seen {
    busy: AtomicUsize,
    seldom: Mutex<Vec<usize>>,
}

struct Sees(Arc<Seen>, bool);

impl Observer for Sees {
    fn controller(&self, name: &Arc<str>) -> Arc<dyn Recorder> {
        Arc::new(Self(self.0.clone(), &**name == "busy"))
    }
}

impl Recorder for Sees {
    fn record(&self, _: &ReconcileRecord<'_>) {
        if self.1 {
            self.0.busy.fetch_add(1, Ordering::SeqCst);
        } else {
            self.0.seldom.lock().push(self.0.busy.load(Ordering::SeqCst));
        }
    }
}

struct Adds(usize);

#[async_trait]
impl Feeder for Adds {
    fn name(&self) -> &str {
        "adds"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        for number in 0..self.0 {
            intake.add(Key::new(intake.manages().clone(), "default", &number.to_string()), Priority::NORMAL).unwrap();
        }
        Ok(())
    }
}

/// P5: on one thread, where a hundred workers of the other controller always have a key.
#[tokio::test]
async fn a_key_waits_for_a_turn_or_two_and_not_for_the_hundred_thousand_keys_of_another_controller() {
    const WORKERS: u32 = 128;
    let (seen, store) = (Arc::<Seen>::default(), Arc::new(MemoryStore::new(homeostat_store::Options::default())));
    let observer = Arc::new(Sees(seen.clone(), false));
    let test = TestHost::with(store, |options| Options { observer, ..options }).await;
    for name in ["busy", "seldom"] {
        let overrides = Overrides { concurrency: Some(WORKERS), ..Overrides::default() };
        let definition = test.definition(name, &guest("guest-noop")).await;
        test.host.put(Definition { overrides, ..definition }).await.unwrap();
    }
    test.host.feed("busy", Arc::new(Adds(100_000))).unwrap();
    eventually("the busy one to be busy", async || (seen.busy.load(Ordering::SeqCst) > 1000).then_some(())).await;
    for round in 0..20 {
        let before = seen.busy.load(Ordering::SeqCst);
        test.host.feed("seldom", Arc::new(Adds(1))).unwrap();
        let ran = eventually("the other one to run", async || seen.seldom.lock().get(round).copied()).await;
        // Each worker that goes before it would bring several keys along.
        assert!(ran - before < WORKERS as usize, "{} keys went before, in round {round}", ran - before);
    }
    assert!(seen.busy.load(Ordering::SeqCst) < 100_000, "the busy one is still busy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_above_their_number_is_refused_until_another_one_goes() {
    let store = Arc::new(MemoryStore::new(homeostat_store::Options::default()));
    let test = TestHost::with(store, |options| Options { controllers_max: 2, ..options }).await;
    for name in ["a", "b"] {
        test.add(name, &guest("guest-moody")).await;
    }
    let third = test.definition("c", &guest("guest-moody")).await;
    let refused = test.host.put(third.clone()).await.unwrap_err();
    assert!(refused.to_string().starts_with("limit controllers: "), "{refused}");
    let known = test.definition("a", &guest("guest-moody")).await;
    test.host.put(Definition { config: [("x".to_owned(), "y".to_owned())].into(), ..known }).await.unwrap();
    let room = test.host.measure().room;
    assert_eq!((room.controllers, room.controllers_max), (2, 2));
    test.host.remove("b").await.unwrap();
    test.host.put(third).await.unwrap();
}
