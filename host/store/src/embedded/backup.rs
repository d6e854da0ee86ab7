//! Backup and restore: copies one revision of a running store into a file, and a file into a new store.
//!
//! A copy is written row by row under a temporary name, synced, and given its final name when it is complete.
//! So it is also as small as possible. It reads one snapshot, so writes go on meanwhile. The space of the
//! pages that they replace is reused only after the copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use redb::{
    Key, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError, Value, WriteTransaction,
};

use super::codec::{
    LOG, META, META_COMPACTED, META_FORMAT, META_ID, META_MEASURE, META_REVISION, OWNERS, RESOURCES, TIMES,
};
use super::layout::Layout;
use super::location::{Location, OpenFile};
use super::open::{self, OpenError, OpenResult};
use super::read::Snapshot;
use super::replay::replay;
use super::{EmbeddedStore, FORMAT, fsck};
use crate::{ClockAndIds, Error, Options, Revision, SystemClockAndIds};

/// Page cache of the copy: 32 MiB.
const CACHE_BYTES: usize = 32 << 20;

/// The result of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The new file.
    pub path: PathBuf,
    /// The id of the copied store.
    pub id: String,
    /// The revision of the backup.
    pub revision: Revision,
    /// Number of resources.
    pub resources: u64,
    /// Length of the file, in bytes.
    pub bytes: u64,
}

/// Why a backup failed. No file was left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[source] Error),
    /// A file of that name exists; it stays unchanged.
    #[error("{} already exists; a backup never replaces a file", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be written.
    #[error("cannot write {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// The options of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Replaces an existing file. Without it, a file is never replaced.
    pub overwrite: bool,
    /// Gap between the revision of the backup and the first revision of the new store: default 1,000,000,000.
    /// The lost store used revisions after the backup. The gap prevents their reuse, so that a client that
    /// knows one cannot mistake it for a new one.
    pub revisions_skipped: u64,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        Self { overwrite: false, revisions_skipped: 1_000_000_000 }
    }
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The new file.
    pub path: PathBuf,
    /// The id of the new store.
    pub id: String,
    /// The id of the store that was backed up.
    pub id_before: String,
    /// The revision of the backup.
    pub revision_before: Revision,
    /// The first revision of the new store.
    pub revision: Revision,
    /// Number of resources.
    pub resources: u64,
}

/// Copies one revision of a running store, with its history, into a new file. The file appears once it is
/// complete and on disk.
///
/// Writes and reads go on meanwhile. A dropped call may still be carried out. The runtime needs a thread that
/// may block.
///
/// # Errors
/// See [`BackupError`].
pub async fn backup(store: &EmbeddedStore, to: &Path) -> Result<BackupReport, BackupError> {
    let database = store.shared.database().await.map_err(BackupError::Store)?;
    let to = to.to_owned();
    let copying = tokio::task::spawn_blocking(move || {
        let snapshot = Snapshot::of(&database).map_err(BackupError::Store)?;
        // The store may be closed meanwhile; its file stays open.
        save(&snapshot, &to)
    });
    copying.await.map_err(|error| BackupError::Store(Error::unavailable(error)))?
}

fn save(snapshot: &Snapshot, to: &Path) -> Result<BackupReport, BackupError> {
    let meta = snapshot.meta().map_err(BackupError::Store)?;
    let failed = |source| BackupError::Io { path: to.to_owned(), source };
    if to.symlink_metadata().is_ok() {
        return Err(BackupError::Exists { path: to.to_owned() });
    }
    let draft = Draft::beside(to);
    let resources = copy(snapshot.transaction(), &draft.0, Layout::PLAIN, copy_everything)
        .map_err(open::into_io_error)
        .map_err(failed)?;
    let bytes = fs::metadata(&draft.0).map_err(failed)?.len();
    if !open::publish(&draft.0, to).map_err(failed)? {
        return Err(BackupError::Exists { path: to.to_owned() });
    }
    Ok(BackupReport { path: to.to_owned(), id: meta.id, revision: meta.revision, resources, bytes })
}

/// Creates a store from a backup, or from the closed file of any store. The backup is checked ([`fsck()`])
/// and never changed.
///
/// The new store has an id of its own and no history. It rejects continue tokens of the old store as
/// `Expired`, and watches from revisions of the old store too, except from revisions beyond
/// [`RestoreOptions::revisions_skipped`]. Blocks for as long as the disk takes.
///
/// # Errors
/// See [`OpenError`]. `Damaged` when the check finds a problem. `Exists` when the target exists and is not to
/// be replaced, or is the backup itself. `Locked` when either file is in use.
pub fn restore(from: &Path, to: &Path, options: &RestoreOptions) -> Result<RestoreReport, OpenError> {
    let RestoreOptions { overwrite, revisions_skipped } = *options;
    let same = fs::canonicalize(from).is_ok_and(|from| fs::canonicalize(to).is_ok_and(|to| from == to));
    if same || (!overwrite && to.symlink_metadata().is_ok()) {
        return Err(OpenError::Exists { path: to.to_owned() });
    }
    let found = fsck(from)?;
    if let Some(problem) = found.problems.first() {
        let reason = format!("{} problems were found, the first is: {problem}", found.problems_total);
        return Err(open::damaged(from, reason));
    }
    let revision = found.revision.0.checked_add(revisions_skipped).map(Revision);
    let revision = revision.ok_or_else(|| open::damaged(from, "its revision is too large"))?;
    let id = SystemClockAndIds.uid();
    let draft = Draft::beside(to);
    let layout = Layout::with_wal(Options::default().wal_bytes);
    let resources = open::catch_panics(from, || {
        let open = Location::File(from.to_owned()).open_read_only().map_err(|error| open::open_error(from, error))?;
        replay(&open, Revision(u64::MAX)).map_err(|error| open::open_error(from, *error))?;
        let transaction = open.database.begin_read().map_err(|error| open::damaged(from, error))?;
        let fill = |from: &ReadTransaction, to: &WriteTransaction| copy_present(from, to, &id, revision);
        copy(&transaction, &draft.0, layout, fill).map_err(|error| open::io(to, open::into_io_error(error)))
    })?;
    // Held so that no process can open the replaced file until it is replaced.
    let _held = if overwrite { lock_replaced_file(to)? } else { None };
    let published = if overwrite {
        fs::rename(&draft.0, to).and_then(|()| open::sync_folder(to)).map(|()| true)
    } else {
        open::publish(&draft.0, to)
    };
    if !published.map_err(|error| open::io(to, error))? {
        return Err(OpenError::Exists { path: to.to_owned() });
    }
    let (id_before, revision_before) = (found.id, found.revision);
    Ok(RestoreReport { path: to.to_owned(), id, id_before, revision_before, revision, resources })
}

/// Locks a file that is to be replaced. A damaged or missing file needs no lock.
fn lock_replaced_file(path: &Path) -> OpenResult<Option<OpenFile>> {
    let opened = open::catch_panics(path, || {
        Location::File(path.to_owned()).open_read_only().map_err(|error| open::open_error(path, error))
    });
    match opened {
        Ok(open) => Ok(Some(open)),
        Err(OpenError::Locked { path }) => Err(OpenError::Locked { path }),
        Err(_) => Ok(None),
    }
}

/// A temporary file; removed on drop, in any case.
struct Draft(PathBuf);

impl Draft {
    fn beside(path: &Path) -> Self {
        Self(open::draft_path(path, &SystemClockAndIds.uid()))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.0.display(), %error, "cannot remove a temporary file");
            }
            _ => {}
        }
    }
}

type CopyResult<T> = Result<T, redb::Error>;

/// Fills a new file in one transaction, on disk; returns the number of its resources.
fn copy(
    from: &ReadTransaction,
    draft: &Path,
    layout: Layout,
    fill: impl FnOnce(&ReadTransaction, &WriteTransaction) -> CopyResult<u64>,
) -> CopyResult<u64> {
    let database = OpenFile::create(open::new_file(draft, layout)?, layout, CACHE_BYTES)?;
    let transaction = database.begin_write()?;
    let resources = fill(from, &transaction)?;
    transaction.commit()?;
    Ok(resources)
}

/// Copies all tables.
fn copy_everything(from: &ReadTransaction, to: &WriteTransaction) -> CopyResult<u64> {
    let resources = copy_rows(from, to, RESOURCES)?;
    copy_rows(from, to, OWNERS)?;
    copy_rows(from, to, LOG)?;
    copy_rows(from, to, TIMES)?;
    copy_rows(from, to, META)?;
    Ok(resources)
}

/// Copies the present state, without history, as a store of its own.
fn copy_present(from: &ReadTransaction, to: &WriteTransaction, id: &str, revision: Revision) -> CopyResult<u64> {
    let resources = copy_rows(from, to, RESOURCES)?;
    copy_rows(from, to, OWNERS)?;
    to.open_table(LOG)?;
    copy_rows(from, to, META)?;
    let mut meta = to.open_table(META)?;
    meta.remove(META_MEASURE)?;
    meta.insert(META_FORMAT, FORMAT.to_string().as_str())?;
    meta.insert(META_ID, id)?;
    for name in [META_REVISION, META_COMPACTED] {
        meta.insert(name, revision.to_string().as_str())?;
    }
    Ok(resources)
}

fn copy_rows<K: Key + 'static, V: Value + 'static>(
    from: &ReadTransaction,
    to: &WriteTransaction,
    table: TableDefinition<'_, K, V>,
) -> CopyResult<u64> {
    let mut copy = to.open_table(table)?;
    let from = match from.open_table(table) {
        // Older programs do not create this table.
        Err(TableError::TableDoesNotExist(_)) => return Ok(0),
        from => from?,
    };
    let mut count = 0;
    for row in from.iter()? {
        let (key, value) = row?;
        copy.insert(key.value(), value.value())?;
        count += 1;
    }
    Ok(count)
}
