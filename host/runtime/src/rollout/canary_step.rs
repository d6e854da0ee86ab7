//! One step of a canary: its keys, the statistics of both versions, and whether it has failed.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use homeostat_component::{CallReport, EffectClass, Fault, Outcome};
use homeostat_store::Key;
use homeostat_workqueue::Claim;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Analysis, Comparison, Gate, KeySplit, RunRecord, RunResult, RunTotals, Share, Track, analyse, key_hash};
use crate::slot::LoadedVersion;

/// A guest that asks to run again before this delay counts as running again at once.
const REQUEUE_SOON_MAX: Duration = Duration::from_secs(1);

/// One step of one canary. Each step is a new value, so that statistics of earlier steps do not count.
pub(crate) struct CanaryStep {
    pub(crate) loaded: Arc<LoadedVersion>,
    pub(crate) split: KeySplit,
    /// Its effects are not applied yet, and it has no feeders.
    pub(crate) is_shadow: bool,
    gate: Mutex<Gate>,
    comparison: Mutex<Comparison>,
    /// Start of the step.
    began: Instant,
    candidate: Arc<CandidateState>,
}

/// The state of a canary across its steps.
#[derive(Default)]
struct CandidateState {
    failed: OnceLock<String>,
    /// Cancelled when the canary fails or its rollout ends.
    over: CancellationToken,
}

impl CanaryStep {
    /// Returns the first step, without keys; `is_shadow` if the canary runs as a shadow first. `past`: the
    /// totals of the stable version so far.
    pub(crate) fn begin(loaded: LoadedVersion, part: KeySplit, gate: Gate, is_shadow: bool, past: RunTotals) -> Self {
        let (gate, both) = (Mutex::new(gate), Mutex::new(Comparison { stable_totals: past, ..Comparison::default() }));
        let (began, fate) = (Instant::now(), Arc::default());
        Self { loaded: Arc::new(loaded), split: part, is_shadow, gate, comparison: both, began, candidate: fate }
    }

    /// Returns a step of the same canary with other keys or another gate. Its statistics start at zero.
    pub(crate) fn next(&self, part: KeySplit, gate: Gate) -> Self {
        let (loaded, fate) = (self.loaded.clone(), self.candidate.clone());
        let both = Mutex::new(self.comparison.lock().next_step());
        Self {
            loaded,
            split: part,
            is_shadow: false,
            gate: Mutex::new(gate),
            comparison: both,
            began: Instant::now(),
            candidate: fate,
        }
    }

    /// Returns the step after the shadow, still without keys.
    pub(crate) fn after_shadow(&self) -> Self {
        self.next(self.split.clone(), self.gate.lock().clone())
    }

    /// Returns whether `loaded` is this canary.
    pub(crate) fn is_candidate(&self, loaded: &Weak<LoadedVersion>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.loaded), loaded.as_ptr())
    }

    /// Replaces the gate. The statistics of this step so far count against it too.
    pub(crate) fn set_gate(&self, gate: Gate) {
        *self.gate.lock() = gate;
    }

    /// Returns the version that reconciles a key. After a failure that is the stable one, for every key and
    /// at once.
    pub(crate) fn track_of(&self, key: &Key) -> Track {
        if self.failure().is_some() { Track::Stable } else { self.split.track_of(key) }
    }

    /// Returns the canary's share of the keys, without pinned keys.
    pub(crate) fn share(&self) -> Option<Share> {
        self.split.share.filter(|_| self.failure().is_none())
    }

    /// Records one reconcile. If it makes the analysis fail, no further reconcile starts on the canary.
    pub(crate) fn record(&self, side: Track, claim: &Claim<Key>, report: &CallReport<Outcome>) {
        let run = self.run(claim, report);
        self.note_in(side, |both| both.record(side, run));
    }

    /// Records a fault of `map` or `poll`: a trap or limit there counts like one of a reconcile.
    pub(crate) fn note_asked(&self, side: Track, fault: &Fault) {
        let end = fault_result(fault);
        self.note_in(side, |both| match side {
            Track::Stable => both.stable.note_asked(end),
            Track::Canary => both.canary.note_asked(end),
        });
    }

    /// Extracts the data for the gate from a report.
    fn run(&self, claim: &Claim<Key>, CallReport { result, cost }: &CallReport<Outcome>) -> RunRecord {
        let ended = self.began.elapsed();
        RunRecord {
            // Without the salt, so that a key has the same hash in all steps.
            key: key_hash(claim.key(), 0),
            is_resync: claim.is_without_event(),
            is_retry: claim.failures() > 0,
            end: self::run_result(result),
            writes: cost.effects.of(EffectClass::Write),
            again_soon: matches!(result, Ok(Outcome::AgainAfter(delay)) if *delay < REQUEUE_SOON_MAX),
            ready: ended.saturating_sub(cost.wall).saturating_sub(claim.queued_for()),
            ended,
            wall: cost.wall,
        }
    }

    fn note_in(&self, side: Track, note: impl FnOnce(&mut Comparison)) {
        let mut both = self.comparison.lock();
        note(&mut both);
        if side == Track::Canary
            && let Analysis::Fail(reason) = analyse(&self.gate.lock(), &both)
        {
            self.fail(reason);
        }
    }

    /// Returns the statistics of both versions in this step.
    pub(crate) fn comparison(&self) -> Comparison {
        self.comparison.lock().clone()
    }

    /// Returns the reason of the failure, if the canary has failed.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.candidate.failed.get().map(String::as_str)
    }

    /// Ends the canary: no further reconcile starts on it.
    pub(crate) fn fail(&self, reason: String) {
        // The first reason counts.
        drop(self.candidate.failed.set(reason));
        self.candidate.over.cancel();
    }

    /// Marks the canary as no longer tried.
    pub(crate) fn finish(&self) {
        self.candidate.over.cancel();
    }

    /// Waits until the canary fails or its rollout ends. *Cancel safety*: nothing is lost.
    pub(crate) async fn finished(&self) {
        self.candidate.over.cancelled().await;
    }
}

/// Returns how a reconcile ended.
pub(crate) fn run_result(result: &Result<Outcome, Fault>) -> RunResult {
    result.as_ref().err().map_or(RunResult::Success, fault_result)
}

fn fault_result(fault: &Fault) -> RunResult {
    match fault {
        Fault::Failure { .. } => RunResult::Error,
        Fault::Trap { .. } => RunResult::Trap,
        Fault::Limit { .. } => RunResult::Limit,
    }
}
