//! What the queue tells about itself.

use std::{sync::Arc, time::Duration};

use crate::{KeyState, Priority};

/// How a closing queue ended up. Asking again gives the same report, with what happened since added to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReport<K> {
    /// How many runs were finished since the closing began.
    pub finished: u64,
    /// The keys whose queued run was dropped, in no particular order. A key whose run was finished after a stop and that
    /// had asked for another is among them. Parked keys are not: they had no run to lose.
    pub dropped: Vec<K>,
    /// The keys that are still running, longest first.
    pub running: Vec<K>,
}

/// How many keys are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// Keys with a due time.
    pub waiting: usize,
    /// Keys that stand in a band.
    pub ready: usize,
    /// `ready` by band, lowest first, in the order of [`Priority::ALL`].
    pub ready_by_band: [usize; 5],
    /// Keys that a worker holds, the dirty ones included.
    pub running: usize,
    /// Running keys that run once more afterwards.
    pub dirty: usize,
    /// Keys that wait for an event or for somebody.
    pub parked: usize,
    /// Bytes of the error texts of all these.
    pub error_bytes: u64,
}

impl KeyCounts {
    /// Returns how many keys there are, in whatever state.
    pub fn keys(&self) -> usize {
        self.waiting + self.ready + self.running + self.parked
    }
}

/// What happened since the queue was made. None of these ever falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Adds that gave a key a run that it did not have before.
    pub adds: u64,
    /// Adds of keys that had one queued already.
    pub merges: u64,
    /// Keys handed out.
    pub claims: u64,
    /// Runs that the end of a claim queued: after a delay, at once, as a retry, or because the claim was dropped. Not where an add had
    /// queued one meanwhile.
    pub requeues: u64,
    /// Failures that are tried again.
    pub retries: u64,
    /// Keys given up: retries used up, [`Next::Drop`](crate::Next::Drop), or queued when the queue closed.
    pub dropped: u64,
    /// Adds of keys for which there was no room.
    pub refused: u64,
    /// Errors whose text found no room.
    pub errors_left_out: u64,
    /// Keys taken off by [`cancel`](crate::Queue::cancel).
    pub cancelled: u64,
    /// Claims that ended, by what became of the key.
    pub finished: Finishes,
}

/// Claims that ended, by the [`Next`](crate::Next) they ended with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finishes {
    /// [`Next::Done`](crate::Next::Done).
    pub done: u64,
    /// [`Next::After`](crate::Next::After), except with zero.
    pub after: u64,
    /// [`Next::Again`](crate::Next::Again), and `After` with zero.
    pub again: u64,
    /// [`Next::Retry`](crate::Next::Retry), used up or not.
    pub retry: u64,
    /// [`Next::Park`](crate::Next::Park).
    pub park: u64,
    /// [`Next::Drop`](crate::Next::Drop).
    pub drop: u64,
    /// Claims that were dropped instead of finished.
    pub returned: u64,
}

/// How long things have taken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    /// How long the key has been ready that is first in its band; the longest over the bands.
    pub oldest_ready: Option<Duration>,
    /// How long the longest running key has been running.
    pub longest_running: Option<Duration>,
    /// The sum over all running keys.
    pub unfinished_work: Duration,
}

/// One key, as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<K> {
    /// Which one.
    pub key: K,
    /// Where it is.
    pub state: KeyState,
    /// The band it stands in, or will.
    pub priority: Priority,
    /// Failures in a row that count for its backoff.
    pub failures: u32,
    /// How long until its next run, if that has a due time: waiting, or dirty with a delay.
    pub due_in: Option<Duration>,
    /// How long it has been ready, if it is.
    pub ready_for: Option<Duration>,
    /// How long it has been running, if it is.
    pub running_for: Option<Duration>,
    /// What its last failure said; `None` after a success.
    pub last_error: Option<Arc<str>>,
}
