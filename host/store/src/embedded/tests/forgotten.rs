//! A system whose cache keeps returning data that a failed sync has not brought to the disk.

use std::sync::{Mutex, MutexGuard};

use super::*;

/// A disk and its cache. Clones are the same disk.
#[derive(Clone, Debug, Default)]
struct Shown(Arc<Mutex<Bytes>>);

#[derive(Debug, Default)]
struct Bytes {
    /// The content that reads return.
    shown: Vec<u8>,
    /// The content after a loss of power.
    kept: Vec<u8>,
    /// Writes that the system has not brought to the disk yet.
    dirty: Vec<Dirty>,
    /// Successful syncs before one fails; `None` if none fails.
    syncs_left: Option<u64>,
}

#[derive(Debug)]
enum Dirty {
    Length(usize),
    Write(usize, Vec<u8>),
}

impl Dirty {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Length(length) => bytes.resize(*length, 0),
            Self::Write(at, data) => {
                bytes.resize(bytes.len().max(at + data.len()), 0);
                bytes[*at..at + data.len()].copy_from_slice(data);
            }
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("small")
}

impl Shown {
    fn bytes(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().expect("nobody panics while holding it")
    }

    fn change(&self, change: Dirty) -> io::Result<()> {
        let mut bytes = self.bytes();
        change.apply(&mut bytes.shown);
        bytes.dirty.push(change);
        Ok(())
    }

    /// Opens the store on it. Without `forget`, the store trusts the cache.
    fn open(&self, forgets: bool) -> Result<EmbeddedStore, OpenError> {
        let disk = self.clone();
        let forget = move || {
            if forgets {
                let bytes = &mut *disk.bytes();
                bytes.shown.clone_from(&bytes.kept);
                bytes.dirty.iter().for_each(|change| change.apply(&mut bytes.shown));
            }
            Ok(())
        };
        EmbeddedStore::over_cached(self.clone(), forget, options())
    }

    fn lose_power(&self) {
        let bytes = &mut *self.bytes();
        bytes.dirty.clear();
        bytes.shown.clone_from(&bytes.kept);
    }
}

impl StorageBackend for Shown {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().shown.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes();
        let found = bytes.shown.get(index(offset)..index(offset) + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Dirty::Length(index(len)))
    }

    fn sync_data(&self) -> io::Result<()> {
        let bytes = &mut *self.bytes();
        let fails = bytes.syncs_left == Some(0);
        bytes.syncs_left = bytes.syncs_left.and_then(|left| left.checked_sub(1));
        for change in bytes.dirty.drain(..).filter(|_| !fails) {
            change.apply(&mut bytes.kept);
        }
        if fails { Err(io::Error::other("the cache was not written")) } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Dirty::Write(index(offset), data.to_vec()))
    }
}

/// A write-ahead log that is full after a few changes.
fn options() -> Options {
    Options { wal_bytes: 16 << 10, ..Options::default() }
}

/// Writes resources until a write is refused, and returns the acknowledged ones.
async fn write(store: &EmbeddedStore, life: &str) -> Vec<Arc<Resource>> {
    let mut acknowledged = Vec::new();
    for number in 0..12 {
        let mut document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{life}{number}")}});
        document["spec"] = "x".repeat(3000).into();
        match store.write(Write::Create { document }).await {
            Ok(written) => acknowledged.push(written.resource),
            Err(_) => break,
        }
    }
    acknowledged
}

/// Lets one sync fail, opens the store again on the same machine, writes, and cuts the power. Returns the
/// damage, if there is any; `None` if there were fewer syncs.
async fn one_failed_sync(syncs: u64, forgets: bool) -> Option<Result<(), String>> {
    let disk = Shown::default();
    let store = disk.open(forgets).expect("the disk works");
    disk.bytes().syncs_left = Some(syncs);
    let mut acknowledged = write(&store, "first").await;
    drop(store);
    if disk.bytes().syncs_left.is_some() {
        return None;
    }
    let again = async {
        let store = disk.open(forgets).map_err(|error| format!("when it is opened again: {error}"))?;
        acknowledged.extend(write(&store, "second").await);
        // As when process and machine go down together: nothing more arrives.
        disk.bytes().syncs_left = Some(0);
        drop(store);
        disk.lose_power();
        disk.bytes().syncs_left = None;
        let store = disk.open(forgets).map_err(|error| format!("after a loss of power: {error}"))?;
        for resource in acknowledged {
            if store.get(resource.key()).await.as_ref() != Ok(&resource) {
                return Err(format!("{} is lost", resource.key()));
            }
        }
        Ok(())
    };
    Some(again.await)
}

async fn every_failed_sync(forgets: bool) -> Vec<Result<(), String>> {
    let mut found = Vec::new();
    for syncs in 0.. {
        match one_failed_sync(syncs, forgets).await {
            Some(outcome) => found.push(outcome),
            None => break,
        }
    }
    found
}

/// S10: all acknowledged writes survive, and no partial one.
#[tokio::test]
async fn a_reopened_store_does_not_trust_data_that_a_failed_sync_dropped() {
    let found = every_failed_sync(true).await;
    assert!(found.len() > 12, "{found:?}");
    assert!(found.iter().all(Result::is_ok), "{found:?}");
    assert!(every_failed_sync(false).await.iter().any(Result::is_err), "the disk of this test can show a loss");
}
