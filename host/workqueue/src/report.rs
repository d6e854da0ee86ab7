//! Reports of the queue: counts, counters, ages and entries.

use std::{sync::Arc, time::Duration};

use crate::{KeyState, Priority};

/// The result of closing a queue. Asking again gives the same report, plus the runs finished since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReport<K> {
    /// Runs that finished since the closing began.
    pub finished: u64,
    /// The keys whose queued run was dropped, in no particular order. It includes keys that were to run again
    /// and whose run finished after the stop. Parked keys are not included: they had no run to lose.
    pub dropped: Vec<K>,
    /// The keys that are still running, longest first.
    pub running: Vec<K>,
}

/// How many keys are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// Keys with a due time.
    pub waiting: usize,
    /// Keys that are in a band.
    pub ready: usize,
    /// `ready` by band, lowest first, in the order of [`Priority::ALL`].
    pub ready_by_band: [usize; 5],
    /// Keys with a claim, including the dirty ones.
    pub running: usize,
    /// Running keys that run once more.
    pub dirty: usize,
    /// Keys that wait for an event or for a person.
    pub parked: usize,
    /// Bytes of the error texts of all keys.
    pub error_bytes: u64,
}

impl KeyCounts {
    /// Returns the number of all keys.
    pub fn keys(&self) -> usize {
        self.waiting + self.ready + self.running + self.parked
    }
}

/// Counters since the queue was created. None of them ever decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Adds of keys that had no queued run.
    pub adds: u64,
    /// Adds of keys that already had a queued run.
    pub merges: u64,
    /// Keys handed out.
    pub claims: u64,
    /// Runs that were queued by the end of a claim: after a delay, at once, as a retry, or because the claim
    /// was dropped. Does not count a run that an add had queued meanwhile.
    pub requeues: u64,
    /// Failures that are retried.
    pub retries: u64,
    /// Keys given up: out of retries, [`Next::Drop`](crate::Next::Drop), or queued when the queue closed.
    pub dropped: u64,
    /// Adds refused for lack of capacity.
    pub refused: u64,
    /// Errors whose text was discarded for lack of capacity.
    pub errors_left_out: u64,
    /// Keys removed by [`cancel`](crate::Queue::cancel) and [`retain`](crate::Queue::retain).
    pub cancelled: u64,
    /// Finished claims, by the next state of the key.
    pub finished: Finishes,
}

/// Finished claims, by their [`Next`](crate::Next).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finishes {
    /// [`Next::Done`](crate::Next::Done).
    pub done: u64,
    /// [`Next::After`](crate::Next::After), except with zero.
    pub after: u64,
    /// [`Next::Again`](crate::Next::Again), and `After` with zero.
    pub again: u64,
    /// [`Next::Retry`](crate::Next::Retry), out of retries or not.
    pub retry: u64,
    /// [`Next::Park`](crate::Next::Park).
    pub park: u64,
    /// [`Next::Drop`](crate::Next::Drop).
    pub drop: u64,
    /// Claims that were dropped instead of finished.
    pub returned: u64,
}

/// Ages of the ready and running keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    /// Age of the oldest first key of a band.
    pub oldest_ready: Option<Duration>,
    /// Run time of the longest running key.
    pub longest_running: Option<Duration>,
    /// The sum over all running keys.
    pub unfinished_work: Duration,
}

/// The details of one key, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<K> {
    /// The key.
    pub key: K,
    /// Its state.
    pub state: KeyState,
    /// Its present or next band.
    pub priority: Priority,
    /// Failures in a row that count for its backoff.
    pub failures: u32,
    /// Time until its next run, if that has a due time: waiting, or dirty with a delay.
    pub due_in: Option<Duration>,
    /// Whether no add makes it due earlier, because [`Queue::add_held`](crate::Queue::add_held) set the delay.
    pub is_held: bool,
    /// Time since it became ready, if it is ready.
    pub ready_for: Option<Duration>,
    /// Run time so far, if it is running.
    pub running_for: Option<Duration>,
    /// The error of its last failure; `None` after a success.
    pub last_error: Option<Arc<str>>,
}
