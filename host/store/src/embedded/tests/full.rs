//! A disk that is full when the store is opened.

use std::io::ErrorKind;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use super::*;
use crate::{Source, SystemSource};

/// A file on a disk that has room for it, or not.
#[derive(Clone, Debug)]
struct Full {
    file: Arc<FileBackend>,
    /// What writes are refused with.
    reason: ErrorKind,
    is_full: Arc<AtomicBool>,
    /// Writes that were asked for while there was no room.
    asked: Arc<AtomicU64>,
}

impl Full {
    fn check(&self) -> io::Result<()> {
        if self.is_full.load(Ordering::SeqCst) {
            self.asked.fetch_add(1, Ordering::SeqCst);
            return Err(self.reason.into());
        }
        Ok(())
    }
}

impl StorageBackend for Full {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.file.write(offset, data)
    }
}

/// A clock that a test moves.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl Source for Clock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + self.0.load(Ordering::SeqCst))
    }

    fn uid(&self) -> String {
        SystemSource.uid()
    }

    fn suffix(&self) -> String {
        SystemSource.suffix()
    }
}

/// S10
#[tokio::test]
async fn a_disk_without_room_for_the_journal_is_read_until_there_is_room() {
    for reason in [ErrorKind::StorageFull, ErrorKind::ReadOnlyFilesystem] {
        opened_without_room(reason).await;
    }
}

async fn opened_without_room(reason: ErrorKind) {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, crashed) = (folder.path().join("store"), folder.path().join("crashed"));
    let store = EmbeddedStore::open(&path, Options::default()).expect("a new store");
    for name in ["a", "b"] {
        store.write(pod(name)).await.expect("the disk works");
    }
    // What was written is in the journal, and nowhere else.
    fs::copy(&path, &crashed).expect("there is room");
    drop(store);
    let before = fs::read(&crashed).expect("it is there");

    let file = OpenOptions::new().read(true).write(true).open(&crashed).expect("it is there");
    let file = Arc::new(FileBackend::new(file).expect("it is a file"));
    let disk = Full { file, reason, is_full: Arc::new(AtomicBool::new(true)), asked: Arc::default() };
    let clock = Arc::new(Clock::default());
    let source: Arc<dyn Source> = Arc::<Clock>::clone(&clock);
    let store = EmbeddedStore::over(disk.clone(), Options { source, ..Options::default() }).expect("it can be read");
    assert_eq!(store.revision(), Revision(2));
    for name in ["a", "b"] {
        assert!(store.get(&key(name)).await.is_ok(), "{name}");
    }
    let mut watch = store.watch(Scope::Everything, Revision::ZERO).await.expect("from the beginning");
    assert_eq!(watch.next().await.expect("it is there").revision, Revision(1));

    // It says so, and does not try again with every write.
    let asked = disk.asked.load(Ordering::SeqCst);
    let refused = store.write(pod("c")).await.expect_err("there is no room");
    assert_eq!(store.health(), Err(refused.clone()));
    let said = io::Error::from(reason).to_string();
    assert!(matches!(&refused, Error::Unavailable { reason } if reason.contains(&said)), "{refused}");
    assert_eq!(disk.asked.load(Ordering::SeqCst), asked);
    clock.0.fetch_add(1, Ordering::SeqCst);
    assert!(store.write(pod("c")).await.is_err());
    assert!(disk.asked.load(Ordering::SeqCst) > asked);
    assert!(store.get(&key("b")).await.is_ok());
    assert!(fs::read(&crashed).expect("it is there") == before, "nothing was written");

    disk.is_full.store(false, Ordering::SeqCst);
    clock.0.fetch_add(1, Ordering::SeqCst);
    assert_eq!(store.write(pod("c")).await.expect("there is room").resource.revision(), Revision(3));
    assert_eq!(store.health(), Ok(()));
    for revision in 2..=3 {
        assert_eq!(watch.next().await.expect("it is there").revision, Revision(revision));
    }
    store.close().await;
    let store = EmbeddedStore::open(&crashed, Options::default()).expect("a store");
    assert_eq!(store.revision(), Revision(3));
}
