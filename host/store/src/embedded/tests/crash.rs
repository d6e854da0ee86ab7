//! Crashes of the machine between any two writes to its disk.

use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;
use redb::backends::FileBackend;
use serde_json::json;

use super::key;
use crate::embedded::location::{Location, OpenFile};
use crate::embedded::{EmbeddedStore, fsck, open};
use crate::{
    Change, IndexTerm, LabelRequirement, Options, Precondition, Query, Revision, Scope, Selector, Store, Write,
};

/// The operations on a disk, in order.
#[derive(Debug, Clone)]
enum Act {
    Write(u64, Vec<u8>),
    Length(u64),
    Sync,
    /// The store has acknowledged a write.
    Answered(Revision),
}

/// A file that records its operations.
#[derive(Debug)]
struct Recorder {
    file: FileBackend,
    acts: Arc<Mutex<Vec<Act>>>,
}

impl Recorder {
    fn note(&self, act: Act) {
        self.acts.lock().expect("nobody panics while holding it").push(act);
    }
}

impl StorageBackend for Recorder {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.note(Act::Length(len));
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.note(Act::Sync);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.note(Act::Write(offset, data.to_vec()));
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// Returns the content of a disk after some operations. Operations since the last sync arrive all, or each by
/// a coin toss.
fn image(start: &[u8], acts: &[Act], lucky: impl Fn(usize) -> bool) -> Vec<u8> {
    let synced = acts.iter().rposition(|act| matches!(act, Act::Sync)).unwrap_or(0);
    let mut bytes = start.to_vec();
    for (_, act) in acts.iter().enumerate().filter(|(number, _)| *number < synced || lucky(*number)) {
        match act {
            Act::Length(len) => bytes.resize(usize::try_from(*len).expect("small"), 0),
            Act::Write(offset, data) => {
                let offset = usize::try_from(*offset).expect("small");
                bytes.resize(bytes.len().max(offset + data.len()), 0);
                bytes[offset..offset + data.len()].copy_from_slice(data);
            }
            Act::Sync | Act::Answered(_) => {}
        }
    }
    bytes
}

/// Writes to a store on a recording disk; every transaction compacts history.
async fn recorded(path: &Path, options: &Options) -> (Vec<u8>, Vec<Act>) {
    drop(open::store(&Location::File(path.to_owned()), options).expect("a new store"));
    let start = std::fs::read(path).expect("it was made");
    let acts = Arc::default();
    let file = OpenOptions::new().read(true).write(true).open(path).expect("it was made");
    let file = FileBackend::new(file).expect("it is a file");
    let recorder = Recorder { file, acts: Arc::clone(&acts) };
    let open = OpenFile::over(Arc::new(recorder), 1 << 20).expect("it is a store");
    let store = EmbeddedStore::start(Location::File(path.to_owned()), open, options.clone()).expect("it is a store");
    for round in 0..12_u64 {
        // The index is built, dropped and built again beside the writes.
        match round {
            0 | 9 => store.shared.schemas.set_indexes(key("a").kind(), &[IndexTerm::Label("app".to_owned())]),
            6 => store.shared.schemas.set_indexes(key("a").kind(), &[]),
            _ => {}
        }
        let name = format!("n{}", round % 3);
        let write = match round / 3 {
            0 | 3 => labelled(&name),
            1 => {
                let change = Change::Merge(json!({"spec": "x".repeat(5000)}));
                Write::Patch { key: key(&name), change, precondition: Precondition::default() }
            }
            _ => {
                let (precondition, propagation) = Default::default();
                Write::Delete { key: key(&name), precondition, propagation, grace_seconds: None }
            }
        };
        let answered = store.write(write).await.expect("the disk works").resource.revision();
        acts.lock().expect("nobody panics while holding it").push(Act::Answered(answered));
    }
    let acts = acts.lock().expect("nobody panics while holding it").clone();
    drop(store);
    (start, acts)
}

fn labelled(name: &str) -> Write {
    let metadata = json!({"name": name, "labels": {"app": name}});
    Write::Create { document: json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}) }
}

/// Opens the file after a crash, and checks that no acknowledged write is lost and none is half done.
async fn survives(path: &Path, options: &Options, acts: &[Act]) {
    let answered =
        acts.iter().rev().find_map(|act| if let Act::Answered(revision) = act { Some(*revision) } else { None });
    let answered = answered.unwrap_or(Revision::ZERO);
    let found = fsck(path).expect("it can be read");
    assert!(found.is_sound(), "{found:?}");
    let store = EmbeddedStore::open(path, options.clone()).expect("it can be opened");
    let revision = store.revision(&Scope::Everything).await.unwrap();
    assert!(revision == answered || revision == answered.next(), "{revision} after {answered} was answered");
    let listed = store.list(&Query::all(key("a").kind().clone())).await.expect("it can be read");
    let expected = match revision.0 {
        count @ 0..=3 => count,
        4..=6 => 3,
        count @ 7..=9 => 9 - count,
        count => count - 9,
    };
    assert_eq!((listed.revision, listed.items.len() as u64), (revision, expected));
    for pod in &listed.items {
        let labels = vec![LabelRequirement::Equals("app".to_owned(), pod.key().name().to_owned())];
        let selector = Selector { labels, ..Selector::default() };
        let found = store.list(&Query { selector, ..Query::all(pod.key().kind().clone()) }).await;
        assert_eq!(found.expect("it can be read").items, std::slice::from_ref(pod));
    }
    let mut watch = store.watch(Scope::Everything, found.oldest).await.expect("from the oldest");
    for next in found.oldest.0 + 1..=revision.0 {
        assert_eq!(watch.next().await.expect("it is in the log").revision, Revision(next));
    }
    store.close().await;
}

/// S1, S9, S10: revisions only grow; no event is lost silently; all acknowledged writes survive, and no
/// partial one.
#[tokio::test]
async fn a_crash_between_any_two_writes_of_the_disk_leaves_a_sound_store() {
    // Without a write-ahead log, and with one that is full after a few changes.
    for journal_bytes in [0, 16 << 10] {
        survives_everything(&Options { history_max: 2, wal_bytes: journal_bytes, ..Options::default() }).await;
    }
}

async fn survives_everything(options: &Options) {
    let folder = tempfile::tempdir().expect("a folder");
    let (start, acts) = recorded(&folder.path().join("store"), options).await;
    let writes = acts.iter().filter(|act| matches!(act, Act::Write(..))).count();
    assert!(writes > 30, "{writes}");
    for crash in (1..acts.len()).step_by(3) {
        let happened = &acts[..crash];
        let coin = |number: usize| {
            let mut hasher = DefaultHasher::new();
            (crash, number).hash(&mut hasher);
            hasher.finish().is_multiple_of(2)
        };
        for (name, bytes) in [("all", image(&start, happened, |_| true)), ("some", image(&start, happened, coin))] {
            let path = folder.path().join(format!("{crash}-{name}"));
            std::fs::write(&path, bytes).expect("it can be written");
            survives(&path, options, happened).await;
            std::fs::remove_file(&path).expect("it is there");
        }
    }
}
