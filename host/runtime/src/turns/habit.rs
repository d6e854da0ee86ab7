//! What the turns of a task are like: the next one is expected to be like those before it.

use std::time::Duration;

use super::shares::Length;
use super::{BRIEF, TURN};

/// What a turn costs that only the epoch clock has ended: more than a worker takes that pauses, less than a tick.
pub(super) const LONG_NS: u64 = 600_000;

/// How long a task must have computed on and on for its next turn to count as long. A guest that computes for some milliseconds may have
/// every thread; one that goes on and on may not.
const COMPUTES_NS: u64 = 5_000_000;

/// The most that is held against it.
const COMPUTED_NS_MAX: u64 = 20_000_000;

/// What every turn takes off that that is not long, even if it lasts for less: a guest that computes and hands over little pieces in between
/// computes, and a worker that has computed once forgets it within some thousand short turns.
const FORGOTTEN_NS_MIN: u64 = 10_000;

/// What is known of the turns of one task.
#[derive(Debug, Default)]
pub(super) struct Habit {
    /// For how long it has computed, less what it has done in turns that were not long.
    computed_ns: u64,
    /// Its last turn lasted as long as one may, or as a brief one may and there was more to do.
    lasted: bool,
}

impl Habit {
    /// Notes that a turn has ended, and whether the task goes on at once.
    pub(super) fn note(&mut self, cost_ns: u64, goes_on: bool) {
        self.computed_ns = if cost_ns >= LONG_NS {
            self.computed_ns.saturating_add(cost_ns).min(COMPUTED_NS_MAX)
        } else {
            self.computed_ns.saturating_sub(cost_ns.max(FORGOTTEN_NS_MIN))
        };
        self.lasted = Duration::from_nanos(cost_ns) >= if goes_on { BRIEF } else { TURN };
    }

    /// Returns what its next turn is expected to be.
    pub(super) fn length(&self) -> Length {
        match self {
            Self { computed_ns: COMPUTES_NS.., .. } => Length::Long,
            Self { lasted: true, .. } => Length::Short,
            Self { .. } => Length::Brief,
        }
    }
}

#[cfg(test)]
mod tests;
