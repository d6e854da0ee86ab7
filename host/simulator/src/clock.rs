//! The virtual clock, and ids that are the same in each run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use homeostat_store::ClockAndIds;
use homeostat_workqueue::Moment;

/// The start of virtual time: 2026-01-01T00:00:00Z.
const START: Duration = Duration::from_secs(1_767_225_600);

/// A clock that moves only when it is told to.
#[derive(Debug, Default)]
pub(crate) struct VirtualClock {
    /// Since the start, in nanoseconds.
    elapsed: AtomicU64,
    ids: AtomicU64,
    drawn: AtomicU64,
}

impl VirtualClock {
    /// Returns the time since the start of the simulation.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed.load(Ordering::Relaxed))
    }

    /// Returns the time for the queue.
    pub(crate) fn moment(&self) -> Moment {
        Moment::at(self.elapsed())
    }

    /// Returns the time since 1970, in nanoseconds.
    pub(crate) fn unix_nanoseconds(&self) -> u64 {
        u64::try_from((START + self.elapsed()).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Moves the clock.
    pub(crate) fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let _before =
            self.elapsed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |elapsed| Some(elapsed.saturating_add(by)));
    }

    /// Fills a buffer with bytes that are the same in each run.
    pub(crate) fn fill(&self, bytes: u32) -> Vec<u8> {
        let from = self.drawn.fetch_add(u64::from(bytes), Ordering::Relaxed);
        (from..from + u64::from(bytes)).map(|at| mixed(at).to_le_bytes()[0]).collect()
    }
}

/// Returns a number whose bits depend on all bits of `number`. Source: the finaliser of splitmix64.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

impl ClockAndIds for VirtualClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + START + self.elapsed()
    }

    fn uid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.ids.fetch_add(1, Ordering::Relaxed))
    }

    fn suffix(&self) -> String {
        const LETTERS: &[u8; 20] = b"bcdfghjklmnpqrstvwxz";
        let number = mixed(self.ids.fetch_add(1, Ordering::Relaxed)).to_le_bytes();
        number.iter().take(5).map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
    }
}
