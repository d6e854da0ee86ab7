//! Limits the log lines about failed reconciles. All failures are counted, and all are recorded as events.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::line_budget::LineBudget;

/// A key that keeps failing is logged again after ten times as many consecutive failures.
const AGAIN: u32 = 10;
/// Maximum burst of log lines of one controller.
const LINES_MAX: u32 = 10;
/// The time in which one more line becomes available.
const REFILL: Duration = Duration::from_secs(1);

/// Lets through the first failure of each key, the tenth in a row, the hundredth and so on; at most ten lines
/// at once for each controller, and one per second after that.
#[derive(Debug)]
pub(crate) struct FailureLog(Mutex<LineBudget>);

impl Default for FailureLog {
    fn default() -> Self {
        Self(Mutex::new(LineBudget::new(LINES_MAX, REFILL)))
    }
}

impl FailureLog {
    /// Records a failure of a key, its `in_a_row`th in a row. Returns `None` if it is not logged, else the
    /// number of failures suppressed since the last line because no line was available.
    pub(crate) fn note(&self, now: Instant, in_a_row: u32) -> Option<u64> {
        is_power(in_a_row).then(|| self.0.lock().take(now)).flatten()
    }
}

/// Returns whether a number is a power of ten.
fn is_power(number: u32) -> bool {
    let digits = number.checked_ilog10().unwrap_or(0);
    number == AGAIN.pow(digits)
}

#[cfg(test)]
mod tests;
