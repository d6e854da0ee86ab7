//! Statistics of the reconciles of one controller: durations, results, traps and limits.

use homeostat_component::{Fault, LimitName};
use homeostat_runtime::settle::Label;
use homeostat_runtime::{ReconcileRecord, Recorder, ShardedSum};

use super::histogram::{Histogram, QUEUE, RECONCILE};

/// Every result, in the order in which they are counted.
pub(super) const RESULTS: [Label; 6] =
    [Label::Success, Label::Requeue, Label::RequeueAfter, Label::Error, Label::TerminalError, Label::Dropped];

/// Records reconciles as they end.
#[derive(Default)]
pub(super) struct ReconcileRecorder(ShardedSum<ReconcileStats>);

/// The statistics since the controller started.
#[derive(Clone, Debug)]
pub(super) struct ReconcileStats {
    /// From the due time of a key to its claim.
    pub(super) queued: Histogram<{ QUEUE.len() }>,
    /// From the claim of a key to its end.
    pub(super) worked: Histogram<{ QUEUE.len() }>,
    /// The guest's call.
    pub(super) reconciled: Histogram<{ RECONCILE.len() }>,
    /// In the order of [`RESULTS`].
    pub(super) results: [u64; RESULTS.len()],
    pub(super) traps: u64,
    /// In the order of [`LimitName::ALL`].
    pub(super) limits: [u64; LimitName::ALL.len()],
}

impl Default for ReconcileStats {
    fn default() -> Self {
        Self {
            queued: Histogram::new(&QUEUE),
            worked: Histogram::new(&QUEUE),
            reconciled: Histogram::new(&RECONCILE),
            results: [0; RESULTS.len()],
            traps: 0,
            limits: [0; LimitName::ALL.len()],
        }
    }
}

impl Recorder for ReconcileRecorder {
    fn record(&self, reconciled: &ReconcileRecord<'_>) {
        self.0.local().record(reconciled);
    }
}

impl ReconcileRecorder {
    pub(super) fn tally(&self) -> ReconcileStats {
        let mut tally = ReconcileStats::default();
        self.0.shards().for_each(|part| tally.merge(&part));
        tally
    }
}

impl ReconcileStats {
    fn record(&mut self, reconciled: &ReconcileRecord<'_>) {
        let ReconcileRecord { key: _, queued_for, worked_for, result, label, cost } = reconciled;
        self.queued.observe(*queued_for);
        self.worked.observe(*worked_for);
        self.reconciled.observe(cost.wall);
        self.results[place(*label)] += 1;
        match result {
            Err(Fault::Trap { .. }) => self.traps += 1,
            Err(Fault::Limit { limit, .. }) => {
                let hit = LimitName::ALL.iter().zip(&mut self.limits).find(|(name, _)| *name == limit);
                *hit.expect("every limit is one of all").1 += 1;
            }
            Ok(_) | Err(Fault::Failure { .. }) => {}
        }
    }

    /// Adds the statistics of another part.
    fn merge(&mut self, other: &Self) {
        let Self { queued, worked, reconciled, results, traps, limits } = other;
        self.queued.merge(queued);
        self.worked.merge(worked);
        self.reconciled.merge(reconciled);
        self.results.iter_mut().zip(results).for_each(|(sum, more)| *sum += more);
        self.traps += traps;
        self.limits.iter_mut().zip(limits).for_each(|(sum, more)| *sum += more);
    }

    /// Returns how often this limit was hit.
    pub(super) fn hits(&self, limit: LimitName) -> u64 {
        LimitName::ALL.iter().zip(self.limits).filter(|(name, _)| **name == limit).map(|(_, hits)| hits).sum()
    }

    /// Returns how many reconciles had a result that `matches` accepts.
    pub(super) fn results(&self, matches: impl Fn(Label) -> bool) -> u64 {
        RESULTS.iter().zip(self.results).filter(|(label, _)| matches(**label)).map(|(_, count)| count).sum()
    }
}

/// Returns the index of a result in [`RESULTS`].
fn place(label: Label) -> usize {
    match label {
        Label::Success => 0,
        Label::Requeue => 1,
        Label::RequeueAfter => 2,
        Label::Error => 3,
        Label::TerminalError => 4,
        Label::Dropped => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_of_a_reconcile_has_its_own_counter() {
        for (at, label) in RESULTS.into_iter().enumerate() {
            assert_eq!(place(label), at, "{label:?}");
        }
    }
}
