//! The life of a controller beside others: how it begins, is held back, changes its settings, gives up keys, and ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_component::{BackoffSpec, DuringDelay, Limits};
use homeostat_runtime::events::{Event, EventFilter};
use homeostat_runtime::{ControllerState, Definition, Overrides};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Key, Kind, Page, Query, Resource, Result, Revision, Scope, Store, Watch, Write, Written};
use homeostat_tests::{TestHost, demo, demo_key, eventually, guest};
use serde_json::json;
use tokio::sync::Semaphore;

/// A store in which one kind cannot be listed before it is allowed.
struct Held {
    inner: MemoryStore,
    kind: &'static str,
    lists: Semaphore,
}

#[async_trait]
impl Store for Held {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.inner.get(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        if query.kind.name == self.kind {
            drop(self.lists.acquire().await.unwrap());
        }
        self.inner.list(query).await
    }

    async fn write(&self, write: Write) -> Result<Written> {
        self.inner.write(write).await
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        self.inner.watch(scope, from).await
    }

    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        Ok(Vec::new())
    }
}

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
    let inner = MemoryStore::new(homeostat_store::Options::default());
    let store = Arc::new(Held { inner, kind: "Note", lists: Semaphore::new(0) });
    let test = TestHost::over(store.clone()).await;
    let definition = test.definition("follower", &guest("guest-follower")).await;
    test.host.put(definition).await.unwrap();
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    // The managed kind is listed and watched: its key has come to a worker, and waits there for the other watch.
    let held = eventually("the key to come", async || {
        let status = test.status("follower");
        (status.counts.running == 1).then_some(status)
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
    store.lists.add_permits(4);
    test.until(&demo_key("Follower", "a"), "is reconciled", |document| !document["status"].is_null()).await;
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
    test.host.put(Definition { suspend: true, ..definition }).await.unwrap();
    test.host.suspend("hostile", false).unwrap();
    assert_eq!(test.status("hostile").state, ControllerState::Suspended);
}

/// C2
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_removed_finishes_what_runs_and_drops_what_is_queued() {
    let limits = Limits { deadline: Duration::from_millis(800), ..Limits::default() };
    let test = hostile(limits, Overrides { concurrency: Some(1), ..Overrides::default() }).await;
    test.apply(demo("Hostile", "slow", json!({}))).await;
    eventually("it to run", async || (test.status("hostile").counts.running == 1).then_some(())).await;
    test.apply(demo("Hostile", "other", json!({}))).await;
    eventually("another to queue", async || (test.status("hostile").counts.ready == 1).then_some(())).await;
    let removed = test.host.remove("hostile").await.unwrap();
    assert_eq!((removed.finished, removed.interrupted.len()), (1, 0), "{removed:?}");
    assert!(removed.dropped.contains(&demo_key("Hostile", "other")), "{removed:?}");
    assert!(event(&test, "slow", "LimitExceeded").await.message.contains("deadline"), "it ran to its own end");
}

/// C1: the name is free at once, and no key runs on both.
#[tokio::test(flavor = "multi_thread")]
async fn a_successor_waits_until_the_one_before_it_runs_nothing_any_more() {
    let limits = Limits { deadline: Duration::from_millis(800), ..Limits::default() };
    let test = hostile(limits, Overrides::default()).await;
    test.apply(demo("Hostile", "slow", json!({}))).await;
    eventually("it to run", async || (test.status("hostile").counts.running == 1).then_some(())).await;
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
    let entries = test.host.queue("hostile", 10).unwrap();
    assert!(entries.iter().any(|entry| entry.key.name() == "centuries" && entry.state == "waiting"), "{entries:?}");
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
