//! What a reconcile came to, as the guest says it.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::Error;
use crate::bindings::imports::homeostat::reconciler::types as wit;
use crate::time::milliseconds;

/// `Result<Outcome, Failure>` unless said otherwise.
pub type Result<T = Outcome, E = Failure> = std::result::Result<T, E>;

/// What a reconcile came to, when it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    again_after: Option<Duration>,
}

impl Outcome {
    /// The world is as it should be: leave the key alone until something changes, or the resync comes round.
    #[must_use]
    pub fn settled() -> Self {
        Self { again_after: None }
    }

    /// Look again after `delay`, counted from the end of this reconcile. A change in between is seen at once.
    ///
    /// So is a change of the status that this very reconcile has written: the key comes back at once, and the answer of that reconcile counts.
    /// A write that changes nothing is no change, but a time stamp in the status is one every time.
    /// [`Spec::ignore_status`](crate::Spec::ignore_status) lets no status wake the controller, and
    /// [`Spec::hold_during_delay`](crate::Spec::hold_during_delay) lets nothing cut a wait short.
    ///
    /// Zero means at once, behind the keys that wait already. The host cuts delays at 365 days, and counts whole milliseconds: a part
    /// of one is rounded up.
    #[must_use]
    pub fn again_after(delay: Duration) -> Self {
        Self { again_after: Some(delay) }
    }

    /// The delay that was asked for, if one was.
    #[must_use]
    pub fn delay(self) -> Option<Duration> {
        self.again_after
    }

    pub(crate) fn into_wit(self) -> wit::Outcome {
        self.again_after.map_or(wit::Outcome::Settled, |delay| wit::Outcome::AgainAfter(milliseconds(delay)))
    }
}

/// A reconcile that failed: what went wrong, and how to go on.
///
/// Every error becomes one by `?`, and is tried again with the controller's backoff. Two say more: an [`Error::Malformed`] document is not tried
/// again before it changes, and an [`Error::Forbidden`] names the grant that is missing.
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
    /// A failure that is tried again with the controller's backoff.
    #[must_use]
    pub fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), retry: Retry::Backoff }
    }

    /// A failure that trying again does not mend: the key is parked until its resource changes or a person asks for a retry.
    #[must_use]
    pub fn never(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), retry: Retry::Never }
    }

    /// The same failure, tried again not before `delay`. The backoff still holds when it is longer.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { retry: Retry::After(delay), ..self }
    }

    /// The same failure, with what was being done in front: `while: what went wrong`.
    #[must_use]
    pub fn while_doing(self, what: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// What went wrong, for a person. The host cuts it at 4096 bytes.
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
