use std::collections::BTreeSet;

use homeostat_fixtures::{Fault, FaultyStore, On, delete, memory_store};
use homeostat_store::{Change, Precondition, Scope, Store, Write};
use homeostat_testing::soon;
use homeostat_workqueue::Queue;
use serde_json::json;

use super::super::tests::{apply, everything, intake, intake_of, key, managed, next, part, scoped, ticket};
use super::*;
use crate::feeders::{ResyncFeeder, SyncBarrier};

/// Feeds from a watch of the managed kind.
fn watch_apps(store: &Arc<FaultyStore>, changes: Changes) -> Queue<Key> {
    run(WatchFeeder::new(
        "apps",
        SharedWatches::of(store.clone()),
        managed(),
        scoped(),
        KeyMapper::Identity,
        changes,
        everything(),
    ))
}

/// Feeds from a watch of parts.
fn watch_parts(store: &Arc<FaultyStore>, mapping: Mapping, changes: Changes) -> Queue<Key> {
    let (watches, parts) = (SharedWatches::of(store.clone()), part("p").kind().clone());
    run(WatchFeeder::new("parts", watches, parts, scoped(), KeyMapper::Declared(mapping), changes, everything()))
}

fn run(feeder: WatchFeeder) -> Queue<Key> {
    run_within(feeder, None)
}

/// Feeds a queue that has so many keys at most.
fn run_within(feeder: WatchFeeder, keys_max: Option<u32>) -> Queue<Key> {
    let (queue, intake) = intake_of(&SyncBarrier::new(), keys_max);
    tokio::spawn(async move { feeder.run(&intake).await });
    queue
}

fn label() -> Mapping {
    Mapping::Label("app".into())
}

/// Changes a resource as a merge patch says.
async fn patch(store: &dyn Store, key: Key, patch: Value) {
    let change = Change::Merge(patch);
    store.write(Write::Patch { key, change, precondition: Precondition::default() }).await.unwrap();
}

async fn set_status(store: &dyn Store, key: Key, status: Value) {
    store.write(Write::UpdateStatus { key, status, precondition: Precondition::default() }).await.unwrap();
}

/// Expects exactly these keys, in any order: the next key after them is that of a change made now.
async fn expect(store: &dyn Store, queue: &Queue<Key>, names: &[&str]) {
    // The marker change, of the managed kind or of a part that maps to it.
    apply(store, "App", "last", json!({"now": store.revision(&Scope::Everything).await.unwrap().to_string()})).await;
    apply(
        store,
        "Part",
        "last",
        json!({"app": "last", "now": store.revision(&Scope::Everything).await.unwrap().to_string()}),
    )
    .await;
    let mut came = BTreeSet::new();
    // The keys of a first list come after the changes, all at once.
    while !came.contains(&key("last")) || !queue.is_empty() {
        came.insert(next(queue).await);
    }
    came.remove(&key("last"));
    assert_eq!(came, names.iter().map(|name| key(name)).collect());
}

/// W1: no key is reconciled before every watch has listed once.
#[tokio::test(start_paused = true)]
async fn no_worker_starts_before_the_first_full_list_of_a_watch() {
    let faulty = FaultyStore::over(memory_store());
    faulty.fault(On::List, "App", Fault::Wait);
    let gate = SyncBarrier::new();
    gate.register(ticket());
    let (queue, intake) = intake(&gate);
    apply(&*faulty, "App", "a", json!({})).await;
    let watches = SharedWatches::of(faulty.clone());
    let feeder =
        WatchFeeder::new("apps", watches, managed(), scoped(), KeyMapper::Identity, Changes::All, everything());
    tokio::spawn(async move { feeder.run(&intake).await });
    tokio::task::yield_now().await;
    assert!(!gate.unsynced().is_empty());
    faulty.heal(On::List, "App");
    soon(gate.wait_for_sync()).await;
    assert_eq!(queue.len(), 1, "the list is on the queue before the gate opens");
}

/// W2: each creation, change and deletion adds a key, and a relist finds what was missed.
#[tokio::test(start_paused = true)]
async fn each_creation_change_and_deletion_adds_the_key() {
    let store = FaultyStore::over(memory_store());
    let queue = watch_apps(&store, Changes::All);
    apply(&*store, "App", "a", json!({})).await;
    assert_eq!(next(&queue).await, key("a"));
    apply(&*store, "App", "a", json!({"changed": "yes"})).await;
    assert_eq!(next(&queue).await, key("a"));
    delete(&*store, key("a")).await;
    assert_eq!(next(&queue).await, key("a"));
}

/// W3: owner, label, same name and field map to keys.
#[tokio::test(start_paused = true)]
async fn the_previous_and_the_new_owner_both_get_their_keys() {
    let store = FaultyStore::over(memory_store());
    let queue = watch_parts(&store, label(), Changes::All);
    apply(&*store, "Part", "p", json!({"app": "a"})).await;
    assert_eq!(next(&queue).await, key("a"));
    apply(&*store, "Part", "p", json!({"app": "b"})).await;
    expect(&*store, &queue, &["a", "b"]).await;
    delete(&*store, part("p")).await;
    assert_eq!(next(&queue).await, key("b"));
}

/// W3: the label is removed, and the resource that it named gets its key all the same.
#[tokio::test(start_paused = true)]
async fn a_removed_label_still_adds_the_key_that_it_named() {
    let store = FaultyStore::over(memory_store());
    let queue = watch_parts(&store, label(), Changes::All);
    apply(&*store, "Part", "p", json!({"app": "a"})).await;
    assert_eq!(next(&queue).await, key("a"));
    patch(&*store, part("p"), json!({"metadata": {"labels": {"app": null}}})).await;
    expect(&*store, &queue, &["a"]).await;
    patch(&*store, part("p"), json!({"spec": {"more": true}})).await;
    expect(&*store, &queue, &[]).await;
}

/// W3: the previous owner, the new owner, and the one whose part vanished unseen are all cluster-scoped.
#[tokio::test(start_paused = true)]
async fn namespaced_parts_add_the_keys_of_cluster_scoped_parents() {
    let store = FaultyStore::over(memory_store());
    let outside = ManagedKind { namespaced: false, ..scoped() };
    let (queue, deletions) = {
        let (queue, _) = intake(&SyncBarrier::new());
        (queue.clone(), Arc::new(crate::feeders::SuspendFilter::of(queue)))
    };
    let intake =
        crate::feeders::Intake::new(deletions, Arc::new(everything()), outside.clone(), SyncBarrier::new(), ticket());
    let (watches, parts) = (SharedWatches::of(store.clone()), part("p").kind().clone());
    let feeder =
        WatchFeeder::new("parts", watches, parts, outside, KeyMapper::Declared(label()), Changes::All, everything());
    tokio::spawn(async move { feeder.run(&intake).await });
    let parent = |name: &str| Key::new(managed(), "", name);
    apply(&*store, "Part", "p", json!({"app": "a"})).await;
    assert_eq!(next(&queue).await, parent("a"));
    apply(&*store, "Part", "p", json!({"app": "b"})).await;
    assert_eq!(BTreeSet::from([next(&queue).await, next(&queue).await]), BTreeSet::from([parent("a"), parent("b")]));
    blind(&store, "Part").await;
    delete(&*store, part("p")).await;
    store.heal(On::List, "Part");
    assert_eq!(next(&queue).await, parent("b"));
    assert!(queue.is_empty());
}

/// W3: owner, label, same name and field map to keys.
#[tokio::test(start_paused = true)]
async fn each_change_of_owner_adds_the_keys_of_the_old_and_the_new_owner() {
    let store = FaultyStore::over(memory_store());
    let mut owners = Vec::new();
    for name in ["a", "b", "last"] {
        let app = apply(&*store, "App", name, json!({})).await;
        owners.push(json!({"apiVersion": "demo.homeostat.dev/v1", "kind": "App", "name": name, "uid": app.uid()}));
    }
    let queue = watch_parts(&store, Mapping::Owner, Changes::All);
    apply(&*store, "Part", "p", json!({})).await;
    for (owned_by, told) in [(vec![&owners[0]], vec!["a"]), (vec![&owners[1]], vec!["a", "b"]), (vec![], vec!["b"])] {
        patch(&*store, part("p"), json!({"metadata": {"ownerReferences": owned_by}})).await;
        for _ in &told {
            assert!(told.contains(&next(&queue).await.name()));
        }
    }
    assert!(queue.is_empty());
}

/// W2: the history is compacted, and with it a deletion and a change. The second list finds both, and reports
/// nothing that is unchanged.
#[tokio::test(start_paused = true)]
async fn missed_changes_are_found_by_a_relist() {
    let store = FaultyStore::over(memory_store());
    for name in ["goes", "changes", "stays"] {
        apply(&*store, "Part", name, json!({"app": name})).await;
    }
    let queue = watch_parts(&store, label(), Changes::All);
    expect(&*store, &queue, &["goes", "changes", "stays"]).await;
    blind(&store, "Part").await;
    delete(&*store, part("goes")).await;
    apply(&*store, "Part", "changes", json!({"app": "changes", "now": "yes"})).await;
    store.heal(On::List, "Part");
    expect(&*store, &queue, &["goes", "changes"]).await;
}

/// Makes a feeder lose its watch, and keeps it from listing again for now.
async fn blind(store: &FaultyStore, kind: &'static str) {
    store.fault(On::List, kind, Fault::Wait);
    store.fault(On::Next, kind, Fault::Expire);
    while store.open() > 0 {
        tokio::task::yield_now().await;
    }
}

/// W11: a watch can ignore changes of the status alone, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_status_alone_can_be_ignored_and_no_other() {
    let store = FaultyStore::over(memory_store());
    let queue = watch_apps(&store, Changes::ButStatus);
    apply(&*store, "App", "a", json!({})).await;
    expect(&*store, &queue, &["a"]).await;
    for state in ["up", "down"] {
        set_status(&*store, key("a"), json!({"state": state})).await;
        expect(&*store, &queue, &[]).await;
    }
    for counts in [
        json!({"spec": {"size": 1}}),
        json!({"data": {"beside": "the spec"}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"metadata": {"finalizers": ["demo.homeostat.dev/a"]}}),
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Own", "name": "o", "uid": "u"}]}}),
    ] {
        patch(&*store, key("a"), counts.clone()).await;
        assert_eq!(next(&queue).await, key("a"), "{counts}");
    }
    delete(&*store, key("a")).await;
    assert_eq!(next(&queue).await, key("a"), "the mark of a deletion that waits for a finalizer");
    patch(&*store, key("a"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(next(&queue).await, key("a"), "the deletion itself");
}

/// W11: a watch can ignore changes of the status alone, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_status_counts_by_default() {
    let store = FaultyStore::over(memory_store());
    let queue = watch_apps(&store, Changes::All);
    apply(&*store, "App", "a", json!({})).await;
    expect(&*store, &queue, &["a"]).await;
    set_status(&*store, key("a"), json!({"state": "up"})).await;
    assert_eq!(next(&queue).await, key("a"));
}

/// W11: a watch can ignore changes of the status alone, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_recreated_resource_counts_even_if_it_equals_the_old_one() {
    let store = FaultyStore::over(memory_store());
    let queue = watch_apps(&store, Changes::ButStatus);
    apply(&*store, "App", "a", json!({})).await;
    expect(&*store, &queue, &["a"]).await;
    delete(&*store, key("a")).await;
    assert_eq!(next(&queue).await, key("a"));
    apply(&*store, "App", "a", json!({})).await;
    assert_eq!(next(&queue).await, key("a"));
}

/// W11: the watch missed the changes themselves. The second list is compared in the same way.
#[tokio::test(start_paused = true)]
async fn after_a_gap_a_changed_status_is_ignored_and_a_recreated_resource_is_not() {
    let store = FaultyStore::over(memory_store());
    for name in ["status", "spec", "anew", "goes"] {
        apply(&*store, "App", name, json!({})).await;
    }
    let queue = watch_apps(&store, Changes::ButStatus);
    expect(&*store, &queue, &["status", "spec", "anew", "goes"]).await;
    blind(&store, "App").await;
    set_status(&*store, key("status"), json!({"state": "up"})).await;
    patch(&*store, key("spec"), json!({"spec": {"size": 1}})).await;
    delete(&*store, key("goes")).await;
    delete(&*store, key("anew")).await;
    apply(&*store, "App", "anew", json!({})).await;
    store.heal(On::List, "App");
    expect(&*store, &queue, &["spec", "anew", "goes"]).await;
    blind(&store, "App").await;
    store.heal(On::List, "App");
    expect(&*store, &queue, &[]).await;
}

/// W11: a resync is independent of the watch.
#[tokio::test(start_paused = true)]
async fn a_resync_adds_a_key_whose_status_alone_has_changed() {
    let store = FaultyStore::over(memory_store());
    apply(&*store, "App", "a", json!({})).await;
    let queue = watch_apps(&store, Changes::ButStatus);
    expect(&*store, &queue, &["a"]).await;
    delete(&*store, key("last")).await;
    assert_eq!(next(&queue).await, key("last"));
    set_status(&*store, key("a"), json!({"state": "up"})).await;
    let gate = SyncBarrier::new();
    let resync = ResyncFeeder { store, kind: managed(), every: std::time::Duration::from_secs(3600) };
    let deletions = Arc::new(crate::feeders::SuspendFilter::of(queue.clone()));
    let intake = crate::feeders::Intake::new(deletions, Arc::new(everything()), scoped(), gate, ticket());
    tokio::spawn(async move { resync.run(&intake).await });
    assert_eq!(next(&queue).await, key("a"));
}

/// W11: of another kind, with a mapping.
#[tokio::test(start_paused = true)]
async fn a_status_change_of_a_part_adds_no_key_where_ignored() {
    let store = FaultyStore::over(memory_store());
    apply(&*store, "Part", "p", json!({"app": "a"})).await;
    let queue = watch_parts(&store, label(), Changes::ButStatus);
    expect(&*store, &queue, &["a"]).await;
    set_status(&*store, part("p"), json!({"state": "up"})).await;
    expect(&*store, &queue, &[]).await;
    delete(&*store, part("p")).await;
    expect(&*store, &queue, &["a"]).await;
}

/// Claims keys, each of which makes room for others, until these were among them as often as they are named
/// here.
async fn come(queue: &Queue<Key>, names: impl IntoIterator<Item = String>) {
    let mut missing: Vec<Key> = names.into_iter().map(|name| key(&name)).collect();
    while !missing.is_empty() {
        let came = next(queue).await;
        if let Some(at) = missing.iter().position(|key| *key == came) {
            missing.remove(at);
        }
    }
}

/// W2: each creation, change and deletion adds a key, and a relist finds what was missed.
#[tokio::test(start_paused = true)]
async fn a_first_list_into_a_full_queue_completes_and_adds_every_key() {
    let store = FaultyStore::over(memory_store());
    let names = || (0..20).map(|n| format!("app-{n}"));
    for name in names() {
        apply(&*store, "App", &name, json!({})).await;
    }
    let gate = SyncBarrier::new();
    gate.register(ticket());
    let (queue, intake) = intake_of(&gate, Some(3));
    let watches = SharedWatches::of(store.clone());
    let feeder =
        WatchFeeder::new("apps", watches, managed(), scoped(), KeyMapper::Identity, Changes::All, everything());
    tokio::spawn(async move { feeder.run(&intake).await });
    soon(gate.wait_for_sync()).await;
    assert_eq!(queue.len(), 3);
    come(&queue, names()).await;
    assert!(queue.counters().refused > 0);
}

/// W2: each creation, change and deletion adds a key, and a relist finds what was missed.
#[tokio::test(start_paused = true)]
async fn a_change_refused_by_a_full_queue_is_added_once_there_is_room() {
    let store = FaultyStore::over(memory_store());
    let feeder = WatchFeeder::new(
        "apps",
        SharedWatches::of(store.clone()),
        managed(),
        scoped(),
        KeyMapper::Identity,
        Changes::All,
        everything(),
    );
    let queue = run_within(feeder, Some(1));
    for name in ["a", "b"] {
        apply(&*store, "App", name, json!({})).await;
        assert_eq!(next(&queue).await, key(name));
    }
    queue.add(key("other"), Priority::NORMAL).unwrap();
    apply(&*store, "App", "a", json!({"changed": "yes"})).await;
    delete(&*store, key("b")).await;
    eventually_refused(&queue, 2).await;
    come(&queue, ["other", "a", "b"].map(str::to_owned)).await;
    // Unchanged resources are not reported.
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(queue.is_empty());
}

/// W3: owner, label, same name and field map to keys.
#[tokio::test(start_paused = true)]
async fn a_previous_owner_gets_its_key_even_after_a_full_queue() {
    let store = FaultyStore::over(memory_store());
    let (watches, parts) = (SharedWatches::of(store.clone()), part("p").kind().clone());
    let feeder =
        WatchFeeder::new("parts", watches, parts, scoped(), KeyMapper::Declared(label()), Changes::All, everything());
    let queue = run_within(feeder, Some(1));
    apply(&*store, "Part", "p", json!({"app": "a"})).await;
    assert_eq!(next(&queue).await, key("a"));
    queue.add(key("other"), Priority::NORMAL).unwrap();
    apply(&*store, "Part", "p", json!({"app": "b"})).await;
    // It comes and goes while there is no room: no listed resource maps to the key that it named.
    apply(&*store, "Part", "q", json!({"app": "c"})).await;
    delete(&*store, part("q")).await;
    eventually_refused(&queue, 4).await;
    come(&queue, ["other", "a", "b", "c"].map(str::to_owned)).await;
}

/// Waits until this many keys were refused.
async fn eventually_refused(queue: &Queue<Key>, keys: u64) {
    soon(async {
        while queue.counters().refused < keys {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn deletions_without_room_are_remembered_up_to_their_bound() {
    let (queue, intake) = intake_of(&SyncBarrier::new(), Some(1));
    queue.add(key("other"), Priority::NORMAL).unwrap();
    let missed = UndeliveredKeys::default();
    for n in 0..crate::feeders::UNDELIVERED_KEYS_MAX + 10 {
        missed.add_deleted(&intake, &part("p"), [key(&format!("app-{n}"))]);
    }
    assert!(missed.needs_relist());
    assert_eq!(missed.take().len(), crate::feeders::UNDELIVERED_KEYS_MAX);
    assert!(!missed.needs_relist());
}

homeostat_testing::measured! {
    fn remembered_deletions_take_no_more_memory_than_their_bound measure_owed {
        use homeostat_testing::{grows_by_at_most, with_slack};

        use crate::bounds::tests::KEY_BYTES;
        // With the resource whose deletion led to each key.
        grows_by_at_most(with_slack(crate::feeders::UNDELIVERED_KEYS_MAX as u64 * 2 * KEY_BYTES), || {
            let missed = UndeliveredKeys::default();
            for n in 0..3 * crate::feeders::UNDELIVERED_KEYS_MAX {
                missed.add(&part(&format!("part-{n}")), [key(&format!("app-{n}"))]);
            }
            missed
        });
    }
}
