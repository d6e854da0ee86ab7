//! A full disk: when the store is opened, and while it is open.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use super::*;
use crate::{ClockAndIds, SystemClockAndIds};

/// A clock that a test sets.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl ClockAndIds for Clock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + self.0.load(Ordering::SeqCst))
    }

    fn uid(&self) -> String {
        SystemClockAndIds.uid()
    }

    fn suffix(&self) -> String {
        SystemClockAndIds.suffix()
    }
}

/// S10: all acknowledged writes survive, and no partial one.
#[tokio::test]
async fn a_disk_without_room_for_the_journal_is_read_until_there_is_room() {
    for reason in [ErrorKind::StorageFull, ErrorKind::ReadOnlyFilesystem, ErrorKind::FileTooLarge] {
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
    // The writes are only in the write-ahead log.
    fs::copy(&path, &crashed).expect("there is room");
    drop(store);
    let before = fs::read(&crashed).expect("it is there");

    // Whether the disk is full, and how many writes it refused.
    let (is_full, asked) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicU64>::default());
    let told = (Arc::clone(&is_full), Arc::clone(&asked));
    let disk = Disk::at(&crashed, move |ask| {
        if matches!(ask, Ask::Write(_) | Ask::SetLength) && told.0.load(Ordering::SeqCst) {
            told.1.fetch_add(1, Ordering::SeqCst);
            return Err(reason.into());
        }
        Ok(())
    });
    let clock = Arc::new(Clock::default());
    let source: Arc<dyn ClockAndIds> = Arc::<Clock>::clone(&clock);
    let store = EmbeddedStore::over(disk, Options { clock: source, ..Options::default() }).expect("it can be read");
    assert_eq!(store.revision(&Scope::Everything).await.unwrap(), Revision(2));
    for name in ["a", "b"] {
        assert!(store.get(&key(name)).await.is_ok(), "{name}");
    }
    let mut watch = store.watch(Scope::Everything, Revision::ZERO).await.expect("from the beginning");
    assert_eq!(watch.next().await.expect("it is there").revision, Revision(1));

    // It reports the reason, and does not retry with every write.
    let before_writing = asked.load(Ordering::SeqCst);
    let refused = store.write(pod("c")).await.expect_err("there is no room");
    assert_eq!(store.health(), Err(refused.clone()));
    let said = io::Error::from(reason).to_string();
    assert!(matches!(&refused, Error::Unavailable { reason } if reason.contains(&said)), "{refused}");
    assert_eq!(asked.load(Ordering::SeqCst), before_writing);
    clock.0.fetch_add(1, Ordering::SeqCst);
    assert!(store.write(pod("c")).await.is_err());
    assert!(asked.load(Ordering::SeqCst) > before_writing);
    assert!(store.get(&key("b")).await.is_ok());
    assert!(fs::read(&crashed).expect("it is there") == before, "nothing was written");

    is_full.store(false, Ordering::SeqCst);
    clock.0.fetch_add(1, Ordering::SeqCst);
    assert_eq!(store.write(pod("c")).await.expect("there is room").resource.revision(), Revision(3));
    assert_eq!(store.health(), Ok(()));
    for revision in 2..=3 {
        assert_eq!(watch.next().await.expect("it is there").revision, Revision(revision));
    }
    store.close().await;
    let store = EmbeddedStore::open(&crashed, Options::default()).expect("a store");
    assert_eq!(store.revision(&Scope::Everything).await.unwrap(), Revision(3));
}

/// Allocation unit of the disk.
const BLOCK: u64 = 4096;
/// Length of the write-ahead log: short, so that checkpoints are frequent.
const JOURNAL_BYTES: u64 = 16 * BLOCK;

/// A disk that allocates space on write, as files do, up to a limit.
#[derive(Clone, Debug, Default)]
struct Small(Arc<Mutex<Blocks>>);

#[derive(Debug, Default)]
struct Blocks {
    bytes: Vec<u8>,
    taken: BTreeSet<u64>,
    taken_max: usize,
}

impl Small {
    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.0.lock().expect("nobody panics while holding the disk")
    }

    /// Leaves space for so many more blocks.
    fn leave(&self, blocks: usize) {
        let mut disk = self.blocks();
        disk.taken_max = disk.taken.len() + blocks;
    }
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).expect("the disk is small")
}

impl StorageBackend for Small {
    fn len(&self) -> io::Result<u64> {
        Ok(self.blocks().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.blocks().bytes[at(offset)..at(offset) + out.len()]);
        Ok(())
    }

    /// Allocates nothing: only writes do.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = self.blocks();
        disk.bytes.resize(at(len), 0);
        disk.taken.retain(|block| block * BLOCK < len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.blocks();
        let end = offset + data.len() as u64;
        let wanted: Vec<u64> =
            (offset / BLOCK..end.div_ceil(BLOCK)).filter(|block| !disk.taken.contains(block)).collect();
        if disk.taken.len() + wanted.len() > disk.taken_max {
            return Err(ErrorKind::StorageFull.into());
        }
        disk.taken.extend(wanted);
        let length = disk.bytes.len().max(at(end));
        disk.bytes.resize(length, 0);
        disk.bytes[at(offset)..at(end)].copy_from_slice(data);
        Ok(())
    }
}

fn large(name: &str) -> Write {
    let metadata = json!({ "name": name });
    Write::Create {
        document: json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": "x".repeat(10_000) }),
    }
}

/// S10: all acknowledged writes survive, and no partial one.
#[tokio::test]
async fn a_full_disk_recovers_without_restart() {
    let disk = Small::default();
    disk.leave(1000);
    let clock = Arc::new(Clock::default());
    let source: Arc<dyn ClockAndIds> = Arc::<Clock>::clone(&clock);
    let options = Options { wal_bytes: JOURNAL_BYTES, clock: source, ..Options::default() };
    let store = EmbeddedStore::over(disk.clone(), options.clone()).expect("there is room");
    let mut names = Vec::new();
    for round in 0..10 {
        // The disk is full. Writes go on until the write-ahead log is full, and maybe a little longer.
        disk.leave(round % 3);
        let refused = loop {
            let name = format!("pod-{round}-{}", names.len());
            match store.write(large(&name)).await {
                Ok(_) => names.push(name),
                Err(refused) => break refused,
            }
        };
        let said = io::Error::from(ErrorKind::StorageFull).to_string();
        assert!(matches!(&refused, Error::Unavailable { reason } if reason.contains(&said)), "{refused}");
        assert!(store.health().is_err(), "round {round}");
        for name in &names {
            assert!(store.get(&key(name)).await.is_ok(), "round {round}: {name} was acknowledged");
        }
        // The disk has space again.
        disk.leave(1000);
        clock.0.fetch_add(1, Ordering::SeqCst);
        let name = format!("after-{round}");
        store.write(large(&name)).await.unwrap_or_else(|error| panic!("round {round}: there is room: {error}"));
        names.push(name);
        assert_eq!(store.health(), Ok(()));
    }
    store.close().await;
    let store = EmbeddedStore::over(disk, options).expect("it is a store");
    for name in &names {
        assert!(store.get(&key(name)).await.is_ok(), "{name} was acknowledged");
    }
    assert_eq!(
        store.revision(&Scope::Everything).await.unwrap(),
        Revision(names.len() as u64),
        "nothing else was kept"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn the_journal_of_a_file_has_its_room_on_the_disk_also_of_one_made_without() {
    use std::os::unix::fs::MetadataExt;

    let folder = tempfile::tempdir().expect("a folder");
    let (path, sparse) = (folder.path().join("store"), folder.path().join("sparse"));
    let taken = |path: &Path| fs::metadata(path).expect("it is there").blocks() * 512;
    let journal = Options::default().wal_bytes;
    drop(EmbeddedStore::open(&path, Options::default()).expect("a new store"));
    assert!(taken(&path) >= journal, "{} bytes", taken(&path));

    // As older programs created it.
    let bytes = fs::read(&path).expect("it is there");
    let copy = Disk::at(&sparse, |_| Ok(()));
    copy.set_len(bytes.len() as u64).expect("there is room");
    for (number, block) in bytes.chunks(at(BLOCK)).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            copy.write(number as u64 * BLOCK, block).expect("there is room");
        }
    }
    drop(copy);
    assert!(taken(&sparse) < journal, "{} bytes", taken(&sparse));
    drop(EmbeddedStore::open(&sparse, Options::default()).expect("a store"));
    assert!(taken(&sparse) >= journal, "{} bytes", taken(&sparse));
}
