//! The one place that decides the next step of a key after its reconcile.
//!
//! Pure: no clock, no queue, no store. The queue adds consecutive failures, jitter and exhausted retries,
//! which only it knows.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{Fault, Outcome, Retry};
use homeostat_workqueue::Next;

/// The outcome of a reconcile as one word, for metrics and the status.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Label {
    /// Settled.
    Success,
    /// Asked to run again at once.
    Requeue,
    /// Asked to run again after a delay.
    RequeueAfter,
    /// Failed, and will be retried.
    Error,
    /// Failed, and must not be retried.
    TerminalError,
    /// Failed, and all retries are used up.
    Dropped,
}

impl Label {
    /// Returns the label value in metrics.
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

/// Maps the end of a reconcile to the queue's next step for the key.
///
/// * Settled: the key leaves the queue. Its failures become 0.
/// * Again after d: the key waits for d, or goes to the tail of the queue if d is 0. Its failures become 0.
/// * Failure with backoff: the key waits for the backoff. Its failures grow by 1.
/// * Failure after d: the key waits for the longer of d and the backoff. Its failures grow by 1.
/// * Failure without retry: the key is parked. Its failures grow by 1.
/// * Trap or limit: as a failure with backoff.
///
/// The queue itself parks a key whose retries are used up, because it counts them.
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
