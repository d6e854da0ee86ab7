//! The figures of a controller: measures, costs and observations. They outlive its definitions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use homeostat_store::Key;
use homeostat_workqueue::Queue;
use tokio::time::Instant;

use crate::costs::{ControllerCosts, Costs, Recorder};
use crate::failures::FailureLog;
use crate::observations::Observations;
use crate::rollout::Share;
use crate::slot::Slot;
use crate::stats::{ControllerMeasures, Stats};
use crate::status::ControllerStatus;

pub(crate) struct Telemetry {
    /// When the controller was added.
    pub(crate) began: Instant,
    pub(crate) observations: Arc<Observations>,
    pub(crate) costs: Costs,
    pub(crate) stats: Stats,
    pub(super) failures: FailureLog,
    pub(super) recorder: Arc<dyn Recorder>,
}

impl Telemetry {
    pub(super) fn new(observations: Arc<Observations>, recorder: Arc<dyn Recorder>) -> Self {
        let (costs, stats, failures) = Default::default();
        Self { began: Instant::now(), observations, costs, stats, failures, recorder }
    }

    /// Returns all measures, with those of the queue and the canary.
    pub(super) fn measure(&self, status: ControllerStatus, queue: &Queue<Key>, slot: &Slot) -> ControllerMeasures {
        let Self { stats, costs, observations, .. } = self;
        ControllerMeasures {
            status,
            keys: queue.counts(),
            counters: queue.counters(),
            ages: queue.ages(),
            swaps: stats.swaps.load(Ordering::Relaxed),
            refusals: stats.refusals.load(Ordering::Relaxed),
            rollouts: stats.rollouts.each_ref().map(|count| count.load(Ordering::Relaxed)),
            candidate_share: slot.canary().and_then(|step| step.share()).map_or(0.0, Share::fraction),
            spent: costs.spent(),
            denials: observations.denials(),
            shadowed: stats.shadowed.each_ref().map(|count| count.load(Ordering::Relaxed)),
        }
    }

    /// Returns the current costs of the controller `name`.
    pub(crate) fn account(&self, name: &Arc<str>, with_keys: bool) -> ControllerCosts {
        self.costs.account(name, self.began.elapsed(), with_keys)
    }
}
