//! What a turn costs: for how long its thread has computed, not how long that took.
//!
//! A thread waits for a processor where the machine has other things to do, or the quota of the host is used up. That is no controller's
//! doing, and who had the turn by chance would pay for it with the turns of many milliseconds.

use std::time::Duration;

/// Says for how long the calling thread has computed since it began; `None` where the system does not tell.
pub(super) type CpuClock = fn() -> Option<Duration>;

/// A turn that took no longer than this costs what it took: to ask the system once more would be dearer than what could be wrong.
const TAKEN: Duration = Duration::from_micros(500);

/// Asks the system.
#[cfg(target_os = "linux")]
pub(super) fn clock() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn clock() -> Option<Duration> {
    None
}

/// Returns what a turn cost that took this long, and at whose beginning the clock said `before`.
pub(super) fn cost(took: Duration, before: Option<Duration>, clock: CpuClock) -> Duration {
    if took <= TAKEN {
        return took;
    }
    let computed = before.and_then(|before| Some(clock()?.saturating_sub(before)));
    computed.map_or(took, |computed| computed.min(took))
}
