//! Compaction of history: by count, age and size, also while the store is idle, and never silently.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use homeostat_conformance::{Make, create, delete, next, update, update_status};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{ClockAndIds, Error, Options, Revision, Scope, Store, SystemClockAndIds};
use homeostat_testing::eventually;
use redb::{Database, TableDefinition};
use serde_json::json;

use crate::{everything, key, newest, on_every_store, thing};

on_every_store!(
    history_older_than_its_age_is_compacted_and_its_watches_expire,
    a_watch_resumes_after_some_minutes_without_its_client,
    a_store_that_is_always_written_to_keeps_its_age_to_the_minute,
    history_above_its_size_is_compacted_but_the_last_change_stays,
    a_clock_that_goes_back_neither_compacts_early_nor_keeps_history_for_ever,
);

/// A clock that a test sets, in seconds.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::SeqCst);
    }
}

impl ClockAndIds for Clock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + self.0.load(Ordering::SeqCst))
    }

    fn uid(&self) -> String {
        SystemClockAndIds.uid()
    }

    fn suffix(&self) -> String {
        SystemClockAndIds.suffix()
    }
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

fn on_a_clock() -> (Arc<Clock>, Options) {
    let clock = Arc::new(Clock::default());
    // Without a write-ahead log, so that redb can open the file.
    (Arc::clone(&clock), Options { clock, wal_bytes: 0, ..Options::default() })
}

async fn oldest(store: &dyn Store) -> Revision {
    match store.watch(Scope::Everything, Revision::ZERO).await {
        Ok(_) => Revision::ZERO,
        Err(Error::Expired { oldest }) => oldest,
        Err(error) => panic!("{error}"),
    }
}

/// Waits until history starts at a revision.
async fn until_oldest(store: &dyn Store, wanted: u64) {
    let reached = async || Some(oldest(store).await).filter(|oldest| *oldest >= Revision(wanted));
    assert_eq!(eventually("history to be compacted", reached).await, Revision(wanted));
}

/// Makes an idle store read its clock, without a change.
async fn nudge(store: &dyn Store) {
    assert!(matches!(delete(store, key("nobody"), Default::default()).await, Err(Error::NotFound { .. })));
}

async fn fill(store: &dyn Store, count: u64) {
    for number in 0..count {
        create(store, thing(&format!("n{number}"), json!({}))).await;
    }
}

/// S8, S9: a watch delivers every later change, in order, once; no event is lost silently.
async fn history_older_than_its_age_is_compacted_and_its_watches_expire(make: Make) {
    let (clock, options) = on_a_clock();
    let store = make(options).await;
    fill(&**store, 10).await;
    clock.advance(30 * MINUTE);
    create(&**store, thing("half", json!({}))).await;
    let mut slow = store.watch(Scope::Everything, Revision(3)).await.unwrap();
    let mut newer = store.watch(Scope::Everything, Revision(10)).await.unwrap();
    clock.advance(30 * MINUTE - 1);
    nudge(&**store).await;
    assert_eq!(oldest(&**store).await, Revision::ZERO);
    clock.advance(1);
    nudge(&**store).await;
    until_oldest(&**store, 10).await;
    assert!(matches!(next(&mut slow).await, Err(Error::Expired { oldest: Revision(10) })));
    assert_eq!(next(&mut newer).await.unwrap().revision, Revision(11));
    clock.advance(HOUR);
    nudge(&**store).await;
    until_oldest(&**store, 11).await;
    // The history is empty, and a watch from now misses nothing.
    let mut watch = store.watch(Scope::Everything, Revision(11)).await.unwrap();
    create(&**store, thing("later", json!({}))).await;
    assert_eq!(next(&mut watch).await.unwrap().revision, Revision(12));
}

/// S8: a watch delivers every later change, in order, once.
async fn a_watch_resumes_after_some_minutes_without_its_client(make: Make) {
    let (clock, options) = on_a_clock();
    let store = make(options).await;
    for _ in 0..2 {
        fill(&**store, 3).await;
        for number in 0..3 {
            delete(&**store, key(&format!("n{number}")), Default::default()).await.unwrap();
        }
        clock.advance(15 * MINUTE);
    }
    nudge(&**store).await;
    let mut watch = store.watch(Scope::Everything, Revision(2)).await.unwrap();
    for revision in 3..=12 {
        assert_eq!(next(&mut watch).await.unwrap().revision, Revision(revision));
    }
}

/// S9: no event is lost silently.
async fn a_store_that_is_always_written_to_keeps_its_age_to_the_minute(make: Make) {
    let (clock, options) = on_a_clock();
    let store = make(options).await;
    create(&**store, thing("a", json!({}))).await;
    // A change every twenty seconds, for two hours.
    for round in 0..6 * MINUTE {
        clock.advance(20);
        update_status(&**store, key("a"), json!(round)).await.unwrap();
    }
    let kept = newest(&**store).await.0 - oldest(&**store).await.0;
    assert!((180..=184).contains(&kept), "{kept} changes of twenty seconds");
}

/// S9: no event is lost silently.
async fn history_above_its_size_is_compacted_but_the_last_change_stays(make: Make) {
    let store = make(Options { history_bytes_max: 100_000, ..Options::default() }).await;
    for number in 0..50 {
        create(&**store, thing(&format!("n{number}"), json!("x".repeat(10_000)))).await;
    }
    until_oldest(&**store, 41).await;
    create(&**store, thing("large", json!("x".repeat(200_000)))).await;
    until_oldest(&**store, 50).await;
    let mut watch = store.watch(Scope::Everything, Revision(50)).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap().resource.key().name(), "large");
}

/// S9: no event is lost silently.
async fn a_clock_that_goes_back_neither_compacts_early_nor_keeps_history_for_ever(make: Make) {
    let (clock, options) = on_a_clock();
    let store = make(options).await;
    clock.set(10 * HOUR);
    create(&**store, thing("ahead", json!({}))).await;
    clock.set(0);
    create(&**store, thing("a", json!({}))).await;
    clock.set(59 * MINUTE);
    create(&**store, thing("b", json!({}))).await;
    assert_eq!(oldest(&**store).await, Revision::ZERO);
    clock.set(11 * HOUR);
    nudge(&**store).await;
    until_oldest(&**store, 3).await;
}

#[tokio::test]
async fn history_is_compacted_while_the_store_is_idle() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { history_age_max: Duration::from_millis(200), ..Options::default() };
    let store = EmbeddedStore::open(folder.path().join("store"), options).unwrap();
    fill(&store, 3).await;
    until_oldest(&store, 3).await;
}

#[tokio::test]
async fn age_and_size_are_known_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (clock, options) = on_a_clock();
    let store = EmbeddedStore::open(&path, options.clone()).unwrap();
    fill(&store, 1200).await;
    clock.advance(2 * MINUTE);
    create(&store, thing("last", json!({}))).await;
    drop(store);
    clock.advance(HOUR - 2 * MINUTE);
    // Many small transactions of an idle store.
    let store = EmbeddedStore::open(&path, options.clone()).unwrap();
    until_oldest(&store, 1200).await;
    drop(store);
    clock.advance(2 * MINUTE);
    let store = EmbeddedStore::open(&path, options.clone()).unwrap();
    until_oldest(&store, 1201).await;
    drop(store);
    let store = EmbeddedStore::open(&path, Options { history_bytes_max: 1, ..options }).unwrap();
    create(&store, thing("one", json!({}))).await;
    create(&store, thing("two", json!({}))).await;
    until_oldest(&store, 1202).await;
}

/// Removes the metadata that older programs did not record.
fn forget_times(path: &Path) {
    let database = Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.delete_table(TableDefinition::<u64, u64>::new("times")).unwrap();
    transaction.open_table(TableDefinition::<&str, &str>::new("meta")).unwrap().remove("log").unwrap();
    transaction.commit().unwrap();
}

#[tokio::test]
async fn history_of_a_file_that_kept_no_times_ages_from_now() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (clock, options) = on_a_clock();
    let store = EmbeddedStore::open(&path, options.clone()).unwrap();
    fill(&store, 5).await;
    drop(store);
    forget_times(&path);
    clock.advance(2 * HOUR);
    let store = EmbeddedStore::open(&path, options.clone()).unwrap();
    create(&store, thing("a", json!({}))).await;
    assert_eq!(oldest(&store).await, Revision::ZERO);
    clock.advance(HOUR);
    nudge(&store).await;
    until_oldest(&store, 6).await;
    drop(store);
    // The size, too: it is measured once.
    let store = EmbeddedStore::open(&path, options.clone()).unwrap();
    for number in 0..10 {
        create(&store, thing(&format!("large{number}"), json!("x".repeat(10_000)))).await;
    }
    drop(store);
    forget_times(&path);
    let store = EmbeddedStore::open(&path, Options { history_bytes_max: 50_000, ..options }).unwrap();
    until_oldest(&store, 12).await;
}

/// Fills a file with history, and compacts nearly all of it. Returns the open store, and the length of its
/// file.
async fn mostly_free(path: &Path) -> (EmbeddedStore, u64) {
    let store = EmbeddedStore::open(path, Options { history_bytes_max: 1 << 30, ..Options::default() }).unwrap();
    create(&store, thing("a", json!({}))).await;
    let texts = ["x", "y"].map(|letter| letter.repeat(500_000));
    for number in 0..100 {
        update(&store, thing("a", json!({ "text": texts[number % 2] }))).await.unwrap();
    }
    store.close().await;
    let full = std::fs::metadata(path).unwrap().len();
    assert!(full > 64 << 20, "there is something to give back: {full}");
    let store = EmbeddedStore::open(path, Options { history_bytes_max: 1 << 20, ..Options::default() }).unwrap();
    until_oldest(&store, 100).await;
    (store, full)
}

#[tokio::test]
async fn a_file_that_is_mostly_free_is_small_after_it_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (store, full) = mostly_free(&path).await;
    let before = everything(&store).await;
    store.close().await;
    let small = std::fs::metadata(&path).unwrap().len();
    assert!(small < full / 2, "{small} of {full} bytes are left");
    let store = EmbeddedStore::open(&path, Options::default()).unwrap();
    assert_eq!((everything(&store).await, oldest(&store).await), (before, Revision(100)));
}

#[tokio::test]
async fn a_file_that_is_mostly_free_is_small_when_it_is_opened_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (path, killed) = (folder.path().join("store"), folder.path().join("killed"));
    let (store, full) = mostly_free(&path).await;
    create(&store, thing("b", json!({}))).await;
    let before = everything(&store).await;
    // As after a kill: the file is not closed.
    std::fs::copy(&path, &killed).unwrap();
    let store = EmbeddedStore::open(&killed, Options { history_bytes_max: 1 << 20, ..Options::default() }).unwrap();
    let small = std::fs::metadata(&killed).unwrap().len();
    assert!(small < full / 2, "{small} of {full} bytes are left");
    assert_eq!(everything(&store).await, before);
}
