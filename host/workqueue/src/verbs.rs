//! The arguments and results of the queue's methods.

use std::{hash::Hash, sync::Arc, time::Duration};

/// A key that can be queued: cheap to clone (an `Arc` inside), compared and hashed by content.
///
/// Its `clone`, `eq` and `hash` run inside the queue's lock and must not call the queue.
pub trait Key: Clone + Eq + Hash + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Key for K {}

/// When an added key becomes due. The default is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// How long after the add.
    pub after: Duration,
    /// Whether the delay is a floor: no later add makes the key due earlier.
    pub hold: bool,
}

/// Why the queue refused a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// The queue takes no new keys.
    #[error("the queue is closed and takes no new keys")]
    Closed,
    /// The queue is full, and this is a new key.
    #[error("limit keys: the queue is full")]
    Full,
}

/// The result of an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// The key was absent or waiting and is ready now.
    Ready,
    /// The key was absent and waits for its due time.
    Waiting,
    /// The key was queued already; at most its priority rose or its due time came closer.
    Merged,
    /// The key has a delay that events do not cut short; it runs after that delay.
    Held,
    /// The key is running and runs once more afterwards.
    Dirty,
    /// The key was parked and is ready or waiting now, with its failures kept.
    Unparked,
}

/// The result of a change to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// The change was made.
    Done,
    /// The key exists, but the change does not apply: the key is running with no next run, or it is parked
    /// and was to be postponed.
    Unchanged,
    /// The queue does not know the key.
    Absent,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyState {
    /// It has a due time.
    Waiting,
    /// It is in its band.
    Ready,
    /// A worker holds its claim.
    Running,
    /// A worker holds its claim, and it runs once more afterwards.
    Dirty,
    /// It failed permanently or is out of retries (elsewhere called dead-lettered). It stays parked until it
    /// is added again or retried.
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

/// The next state of a key after its run.
///
/// A key that was added during the run is merged: it runs at the earlier of the two times and with the higher
/// of the two priorities. With [`DuringDelay::Hold`](crate::DuringDelay::Hold) it runs at the later time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is finished: the queue removes it.
    Done,
    /// It succeeded and runs again after so long. Zero is [`Next::Again`].
    After(Duration),
    /// It succeeded and runs again at once, at the tail of its band.
    Again,
    /// It failed. It runs again after its backoff, and not before `at_least`. When its retries are used up,
    /// it is parked.
    Retry {
        /// The minimum wait that the failure asked for, if any.
        at_least: Option<Duration>,
        /// The error, shown when the key is inspected.
        error: Arc<str>,
    },
    /// It failed permanently: it is parked.
    Park {
        /// The error, shown when the key is inspected.
        error: Arc<str>,
    },
    /// It is dropped: the queue removes it, including a run that was queued meanwhile.
    Drop,
}

/// The result of a finished run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishOutcome {
    /// The state of the key; `None` when the queue has removed it.
    pub state: Option<KeyState>,
    /// Its failures in a row, this run included.
    pub failures: u32,
    /// How long it waits, if it is waiting.
    pub due_in: Option<Duration>,
    /// Whether it was parked because it is out of retries.
    pub dropped: bool,
}

/// The phase of a queue's shutdown. It only moves forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutdownPhase {
    /// The queue takes keys and hands them out.
    #[default]
    Open,
    /// The queue takes no new keys; keys that are ready or become dirty are still handed out.
    Draining,
    /// The queue hands out no keys.
    Stopped,
    /// The queue hands out no keys, and running work is asked to end at once.
    Aborted,
}

impl ShutdownPhase {
    /// Returns whether the queue hands out no more keys.
    pub fn is_closed(self) -> bool {
        self >= ShutdownPhase::Stopped
    }
}
