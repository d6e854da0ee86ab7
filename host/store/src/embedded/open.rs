//! Opens a file: checks and locks it, and creates a new store atomically.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Once;

use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableError};

use super::FORMAT;
use super::codec::{LOG, META, META_COMPACTED, META_FORMAT, META_ID, META_REVISION, OWNERS, RESOURCES};
use super::files::{self, SizeLimitedFile};
use super::layout::Layout;
use super::location::{CACHE_BYTES, Location, OpenFile, OpenStore};
use super::replay::WalReplay;
use crate::{Options, Revision};

/// Why a store could not be opened. The file is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another part of this one, has the store open.
    #[error("{} is in use: only one process at a time can have a store open; stop the other one, or choose another file", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged, or is not a store.
    #[error("{} is damaged or not a store: {reason}; restore it from a backup, or choose another file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
    /// The file was written by a newer version of this program.
    #[error("{} has format {found}, but this program reads formats up to {FORMAT}; use a newer version of it", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u64,
    },
    /// A file exists where a new one was to be created.
    #[error("{} already exists; choose another file, or move it away", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be created, read or written.
    #[error("cannot open {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

pub(super) type OpenResult<T> = Result<T, OpenError>;

pub(super) fn io(path: &Path, source: io::Error) -> OpenError {
    OpenError::Io { path: path.to_owned(), source }
}

pub(super) fn damaged(path: &Path, reason: impl std::fmt::Display) -> OpenError {
    OpenError::Damaged { path: path.to_owned(), reason: reason.to_string() }
}

/// Opens a store, or creates one. Afterwards the pages have all acknowledged writes, and the write-ahead log
/// is empty. On a full disk the pages have them only in memory.
pub(super) fn store(location: &Location, options: &Options) -> OpenResult<OpenStore> {
    match location {
        Location::File(path) => match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(path, options)?,
            Err(error) => return Err(io(path, error)),
            Ok(file) if file.is_file() && file.len() == 0 => return Err(damaged(path, "it is empty")),
            Ok(_) => {}
        },
        Location::Backend(..) => {
            let new = || {
                if location.len()? == 0 {
                    create_tables(location.file()?, options, &options.clock.uid())
                } else {
                    Ok(())
                }
            };
            new().map_err(|error| io(location.name(), into_io_error(error)))?;
        }
    }
    open_checked(location)
}

/// Opens an existing store after reading all of it.
pub(super) fn open_checked(location: &Location) -> OpenResult<OpenStore> {
    let path = location.name();
    // The page cache may have data that the previous process failed to sync.
    location.sync_and_drop_cache().map_err(|error| io(path, error))?;
    let ahead = location.read_ahead();
    let (is_whole, waiting) = catch_panics(path, || {
        let open = location.open_read_only().map_err(|error| open_error(path, error))?;
        check(path, open)
    })?;
    drop(ahead);
    if let Some(cut_off) = waiting.cut_off() {
        tracing::warn!(path = %path.display(), "the store's write-ahead log is incomplete: {cut_off}");
    }
    let was_cut_short = waiting.has_changes();
    Ok(OpenStore { was_not_closed: was_cut_short, ..open_and_replay(location, is_whole, Some(waiting))? })
}

/// Reopens a store that this process had open, and that has no failed write.
pub(super) fn open_unchecked(location: &Location) -> OpenResult<OpenStore> {
    open_and_replay(location, true, None)
}

/// Opens a known store and replays its write-ahead log; on a full disk, in memory.
fn open_and_replay(location: &Location, is_whole: bool, waiting: Option<WalReplay>) -> OpenResult<OpenStore> {
    let path = location.name();
    let bring = |mut open: OpenFile, waiting: Option<WalReplay>| -> OpenResult<OpenFile> {
        if !is_whole {
            open.database.check_integrity().map_err(|error| open_error(path, error))?;
        }
        let waiting = match waiting {
            Some(waiting) => waiting.refresh(&open),
            None => WalReplay::read(&open),
        };
        let waiting = waiting.map_err(|error| open_error(path, *error))?;
        waiting.apply(&open, Revision(u64::MAX)).map_err(|error| open_error(path, *error))?;
        Ok(open)
    };
    let opened = || {
        let open = bring(location.open().map_err(|error| open_error(path, error))?, waiting)?;
        // For a file that was created without allocating it.
        location.reserve(&open).map_err(|error| io(path, error))?;
        Ok(open)
    };
    match catch_panics(path, opened) {
        Ok(open) => Ok(OpenStore::from(open)),
        Err(OpenError::Io { source, .. }) if is_out_of_space(&source) => {
            let reason = format!(
                "{} cannot be written: {source}; it is open for reading, and writing is retried",
                path.display()
            );
            tracing::error!("{reason}");
            // A failed sync may have dropped a part of the replayed pages.
            location.sync_and_drop_cache().map_err(|error| io(path, error))?;
            let read_only = || bring(location.open_read_only().map_err(|error| open_error(path, error))?, None);
            let open = catch_panics(path, read_only)?;
            Ok(OpenStore { out_of_space: Some(reason), ..OpenStore::from(open) })
        }
        Err(error) => Err(error),
    }
}

/// Returns whether a write failed for a reason that can pass, and that left the file unchanged.
fn is_out_of_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    // The last one is a limit of the process, as `ulimit -f` sets it. It can be raised, as a disk can be
    // cleared.
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem | FileTooLarge)
}

thread_local! {
    /// Set while this thread catches panics and reports them itself.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Silences caught panics: the code that catches one reports it, and a printed panic looks like a failure of
/// the host.
fn mute_caught_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if CATCHES.get() {
                tracing::debug!(%panic, "redb panicked on a file");
            } else {
                print(panic);
            }
        }));
    });
}

/// Runs code that reads an untrusted file. redb panics on some kinds of damage.
pub(super) fn catch_panics<T>(path: &Path, read: impl FnOnce() -> OpenResult<T>) -> OpenResult<T> {
    mute_caught_panics();
    let outer = CATCHES.replace(true);
    let read = catch_unwind(AssertUnwindSafe(read));
    CATCHES.set(outer);
    read.unwrap_or_else(|_| Err(damaged(path, "its structure is inconsistent")))
}

/// Checks that a database is a store of a known format, and reads all its pages.
///
/// Pages have checksums, but redb verifies them only on request. Returns whether the structure is consistent;
/// if not, only redb's allocator state needs repair. Also reads the write-ahead log, replays it in memory,
/// and returns it.
fn check(path: &Path, mut open: OpenFile) -> OpenResult<(bool, WalReplay)> {
    let database = &mut open.database;
    let before = recognise(path, database)?;
    let is_whole = database.check_integrity().map_err(|error| open_error(path, error))?;
    // If the last commit is damaged, redb falls back to the one before it.
    if recognise(path, database)? != before {
        return Err(damaged(path, "its last changes cannot be read"));
    }
    let waiting = WalReplay::read(&open).map_err(|error| open_error(path, *error))?;
    waiting.apply(&open, Revision(u64::MAX)).map_err(|error| open_error(path, *error))?;
    Ok((is_whole, waiting))
}

/// Checks that a database is a store of a known format; returns its metadata.
pub(super) fn recognise(path: &Path, database: &Database) -> OpenResult<BTreeMap<String, String>> {
    let facts = facts(database).map_err(|error| open_error(path, error))?;
    let Some(facts) = facts else { return Err(damaged(path, "it is a redb database, but not a store")) };
    match facts.get(META_FORMAT).and_then(|format| format.parse::<u64>().ok()) {
        None => return Err(damaged(path, "it has no format version")),
        Some(found) if found > FORMAT => return Err(OpenError::NewerFormat { path: path.to_owned(), found }),
        Some(_) => {}
    }
    let transaction = database.begin_read().map_err(|error| open_error(path, error))?;
    let tables = || {
        transaction.open_table(RESOURCES)?;
        transaction.open_table(LOG)?;
        transaction.open_table(OWNERS)
    };
    tables().map_err(|error: TableError| open_error(path, error))?;
    Ok(facts)
}

/// Reads the metadata of the store; `None` if the table does not exist.
fn facts(database: &Database) -> Result<Option<BTreeMap<String, String>>, redb::Error> {
    let meta = match database.begin_read()?.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut facts = BTreeMap::new();
    for fact in meta.iter()? {
        let (name, value) = fact?;
        facts.insert(name.value().to_owned(), value.value().to_owned());
    }
    Ok(Some(facts))
}

/// Creates an empty store under a temporary name, and gives it its final name when it is complete.
fn create(path: &Path, options: &Options) -> OpenResult<()> {
    let id = options.clock.uid();
    let draft = draft_path(path, &id);
    let layout = Layout::with_wal(options.wal_bytes);
    let made = new_file(&draft, layout).map_err(redb::Error::from).and_then(|file| create_tables(file, options, &id));
    // Another process may have created the file meanwhile: then its file stays.
    let made = made.map_err(into_io_error).and_then(|()| publish(&draft, path).map(drop));
    // The temporary name is a second name of the store, or a leftover.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound && made.is_ok() => Err(io(path, error)),
        _ => made.map_err(|error| io(path, error)),
    }
}

/// Creates a new file, and allocates its write-ahead log if the file system supports it.
pub(super) fn new_file(path: &Path, layout: Layout) -> io::Result<Arc<dyn StorageBackend>> {
    let file = new_options().create_new(true).open(path)?;
    if layout.reserved_bytes() > 0 {
        files::reserve(&file, layout.reserved_bytes())?;
    }
    Ok(Arc::new(SizeLimitedFile::over(file).map_err(io::Error::other)?))
}

/// Returns the options for a new file: readable only by its owner, because it contains all resources.
fn new_options() -> fs::OpenOptions {
    let mut options = File::options();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates an empty store in an empty file.
fn create_tables(file: Arc<dyn StorageBackend>, options: &Options, id: &str) -> Result<(), redb::Error> {
    let database = OpenFile::create(file, Layout::with_wal(options.wal_bytes), CACHE_BYTES)?;
    let transaction = database.begin_write()?;
    {
        transaction.open_table(RESOURCES)?;
        transaction.open_table(LOG)?;
        transaction.open_table(OWNERS)?;
        let mut meta = transaction.open_table(META)?;
        meta.insert(META_FORMAT, FORMAT.to_string().as_str())?;
        meta.insert(META_ID, id)?;
        meta.insert(META_REVISION, "0")?;
        meta.insert(META_COMPACTED, "0")?;
    }
    Ok(transaction.commit()?)
}

/// Returns the temporary name of a file until it is complete.
pub(super) fn draft_path(path: &Path, id: &str) -> PathBuf {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{id}.new"));
    PathBuf::from(draft)
}

/// Returns the error of the operating system, if there is one.
pub(super) fn into_io_error(error: redb::Error) -> io::Error {
    match error {
        redb::Error::Io(error) => error,
        error => io::Error::other(error),
    }
}

/// Gives the temporary file its final name, unless a file of that name exists. Returns whether it did.
pub(super) fn publish(draft: &Path, path: &Path) -> io::Result<bool> {
    match fs::hard_link(draft, path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        // The file system has no hard links.
        Err(_) if !path.exists() => fs::rename(draft, path)?,
        Err(error) => return Err(error),
    }
    sync_folder(path).map(|()| true)
}

/// Makes the name of a file durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if cfg!(unix) => {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            File::open(folder)?.sync_all()
        }
        _ => Ok(()),
    }
}

pub(super) fn open_error(path: &Path, error: impl Into<redb::Error>) -> OpenError {
    match error.into() {
        redb::Error::DatabaseAlreadyOpen => OpenError::Locked { path: path.to_owned() },
        redb::Error::Io(error) => match error.kind() {
            io::ErrorKind::InvalidData => damaged(path, "it has no header of a store"),
            io::ErrorKind::UnexpectedEof => damaged(path, "it is truncated"),
            _ => io(path, error),
        },
        error @ redb::Error::PreviousIo => io(path, io::Error::other(error)),
        other => damaged(path, other),
    }
}
