//! Classifies tasks by their past quanta.

use std::time::Duration;

use super::fair_queue::TaskClass;
use super::{QUANTUM, QUANTUM_INTERACTIVE};

/// Processor time of a quantum that only the epoch clock has ended: more than that of a yielding worker, less
/// than a tick.
pub(super) const BATCH_QUANTUM_NS: u64 = 600_000;

/// CPU score above which a task counts as batch. A guest may compute for some milliseconds on every thread,
/// but not keep on computing.
const BATCH_CPU_NS_MIN: u64 = 5_000_000;

/// Maximum CPU score.
const CPU_SCORE_NS_MAX: u64 = 20_000_000;

/// Minimum decay of the CPU score per short quantum. It is small, so that a guest that interleaves tiny calls
/// with computation still counts as batch, and a worker that has computed once recovers within some thousand
/// short quanta.
const DECAY_NS_MIN: u64 = 10_000;

/// The history of one task.
#[derive(Debug, Default)]
pub(super) struct TaskClassifier {
    /// The CPU score: processor time of long quanta, minus decay by short ones.
    computed_ns: u64,
    /// The last quantum took its full time, or a full interactive one with more work left.
    lasted: bool,
}

impl TaskClassifier {
    /// Records the end of a quantum, and whether the task goes on at once.
    pub(super) fn record(&mut self, cost_ns: u64, goes_on: bool) {
        self.computed_ns = if cost_ns >= BATCH_QUANTUM_NS {
            self.computed_ns.saturating_add(cost_ns).min(CPU_SCORE_NS_MAX)
        } else {
            self.computed_ns.saturating_sub(cost_ns.max(DECAY_NS_MIN))
        };
        self.lasted = Duration::from_nanos(cost_ns) >= if goes_on { QUANTUM_INTERACTIVE } else { QUANTUM };
    }

    /// Returns the expected class of the next quantum.
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
