//! Waiting for a state, always with a bound.

use std::time::{Duration, Instant};

/// The longest that any test waits for a state. Far above what it takes on a slow machine: a bound, not a measure.
const BOUND: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Waits until `look` returns something.
///
/// # Panics
/// When it did not within a minute; says what was waited for.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < BOUND, "waited in vain for: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The same for code without an executor.
///
/// # Panics
/// When it did not within a minute; says what was waited for.
#[expect(clippy::disallowed_methods, reason = "there is no executor to be blocked, and the wait is for a state")]
pub fn eventually_blocking<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < BOUND, "waited in vain for: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}
