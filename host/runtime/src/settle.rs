//! The one place that decides what a reconcile's end means for its key.
//!
//! Pure: no clock, no queue, no store. The queue adds what only it knows (failures in a row, jitter, retries used up).

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{Fault, Outcome, Retry};
use homeostat_workqueue::Next;

/// What a reconcile came to, as one word: the label of metrics and of the status.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Label {
    /// Settled.
    Success,
    /// Asked to be run again at once.
    Requeue,
    /// Asked to be run again after a delay.
    RequeueAfter,
    /// Failed, and will be tried again.
    Error,
    /// Failed for good.
    TerminalError,
    /// Failed, and every retry is used up.
    Dropped,
}

impl Label {
    /// Returns the label as it stands in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue_after",
            Self::Error => "error",
            Self::TerminalError => "terminal_error",
            Self::Dropped => "dropped",
        }
    }

    /// Returns whether the reconcile failed.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Error | Self::TerminalError | Self::Dropped)
    }
}

/// Turns the end of a reconcile into what the queue does with the key.
///
/// | the guest | next | failures |
/// |---|---|---|
/// | settled | leaves the queue | 0 |
/// | again after d | waits d, or goes to the tail when d is 0 | 0 |
/// | failure, backoff | waits as long as the backoff says | +1 |
/// | failure, after d | waits the longer of d and the backoff | +1 |
/// | failure, never | is parked | +1 |
/// | trap or limit | as failure, backoff | +1 |
///
/// That a key whose retries are used up is parked is the queue's to say: it counts them.
pub fn settle(result: &Result<Outcome, Fault>) -> (Next, Label) {
    match result {
        Ok(Outcome::Settled) => (Next::Done, Label::Success),
        Ok(Outcome::AgainAfter(Duration::ZERO)) => (Next::Again, Label::Requeue),
        Ok(Outcome::AgainAfter(delay)) => (Next::After(*delay), Label::RequeueAfter),
        Err(fault) => settle_fault(fault),
    }
}

fn settle_fault(fault: &Fault) -> (Next, Label) {
    let error: Arc<str> = fault.to_string().into();
    let retry = match fault {
        Fault::Failure { retry, .. } => retry,
        Fault::Trap { .. } | Fault::Limit { .. } => &Retry::Backoff,
    };
    match retry {
        Retry::Backoff => (Next::Retry { at_least: None, error }, Label::Error),
        Retry::After(delay) => (Next::Retry { at_least: Some(*delay), error }, Label::Error),
        Retry::Never => (Next::Park { error }, Label::TerminalError),
    }
}

#[cfg(test)]
mod tests;
