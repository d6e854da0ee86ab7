//! A disk that accepts writes to the write-ahead log, and fails writes to pages.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::embedded::layout::PAGE_BYTES;

/// Length of the write-ahead log.
const JOURNAL_BYTES: u64 = 16 * PAGE_BYTES;

fn options() -> Options {
    Options { wal_bytes: JOURNAL_BYTES, ..Options::default() }
}

/// The behaviour and the counters of a disk.
#[derive(Clone, Debug, Default)]
struct DiskBehavior {
    /// Writes of pages that still fail.
    failing: Arc<AtomicU64>,
    /// How often the store asked to drop the cache.
    settled: Arc<AtomicU64>,
}

/// Opens a store with one resource on a working disk, without a page cache, so that every page goes to the
/// disk.
async fn store(folder: &Path) -> (EmbeddedStore, Disk, DiskBehavior) {
    let told = DiskBehavior::default();
    let failing = Arc::clone(&told.failing);
    let disk = Disk::at(&folder.join("bytes"), move |ask| {
        let left = failing.load(Ordering::SeqCst);
        if matches!(ask, Ask::Write(offset) if offset >= PAGE_BYTES + JOURNAL_BYTES) && left > 0 {
            failing.store(left - 1, Ordering::SeqCst);
            return Err(io::Error::other("the sector is gone"));
        }
        Ok(())
    });
    let store = EmbeddedStore::over(disk.clone(), options()).expect("a new store");
    store.write(pod("a")).await.expect("the disk works");
    drop(store);
    let settled = Arc::clone(&told.settled);
    let forget = move || {
        settled.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    let place = Location::Backend(Arc::new(disk.clone()), Arc::new(forget));
    (EmbeddedStore::start(place, disk.open(), options()).expect("it is a store"), disk, told)
}

#[tokio::test]
async fn a_page_whose_write_failed_is_replayed_from_the_log_after_a_full_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, disk, told) = store(folder.path()).await;
    told.failing.store(1, Ordering::SeqCst);
    store.write(pod("b")).await.expect("the journal has it");
    // The read waits until the pages have the write.
    assert!(store.get(&key("b")).await.is_ok());
    assert_eq!(told.failing.load(Ordering::SeqCst), 0, "the page was to be written");
    assert_eq!(told.settled.load(Ordering::SeqCst), 1, "nothing is believed before that");
    assert_eq!(store.health(), Ok(()));
    assert_eq!(store.write(pod("c")).await.expect("the disk works").resource.revision(), Revision(3));
    store.close().await;
    let store = EmbeddedStore::over(disk, options()).expect("it is a store");
    for name in ["a", "b", "c"] {
        assert!(store.get(&key(name)).await.is_ok(), "{name}");
    }
}

#[tokio::test]
async fn failed_page_writes_end_writes_and_lose_no_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, disk, told) = store(folder.path()).await;
    told.failing.store(u64::MAX, Ordering::SeqCst);
    store.write(pod("b")).await.expect("the journal has it");
    for name in ["a", "b"] {
        assert!(store.get(&key(name)).await.is_ok(), "{name}");
    }
    let refused = store.write(pod("c")).await;
    assert!(matches!(&refused, Err(Error::Unavailable { reason }) if reason.contains("sector is gone")), "{refused:?}");
    assert!(store.health().is_err());
    // The disk has recovered, but its content is unknown.
    told.failing.store(0, Ordering::SeqCst);
    assert!(store.write(pod("c")).await.is_err());
    store.close().await;
    let store = EmbeddedStore::over(disk, options()).expect("it is a store");
    for name in ["a", "b"] {
        assert!(store.get(&key(name)).await.is_ok(), "{name}");
    }
    store.write(pod("c")).await.expect("the disk works");
}
