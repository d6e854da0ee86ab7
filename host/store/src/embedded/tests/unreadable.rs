//! A disk that is unreadable for a while.

use super::*;
use crate::embedded::read::Snapshot;

/// Returns a disk over a file, and a switch that makes reads fail.
fn unreadable(path: &Path) -> (Disk, Arc<AtomicBool>) {
    let failing = Arc::<AtomicBool>::default();
    let told = Arc::clone(&failing);
    let disk = Disk::at(path, move |ask| match ask {
        Ask::Read => refuse_while(&told, "the head is stuck"),
        Ask::Write(_) | Ask::SetLength | Ask::Sync => Ok(()),
    });
    (disk, failing)
}

/// Returns such a disk with a store that has one pod, `a`.
async fn with_a_store(path: &Path) -> (Disk, Arc<AtomicBool>) {
    let store = EmbeddedStore::open(path, Options::default()).expect("a new store");
    store.write(pod("a")).await.expect("the disk works");
    drop(store);
    unreadable(path)
}

#[tokio::test]
async fn a_disk_that_cannot_be_read_for_a_while_is_read_again_as_soon_as_it_can_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, failing) = unreadable(&folder.path().join("bytes"));
    let store = EmbeddedStore::over(disk.clone(), Options::default()).expect("a new store");
    let first = store.write(pod("a")).await.expect("the disk works").resource;
    drop(store);
    let store = EmbeddedStore::start(disk.place(), disk.open(), Options::default()).expect("it is a store");

    failing.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert!(matches!(store.get(&key("a")).await, Err(Error::Unavailable { .. })));
        let health = store.health();
        assert!(matches!(&health, Err(Error::Unavailable { reason }) if reason.contains("stuck")), "{health:?}");
        assert!(matches!(store.write(pod("b")).await, Err(Error::Unavailable { .. })));
    }
    failing.store(false, Ordering::SeqCst);
    assert_eq!(store.get(&key("a")).await, Ok(first));
    assert_eq!(store.health(), Ok(()));
    store.write(pod("b")).await.expect("no write has failed");
    assert_eq!(store.revision(&Scope::Everything).await.unwrap(), Revision(2));
    store.close().await;
    assert_eq!(store.get(&key("a")).await, Err(Error::Closed));
}

#[tokio::test]
async fn a_failed_read_affects_only_its_own_response() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let (disk, failing) = with_a_store(&path).await;
    let open = disk.open();
    // Reopening uses the file itself, which works.
    drop(disk);
    let store = EmbeddedStore::start(Location::File(path), open, Options::default()).expect("it is a store");
    // On disk it is only in the write-ahead log.
    store.write(pod("b")).await.expect("the disk works");
    // The acknowledged write is in the pages in memory, so the next read is the first access to the disk.
    assert!(store.get(&key("b")).await.is_ok());
    failing.store(true, Ordering::SeqCst);
    assert!(matches!(store.get(&key("a")).await, Err(Error::Unavailable { .. })));
    assert_eq!(store.health(), Ok(()));
    for name in ["a", "b"] {
        assert!(store.get(&key(name)).await.is_ok(), "{name}");
    }
    assert_eq!(store.write(pod("c")).await.expect("no write has failed").resource.revision(), Revision(3));
}

#[tokio::test]
async fn a_write_that_needs_unreadable_data_is_refused_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, failing) = unreadable(&folder.path().join("bytes"));
    let store = EmbeddedStore::over(disk.clone(), Options::default()).expect("a new store");
    store.write(pod("a")).await.expect("the disk works");
    drop(store);
    let store = EmbeddedStore::start(disk.place(), disk.open(), Options::default()).expect("it is a store");
    store.write(pod("b")).await.expect("in the journal, and nowhere else");

    failing.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let refused = store.write(pod("c")).await;
        assert!(matches!(&refused, Err(Error::Unavailable { reason }) if reason.contains("stuck")), "{refused:?}");
    }
    failing.store(false, Ordering::SeqCst);
    // There is no read in between.
    assert_eq!(store.write(pod("c")).await.expect("no write has failed").resource.revision(), Revision(3));
    assert_eq!(store.health(), Ok(()));
    for name in ["a", "b", "c"] {
        assert!(store.get(&key(name)).await.is_ok(), "{name}");
    }
}

#[tokio::test]
async fn a_write_after_a_read_that_failed_does_not_wait_for_another_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, failing) = unreadable(&folder.path().join("bytes"));
    drop(EmbeddedStore::over(disk.clone(), Options::default()).expect("a new store"));
    let store = EmbeddedStore::start(disk.place(), disk.open(), Options::default()).expect("it is a store");
    store.write(pod("a")).await.expect("the disk works");
    failing.store(true, Ordering::SeqCst);
    {
        // A read that has failed and has not reopened the file yet.
        let database = store.shared.database.read().await;
        assert!(Snapshot::of(database.as_ref().expect("it is open")).and_then(|read| read.get(&key("x"))).is_err());
    }
    failing.store(false, Ordering::SeqCst);
    assert_eq!(store.write(pod("b")).await.expect("no write has failed").resource.revision(), Revision(2));
}

#[tokio::test]
async fn a_disk_that_is_unreadable_right_after_a_write_loses_none_of_it() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let (disk, failing) = with_a_store(&path).await;
        let store = EmbeddedStore::start(Location::File(path), disk.open(), Options::default()).expect("it is a store");
        store.write(pod("b")).await.expect("the disk works");
        // The checkpointer hits it, or the next read does.
        failing.store(true, Ordering::SeqCst);
        drop(store.get(&key("b")).await);
        for name in ["a", "b"] {
            assert!(store.get(&key(name)).await.is_ok(), "{name}");
        }
        assert_eq!(store.health(), Ok(()));
        assert_eq!(store.write(pod("c")).await.expect("no write has failed").resource.revision(), Revision(3));
    }
}
