//! The failure state of an open file, and a wrapper that stops writing after a failure.
//!
//! After a failed write all further writes are refused, because the content of the disk is unknown. A failed
//! sync may have dropped earlier writes, and a later sync that succeeds does not bring them back. On close,
//! redb would still write its pages, on top of data that is not there. After a failed read redb returns only
//! what it has in memory.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use redb::StorageBackend;

use super::files;

/// Whether a read, a write, a sync or a change of the length has failed. Clones share their state.
#[derive(Debug, Clone, Default)]
pub(super) struct IoFailure(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The first failed write, sync or change of the length.
    write: OnceLock<(io::ErrorKind, String)>,
    /// Whether a sync, or a write together with its sync, has failed. Held during each of them.
    sync: Mutex<bool>,
    read: AtomicBool,
}

impl IoFailure {
    /// Returns whether writes are refused.
    pub(super) fn has_write_failed(&self) -> bool {
        self.0.write.get().is_some()
    }

    /// Returns whether redb has given up on the file: after a failed read or write it returns only what it
    /// has in memory.
    pub(super) fn has_failed(&self) -> bool {
        self.has_write_failed() || self.0.read.load(Ordering::SeqCst)
    }

    /// Returns the error of the first failed write.
    pub(super) fn write_error(&self) -> Option<&str> {
        self.0.write.get().map(|(_, error)| error.as_str())
    }

    /// Returns whether a sync has failed: then all earlier writes may be lost.
    pub(super) fn has_sync_failed(&self) -> bool {
        *self.0.sync.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a write with its sync, one at a time. A failed sync can drop the writes of others, and the system
    /// reports it only once.
    ///
    /// So a caller that relies on a sync runs its writes and the sync in one call. After one sync has failed,
    /// all further calls fail.
    ///
    /// # Errors
    /// Errors of `write_and_sync`; after a failure, an error that names it.
    pub(super) fn run_sync(&self, write_and_sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut has_failed = self.0.sync.lock().unwrap_or_else(PoisonError::into_inner);
        self.run_write(|| write_and_sync().inspect_err(|_| *has_failed = true))
    }

    fn run_write(&self, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if let Some((kind, error)) = self.0.write.get() {
            return Err(io::Error::new(*kind, format!("an earlier write has failed: {error}")));
        }
        write().inspect_err(|error| {
            // Another write may have failed meanwhile: the first error is kept.
            self.0.write.set((error.kind(), error.to_string())).ok();
        })
    }
}

/// A file that refuses writes after a failed write.
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
