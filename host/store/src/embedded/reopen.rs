//! Opening a place again under a store that is in use: after a read or a write that failed, and when there may be room again.

use std::time::{Duration, SystemTime};

use redb::Database;

use super::Shared;
use super::journal::Journal;
use super::open::{self, OpenError, Opened};
use super::place::{Ready, is_stuck};
use super::replay::replay;

/// Time between two tries to write to a place that had no room, by the clock of the store.
const FULL_WAIT: Duration = Duration::from_secs(1);

/// Why nothing is written, as long as there is no room for it.
pub(super) struct Full {
    /// For a person.
    pub(super) reason: String,
    /// When it was last tried.
    tried: SystemTime,
}

impl Full {
    pub(super) fn new(reason: String, tried: SystemTime) -> Self {
        Self { reason, tried }
    }

    /// Returns whether it is time to try again; also when the clock went back.
    pub(super) fn is_due(&self, now: SystemTime) -> bool {
        now.duration_since(self.tried).map_or(true, |since| since >= FULL_WAIT)
    }
}

/// Puts a database that never writes in place of the one that failed, which refuses even reads.
pub(super) fn go_on_reading(shared: &Shared) {
    drop(shared.database.blocking_write().take());
    reopen(shared);
}

/// Opens anew what the engine cannot read any more, unless the store is closed. After a failed commit it is never written.
///
/// Waits until nobody reads or writes. Where it cannot be opened, everything that is asked later tries again.
pub(super) fn reopen(shared: &Shared) {
    let mut database = shared.database.blocking_write();
    if database.as_ref().is_none_or(is_stuck) && !shared.tip.borrow().closed {
        open_anew(shared, &mut database);
    }
}

/// Opens anew what has had no room, when it is time to try that again.
pub(super) fn try_writing(shared: &Shared) {
    let mut database = shared.database.blocking_write();
    // Somebody else may have tried meanwhile.
    if shared.is_worth_a_try() && !shared.tip.borrow().closed {
        open_anew(shared, &mut database);
    }
}

fn open_anew(shared: &Shared, database: &mut Option<Database>) {
    // The one before has to let go of the file first.
    drop(database.take());
    let path = shared.place.name().display();
    let unreadable = match opened(shared) {
        Ok(opened) => {
            *database = Some(opened);
            tracing::info!(%path, "the store was opened anew");
            None
        }
        Err(error) => {
            let error = match error {
                OpenError::Io { source, .. } => source.to_string(),
                error => error.to_string(),
            };
            tracing::error!(%error, %path, "the store cannot be read");
            Some(format!("reading {path} failed: {error}; it is tried again with everything that is asked"))
        }
    };
    *shared.unreadable.lock().expect("nobody panics while holding the reason") = unreadable;
}

/// Opens what was acknowledged; after a failed commit so that it is never written.
fn opened(shared: &Shared) -> Opened<Database> {
    let place = &shared.place;
    if shared.poison.get().is_some() {
        return open::guarded(place.name(), || {
            let open = place.open_read_only().map_err(|error| open::refusal(place.name(), error))?;
            // Of what was to be written when the disk failed, nothing: nobody knows whether it is there.
            let last = shared.tip.borrow().revision;
            replay(&open, last).map_err(|error| open::refusal(place.name(), *error))?;
            Ok(open.database)
        });
    }
    let (Ready { open, full }, last) = open::again(place)?;
    *shared.full.lock().expect("nobody panics while holding the reason") =
        full.map(|reason| Full::new(reason, shared.source.now()));
    *shared.journal() = Journal::begin(open.file, open.layout, last);
    *shared.latch.lock().expect("nobody panics while holding the latch") = open.latch;
    Ok(open.database)
}
