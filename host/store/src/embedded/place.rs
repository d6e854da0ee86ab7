//! Where the bytes of a store are: in a file, or wherever a backend keeps them.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, StorageBackend};

use super::probe::Overlay;

/// Pages that are kept in memory: 128 MiB.
pub(super) const CACHE_BYTES: usize = 128 << 20;

/// Where the bytes of a store are.
#[derive(Debug)]
pub(super) enum Place {
    File(PathBuf),
    Backend(Arc<dyn StorageBackend>),
}

impl Place {
    /// Returns what the place is called before a person.
    pub(super) fn name(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Backend(_) => Path::new("the backend"),
        }
    }

    /// Returns how many bytes are there.
    pub(super) fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(path) => Ok(fs::metadata(path)?.len()),
            Self::Backend(backend) => backend.len(),
        }
    }

    /// Opens the database that is there. An empty backend gets an empty database; an empty file does not.
    pub(super) fn open(&self) -> Result<Database, DatabaseError> {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        match self {
            Self::File(path) => builder.open(path),
            Self::Backend(backend) => builder.create_with_backend(Handle(Arc::clone(backend))),
        }
    }

    /// Opens the database that is there so that the place is never written. Takes the same locks as [`Place::open`].
    pub(super) fn open_read_only(&self) -> Result<Database, DatabaseError> {
        let below: Box<dyn StorageBackend> = match self {
            Self::File(path) => Box::new(FileBackend::new(OpenOptions::new().read(true).write(true).open(path)?)?),
            Self::Backend(backend) => Box::new(Handle(Arc::clone(backend))),
        };
        Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(Overlay::over(below)?)
    }
}

/// One use of a backend, of which there can be several in turn: the end of one does not close it, and none takes a lock.
#[derive(Debug)]
struct Handle(Arc<dyn StorageBackend>);

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}
