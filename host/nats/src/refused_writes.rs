//! Whether the bucket refuses all writes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a bucket that is full is reported as such, unless a write succeeds before.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// The reason why the bucket refuses all writes, as far as known.
#[derive(Debug, Default)]
pub(crate) struct RefusedWrites(Mutex<Option<(Duration, String)>>);

impl RefusedWrites {
    /// Returns the reason for a while after it was told; then the next write finds out whether it still
    /// holds.
    pub(crate) fn reason(&self, now: Duration) -> Option<String> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, reason) = told.as_ref()?;
        (now.saturating_sub(*at) < REFUSED_FOR).then(|| reason.clone())
    }

    /// Keeps the reason.
    pub(crate) fn tell(&self, now: Duration, reason: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, reason));
    }

    /// Forgets the reason: a write succeeded.
    pub(crate) fn end(&self) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some() {
            *told = None;
        }
    }
}
