//! Waits for a state, always with a time limit.

use std::fmt::Debug;
use std::panic::Location;
use std::time::{Duration, Instant};

/// The time limit of every wait in tests. It is far above the need of a slow machine: a bound, not a
/// measurement.
pub const BOUND: Duration = Duration::from_secs(60);
/// The time limit of waits that may include building guests with all dependencies, or compiling components in
/// a low-priority process.
pub const BUILD_BOUND: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The time limit of [`within`] on a paused clock, which reaches it as soon as no other task can run.
const PAUSED_BOUND: Duration = Duration::from_secs(366 * 86_400);
/// The most that one check takes off the time limit. A machine that stalls for a minute fails no test.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// The rest of a time limit.
struct TimeBudget {
    left: Duration,
    looked: Instant,
}

impl TimeBudget {
    fn new(bound: Duration) -> Self {
        Self { left: bound, looked: Instant::now() }
    }

    /// Subtracts the time since the last check. Returns whether any is left.
    fn lasts(&mut self) -> bool {
        let passed = self.looked.elapsed();
        self.looked += passed;
        self.left = self.left.saturating_sub(passed.min(LOOK_MAX));
        !self.left.is_zero()
    }
}

/// Waits for the result of a future, which must be on its way: for a minute, or on tokio's paused clock until
/// nothing but this wait is left to do.
///
/// # Panics
/// When the result does not come. The message contains the place of the call.
#[track_caller]
pub fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    within(BOUND, future)
}

/// The same with another time limit than a minute.
///
/// # Panics
/// When the result does not come. The message contains the place of the call.
#[track_caller]
pub fn within<F: Future>(bound: Duration, future: F) -> impl Future<Output = F::Output> {
    // In a box, so that the futures that wait for this one stay small.
    let (caller, began, mut future) = (Location::caller(), Instant::now(), Box::pin(future));
    async move {
        let mut wait = bound;
        loop {
            if let Ok(output) = tokio::time::timeout(wait, &mut future).await {
                return output;
            }
            // On a paused clock no time has passed.
            assert!(began.elapsed() < bound && wait < PAUSED_BOUND, "waited in vain at {caller}");
            wait *= 2;
        }
    }
}

/// Waits until `look` returns a value. On tokio's paused clock each check takes 10 ms of virtual time.
///
/// # Panics
/// When it does not within a minute. The message contains `what`.
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

/// The same without an executor.
///
/// # Panics
/// When it does not within a minute. The message contains `what`.
pub fn eventually_blocking<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until(BOUND, look).unwrap_or_else(|| panic!("waited in vain for: {what}"))
}

/// Waits until `look` returns `wanted`, without an executor.
///
/// # Panics
/// When it does not within a minute. The message contains `what`, the wanted value and the last one.
pub fn eventually_equal<T: PartialEq<W> + Debug, W: Debug + ?Sized>(
    what: &str,
    wanted: &W,
    mut look: impl FnMut() -> T,
) {
    let mut last = None;
    let found = until(BOUND, || {
        let now = look();
        let is_equal = now == *wanted;
        last = Some(now);
        is_equal.then_some(())
    });
    assert!(
        found.is_some(),
        "waited in vain for {what} to be {wanted:?}: it is {:?}",
        last.expect("until() looks once")
    );
}

/// The same for states that may need building guests or compiling components first.
///
/// # Panics
/// When it does not within five minutes. The message contains `what`.
pub fn eventually_built<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until(BUILD_BOUND, look).unwrap_or_else(|| panic!("waited in vain for: {what}"))
}

/// Waits for `bound` at most until `look` returns a value. It is called once more at the end.
#[expect(clippy::disallowed_methods, reason = "there is no executor to be blocked, and the wait is for a state")]
pub fn until<T>(bound: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut patience = TimeBudget::new(bound);
    while patience.lasts() {
        if let Some(found) = look() {
            return Some(found);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    look()
}
