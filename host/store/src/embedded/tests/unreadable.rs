//! A disk that cannot be read for a while.

use super::*;
use crate::embedded::read::Snapshot;

/// A file whose reads can be made to fail.
#[derive(Clone, Debug)]
struct Unreadable {
    file: Arc<FileBackend>,
    failing: Arc<AtomicBool>,
}

impl StorageBackend for Unreadable {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.failing.load(Ordering::SeqCst) {
            return Err(io::Error::other("the head is stuck"));
        }
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }
}

impl Unreadable {
    /// Returns a disk with a store in which there is one pod, `a`.
    async fn with_a_store(path: &Path) -> Self {
        let store = EmbeddedStore::open(path, Options::default()).expect("a new store");
        store.write(pod("a")).await.expect("the disk works");
        drop(store);
        Self::at(path)
    }

    fn at(path: &Path) -> Self {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = FileBackend::new(file.expect("it can be made")).expect("it is a file");
        Self { file: Arc::new(file), failing: Arc::default() }
    }

    /// Opens it without a cache, so that every read has to ask the disk; opened anew, the store has one.
    fn open(&self) -> OpenFile {
        OpenFile::over(Arc::new(self.clone()), 0).expect("it is a store")
    }
}

#[tokio::test]
async fn a_disk_that_cannot_be_read_for_a_while_is_read_again_as_soon_as_it_can_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Unreadable::at(&folder.path().join("bytes"));
    let store = EmbeddedStore::over(disk.clone(), Options::default()).expect("a new store");
    let first = store.write(pod("a")).await.expect("the disk works").resource;
    drop(store);
    let place = Place::Backend(Arc::new(disk.clone()), Arc::new(|| Ok(())));
    let store = EmbeddedStore::start(place, disk.open(), Options::default()).expect("it is a store");

    disk.failing.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert!(matches!(store.get(&key("a")).await, Err(Error::Unavailable { .. })));
        let health = store.health();
        assert!(matches!(&health, Err(Error::Unavailable { reason }) if reason.contains("stuck")), "{health:?}");
        assert!(matches!(store.write(pod("b")).await, Err(Error::Unavailable { .. })));
    }
    disk.failing.store(false, Ordering::SeqCst);
    assert_eq!(store.get(&key("a")).await, Ok(first));
    assert_eq!(store.health(), Ok(()));
    store.write(pod("b")).await.expect("no write has failed");
    assert_eq!(store.revision(), Revision(2));
    store.close().await;
    assert_eq!(store.get(&key("a")).await, Err(Error::Closed));
}

#[tokio::test]
async fn one_read_that_fails_takes_nothing_but_its_own_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let disk = Unreadable::with_a_store(&path).await;
    let failing = Arc::clone(&disk.failing);
    let open = disk.open();
    // Whoever opens it anew gets the file itself, which works.
    drop(disk);
    let store = EmbeddedStore::start(Place::File(path), open, Options::default()).expect("it is a store");
    // On the disk it is in the journal, and nowhere else.
    store.write(pod("b")).await.expect("the disk works");
    // What was answered is in the pages in memory, so nobody but the next read asks the disk.
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
async fn a_write_that_needs_what_cannot_be_read_is_refused_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Unreadable::at(&folder.path().join("bytes"));
    let store = EmbeddedStore::over(disk.clone(), Options::default()).expect("a new store");
    store.write(pod("a")).await.expect("the disk works");
    drop(store);
    let place = Place::Backend(Arc::new(disk.clone()), Arc::new(|| Ok(())));
    let store = EmbeddedStore::start(place, disk.open(), Options::default()).expect("it is a store");
    store.write(pod("b")).await.expect("in the journal, and nowhere else");

    disk.failing.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let refused = store.write(pod("c")).await;
        assert!(matches!(&refused, Err(Error::Unavailable { reason }) if reason.contains("stuck")), "{refused:?}");
    }
    disk.failing.store(false, Ordering::SeqCst);
    // Nobody reads in between.
    assert_eq!(store.write(pod("c")).await.expect("no write has failed").resource.revision(), Revision(3));
    assert_eq!(store.health(), Ok(()));
    for name in ["a", "b", "c"] {
        assert!(store.get(&key(name)).await.is_ok(), "{name}");
    }
}

#[tokio::test]
async fn a_write_after_a_read_that_failed_does_not_wait_for_another_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Unreadable::at(&folder.path().join("bytes"));
    drop(EmbeddedStore::over(disk.clone(), Options::default()).expect("a new store"));
    let place = Place::Backend(Arc::new(disk.clone()), Arc::new(|| Ok(())));
    let store = EmbeddedStore::start(place, disk.open(), Options::default()).expect("it is a store");
    store.write(pod("a")).await.expect("the disk works");
    disk.failing.store(true, Ordering::SeqCst);
    {
        // A read that has failed and has not got round to opening the place anew.
        let database = store.shared.database.read().await;
        assert!(Snapshot::of(database.as_ref().expect("it is open")).and_then(|read| read.get(&key("x"))).is_err());
    }
    disk.failing.store(false, Ordering::SeqCst);
    assert_eq!(store.write(pod("b")).await.expect("no write has failed").resource.revision(), Revision(2));
}

#[tokio::test]
async fn a_disk_that_cannot_be_read_right_after_a_write_takes_nothing_of_it() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let disk = Unreadable::with_a_store(&path).await;
        let failing = Arc::clone(&disk.failing);
        let store = EmbeddedStore::start(Place::File(path), disk.open(), Options::default()).expect("it is a store");
        store.write(pod("b")).await.expect("the disk works");
        // Whoever brings the change into the pages meets it, or the next read.
        failing.store(true, Ordering::SeqCst);
        drop(store.get(&key("b")).await);
        for name in ["a", "b"] {
            assert!(store.get(&key(name)).await.is_ok(), "{name}");
        }
        assert_eq!(store.health(), Ok(()));
        assert_eq!(store.write(pod("c")).await.expect("no write has failed").resource.revision(), Revision(3));
    }
}
