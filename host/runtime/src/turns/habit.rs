//! What the turns of a task are like: the next one is expected to be like those before it.

use std::time::Duration;

use super::shares::TaskClass;
use super::{QUANTUM, QUANTUM_INTERACTIVE};

/// What a turn costs that only the epoch clock has ended: more than a worker takes that pauses, less than a tick.
pub(super) const BATCH_QUANTUM_NS: u64 = 600_000;

/// How long a task must have computed on and on for its next turn to count as long. A guest that computes for some milliseconds may have
/// every thread; one that goes on and on may not.
const BATCH_CPU_NS_MIN: u64 = 5_000_000;

/// The most that is held against it.
const CPU_SCORE_NS_MAX: u64 = 20_000_000;

/// What every turn takes off that that is not long, even if it lasts for less: a guest that computes and hands over little pieces in between
/// computes, and a worker that has computed once forgets it within some thousand short turns.
const DECAY_NS_MIN: u64 = 10_000;

/// What is known of the turns of one task.
#[derive(Debug, Default)]
pub(super) struct TaskClassifier {
    /// For how long it has computed, less what it has done in turns that were not long.
    computed_ns: u64,
    /// Its last turn lasted as long as one may, or as a brief one may and there was more to do.
    lasted: bool,
}

impl TaskClassifier {
    /// Notes that a turn has ended, and whether the task goes on at once.
    pub(super) fn record(&mut self, cost_ns: u64, goes_on: bool) {
        self.computed_ns = if cost_ns >= BATCH_QUANTUM_NS {
            self.computed_ns.saturating_add(cost_ns).min(CPU_SCORE_NS_MAX)
        } else {
            self.computed_ns.saturating_sub(cost_ns.max(DECAY_NS_MIN))
        };
        self.lasted = Duration::from_nanos(cost_ns) >= if goes_on { QUANTUM_INTERACTIVE } else { QUANTUM };
    }

    /// Returns what its next turn is expected to be.
    pub(super) fn class(&self) -> TaskClass {
        match self {
            Self { computed_ns: BATCH_CPU_NS_MIN.., .. } => TaskClass::Batch,
            Self { lasted: true, .. } => TaskClass::Normal,
            Self { .. } => TaskClass::Interactive,
        }
    }
}

#[cfg(test)]
mod tests;
