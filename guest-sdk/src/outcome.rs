//! The outcome of a reconcile, as the guest returns it.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::Error;
use crate::bindings::imports::homeostat::reconciler::types as wit;
use crate::time::milliseconds;

/// `Result<Outcome, Failure>` by default.
pub type Result<T = Outcome, E = Failure> = std::result::Result<T, E>;

/// The outcome of a reconcile that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    again_after: Option<Duration>,
}

impl Outcome {
    /// The world matches the resource: the host leaves the key alone until a change or the next resync.
    #[must_use]
    pub fn settled() -> Self {
        Self { again_after: None }
    }

    /// Asks the host to reconcile again after `delay`, counted from the end of this reconcile. A change in
    /// between cuts the delay short.
    ///
    /// So does a change of the status that this very reconcile wrote: the key is requeued at once, and the
    /// outcome of the next reconcile counts. A write that changes nothing is no change, but a time stamp in
    /// the status changes every time. With [`Spec::ignore_status`](crate::Spec::ignore_status) no status
    /// change wakes the controller. With [`Spec::hold_during_delay`](crate::Spec::hold_during_delay) no
    /// change cuts a delay short.
    ///
    /// Zero means at once, behind the keys that are already queued. The host cuts delays at 365 days. Delays
    /// are whole milliseconds, rounded up.
    #[must_use]
    pub fn again_after(delay: Duration) -> Self {
        Self { again_after: Some(delay) }
    }

    /// Returns the requested delay, if there is one.
    #[must_use]
    pub fn delay(self) -> Option<Duration> {
        self.again_after
    }

    pub(crate) fn into_wit(self) -> wit::Outcome {
        self.again_after.map_or(wit::Outcome::Settled, |delay| wit::Outcome::AgainAfter(milliseconds(delay)))
    }
}

/// The failure of a reconcile: its message, and when to retry.
///
/// `?` converts every error, to be retried with the controller's backoff. Two errors are special: an
/// [`Error::Malformed`] document is not retried before it changes, and an [`Error::Forbidden`] names the
/// missing grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    message: String,
    retry: Retry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    Backoff,
    After(Duration),
    Never,
}

impl Failure {
    /// Creates a failure that is retried with the controller's backoff.
    #[must_use]
    pub fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), retry: Retry::Backoff }
    }

    /// Creates a failure that retries cannot fix: the key is parked until its resource changes or a person
    /// requests a retry.
    #[must_use]
    pub fn never(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), retry: Retry::Never }
    }

    /// Retries the failure not before `delay`. The backoff still holds when it is longer.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { retry: Retry::After(delay), ..self }
    }

    /// Puts the failed operation in front of the message: `while: what went wrong`.
    #[must_use]
    pub fn while_doing(self, what: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// Returns the message for people. The host cuts it at 4096 bytes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn into_wit(self) -> wit::Failure {
        let retry = match self.retry {
            Retry::Backoff => wit::Retry::Backoff,
            Retry::After(delay) => wit::Retry::After(milliseconds(delay)),
            Retry::Never => wit::Retry::Never,
        };
        wit::Failure { message: self.message, retry }
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let malformed = matches!((&error as &dyn Any).downcast_ref(), Some(Error::Malformed { .. }));
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        if malformed { Self::never(message) } else { Self::new(message) }
    }
}

#[cfg(test)]
mod tests;
