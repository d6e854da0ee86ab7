//! What the queue is told and what it answers.

use std::{hash::Hash, sync::Arc, time::Duration};

/// What can be queued: cheap to clone (an `Arc` inside), compared and hashed by content.
///
/// Its `clone`, `eq` and `hash` run inside the queue's lock and must not call the queue.
pub trait Key: Clone + Eq + Hash + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Key for K {}

/// Why the queue did not take a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// It takes no new keys any more.
    #[error("the queue is closed and takes no new keys")]
    Closed,
    /// It has as many keys as it may have, and this is another one.
    #[error("limit keys: the queue has as many keys as it may have")]
    Full,
}

/// What an add did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// The key was absent or waiting and is ready now.
    Ready,
    /// The key was absent and waits for its due time.
    Waiting,
    /// The key was queued already; at most its priority rose or its due time came closer.
    Merged,
    /// The key has a delay that events do not cut short; it runs when that is over.
    Held,
    /// The key is running and runs once more afterwards.
    Dirty,
    /// The key was parked and is ready or waiting now, with its failures kept.
    Unparked,
}

/// What a verb on one key did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// It was done.
    Done,
    /// The key is there, but there was nothing to do: it runs with no further run queued, or it is parked and was to
    /// be postponed.
    Unchanged,
    /// The queue does not know the key.
    Absent,
}

/// Where a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyState {
    /// It has a due time.
    Waiting,
    /// It stands in its band.
    Ready,
    /// A worker holds its claim.
    Running,
    /// A worker holds its claim, and it runs once more afterwards.
    Dirty,
    /// It failed for good or has used up its retries, and stays until it is added again or retried.
    Parked,
}

impl KeyState {
    /// Returns the state's name, as it appears in listings and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            KeyState::Waiting => "waiting",
            KeyState::Ready => "ready",
            KeyState::Running => "running",
            KeyState::Dirty => "dirty",
            KeyState::Parked => "parked",
        }
    }
}

impl std::fmt::Display for KeyState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What becomes of a key when its run is over.
///
/// A key that was added during the run is merged in: it runs at the earlier of the two times and with the higher of the
/// two priorities. Where [`DuringDelay::Hold`](crate::DuringDelay::Hold) says that delays are floors, it runs at the later one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is finished: the queue forgets it.
    Done,
    /// It succeeded and runs again after so long. Zero is [`Next::Again`].
    After(Duration),
    /// It succeeded and runs again at once, at the tail of its band.
    Again,
    /// It failed. It runs again after its backoff, and not before `at_least`; or is parked when its retries are used up.
    Retry {
        /// The wait that the failure asked for, if it did.
        at_least: Option<Duration>,
        /// What went wrong, for whoever inspects the key.
        error: Arc<str>,
    },
    /// It failed in a way that no retry mends: it is parked.
    Park {
        /// What went wrong, for whoever inspects the key.
        error: Arc<str>,
    },
    /// It has no business here any more: the queue forgets it, a run that was queued meanwhile included.
    Drop,
}

/// Where a key went when its run was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishOutcome {
    /// Where it is now; `None` when the queue has forgotten it.
    pub state: Option<KeyState>,
    /// Its failures in a row, this run included.
    pub failures: u32,
    /// How long it waits, if it does.
    pub due_in: Option<Duration>,
    /// Whether it was parked because its retries are used up.
    pub dropped: bool,
}

/// How far the closing of a queue is. It only moves forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutdownPhase {
    /// Keys are taken and handed out.
    #[default]
    Open,
    /// No new key is taken; what is ready or becomes dirty is still handed out.
    Draining,
    /// Nothing is handed out any more.
    Stopped,
    /// Nothing is handed out any more, and running work is asked to end at once.
    Aborted,
}

impl ShutdownPhase {
    /// Says whether nothing is handed out any more.
    pub fn is_closed(self) -> bool {
        self >= ShutdownPhase::Stopped
    }
}
