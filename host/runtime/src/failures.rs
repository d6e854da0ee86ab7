//! Limits the log lines about failed reconciles. All failures are counted, and all are recorded as events.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A key that keeps failing is logged again after ten times as many consecutive failures.
const AGAIN: u32 = 10;
/// Maximum burst of log lines of one controller.
const LINES_MAX: u32 = 10;
/// The time in which one more line becomes available.
const REFILL: Duration = Duration::from_secs(1);

/// Lets through the first failure of each key, the tenth in a row, the hundredth and so on; at most ten lines
/// at once for each controller, and one per second after that.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Bucket>);

#[derive(Debug, Default)]
struct Bucket {
    /// Lines in use, which become available again over time.
    told: u32,
    /// Start of the current refill interval.
    since: Option<Instant>,
    /// Failures suppressed since the last line because no line was available.
    hidden: u64,
}

impl FailureLog {
    /// Records a failure of a key, its `in_a_row`th in a row. Returns `None` if it is not logged, else the
    /// number of failures suppressed since the last line.
    pub(crate) fn note(&self, now: Instant, in_a_row: u32) -> Option<u64> {
        if !is_power(in_a_row) {
            return None;
        }
        let mut bucket = self.0.lock();
        bucket.refill(now);
        if bucket.told >= LINES_MAX {
            bucket.hidden += 1;
            return None;
        }
        bucket.told += 1;
        Some(std::mem::take(&mut bucket.hidden))
    }
}

impl Bucket {
    fn refill(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let rooms = now.duration_since(since).as_nanos() / REFILL.as_nanos();
        let rooms = u32::try_from(rooms).unwrap_or(u32::MAX);
        self.told = self.told.saturating_sub(rooms);
        // The rest of the interval counts, unless all lines are available.
        self.since = Some(if self.told == 0 { now } else { since + REFILL * rooms });
    }
}

/// Returns whether a number is a power of ten.
fn is_power(number: u32) -> bool {
    let digits = number.checked_ilog10().unwrap_or(0);
    number == AGAIN.pow(digits)
}

#[cfg(test)]
mod tests;
