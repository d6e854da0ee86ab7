use std::time::Duration;

use homeostat_fixtures::{Fault, FaultyStore, On, demo_kind, memory_store};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{EventType, Key, Resource};
use homeostat_testing::{grows_by_at_most, measured, soon, with_slack};
use serde_json::json;
use tokio::task::JoinSet;

use super::*;
use crate::feeders::tests::{apply, managed};

fn watches() -> (Arc<FaultyStore>, Arc<SharedWatches>) {
    let store = FaultyStore::over(memory_store());
    (store.clone(), SharedWatches::of(store))
}

async fn change(store: &dyn Store, name: &str) -> Revision {
    apply(store, "App", name, json!({"now": store.revision(&Scope::Everything).await.unwrap().to_string()}))
        .await
        .revision()
}

async fn names(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(soon(watch.next()).await.unwrap().resource.key().name().to_owned());
    }
    names
}

/// W5: all feeders of a kind share one watch.
#[tokio::test(start_paused = true)]
async fn all_readers_of_a_kind_share_one_watch() {
    let (store, watches) = watches();
    let from = store.revision(&Scope::Everything).await.unwrap();
    let mut all: Vec<Watch> = (0..10).map(|_| watches.watch(&managed(), from)).collect();
    let mut waiting = JoinSet::new();
    for mut watch in all.drain(..) {
        waiting.spawn(async move { (names(&mut watch, 3).await, watch) });
    }
    for name in ["a", "b", "c"] {
        change(&*store, name).await;
        tokio::task::yield_now().await;
        assert_eq!(store.open(), 1);
    }
    let ended = soon(waiting.join_all()).await;
    assert!(ended.iter().all(|(names, _)| *names == ["a", "b", "c"]));
    drop(ended);
    assert_eq!(store.open(), 0, "the last one takes the watch with it");
}

/// W5: all feeders of a kind share one watch.
#[tokio::test(start_paused = true)]
async fn each_kind_has_its_own_watch_which_its_versions_share() {
    let (store, watches) = watches();
    let kinds = [managed(), Kind::new("demo.homeostat.dev", "v2", "App"), demo_kind("Part")];
    let from = store.revision(&Scope::Everything).await.unwrap();
    let mut all: Vec<Watch> = kinds.iter().map(|kind| watches.watch(kind, from)).collect();
    change(&*store, "a").await;
    apply(&*store, "Part", "p", json!({})).await;
    let mut seen = Vec::new();
    for watch in &mut all {
        seen.extend(names(watch, 1).await);
    }
    assert_eq!((seen.join(" ").as_str(), store.open()), ("a a p", 2));
}

/// W5: when the reading feeder is dropped, another one takes over.
#[tokio::test(start_paused = true)]
async fn readers_go_on_when_the_reader_that_polls_the_watch_leaves() {
    let (store, watches) = watches();
    let from = store.revision(&Scope::Everything).await.unwrap();
    let [mut first, mut second] = [0, 1].map(|_| watches.watch(&managed(), from));
    let reads = tokio::spawn(async move { first.next().await });
    tokio::task::yield_now().await;
    let waits = tokio::spawn(async move { names(&mut second, 1).await });
    tokio::task::yield_now().await;
    reads.abort();
    change(&*store, "a").await;
    assert_eq!(soon(waits).await.unwrap(), ["a"]);
}

/// W5: a notified feeder that does not read holds up no other.
#[tokio::test(start_paused = true)]
async fn a_reader_that_is_not_polled_delays_no_other() {
    let (store, watches) = watches();
    let from = store.revision(&Scope::Everything).await.unwrap();
    let [mut first, mut stuck, mut last] = [0, 1, 2].map(|_| watches.watch(&managed(), from));
    let mut reads = Box::pin(first.next());
    let mut waits = Box::pin(stuck.next());
    assert!((&mut reads).now_or_never().is_none() && (&mut waits).now_or_never().is_none());
    let others = tokio::spawn(async move { names(&mut last, 3).await });
    tokio::task::yield_now().await;
    drop(reads);
    for name in ["a", "b", "c"] {
        change(&*store, name).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(soon(others).await.unwrap(), ["a", "b", "c"]);
    assert_eq!(soon(waits).await.unwrap().resource.key().name(), "a");
}

/// W5: a feeder sees everything since its own list, regardless of others that start and end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_readers_always_have_a_watch_and_no_watch_outlives_them() {
    let (store, watches) = watches();
    let mut users = JoinSet::new();
    for user in 0..16 {
        let (store, watches) = (store.clone(), watches.clone());
        users.spawn(async move {
            for round in 0..50 {
                let from = store.revision(&Scope::Everything).await.unwrap();
                let mut watch = watches.watch(&managed(), from);
                let own = format!("{user}-{round}");
                change(&*store, &own).await;
                let mut last = from;
                loop {
                    let event = watch.next().await.unwrap();
                    assert!(event.revision > last, "in order, and once");
                    last = event.revision;
                    if event.resource.key().name() == own {
                        break;
                    }
                }
            }
        });
    }
    // Every user sees its own change.
    soon(users.join_all()).await;
    assert_eq!(store.open(), 0);
    let mut watch = watches.watch(&managed(), store.revision(&Scope::Everything).await.unwrap());
    change(&*store, "after").await;
    assert_eq!((names(&mut watch, 1).await, store.open()), (vec!["after".to_owned()], 1));
}

/// W5: all feeders of a kind share one watch.
#[tokio::test(start_paused = true)]
async fn a_reader_behind_the_buffer_catches_up_alone_and_rejoins() {
    let (store, watches) = watches();
    let from = store.revision(&Scope::Everything).await.unwrap();
    let [mut quick, mut slow] = [0, 1].map(|_| watches.watch(&managed(), from));
    let count = EVENTS_MAX + 10;
    for number in 0..count {
        change(&*store, &number.to_string()).await;
    }
    let wanted: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    assert_eq!(names(&mut quick, count).await, wanted);
    assert_eq!(store.open(), 1);
    let mut seen = names(&mut slow, 1).await;
    assert_eq!(store.open(), 2, "the store's history has what is not kept any more");
    seen.extend(names(&mut slow, count - 1).await);
    assert_eq!((seen, store.open()), (wanted, 1));
}

/// The buffer for feeders that lag behind is bounded in bytes too.
#[tokio::test(start_paused = true)]
async fn large_documents_leave_the_shared_buffer_soon() {
    let (store, watches) = watches();
    let from = store.revision(&Scope::Everything).await.unwrap();
    let [mut watch, _slow] = [0, 1].map(|_| watches.watch(&managed(), from));
    let large = "x".repeat(500_000);
    for _ in 0..20 {
        let now = json!({"now": store.revision(&Scope::Everything).await.unwrap().to_string()});
        let document = json!({"apiVersion": "demo.homeostat.dev/v1", "kind": "App",
            "metadata": {"name": "a", "namespace": "default", "labels": now}, "spec": large});
        let write = homeostat_store::Write::Apply { document, manager: "test".into(), force: true };
        store.write(write).await.unwrap();
    }
    names(&mut watch, 20).await;
    let hub = watches.hub(&managed(), Revision::ZERO);
    let recent = hub.recent.lock();
    assert!(recent.bytes <= BYTES_MAX && !recent.events.is_empty(), "{} bytes", recent.bytes);
    assert_eq!(recent.bytes, recent.events.iter().map(Event::memory_bytes).sum::<u64>());
}

/// A controller with the only watch of a kind keeps no buffer, only its position.
#[tokio::test(start_paused = true)]
async fn a_single_reader_needs_no_buffer() {
    let (store, watches) = watches();
    let from = store.revision(&Scope::Everything).await.unwrap();
    let mut watch = watches.watch(&managed(), from);
    for name in ["a", "b", "c"] {
        change(&*store, name).await;
    }
    assert_eq!(names(&mut watch, 2).await, ["a", "b"]);
    let kept = || watches.hub(&managed(), from).recent.lock().events.len();
    assert_eq!(kept(), 1);
    // A feeder that starts meanwhile with an older list misses nothing.
    let mut late = watches.watch(&managed(), from);
    assert_eq!(names(&mut late, 3).await, ["a", "b", "c"]);
    assert_eq!((names(&mut watch, 1).await, store.open()), (vec!["c".to_owned()], 1));
}

/// W5: each feeder gets the error once, and the next one opens a new watch.
#[tokio::test(start_paused = true)]
async fn a_watch_that_has_missed_history_is_replaced() {
    let options = homeostat_store::Options { history_max: 1, ..homeostat_store::Options::default() };
    let store = FaultyStore::over(Arc::new(MemoryStore::new(options)));
    let watches = SharedWatches::of(store.clone());
    let mut slow = watches.watch(&managed(), store.revision(&Scope::Everything).await.unwrap());
    change(&*store, "a").await;
    names(&mut slow, 1).await;
    for number in 0..5000 {
        change(&*store, &number.to_string()).await;
    }
    assert!(matches!(soon(slow.next()).await, Err(Error::Expired { .. })));
    let mut again = watches.watch(&managed(), store.revision(&Scope::Everything).await.unwrap());
    change(&*store, "b").await;
    assert_eq!((names(&mut again, 1).await, store.open()), (vec!["b".to_owned()], 2));
    drop(slow);
    assert_eq!(store.open(), 1);
}

/// W8: each feeder has its own backoff, and delays no other.
#[tokio::test(start_paused = true)]
async fn a_hanging_watch_of_a_kind_delays_no_other_kind() {
    let (store, watches) = watches();
    store.fault(On::Watch, "Part", Fault::Wait);
    let mut sick = watches.watch(&demo_kind("Part"), store.revision(&Scope::Everything).await.unwrap());
    let mut sound = watches.watch(&managed(), store.revision(&Scope::Everything).await.unwrap());
    apply(&*store, "Part", "p", json!({})).await;
    let hangs = tokio::spawn(async move { names(&mut sick, 1).await });
    change(&*store, "a").await;
    assert_eq!(names(&mut sound, 1).await, ["a"]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!hangs.is_finished());
    store.heal(On::Watch, "Part");
    assert_eq!(soon(hangs).await.unwrap(), ["p"]);
}

/// The store's own history suffices: a feeder that starts after others misses nothing.
#[tokio::test(start_paused = true)]
async fn a_reader_with_an_older_list_misses_nothing() {
    let store = MemoryStore::new(homeostat_store::Options::default());
    let watches = SharedWatches::of(Arc::new(store));
    let store = watches.store().clone();
    let old = store.revision(&Scope::Everything).await.unwrap();
    change(&*store, "a").await;
    let mut others = watches.watch(&managed(), store.revision(&Scope::Everything).await.unwrap());
    let mut late = watches.watch(&managed(), old);
    change(&*store, "b").await;
    assert_eq!(names(&mut others, 1).await, ["b"]);
    assert_eq!(names(&mut late, 2).await, ["a", "b"]);
    let gone = Key::new(managed(), "default", "a");
    homeostat_fixtures::delete(&*store, gone).await;
    assert_eq!((names(&mut late, 1).await, names(&mut others, 1).await), (vec!["a".to_owned()], vec!["a".to_owned()]));
}

measured! {
    /// Measures several kinds, because a single one takes no more than the process itself grows by. The documents
    /// have many small values, which take many times as much memory as their text.
    fn changes_that_feeders_share_take_no_more_memory_than_their_bound measure_shared {
        const KINDS: usize = 16;
        grows_by_at_most(with_slack(KINDS as u64 * BYTES_MAX), || {
            let mut all: Vec<EventBuffer> = Vec::new();
            for _ in 0..KINDS {
                let mut recent = EventBuffer { events: VecDeque::new(), bytes: 0, since: Revision::ZERO, ended: false };
                for n in 1..200_u64 {
                    let document = json!({ "apiVersion": "demo.homeostat.dev/v1", "kind": "App", "spec": vec![1; 1024],
                        "metadata": { "namespace": "default", "name": format!("a-{n}"), "resourceVersion": n.to_string() } });
                    let resource = Arc::new(Resource::from_document(document).unwrap());
                    resource.document();
                    let previous = Some(Arc::clone(&resource));
                    let revision = resource.revision();
                    recent.push(Event { kind: EventType::Modified, resource, previous, revision });
                }
                assert!(recent.events.len() < 199, "the oldest went");
                all.push(recent);
            }
            all
        });
    }
}
