//! The figures of a controller: its measures and its costs.

use std::sync::atomic::Ordering;

use super::Controller;
use crate::costs::ControllerCosts;
use crate::rollout::Share;
use crate::stats::ControllerMeasures;

impl Controller {
    pub(crate) fn measure(&self) -> ControllerMeasures {
        let Self { queue, stats, costs, observations, slot, .. } = self;
        ControllerMeasures {
            status: self.status(),
            keys: queue.counts(),
            counters: queue.counters(),
            ages: queue.ages(),
            swaps: stats.swaps.load(Ordering::Relaxed),
            refusals: stats.refusals.load(Ordering::Relaxed),
            rollouts: stats.rollouts.each_ref().map(|count| count.load(Ordering::Relaxed)),
            candidate_share: slot.canary().and_then(|trial| trial.share()).map_or(0.0, Share::fraction),
            spent: costs.spent(),
            denials: observations.denials(),
            shadowed: stats.shadowed.each_ref().map(|count| count.load(Ordering::Relaxed)),
        }
    }
}

impl Controller {
    /// Returns the current costs.
    pub(crate) fn account(&self, with_keys: bool) -> ControllerCosts {
        self.costs.account(&self.name, self.began.elapsed(), with_keys)
    }
}
