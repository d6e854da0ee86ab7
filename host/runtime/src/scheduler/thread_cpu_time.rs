//! The cost of a quantum: the processor time of its thread, not the wall time.
//!
//! A thread also waits for a processor, when the machine is busy or the host's CPU quota is used up. A tenant
//! that happens to have the quantum must not pay for that with many milliseconds of its share.

use std::time::Duration;

/// Returns the processor time of the calling thread; `None` if the system does not report it.
pub(super) type CpuClock = fn() -> Option<Duration>;

/// A shorter quantum costs its wall time: another system call would cost more than the possible error.
const TAKEN: Duration = Duration::from_micros(500);

/// Reads the thread's CPU clock.
#[cfg(target_os = "linux")]
pub(super) fn clock() -> Option<Duration> {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn clock() -> Option<Duration> {
    None
}

/// Returns the cost of a quantum with the wall time `took`; `before` is the processor time at its start.
pub(super) fn cost(took: Duration, before: Option<Duration>, clock: CpuClock) -> Duration {
    if took <= TAKEN {
        return took;
    }
    let computed = before.and_then(|before| Some(clock()?.saturating_sub(before)));
    computed.map_or(took, |computed| computed.min(took))
}
