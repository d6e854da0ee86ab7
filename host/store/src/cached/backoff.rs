//! Waits that double with each failure, and the random part of a wait. The stores behind servers share them.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The waits between attempts: they double with each failure in a row, and are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExponentialBackoff {
    /// The wait after the first failure, before it is spread.
    pub first: Duration,
    /// The longest wait, before it is spread.
    pub longest: Duration,
    /// The smallest and the largest share of a wait that its spread leaves, as `(0.5, 1.5)`.
    pub spread: (f64, f64),
}

impl ExponentialBackoff {
    /// Returns the wait after `failures` failures in a row, from 1; 0 counts as 1. `jitter` is from 0 to 1.
    pub fn delay(&self, failures: u32, jitter: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.spread(self.first.saturating_mul(1 << doublings).min(self.longest), jitter)
    }

    /// Returns a wait that something else decides, spread as the others. `jitter` is from 0 to 1.
    pub fn spread(&self, wait: Duration, jitter: f64) -> Duration {
        let (least, most) = self.spread;
        wait.mul_f64(least + (most - least) * jitter.clamp(0.0, 1.0))
    }
}

/// Returns a number from 0 to 1, another one each time, by which clients spread waits that would end together.
pub fn jitter() -> f64 {
    let random = RandomState::new().hash_one(0_u8);
    f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ExponentialBackoff, jitter};

    #[test]
    fn delays_double_up_to_their_bound_and_are_spread() {
        let (first, longest) = (Duration::from_millis(200), Duration::from_secs(5));
        let backoff = ExponentialBackoff { first, longest, spread: (0.5, 1.5) };
        let middle = |failures| backoff.delay(failures, 0.5);
        let delays = [1, 2, 3, 6, 7, u32::MAX].map(middle).map(|delay| delay.as_millis());
        assert_eq!(delays, [200, 400, 800, 5000, 5000, 5000]);
        assert_eq!(middle(0), middle(1));
        assert_eq!((backoff.delay(1, 0.0), backoff.delay(1, 1.0)), (first / 2, first * 3 / 2));
        assert_eq!(backoff.spread(longest * 2, 1.0), longest * 3);
    }

    #[test]
    fn jitter_is_another_share_each_time() {
        let shares: Vec<f64> = (0..100).map(|_| jitter()).collect();
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
        assert!(shares.iter().any(|share| *share < 0.5) && shares.iter().any(|share| *share >= 0.5));
    }
}
