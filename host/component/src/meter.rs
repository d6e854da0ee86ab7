//! Measures the time for which a call occupies a thread.
//!
//! Ticks of the epoch clock are too coarse to measure a reconcile of ten microseconds, and they count waiting
//! as work. The duration of the polls has neither flaw.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use std::future::poll_fn;

/// Sums up the durations of a future's polls. Only the polling thread writes; other threads may read a
/// slightly older value.
#[derive(Debug)]
pub(crate) struct Meter {
    base: Instant,
    spent_ns: AtomicU64,
    entered_ns: AtomicU64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { base: Instant::now(), spent_ns: AtomicU64::new(0), entered_ns: AtomicU64::new(0) }
    }

    /// Returns the time since the meter was created.
    pub(crate) fn wall(&self) -> Duration {
        self.base.elapsed()
    }

    /// Returns the time spent in completed polls.
    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed))
    }

    /// Returns the time spent in polls, including the current one. Call it within a poll.
    pub(crate) fn spent_so_far(&self) -> Duration {
        let current = self.now_ns().saturating_sub(self.entered_ns.load(Ordering::Relaxed));
        self.spent() + Duration::from_nanos(current)
    }

    /// Runs `future` and measures its polls.
    ///
    /// *Cancel safety*: as that of `future`.
    pub(crate) async fn measure<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            let entered = self.now_ns();
            self.entered_ns.store(entered, Ordering::Relaxed);
            let poll = future.as_mut().poll(context);
            self.spent_ns.fetch_add(self.now_ns() - entered, Ordering::Relaxed);
            poll
        })
        .await
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
