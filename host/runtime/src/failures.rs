//! Which failures of a controller's reconciles stand in the host's log. All of them are counted, and told as events.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A key that goes on failing is told again when it has failed so many times as often in a row.
const AGAIN: u32 = 10;
/// Lines of one controller that may come at once.
const LINES_MAX: u32 = 10;
/// How long it takes until there is room for one line more.
const REFILL: Duration = Duration::from_secs(1);

/// Lets through the first failure of each key, the tenth in a row, the hundredth and so on: of one controller ten at once, and one a second
/// after that.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Bucket>);

#[derive(Debug, Default)]
struct Bucket {
    /// How many lines were told for which there is no room yet again.
    told: u32,
    /// Since when the next one counts down.
    since: Option<Instant>,
    /// Failures that would have been told since the last line, had there been room.
    hidden: u64,
}

impl FailureLog {
    /// Takes note of a failure of a key, the `in_a_row`th. Returns whether it is told, and then how many failures there was no room for since
    /// the last one.
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
        // What is left of a second counts on, unless there is room for all.
        self.since = Some(if self.told == 0 { now } else { since + REFILL * rooms });
    }
}

/// Returns whether a number is 1, 10, 100 and so on.
fn is_power(number: u32) -> bool {
    let digits = number.checked_ilog10().unwrap_or(0);
    number == AGAIN.pow(digits)
}

#[cfg(test)]
mod tests;
