//! The processor time that the keys of one lease take, as its holder tells it.
//!
//! The holder takes samples of a sum, and tells the mean of about the last minute in its record. The other hosts place
//! leases by these figures, so they change seldom: a new one is told only when the measurement has left the last one by
//! an eighth, and by a hundredth of a core.
//!
//! A holder that has just begun lists all its keys, which is no measure of its load. So it tells the figure of the former
//! holder at first: the first window after the beginning does not count, and the second one has to end.
//!
//! Pure: times are arguments.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

/// The processor time of a lease at most, in thousandths of a core: 4096 cores. A record with more counts as this.
pub const MILLICORES_MAX: u32 = 4_096_000;

/// The unit of figures, in thousandths of a core. A smaller load is none.
const STEP: u32 = 10;
/// The samples in one window.
const SAMPLES: u32 = 12;

/// The meter of one lease on the host that holds it.
#[derive(Debug, Clone)]
pub struct LoadMeter {
    window: Duration,
    /// Samples before this time do not count.
    warm_at: Duration,
    /// Times, each with the processor time until then. The first one is a window old, once there are so many: at most
    /// `SAMPLES` and two.
    samples: VecDeque<(Duration, Duration)>,
    told: Option<u32>,
}

impl LoadMeter {
    /// Creates a meter whose figures are the means of this time.
    pub fn new(window: Duration) -> Self {
        Self { window, warm_at: Duration::ZERO, samples: VecDeque::new(), told: None }
    }

    /// Begins anew with a term, with the figure in the record of the former holder.
    pub fn begin(&mut self, now: Duration, former: Option<u32>) {
        self.warm_at = now + self.window;
        self.samples.clear();
        self.told = former;
    }

    /// Takes the processor time until now, counted from any fixed moment, and returns the figure for the record in
    /// thousandths of a core. `None` while nobody has measured the lease.
    pub fn sample(&mut self, now: Duration, spent: Duration) -> Option<u32> {
        if now < self.warm_at {
            return self.told;
        }
        if self.samples.back().is_none_or(|(at, _)| now >= *at + self.window / SAMPLES) {
            self.samples.push_back((now, spent));
        }
        while self.samples.get(1).is_some_and(|(at, _)| now >= *at + self.window) {
            self.samples.pop_front();
        }
        if let Some((since, before)) = self.samples.front()
            && now >= *since + self.window
        {
            let measured = millicores(spent.saturating_sub(*before), now.saturating_sub(*since));
            if self.told.is_none_or(|told| measured.abs_diff(told) >= STEP.max(told / 8)) {
                self.told = Some((measured + STEP / 2) / STEP * STEP);
            }
        }
        self.told
    }
}

/// Returns a rate in thousandths of a core.
fn millicores(spent: Duration, span: Duration) -> u32 {
    let rate = spent.as_nanos().saturating_mul(1000) / span.as_nanos().max(1);
    u32::try_from(rate).unwrap_or(u32::MAX).min(MILLICORES_MAX)
}
