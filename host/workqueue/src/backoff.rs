//! The wait of a key after failures.

use std::time::Duration;

/// The wait between the tries of a failing key, and the number of tries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub base: Duration,
    /// The longest wait.
    pub max: Duration,
    /// How many retries a key gets before it is parked; `None` is unlimited.
    pub retries_max: Option<u32>,
    /// The jitter: the share of each wait, 0.0 to 1.0, that is randomised downwards. Values outside that
    /// range are clamped, and not-a-number is 0.
    pub jitter: f64,
}

impl Default for Backoff {
    /// 5 ms doubling to 1,000 s, with a jitter of a tenth and unlimited retries.
    fn default() -> Backoff {
        Backoff { base: Duration::from_millis(5), max: Duration::from_secs(1000), retries_max: None, jitter: 0.1 }
    }
}

impl Backoff {
    /// Returns the wait before the next try, after `failures` failures in a row.
    ///
    /// Doubles from `base` and stops at `max`; `failures = 1` gives `base`, and so does 0. `random` is any 64
    /// bits. Jitter is spread *below* the result, so it still works at the cap: the wait lies in
    /// `(d·(1−jitter), d]`. Never zero, and never above `max` unless `max` is zero, where it is one
    /// nanosecond.
    ///
    /// Source: client-go's per-item exponential limiter, whose defaults are 5 ms and 1000 s.
    pub fn delay(&self, failures: u32, random: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(63);
        let factor = 1_u128 << doublings;
        let nanos = self.base.as_nanos().saturating_mul(factor).min(self.max.as_nanos());
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        let below = (nanos as f64 * self.jitter_share() * unit(random)) as u64;
        Duration::from_nanos(nanos.saturating_sub(below).max(1))
    }

    /// Returns whether a key with so many failures in a row has used up its retries.
    pub fn used_up(&self, failures: u32) -> bool {
        self.retries_max.is_some_and(|retries_max| failures > retries_max)
    }

    fn jitter_share(&self) -> f64 {
        if self.jitter.is_nan() { 0.0 } else { self.jitter.clamp(0.0, 1.0) }
    }
}

/// Maps 64 random bits to [0, 1): the upper 53 bits are what an `f64` can hold.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests;
