//! Waiting for a state, always with a bound.

use std::time::{Duration, Instant};

/// The longest that any test waits for a state. Far above what it takes on a slow machine: a bound, not a measure.
pub const BOUND: Duration = Duration::from_secs(60);
/// The same for what may have to build guests, with everything that they depend on, or to compile components in a process that gives
/// way to everything else on the machine.
pub(crate) const BUILD_BOUND: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// What a look takes of a bound at most: a machine that stands still for a minute, or has no time for us, makes no test fail.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// What is left of a bound.
struct TimeBudget {
    left: Duration,
    looked: Instant,
}

impl TimeBudget {
    fn new(bound: Duration) -> Self {
        Self { left: bound, looked: Instant::now() }
    }

    /// Takes off what has passed since the last look. Returns whether anything is left.
    fn lasts(&mut self) -> bool {
        let passed = self.looked.elapsed();
        self.looked += passed;
        self.left = self.left.saturating_sub(passed.min(LOOK_MAX));
        !self.left.is_zero()
    }
}

/// Waits until `look` returns something.
///
/// # Panics
/// When it did not within a minute; says what was waited for.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let mut patience = TimeBudget::new(BOUND);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(patience.lasts(), "waited in vain for: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The same for code without an executor.
///
/// # Panics
/// When it did not within a minute; says what was waited for.
pub fn eventually_blocking<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until(BOUND, look).unwrap_or_else(|| panic!("waited in vain for: {what}"))
}

/// The same for what may have to build guests or to compile components first.
///
/// # Panics
/// When it did not within five minutes; says what was waited for.
pub fn eventually_built<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until(BUILD_BOUND, look).unwrap_or_else(|| panic!("waited in vain for: {what}"))
}

/// Waits for as long as `bound` until `look` returns something. It is asked once more at the end.
#[expect(clippy::disallowed_methods, reason = "there is no executor to be blocked, and the wait is for a state")]
pub(crate) fn until<T>(bound: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut patience = TimeBudget::new(bound);
    while patience.lasts() {
        if let Some(found) = look() {
            return Some(found);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    look()
}
