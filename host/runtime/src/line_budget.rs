//! A bound on the log lines of one controller: a burst, and one more line after each interval. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// A burst of lines, which become available again over time. It counts the lines that it left out.
#[derive(Debug)]
pub(crate) struct LineBudget {
    burst: u32,
    refill: Duration,
    /// Lines in use.
    used: u32,
    /// Start of the current refill interval.
    since: Option<Instant>,
    /// Lines left out since the last one.
    left_out: u64,
}

impl LineBudget {
    /// Allows `burst` lines at once, and one more after each `refill`.
    pub(crate) const fn new(burst: u32, refill: Duration) -> Self {
        Self { burst, refill, used: 0, since: None, left_out: 0 }
    }

    /// Takes one line. Returns `None` if it is left out, else the number of lines left out since the last one.
    pub(crate) fn take(&mut self, now: Instant) -> Option<u64> {
        self.refill(now);
        if self.used >= self.burst {
            self.left_out += 1;
            return None;
        }
        self.used += 1;
        Some(std::mem::take(&mut self.left_out))
    }

    fn refill(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let lines = now.duration_since(since).as_nanos() / self.refill.as_nanos().max(1);
        let lines = u32::try_from(lines).unwrap_or(u32::MAX);
        self.used = self.used.saturating_sub(lines);
        // The rest of the interval counts, unless all lines are available.
        self.since = Some(if self.used == 0 { now } else { since + self.refill * lines });
    }
}
