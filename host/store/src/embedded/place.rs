//! Where the bytes of a store are: in a file, or wherever a backend keeps them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, StorageBackend, StorageError};

use super::ahead::ReadAhead;
use super::files::{self, SizeLimitedFile};
use super::latch::{FailStopFile, IoFailure};
use super::layout::{Layout, Pages};
use super::probe::Overlay;

/// Pages that are kept in memory: 128 MiB.
pub(super) const CACHE_BYTES: usize = 128 << 20;

/// Lets go of what is kept of a place in memory, so that what is read from then on is what the place has.
pub(super) type DropCache = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// Where the bytes of a store are.
pub(super) enum Location {
    File(PathBuf),
    Backend(Arc<dyn StorageBackend>, DropCache),
}

impl Location {
    /// Returns what the place is called before a person.
    pub(super) fn name(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Backend(..) => Path::new("the backend"),
        }
    }

    /// Returns how many bytes are there.
    pub(super) fn len(&self) -> io::Result<u64> {
        match self {
            Self::File(path) => Ok(fs::metadata(path)?.len()),
            Self::Backend(backend, _) => backend.len(),
        }
    }

    /// Makes what is read from now on be what the disk has: after a sync that failed, a system can go on to show what never got there.
    ///
    /// What was written and not synced is synced first. Where somebody else has the place open, this costs them reads of the disk and
    /// nothing else.
    ///
    /// # Errors
    /// What the sync answers; the next time, it may have nothing left to answer.
    pub(super) fn sync_and_drop_cache(&self) -> io::Result<()> {
        match self {
            Self::File(path) => {
                // The first that is done with a path that people name: what is no regular file is refused here.
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

    /// Gives the journal its room on the disk, where it may have none: a write of it is not to fail because something else took the last.
    /// A backend has got it when the store was made.
    ///
    /// # Errors
    /// What the disk answers; the journal is as it was.
    pub(super) fn reserve(&self, open: &OpenFile) -> io::Result<()> {
        let Self::File(path) = self else { return Ok(()) };
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if open.layout.reserved_bytes() == 0 || files::reserve(&file, open.layout.reserved_bytes())? {
            return Ok(());
        }
        open.layout.rewrite_wal(&*open.file)
    }

    /// Begins to read all of it into the memory of the system, for as long as what is returned is there.
    pub(super) fn read_ahead(&self) -> Option<ReadAhead> {
        match self {
            Self::File(path) => Some(ReadAhead::of(path)),
            Self::Backend(..) => None,
        }
    }

    /// Opens what is there.
    pub(super) fn open(&self) -> Result<OpenFile, DatabaseError> {
        OpenFile::over(self.file()?, CACHE_BYTES)
    }

    /// Opens what is there so that the place is never written. Takes the same locks as [`Location::open`].
    pub(super) fn open_read_only(&self) -> Result<OpenFile, DatabaseError> {
        let file = match self.file() {
            // Nobody can write there: what is read needs no lock.
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

    /// Returns the bytes that are there.
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

/// Lets go of what the system keeps of a file that was synced. What a failed sync has dropped counts as synced.
#[cfg(target_os = "linux")]
fn forget(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// Nothing: this system has no way to ask for it.
#[cfg(not(target_os = "linux"))]
fn forget(_: &File) -> io::Result<()> {
    Ok(())
}

/// A place that is open.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// The pages. What is in the journal is not in them yet.
    pub(super) database: Database,
    /// All of it, with the journal; the pages go through the latch.
    pub(super) file: Arc<dyn StorageBackend>,
    pub(super) layout: Layout,
    /// Whether something of it has failed.
    pub(super) failure: IoFailure,
}

/// A place that is open for a store.
#[derive(Debug)]
pub(super) struct OpenStore {
    pub(super) open: OpenFile,
    /// Why it is never written: there is no room for what is in its journal, which is in the pages in memory alone.
    pub(super) out_of_space: Option<String>,
    /// Whether it was not closed the last time: its journal had changes that its pages had not.
    pub(super) was_not_closed: bool,
}

impl From<OpenFile> for OpenStore {
    fn from(open: OpenFile) -> Self {
        Self { open, out_of_space: None, was_not_closed: false }
    }
}

impl OpenFile {
    /// Opens the store in a file that keeps up to so many bytes of its pages in memory.
    pub(super) fn over(file: Arc<dyn StorageBackend>, cache_bytes: usize) -> Result<Self, DatabaseError> {
        let layout = Layout::read(&*file)?;
        let latch = IoFailure::default();
        let latched = Arc::new(FailStopFile::over(Arc::clone(&file), latch.clone()));
        let pages = Pages::of(latched, layout);
        if pages.len()? == 0 {
            // The engine would make a database of its own there.
            return Err(DatabaseError::from(io::Error::from(io::ErrorKind::UnexpectedEof)));
        }
        let database = Builder::new().set_cache_size(cache_bytes).create_with_backend(pages)?;
        Ok(Self { database, file, layout, failure: latch })
    }

    /// Makes an empty database in an empty file.
    pub(super) fn create(
        file: Arc<dyn StorageBackend>,
        layout: Layout,
        cache_bytes: usize,
    ) -> Result<Database, DatabaseError> {
        layout.write(&*file)?;
        Builder::new().set_cache_size(cache_bytes).create_with_backend(Pages::of(file, layout))
    }
}

/// One use of a backend, of which there can be several in turn: the end of one does not close it, and none takes a lock.
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
