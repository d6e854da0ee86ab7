mod crash;
mod disk;
mod forgotten;
mod full;
mod muted;
mod rules;
mod unreadable;
mod unwritable;

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use redb::backends::{FileBackend, InMemoryBackend};
use redb::{ReadableDatabase, StorageBackend, TableDefinition};
use serde_json::{Value, json};

use self::disk::{Ask, Disk, refuse_while};
use super::codec::{self, LogRow};
use super::location::{Location, OpenFile};
use super::{EmbeddedStore, OpenError, open};
use crate::patch::tests::json_value;
use crate::{
    Change, Error, EventType, Key, Kind, Options, Precondition, Query, Resource, Revision, Scope, Store, Write,
};

/// Returns a disk over a file that refuses changes while it is broken.
fn burning(path: &Path, broken: &Arc<AtomicBool>) -> Disk {
    let broken = Arc::clone(broken);
    Disk::at(path, move |ask| match ask.is_change() {
        true => refuse_while(&broken, "the disk is on fire"),
        false => Ok(()),
    })
}

fn on(path: &Path, broken: &Arc<AtomicBool>) -> EmbeddedStore {
    let place = Location::File(path.to_owned());
    drop(open::store(&place, &Options::default()).expect("a new store"));
    EmbeddedStore::start(place, burning(path, broken).open(), Options::default()).expect("it is a store")
}

/// Writes beside a reader of the events in memory.
const WRITES: usize = 5000;

fn pod(name: &str) -> Write {
    Write::Create { document: json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}) }
}

fn key(name: &str) -> Key {
    Key::new(Kind::new("", "v1", "Pod"), "", name)
}

#[tokio::test]
async fn a_list_parses_no_more_than_the_heads_and_shares_their_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path().join("store"), Options::default()).expect("a new store");
    for name in ["a", "b"] {
        store.write(pod(name)).await.expect("the disk works");
    }
    let items = store.list(&Query::all(key("a").kind().clone())).await.expect("it is open").items;
    assert!(items.iter().all(|resource| !resource.has_document()));
    assert!(std::ptr::eq(items[0].key().kind(), items[1].key().kind()));
    assert_eq!(items[1].document()["metadata"]["name"], "b");
}

#[tokio::test]
async fn after_a_failed_commit_writes_are_refused_and_reads_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let broken = Arc::new(AtomicBool::new(false));
    let store = on(&path, &broken);
    let first = store.write(pod("a")).await.expect("the disk works").resource;
    let mut watch = store.watch(Scope::Everything, Revision::ZERO).await.expect("from the beginning");
    assert_eq!(store.health(), Ok(()));

    broken.store(true, Ordering::SeqCst);
    let refused = store.write(pod("b")).await;
    assert!(matches!(&refused, Err(Error::Unavailable { reason }) if reason.contains("on fire")), "{refused:?}");
    assert!(matches!(store.health(), Err(Error::Unavailable { .. })));
    // The disk has recovered; the store does not trust it.
    broken.store(false, Ordering::SeqCst);
    assert!(matches!(store.write(pod("c")).await, Err(Error::Unavailable { .. })));

    assert_eq!(store.get(&key("a")).await.as_ref(), Ok(&first));
    assert!(matches!(store.get(&key("c")).await, Err(Error::NotFound { .. })));
    assert!(store.list(&Query::all(key("a").kind().clone())).await.is_ok());
    assert_eq!(watch.next().await.expect("it was committed").resource, first);
    store.close().await;
    assert_eq!(store.get(&key("a")).await, Err(Error::Closed));

    let store = EmbeddedStore::open(&path, Options::default()).expect("it can be opened again");
    assert_eq!(store.get(&key("a")).await, Ok(first));
    store.write(pod("c")).await.expect("the disk works");
}

/// S8: a read finds what a watch has delivered. A read waits for the pages of the published revision, so no event may
/// be in memory before its revision is published: a watch that is behind would deliver it.
#[tokio::test]
async fn no_event_can_be_read_before_its_revision_is_published() {
    let store = EmbeddedStore::over(InMemoryBackend::new(), Options::default()).expect("a new store");
    let (shared, ended) = (Arc::clone(&store.shared), Arc::new(AtomicBool::new(false)));
    let reading = std::thread::spawn({
        let ended = Arc::clone(&ended);
        move || {
            let (mut seen, mut last) = (0, Revision::ZERO);
            while !ended.load(Ordering::Relaxed) {
                let newest = shared.recent.read().expect("no thread panics while holding the events").newest();
                let published = shared.tip.revision();
                assert!(published >= newest, "an event of {newest} can be read, and {published} is published");
                seen += usize::from(newest > last);
                last = newest;
            }
            seen
        }
    });
    for number in 0..WRITES {
        store.write(pod(&format!("p{number}"))).await.expect("memory works");
        if reading.is_finished() {
            break;
        }
    }
    ended.store(true, Ordering::Relaxed);
    assert!(reading.join().expect("every event was published") > 0);
}

#[tokio::test]
async fn a_store_over_a_backend_is_made_kept_and_read_after_a_failed_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bytes");
    let broken = Arc::new(AtomicBool::new(false));
    let disk = || burning(&path, &broken);
    let store = EmbeddedStore::over(disk(), Options::default()).expect("a new store");
    let (id, first) = (store.id().to_owned(), store.write(pod("a")).await.expect("the disk works").resource);
    broken.store(true, Ordering::SeqCst);
    assert!(matches!(store.write(pod("b")).await, Err(Error::Unavailable { .. })));
    assert_eq!(store.get(&key("a")).await.as_ref(), Ok(&first));
    drop(store);
    let refused = EmbeddedStore::over(disk(), Options::default()).expect_err("it cannot be written");
    assert!(matches!(&refused, OpenError::Io { source, .. } if source.to_string().contains("on fire")), "{refused}");

    broken.store(false, Ordering::SeqCst);
    let store = EmbeddedStore::over(disk(), Options::default()).expect("a store");
    assert_eq!((store.id(), store.get(&key("a")).await), (id.as_str(), Ok(first)));
    store.write(pod("b")).await.expect("the disk works");
}

#[tokio::test]
async fn an_overlay_never_writes_to_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let store = EmbeddedStore::open(&path, Options::default()).expect("a new store");
    store.write(pod("a")).await.expect("the disk works");
    // As after a crash: the file is not closed.
    let crashed = fs::read(&path).expect("it is there");
    drop(store);
    fs::write(&path, &crashed).expect("it can be written");

    let table: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("scratch");
    let database = Location::File(path.clone()).open_read_only().expect("it can be repaired").database;
    for round in 0..4 {
        let transaction = database.begin_write().expect("in memory");
        {
            let mut table = transaction.open_table(table).expect("in memory");
            for row in 0..200 {
                table.insert(row, vec![round; 5_000].as_slice()).expect("in memory");
            }
        }
        transaction.commit().expect("in memory");
    }
    let read = database.begin_read().expect("in memory").open_table(table).expect("it was written");
    for row in 0..200 {
        let value = read.get(row).expect("in memory").expect("it was written");
        assert_eq!(value.value(), vec![3; 5_000]);
    }
    drop((read, database));
    assert_eq!(fs::read(&path).expect("it is there"), crashed);
}

#[tokio::test]
async fn a_document_that_became_unreadable_fails_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let store = EmbeddedStore::open(&path, Options::default()).expect("a new store");
    for name in ["a", "b"] {
        store.write(pod(name)).await.expect("the disk works");
    }
    drop(store);
    let database = open::store(&Location::File(path.clone()), &Options::default()).expect("a store").open.database;
    let transaction = database.begin_write().expect("it works");
    let bad = crate::model::Path::of(&key("a"));
    transaction.open_table(codec::RESOURCES).expect("a store").insert(bad.0.as_slice(), &b"{"[..]).expect("it works");
    transaction.commit().expect("it works");
    drop(database);

    let store = EmbeddedStore::open(&path, Options::default()).expect("a store");
    assert!(matches!(store.get(&key("a")).await, Err(Error::Unavailable { .. })));
    let change = Change::Merge(json!({"spec": 1}));
    let patch = |name| Write::Patch { key: key(name), change: change.clone(), precondition: Precondition::default() };
    assert!(matches!(store.write(patch("a")).await, Err(Error::Unavailable { .. })));
    assert!(store.write(patch("b")).await.is_ok());
    assert_eq!(store.health(), Ok(()));
}

/// S9: no event is lost silently.
#[tokio::test]
async fn a_watch_never_goes_on_without_a_change_that_the_log_has_lost() {
    for lost in [2, 3] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let store = EmbeddedStore::open(&path, Options::default()).expect("a new store");
        for name in ["a", "b", "c"] {
            store.write(pod(name)).await.expect("the disk works");
        }
        drop(store);
        let database = open::store(&Location::File(path.clone()), &Options::default()).expect("a store").open.database;
        let transaction = database.begin_write().expect("it works");
        transaction.open_table(codec::LOG).expect("a store").remove(lost).expect("it works");
        transaction.commit().expect("it works");
        drop(database);
        let store = EmbeddedStore::open(&path, Options::default()).expect("a store");
        let mut watch = store.watch(Scope::Everything, Revision(lost - 1)).await.expect("within history");
        assert!(matches!(watch.next().await, Err(Error::Unavailable { reason }) if reason.contains("is missing")));
    }
}

#[tokio::test]
async fn writes_that_wait_share_a_transaction() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(EmbeddedStore::open(folder.path().join("store"), Options::default()).expect("a new store"));
    // More than one batch, including writes that fail alone.
    let writes = (0..300).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.write(pod(&format!("n{}", number / 2))).await })
    });
    let mut kept = 0;
    for write in writes.collect::<Vec<_>>() {
        match write.await.expect("no panic") {
            Ok(_) => kept += 1,
            Err(Error::AlreadyExists { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((kept, store.revision(&Scope::Everything).await.unwrap()), (150, Revision(150)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_starts_after_a_write_was_answered_sees_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(EmbeddedStore::open(folder.path().join("store"), Options::default()).expect("a new store"));
    let writers = (0..4).map(|number| {
        let (store, name) = (Arc::clone(&store), format!("w{number}"));
        tokio::spawn(async move {
            store.write(pod(&name)).await.expect("the disk works");
            for round in 0..25 {
                let change = Change::Merge(json!({"spec": round}));
                let write = Write::Patch { key: key(&name), change, precondition: Precondition::default() };
                let written = store.write(write).await.expect("the disk works").resource;
                assert_eq!(store.get(&key(&name)).await, Ok(written));
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("every read was fresh");
    }
}

#[tokio::test]
async fn watches_that_keep_up_do_not_read_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path().join("store"), Options::default()).expect("a new store");
    store.write(pod("a")).await.expect("the disk works");
    let mut watches = Vec::new();
    for _ in 0..1000 {
        watches.push(
            store
                .watch(Scope::Everything, store.revision(&Scope::Everything).await.unwrap())
                .await
                .expect("from now on"),
        );
    }
    let written = store.write(pod("b")).await.expect("the disk works").resource;
    // All readers of the file wait until this lock is released.
    let _file = store.shared.database.write().await;
    for watch in &mut watches {
        let Poll::Ready(next) = poll(pin!(watch.next())) else { panic!("a watch waits for the file") };
        assert_eq!(next.expect("it is there").resource, written);
    }
}

#[test]
fn a_row_of_format_1_is_read_and_a_row_of_today_has_no_document_twice() {
    let (document, previous) = (vec![b'x'; 1000], [&[b'x'; 500][..], b"y", &[b'x'; 400]].concat());
    let mut old = vec![1, 0, 0, 0, 1, b'p', 0, 0, 3, 232];
    old.extend(&document);
    old.extend(&previous);
    let row = LogRow::decode(&old).expect("a row as it was once written");
    assert_eq!((row.kind, row.path, row.document), (EventType::Modified, &b"p"[..], &document[..]));
    assert_eq!(*row.previous, *previous);
    assert!(row.encode().len() < document.len() + 30, "{}", row.encode().len());
}

/// Polls a future once.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

proptest! {
    #[test]
    fn a_row_of_the_log_is_read_as_it_was_written(
        path: Vec<u8>,
        document in "[ab]{0,100}",
        previous in "[ab]{0,100}",
        kept in 0..100_usize,
        kind in 0..3_usize,
    ) {
        let kind = [EventType::Added, EventType::Modified, EventType::Deleted][kind];
        // Often with a long common prefix and suffix.
        let (begin, end) = (kept.min(document.len()), document.len().saturating_sub(kept));
        for previous in [previous.clone(), format!("{}{previous}{}", &document[..begin], &document[end..])] {
            let row = LogRow { kind, path: &path, document: document.as_bytes(), previous: previous.as_bytes().into() };
            let bytes = row.encode();
            prop_assert!(bytes.len() <= row.length() as usize + 8);
            prop_assert_eq!(LogRow::decode(&bytes), Ok(row));
        }
    }

    #[test]
    fn any_bytes_are_a_row_of_the_log_or_refused(bytes: Vec<u8>) {
        drop(LogRow::decode(&bytes));
    }

    #[test]
    fn a_document_is_read_as_it_was_written(spec in json_value()) {
        let document: Value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
        let resource = Resource::from_document(document).expect("well formed");
        let read = codec::resource(resource.text().as_bytes()).expect("it was written");
        prop_assert_eq!(&*read, &resource);
        prop_assert_eq!(read.document(), resource.document());
    }
}
