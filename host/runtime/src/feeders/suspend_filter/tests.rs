use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{Changes, Mapping};
use homeostat_fixtures::{Fault, FaultyStore, On, delete, demo_kind, memory_store};
use homeostat_store::{Change, Precondition, Scope, Store, Write};
use homeostat_testing::soon;
use serde_json::json;

use super::super::tests::{apply, everything, key, managed, next, scoped, ticket};
use super::super::{Feeder, Intake, KeyMapper, SyncBarrier, WatchFeeder};
use super::*;
use crate::shared_watches::SharedWatches;

/// A controller that is suspended and resumed, fed by a watch of its own kind and by one of parts with its
/// name in a label.
struct Fed {
    store: Arc<FaultyStore>,
    queue: Queue<Key>,
    deletions: Arc<SuspendFilter>,
}

impl Fed {
    /// Starts the feeders and waits for their lists.
    async fn over(store: Arc<FaultyStore>) -> Self {
        let queue = Queue::<Key>::default();
        let fed = Self { store, queue: queue.clone(), deletions: Arc::new(SuspendFilter::of(queue)) };
        fed.feed().await;
        fed
    }

    async fn feed(&self) {
        let watches = SharedWatches::of(self.store.clone());
        let parts = demo_kind("Part");
        let mapped = KeyMapper::Declared(Mapping::Label("app".into()));
        for feeder in [
            WatchFeeder::new(
                "apps",
                watches.clone(),
                managed(),
                scoped(),
                KeyMapper::Identity,
                Changes::All,
                everything(),
            ),
            WatchFeeder::new("parts", watches, parts, scoped(), mapped, Changes::All, everything()),
        ] {
            let gate = SyncBarrier::new();
            gate.register(ticket());
            let intake = Intake::new(self.deletions.clone(), Arc::new(everything()), scoped(), gate.clone(), ticket());
            tokio::spawn(async move { while feeder.run(&intake).await.is_err() {} });
            soon(gate.wait_for_sync()).await;
        }
    }

    fn suspend(&self) {
        self.queue.suspend();
        self.deletions.set_deletions_only(true);
        self.queue.suspend_below(DELETIONS_BAND);
    }

    fn resume(&self) {
        self.deletions.set_deletions_only(false);
        self.queue.resume();
    }

    /// Expects exactly these keys, in any order, until no other task can run.
    async fn comes(&self, names: &[&str]) {
        let mut came = Vec::new();
        while let Ok(claim) = tokio::time::timeout(Duration::from_secs(1), self.queue.claim()).await {
            let claim = claim.unwrap();
            came.push(claim.key().name().to_owned());
            claim.finish(homeostat_workqueue::Next::Done);
        }
        came.sort_unstable();
        assert_eq!(came, names);
    }

    async fn finalizers(&self, name: &str, finalizers: &[&str]) {
        let change = Change::Merge(json!({"metadata": {"finalizers": finalizers}}));
        self.store.write(Write::Patch { key: key(name), change, precondition: Precondition::default() }).await.unwrap();
    }

    /// Ends the watches of apps and keeps them from starting again.
    async fn blind(&self) {
        self.store.fault(On::List, "App", Fault::Wait);
        self.store.fault(On::Next, "App", Fault::Expire);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    /// Adds a part of this app.
    async fn part_of(&self, name: &str) {
        let part = format!("p{}", self.store.revision(&Scope::Everything).await.unwrap());
        apply(&*self.store, "Part", &part, json!({"app": name})).await;
    }

    /// Creates these apps and runs each once.
    async fn with(names: &[&str]) -> Self {
        let fed = Self::over(FaultyStore::over(memory_store())).await;
        for name in names {
            apply(&*fed.store, "App", name, json!({})).await;
        }
        fed.comes(names).await;
        fed
    }
}

/// C4: from the deletion timestamp to the last finalizer, and from any feeder; a recreated resource has to
/// wait.
#[tokio::test(start_paused = true)]
async fn only_keys_of_resources_being_deleted_run() {
    let fed = Fed::with(&["goes", "stays"]).await;
    fed.finalizers("goes", &["demo.homeostat.dev/held"]).await;
    fed.comes(&["goes"]).await;
    fed.suspend();
    apply(&*fed.store, "App", "new", json!({})).await;
    fed.part_of("stays").await;
    fed.part_of("goes").await;
    fed.comes(&[]).await;
    delete(&*fed.store, key("goes")).await;
    fed.comes(&["goes"]).await;
    fed.part_of("goes").await;
    fed.part_of("stays").await;
    fed.comes(&["goes"]).await;
    fed.finalizers("goes", &[]).await;
    fed.comes(&["goes"]).await;
    apply(&*fed.store, "App", "goes", json!({})).await;
    fed.part_of("goes").await;
    fed.comes(&[]).await;
    fed.resume();
    fed.comes(&["goes", "new", "stays"]).await;
}

/// C4: keys of resources deleted before the suspension, or gone before it, are on the queue already.
#[tokio::test(start_paused = true)]
async fn keys_queued_before_the_suspension_run_if_their_resource_is_deleted() {
    let fed = Fed::with(&["goes", "gone", "stays"]).await;
    fed.finalizers("goes", &["demo.homeostat.dev/held"]).await;
    for name in ["goes", "gone"] {
        delete(&*fed.store, key(name)).await;
    }
    apply(&*fed.store, "App", "stays", json!({"now": "1"})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fed.queue.len(), 3);
    fed.suspend();
    fed.comes(&["goes", "gone"]).await;
    fed.resume();
    fed.comes(&["stays"]).await;
}

/// C4: an older state from a feeder that lags behind another one is ignored.
#[tokio::test(start_paused = true)]
async fn an_outdated_state_from_a_slow_feeder_is_ignored() {
    let fed = Fed::with(&[]).await;
    let revision = |now: &str| apply(&*fed.store, "Other", "a", json!({"now": now}));
    let (old, new) = (revision("1").await.revision(), revision("2").await.revision());
    fed.suspend();
    fed.comes(&[]).await;
    fed.deletions.record(&key("a"), new, DeletionState::Deleting);
    fed.deletions.record(&key("a"), old, DeletionState::Live);
    let add = |queue: &Queue<Key>, key, priority| queue.add(key, priority).is_ok();
    assert!(fed.deletions.add(key("a"), Priority::LOW, add));
    fed.comes(&["a"]).await;
}

/// C4: a worker that is faster than the watch between its two steps leaves no second run behind.
#[tokio::test(start_paused = true)]
async fn a_key_of_a_deleted_resource_is_released_only_after_it_was_added() {
    let fed = Fed::with(&["a"]).await;
    fed.suspend();
    fed.deletions.record(&key("a"), fed.store.revision(&Scope::Everything).await.unwrap(), DeletionState::Deleted);
    fed.comes(&[]).await;
    let add = |queue: &Queue<Key>, key, priority| queue.add(key, priority).is_ok();
    assert!(fed.deletions.add(key("a"), Priority::NORMAL, add));
    fed.comes(&[]).await;
    fed.deletions.mark_deleted(&key("a"));
    fed.comes(&["a"]).await;
    assert_eq!(fed.queue.len(), 0);
}

/// C4: a resource recreated before its deletion was handled waits like everything else.
#[tokio::test(start_paused = true)]
async fn a_recreated_resource_is_suspended_again() {
    let fed = Fed::with(&["a", "b"]).await;
    fed.suspend();
    let running = {
        delete(&*fed.store, key("a")).await;
        soon(fed.queue.claim()).await.unwrap()
    };
    apply(&*fed.store, "App", "a", json!({})).await;
    delete(&*fed.store, key("a")).await;
    apply(&*fed.store, "App", "a", json!({})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.finish(homeostat_workqueue::Next::Again);
    fed.queue.suspend();
    delete(&*fed.store, key("b")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fed.queue.entry(&key("b")).unwrap().priority, DELETIONS_BAND);
    apply(&*fed.store, "App", "b", json!({})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    fed.queue.suspend_below(DELETIONS_BAND);
    fed.comes(&[]).await;
    fed.resume();
    fed.comes(&["a", "b"]).await;
}

/// C4: only deletions are in the band while the filter is on.
#[tokio::test(start_paused = true)]
async fn an_urgent_key_stays_suspended_unless_its_resource_is_deleted() {
    let fed = Fed::with(&["a", "b", "c"]).await;
    let urgent = |name: &str| {
        let add = |queue: &Queue<Key>, key, priority| queue.add(key, priority).is_ok();
        assert!(fed.deletions.add(key(name), DELETIONS_BAND, add));
    };
    urgent("c");
    let running = soon(fed.queue.claim()).await.unwrap();
    urgent("c");
    urgent("a");
    fed.suspend();
    urgent("b");
    running.finish(homeostat_workqueue::Next::Done);
    fed.comes(&[]).await;
    fed.resume();
    urgent("b");
    assert_eq!(next(&fed.queue).await, key("b"), "it is urgent again");
    fed.comes(&["a", "c"]).await;
}

/// C4: a restarted feeder reports resources being deleted, and resources that have gone meanwhile.
#[tokio::test(start_paused = true)]
async fn deletions_found_by_a_relist_pass_the_suspension() {
    let fed = Fed::with(&["goes", "gone", "stays"]).await;
    fed.finalizers("goes", &["demo.homeostat.dev/held"]).await;
    fed.comes(&["goes"]).await;
    fed.suspend();
    fed.blind().await;
    for name in ["goes", "gone"] {
        delete(&*fed.store, key(name)).await;
    }
    apply(&*fed.store, "App", "stays", json!({"now": "1"})).await;
    fed.comes(&[]).await;
    fed.store.heal(On::List, "App");
    fed.comes(&["goes", "gone"]).await;
    // A feeder that has never listed does too.
    fed.feed().await;
    fed.comes(&["goes"]).await;
    let late = Fed::over(fed.store.clone()).await;
    late.queue.suspend();
    assert_eq!(late.queue.len(), 2);
    late.suspend();
    late.comes(&["goes"]).await;
}

/// C4: it is reported once, like a deletion that the watch has seen.
#[tokio::test(start_paused = true)]
async fn a_missed_removal_of_the_last_finalizer_is_noticed() {
    let fed = Fed::with(&["goes"]).await;
    fed.finalizers("goes", &["demo.homeostat.dev/held"]).await;
    fed.comes(&["goes"]).await;
    fed.suspend();
    delete(&*fed.store, key("goes")).await;
    fed.comes(&["goes"]).await;
    fed.blind().await;
    fed.finalizers("goes", &[]).await;
    fed.store.heal(On::List, "App");
    fed.comes(&["goes"]).await;
    fed.part_of("goes").await;
    fed.comes(&[]).await;
}

/// C4: a resource that the watch has not seen yet is read, and not taken for gone.
#[tokio::test(start_paused = true)]
async fn a_key_unknown_to_the_watch_stays_suspended() {
    let fed = Fed::with(&[]).await;
    fed.store.fault(On::Next, "App", Fault::Wait);
    apply(&*fed.store, "App", "unseen", json!({})).await;
    fed.part_of("unseen").await;
    fed.part_of("nobody").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fed.queue.len(), 2);
    fed.suspend();
    fed.comes(&["nobody"]).await;
}
