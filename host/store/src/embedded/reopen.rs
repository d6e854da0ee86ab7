//! Opening a place again under a store that is in use: after a read or a write that failed, and when there may be room again.

use std::time::{Duration, SystemTime};

use redb::Database;

use super::codec::Meta;
use super::journal::WriteAheadLog;
use super::open::{self, OpenError, OpenResult};
use super::place::{OpenFile, OpenStore};
use super::replay::replay;
use super::writer::read_meta;
use super::{CheckpointState, SharedStore};
use crate::{Error, Revision};

/// Time between two tries to write to a place that had no room, by the clock of the store.
const FULL_WAIT: Duration = Duration::from_secs(1);

/// Why nothing is written, as long as there is no room for it.
pub(super) struct OutOfSpace {
    /// For a person.
    pub(super) reason: String,
    /// When it was last tried.
    tried: SystemTime,
}

impl OutOfSpace {
    pub(super) fn new(reason: String, tried: SystemTime) -> Self {
        Self { reason, tried }
    }

    /// Returns whether it is time to try again; also when the clock went back.
    pub(super) fn is_due(&self, now: SystemTime) -> bool {
        now.duration_since(self.tried).map_or(true, |since| since >= FULL_WAIT)
    }
}

/// Refuses writes from now on, because of what happened to one, and goes on reading from a database that never writes.
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
            "a write to {} failed, and what the disk holds is not known: {error}; restart to go on from what it holds",
            shared.location.name().display()
        )
    });
    tracing::error!(%error, "the store takes no more writes");
    Error::unavailable(error)
}

/// Goes on after a transaction that failed, whose changes up to `last` are all in the journal: opening the place anew makes them again.
pub(super) fn recover_after_failure(shared: &SharedStore, error: &redb::Error, last: Revision) {
    tracing::warn!(%error, "writing the pages of the store failed; it is opened anew");
    let mut database = shared.database.blocking_write();
    // Somebody else may have done it meanwhile.
    let is_needed = database.is_none() || shared.has_engine_failed() || shared.checkpoint.borrow().revision < last;
    if is_needed && !shared.tip.is_closed() {
        replace_database(shared, &mut database);
    }
}

/// Opens anew what the engine cannot use any more, unless the store is closed.
///
/// Waits until nobody reads or writes. Where it cannot be opened, everything that is asked later tries again.
pub(super) fn reopen(shared: &SharedStore) {
    let mut database = shared.database.blocking_write();
    if (database.is_none() || shared.has_engine_failed()) && !shared.tip.is_closed() {
        replace_database(shared, &mut database);
    }
}

/// Opens anew what has had no room, when it is time to try that again.
pub(super) fn retry_writing(shared: &SharedStore) {
    let mut database = shared.database.blocking_write();
    // Somebody else may have tried meanwhile.
    if shared.is_retry_due() && !shared.tip.is_closed() {
        replace_database(shared, &mut database);
    }
}

/// Puts what is opened anew in the place of what was open, and tells everybody who waits for it.
fn replace_database(shared: &SharedStore, database: &mut Option<Database>) {
    // The one before has to let go of the file first.
    drop(database.take());
    let path = shared.location.name().display();
    let (unreadable, reached) = match open_acknowledged(shared) {
        Ok((opened, reached)) => {
            *database = Some(opened);
            tracing::info!(%path, "the store was opened anew");
            (None, reached)
        }
        Err(error) => {
            let error = match error {
                OpenError::Io { source, .. } => source.to_string(),
                error => error.to_string(),
            };
            tracing::error!(%error, %path, "the store cannot be read");
            let reason = format!("reading {path} failed: {error}; it is tried again with everything that is asked");
            (Some(reason), *shared.checkpoint.borrow())
        }
    };
    *shared.unreadable.lock().expect("nobody panics while holding the reason") = unreadable;
    shared.checkpoint.send_replace(reached);
}

/// Opens what was acknowledged, and returns how far its pages are.
///
/// After a failed read that is all. After a failed write of a page everything is read through, as when a store is opened for the first time: what
/// was to be written is in the journal, and the pages are known to be whole again. Where that does not work, though the place can be
/// read, and after a failed sync, the place is never written.
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

/// Opens what was acknowledged so that it is never written.
fn read_only(shared: &SharedStore) -> OpenResult<OpenFile> {
    let place = &shared.location;
    open::catch_panics(place.name(), || {
        let open = place.open_read_only().map_err(|error| open::open_error(place.name(), error))?;
        // Of what was to be written when the disk failed, nothing: nobody knows whether it is there.
        let last = shared.tip.revision();
        replay(&open, last).map_err(|error| open::open_error(place.name(), *error))?;
        Ok(open)
    })
}

/// Begins a round of the journal of what was opened.
fn install(shared: &SharedStore, ready: OpenStore) -> OpenResult<(Database, CheckpointState)> {
    let OpenStore { open: OpenFile { database, file, layout, failure: latch }, out_of_space: full, was_not_closed: _ } =
        ready;
    let facts = read_meta(&database).map_err(|error| open::open_error(shared.location.name(), *error))?;
    let Meta { revision, compacted, .. } = facts;
    *shared.out_of_space.lock().expect("nobody panics while holding the reason") =
        full.map(|reason| OutOfSpace::new(reason, shared.clock.now()));
    *shared.wal() = WriteAheadLog::new(file, layout, revision, latch);
    Ok((database, CheckpointState { revision, compacted, compact_target: compacted }))
}
