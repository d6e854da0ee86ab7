//! The location of a store's bytes: a file, or a custom backend.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, StorageBackend, StorageError};

use super::files::{self, SizeLimitedFile};
use super::io_failure::{FailStopFile, IoFailure};
use super::layout::{Layout, Pages};
use super::overlay::Overlay;
use super::read_ahead::ReadAhead;

/// The cache of pages in this process: the inner pages of one or two gigabytes. The system caches the file as well.
pub(super) const CACHE_BYTES: usize = 8 << 20;

/// Drops the cache of a backend, so that later reads return its durable content.
pub(super) type DropCache = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// The location of a store's bytes.
pub(super) enum Location {
    File(PathBuf),
    Backend(Arc<dyn StorageBackend>, DropCache),
}

impl Location {
    /// Returns its name for messages.
    pub(super) fn name(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Backend(..) => Path::new("the backend"),
        }
    }

    /// Returns its length in bytes.
    pub(super) fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(path) => Ok(fs::metadata(path)?.len()),
            Self::Backend(backend, _) => backend.len(),
        }
    }

    /// Makes later reads return the content of the disk. After a failed sync, a system can keep returning
    /// data that never reached the disk.
    ///
    /// Unsynced writes are synced first. If another process has the file open, this only costs it some reads
    /// from disk.
    ///
    /// # Errors
    /// Errors of the sync; the system may report each only once.
    pub(super) fn sync_and_drop_cache(&self) -> io::Result<()> {
        match self {
            Self::File(path) => {
                // The first use of a user-supplied path: anything but a regular file is refused here.
                let file = homeostat_files::open(path)?;
                file.sync_data()?;
                forget(&file)
            }
            Self::Backend(backend, forget) => {
                backend.sync_data()?;
                forget()
            }
        }
    }

    /// Allocates the disk space of the write-ahead log, if it may have none, so that writes to it cannot fail
    /// on a full disk. A backend got its space when the store was created.
    ///
    /// # Errors
    /// Errors of the disk; the log is unchanged.
    pub(super) fn reserve(&self, open: &OpenFile) -> io::Result<()> {
        let Self::File(path) = self else { return Ok(()) };
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if open.layout.reserved_bytes() == 0 || files::reserve(&file, open.layout.reserved_bytes())? {
            return Ok(());
        }
        open.layout.rewrite_wal(&*open.file)
    }

    /// Starts to read the whole file into the page cache; stops when the result is dropped.
    pub(super) fn read_ahead(&self) -> Option<ReadAhead> {
        match self {
            Self::File(path) => Some(ReadAhead::of(path)),
            Self::Backend(..) => None,
        }
    }

    /// Opens the existing store.
    pub(super) fn open(&self) -> Result<OpenFile, DatabaseError> {
        OpenFile::over(self.file()?, CACHE_BYTES)
    }

    /// Opens the existing store without ever writing to it. Takes the same locks as [`Location::open`].
    pub(super) fn open_read_only(&self) -> Result<OpenFile, DatabaseError> {
        let file = match self.file() {
            // No process can write there, so reading needs no lock.
            Err(error)
                if is_read_only(&error)
                    && let Self::File(path) = self =>
            {
                Arc::new(BackendHandle(Arc::new(FileBackend::new(File::open(path)?)?)))
            }
            file => file?,
        };
        OpenFile::over(Arc::new(Overlay::over(file)?), CACHE_BYTES)
    }

    /// Returns the bytes of the store as a backend.
    pub(super) fn file(&self) -> Result<Arc<dyn StorageBackend>, DatabaseError> {
        Ok(match self {
            Self::File(path) => Arc::new(SizeLimitedFile::over(OpenOptions::new().read(true).write(true).open(path)?)?),
            Self::Backend(backend, _) => Arc::new(BackendHandle(Arc::clone(backend))),
        })
    }
}

fn is_read_only(error: &DatabaseError) -> bool {
    matches!(error, DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::ReadOnlyFilesystem)
}

/// Drops the page cache of a synced file. Data that a failed sync dropped counts as synced.
#[cfg(target_os = "linux")]
fn forget(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// Does nothing: this system has no such call.
#[cfg(not(target_os = "linux"))]
fn forget(_: &File) -> io::Result<()> {
    Ok(())
}

/// An open file.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// The pages, without the changes that are only in the write-ahead log.
    pub(super) database: Database,
    /// The raw file with the write-ahead log. Only the pages are wrapped to check for failures.
    pub(super) file: Arc<dyn StorageBackend>,
    pub(super) layout: Layout,
    /// The failure state of the file.
    pub(super) failure: IoFailure,
}

/// An open file that is ready for a store.
#[derive(Debug)]
pub(super) struct OpenStore {
    pub(super) open: OpenFile,
    /// Why it is opened without writing: the disk is full, so the content of its write-ahead log is in the
    /// pages only in memory.
    pub(super) out_of_space: Option<String>,
    /// Whether the previous process did not close it: its write-ahead log had changes that its pages lacked.
    pub(super) was_not_closed: bool,
}

impl From<OpenFile> for OpenStore {
    fn from(open: OpenFile) -> Self {
        Self { open, out_of_space: None, was_not_closed: false }
    }
}

impl OpenFile {
    /// Opens the store in a file, with a page cache of that size.
    pub(super) fn over(file: Arc<dyn StorageBackend>, cache_bytes: usize) -> Result<Self, DatabaseError> {
        let layout = Layout::read(&*file)?;
        let latch = IoFailure::default();
        let latched = Arc::new(FailStopFile::over(Arc::clone(&file), latch.clone()));
        let pages = Pages::of(latched, layout);
        if pages.len()? == 0 {
            // redb would create a database of its own there.
            return Err(DatabaseError::from(io::Error::from(io::ErrorKind::UnexpectedEof)));
        }
        let database = Builder::new().set_cache_size(cache_bytes).create_with_backend(pages)?;
        Ok(Self { database, file, layout, failure: latch })
    }

    /// Creates an empty database in an empty file.
    pub(super) fn create(
        file: Arc<dyn StorageBackend>,
        layout: Layout,
        cache_bytes: usize,
    ) -> Result<Database, DatabaseError> {
        layout.write(&*file)?;
        Builder::new().set_cache_size(cache_bytes).create_with_backend(Pages::of(file, layout))
    }
}

/// A handle to a backend that is opened several times in turn. Closing a handle does not close the backend,
/// and a handle takes no locks.
#[derive(Debug)]
struct BackendHandle(Arc<dyn StorageBackend>);

impl StorageBackend for BackendHandle {
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
