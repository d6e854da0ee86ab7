//! What has failed of a place that is open, and what is no longer done because of it.
//!
//! After a write that failed nothing is written any more: what the disk holds is then not known. A sync that failed may have dropped what was
//! written before, and a later one that succeeds does not bring it back. The engine would still put its pages in order when it is closed, and
//! what it builds on would not be there. After a read that failed the engine answers nothing that is not in memory.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use redb::StorageBackend;

use super::files;

/// Whether a read, a write, a sync or a change of the length has failed. Clones are the same latch.
#[derive(Debug, Clone, Default)]
pub(super) struct IoFailure(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The first write, sync or change of the length that has failed.
    write: OnceLock<(io::ErrorKind, String)>,
    /// Whether one has failed that ends with a sync. Held while one runs.
    sync: Mutex<bool>,
    read: AtomicBool,
}

impl IoFailure {
    /// Returns whether nothing can be written any more.
    pub(super) fn has_write_failed(&self) -> bool {
        self.0.write.get().is_some()
    }

    /// Returns whether the engine has given up on its place: after one failed read or write it answers nothing that is not in memory.
    pub(super) fn has_failed(&self) -> bool {
        self.has_write_failed() || self.0.read.load(Ordering::SeqCst)
    }

    /// Returns what the first write that failed has answered.
    pub(super) fn write_error(&self) -> Option<&str> {
        self.0.write.get().map(|(_, error)| error.as_str())
    }

    /// Returns whether something has failed that ends with a sync: then nobody knows what became of all that was written before.
    pub(super) fn has_sync_failed(&self) -> bool {
        *self.0.sync.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs what ends with a sync, one at a time: one that fails may take along what others have written, and the system tells of it once.
    ///
    /// So whoever relies on a sync writes and syncs in one call of this, and after one has failed nobody relies on any.
    ///
    /// # Errors
    /// What it answers; after a failure, that there was one.
    pub(super) fn run_sync(&self, write_and_sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut has_failed = self.0.sync.lock().unwrap_or_else(PoisonError::into_inner);
        self.run_write(|| write_and_sync().inspect_err(|_| *has_failed = true))
    }

    fn run_write(&self, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if let Some((kind, error)) = self.0.write.get() {
            return Err(io::Error::new(*kind, format!("an earlier write has failed: {error}")));
        }
        write().inspect_err(|error| {
            // Another one may have failed meanwhile: then the first one stands.
            self.0.write.set((error.kind(), error.to_string())).ok();
        })
    }
}

/// A file that is not written any more once its latch is shut.
#[derive(Debug)]
pub(super) struct FailStopFile {
    file: Arc<dyn StorageBackend>,
    failure: IoFailure,
}

impl FailStopFile {
    pub(super) fn over(file: Arc<dyn StorageBackend>, failure: IoFailure) -> Self {
        Self { file, failure }
    }

    fn check_read<T>(&self, read: io::Result<T>) -> io::Result<T> {
        read.inspect_err(|_| self.failure.0.read.store(true, Ordering::SeqCst))
    }
}

impl StorageBackend for FailStopFile {
    fn len(&self) -> io::Result<u64> {
        self.check_read(self.file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check_read(self.file.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.failure.run_write(|| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.failure.run_sync(|| self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.failure.run_write(|| self.file.write(offset, data))
    }

    files::pass_on_locks!();
}

#[cfg(test)]
mod tests;
