//! Nothing is written any more after a write that failed.
//!
//! What the disk holds is then not known: a sync that failed may have dropped what was written before, and a later one that succeeds does
//! not bring it back. The engine would still put its pages in order when it is closed, and what it builds on would not be there.

use std::io;
use std::sync::{Arc, OnceLock};

use redb::StorageBackend;

use super::files;

/// Whether a write, a sync or a change of the length has failed. Clones are the same latch.
#[derive(Debug, Clone, Default)]
pub(super) struct Latch(Arc<OnceLock<(io::ErrorKind, String)>>);

impl Latch {
    /// Returns whether nothing can be written any more.
    pub(super) fn is_shut(&self) -> bool {
        self.0.get().is_some()
    }

    fn pass(&self, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if let Some((kind, error)) = self.0.get() {
            return Err(io::Error::new(*kind, format!("an earlier write has failed: {error}")));
        }
        write().inspect_err(|error| {
            // Another one may have failed meanwhile: then the first one stands.
            self.0.set((error.kind(), error.to_string())).ok();
        })
    }
}

/// A file that is not written any more once its latch is shut.
#[derive(Debug)]
pub(super) struct Latched {
    file: Arc<dyn StorageBackend>,
    latch: Latch,
}

impl Latched {
    pub(super) fn over(file: Arc<dyn StorageBackend>, latch: Latch) -> Self {
        Self { file, latch }
    }
}

impl StorageBackend for Latched {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.latch.pass(|| self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.latch.pass(|| self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.latch.pass(|| self.file.write(offset, data))
    }

    files::pass_on_locks!();
}
