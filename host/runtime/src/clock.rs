//! The wall clock.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// Returns the current time as RFC 3339 in UTC, to the millisecond.
pub(crate) fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

/// The longest sleep without a look at the clock, which a person or the network may set.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// A clock that tells the time of day, for schedules.
#[derive(Clone)]
pub(crate) struct WallClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WallClock {
    /// Returns the clock of the system.
    pub(crate) fn system() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    /// Returns a clock that starts at `begin` and follows tokio's time.
    #[cfg(test)]
    pub(crate) fn beginning(begin: Timestamp) -> Self {
        let since = tokio::time::Instant::now();
        Self(Arc::new(move || begin + since.elapsed()))
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }

    /// Waits until the clock shows `moment` or later.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn sleep_until(&self, moment: Timestamp) {
        loop {
            let left = self.now().duration_until(moment);
            match Duration::try_from(left) {
                Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(LOOK_EVERY)).await,
                _ => return,
            }
        }
    }
}
