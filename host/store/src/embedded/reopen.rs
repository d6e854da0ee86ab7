//! Reopens the file of a running store: after a failed read or write, and to retry after a full disk.

use std::time::{Duration, SystemTime};

use redb::Database;

use super::codec::Meta;
use super::location::{OpenFile, OpenStore};
use super::open::{self, OpenError, OpenResult};
use super::replay::replay;
use super::wal::WriteAheadLog;
use super::writer::read_meta;
use super::{CheckpointState, SharedStore};
use crate::{Error, Revision};

/// Time between two retries after a full disk, by the clock of the store.
const FULL_WAIT: Duration = Duration::from_secs(1);

/// Why writes are refused after a full disk.
pub(super) struct OutOfSpace {
    /// For a person.
    pub(super) reason: String,
    /// Time of the last attempt.
    tried: SystemTime,
}

impl OutOfSpace {
    pub(super) fn new(reason: String, tried: SystemTime) -> Self {
        Self { reason, tried }
    }

    /// Returns whether it is time to retry; also if the clock went back.
    pub(super) fn is_due(&self, now: SystemTime) -> bool {
        now.duration_since(self.tried).map_or(true, |since| since >= FULL_WAIT)
    }
}

/// Refuses all further writes because of a failed one, and continues with a database that never writes.
pub(super) fn fail_writes(shared: &SharedStore, error: &redb::Error) -> Error {
    let refusal = refuse_writes(shared, error);
    let mut database = shared.database.blocking_write();
    if !shared.tip.is_closed() {
        replace_database(shared, &mut database);
    }
    refusal
}

fn refuse_writes(shared: &SharedStore, error: impl std::fmt::Display) -> Error {
    let error = shared.write_failure.get_or_init(|| {
        format!(
            "a write to {} failed, and the content of the disk is unknown: {error}; restart to continue from that content",
            shared.location.name().display()
        )
    });
    tracing::error!(%error, "the store refuses all further writes");
    Error::unavailable(error)
}

/// Reopens the file after a failed transaction. All its changes, up to `last`, are in the write-ahead log, so
/// reopening replays them.
pub(super) fn recover_after_failure(shared: &SharedStore, error: &redb::Error, last: Revision) {
    tracing::warn!(%error, "writing the store's pages failed; reopening the file");
    let mut database = shared.database.blocking_write();
    // Another thread may have reopened it meanwhile.
    let is_needed = database.is_none() || shared.has_engine_failed() || shared.checkpoint.borrow().revision < last;
    if is_needed && !shared.tip.is_closed() {
        replace_database(shared, &mut database);
    }
}

/// Reopens a file that redb can no longer use, unless the store is closed.
///
/// Blocks until all reads and writes have ended. If the file cannot be opened, every later request retries.
pub(super) fn reopen(shared: &SharedStore) {
    let mut database = shared.database.blocking_write();
    if (database.is_none() || shared.has_engine_failed()) && !shared.tip.is_closed() {
        replace_database(shared, &mut database);
    }
}

/// Reopens a file after a full disk, if it is time to retry.
pub(super) fn retry_writing(shared: &SharedStore) {
    let mut database = shared.database.blocking_write();
    // Another thread may have retried meanwhile.
    if shared.is_retry_due() && !shared.tip.is_closed() {
        replace_database(shared, &mut database);
    }
}

/// Replaces the database by a newly opened one, and notifies all waiting tasks.
fn replace_database(shared: &SharedStore, database: &mut Option<Database>) {
    // The previous database has to close the file first.
    drop(database.take());
    let path = shared.location.name().display();
    let (unreadable, reached) = match open_acknowledged(shared) {
        Ok((opened, reached)) => {
            *database = Some(opened);
            tracing::info!(%path, "reopened the store");
            (None, reached)
        }
        Err(error) => {
            let error = match error {
                OpenError::Io { source, .. } => source.to_string(),
                error => error.to_string(),
            };
            tracing::error!(%error, %path, "the store cannot be read");
            let reason = format!("reading {path} failed: {error}; every request retries it");
            (Some(reason), *shared.checkpoint.borrow())
        }
    };
    *shared.unreadable.lock().expect("no thread panics while holding the reason") = unreadable;
    shared.checkpoint.send_replace(reached);
}

/// Opens the file with all acknowledged writes, and returns the state of its pages.
///
/// After a failed read, that is all. After a failed write of a page, the whole file is read and verified, as
/// at the first opening: the write-ahead log has the lost pages. The file becomes read-only if that fails
/// although it is readable, and after a failed sync.
fn open_acknowledged(shared: &SharedStore) -> OpenResult<(Database, CheckpointState)> {
    let latch = shared.wal().failure().clone();
    if let Some(failure) = latch.write_error().filter(|_| latch.has_sync_failed()) {
        refuse_writes(shared, failure);
    }
    if shared.write_failure.get().is_some() {
        return install(shared, OpenStore::from(read_only(shared)?));
    }
    let ready = match latch.write_error() {
        None => open::open_unchecked(&shared.location)?,
        Some(failure) => match open::open_checked(&shared.location) {
            Ok(ready) => ready,
            Err(error) => {
                let open = read_only(shared).map_err(|_| error)?;
                refuse_writes(shared, failure);
                OpenStore::from(open)
            }
        },
    };
    install(shared, ready)
}

/// Opens the file read-only, with all acknowledged writes.
fn read_only(shared: &SharedStore) -> OpenResult<OpenFile> {
    let place = &shared.location;
    open::catch_panics(place.name(), || {
        let open = place.open_read_only().map_err(|error| open::open_error(place.name(), error))?;
        // Skips the batch that was being written when the disk failed: it may be incomplete.
        let last = shared.tip.revision();
        replay(&open, last).map_err(|error| open::open_error(place.name(), *error))?;
        Ok(open)
    })
}

/// Installs the opened file, and starts a round of its write-ahead log.
fn install(shared: &SharedStore, ready: OpenStore) -> OpenResult<(Database, CheckpointState)> {
    let OpenStore { open: OpenFile { database, file, layout, failure: latch }, out_of_space: full, was_not_closed: _ } =
        ready;
    let facts = read_meta(&database).map_err(|error| open::open_error(shared.location.name(), *error))?;
    let Meta { revision, compacted, .. } = facts;
    *shared.out_of_space.lock().expect("no thread panics while holding the reason") =
        full.map(|reason| OutOfSpace::new(reason, shared.clock.now()));
    *shared.wal() = WriteAheadLog::new(file, layout, revision, latch);
    Ok((database, CheckpointState { revision, compacted, compact_target: compacted }))
}
