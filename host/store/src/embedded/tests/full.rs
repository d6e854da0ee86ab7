//! A disk that is full when the store is opened.

use std::io::ErrorKind;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use super::*;
use crate::{Source, SystemSource};

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

    // Whether there is no room, and how often it was asked for.
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
    let source: Arc<dyn Source> = Arc::<Clock>::clone(&clock);
    let store = EmbeddedStore::over(disk, Options { source, ..Options::default() }).expect("it can be read");
    assert_eq!(store.revision(), Revision(2));
    for name in ["a", "b"] {
        assert!(store.get(&key(name)).await.is_ok(), "{name}");
    }
    let mut watch = store.watch(Scope::Everything, Revision::ZERO).await.expect("from the beginning");
    assert_eq!(watch.next().await.expect("it is there").revision, Revision(1));

    // It says so, and does not try again with every write.
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
    assert_eq!(store.revision(), Revision(3));
}
