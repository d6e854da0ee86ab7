//! A candidate beside what a controller runs: which keys it has, what both do, and whether it may go on.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use homeostat_component::{CallReport, EffectClass, Fault, Outcome};
use homeostat_store::Key;
use homeostat_workqueue::Claim;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::rollout::{
    Analysis, Comparison, Gate, KeySplit, RunRecord, RunResult, RunTotals, Share, Track, analyse, key_hash,
};
use crate::slot::LoadedVersion;

/// A guest that asks to be run again before that does so at once.
const REQUEUE_SOON_MAX: Duration = Duration::from_secs(1);

/// One step of one candidate. Another step is another value, so that nothing of the one before counts in it.
pub(crate) struct CanaryStep {
    pub(crate) loaded: Arc<LoadedVersion>,
    pub(crate) split: KeySplit,
    /// Nothing that it does is applied yet: nobody asks it for keys.
    pub(crate) is_shadow: bool,
    gate: Mutex<Gate>,
    comparison: Mutex<Comparison>,
    /// When the step began.
    began: Instant,
    candidate: Arc<CandidateState>,
}

/// What became of a candidate, over all of its steps.
#[derive(Default)]
struct CandidateState {
    failed: OnceLock<String>,
    /// Cancelled when it failed, or is tried no more.
    over: CancellationToken,
}

impl CanaryStep {
    /// Begins with a candidate that has no key, and is a shadow first or is not.
    /// `past`: what the other version has done so far.
    pub(crate) fn begin(loaded: LoadedVersion, part: KeySplit, gate: Gate, is_shadow: bool, past: RunTotals) -> Self {
        let (gate, both) = (Mutex::new(gate), Mutex::new(Comparison { stable_totals: past, ..Comparison::default() }));
        let (began, fate) = (Instant::now(), Arc::default());
        Self { loaded: Arc::new(loaded), split: part, is_shadow, gate, comparison: both, began, candidate: fate }
    }

    /// Returns the same candidate with other keys, or held to another gate. Figures begin anew.
    pub(crate) fn next(&self, part: KeySplit, gate: Gate) -> Self {
        let (loaded, fate) = (self.loaded.clone(), self.candidate.clone());
        let both =
            Mutex::new(Comparison { stable_totals: self.comparison.lock().stable_totals, ..Comparison::default() });
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

    /// Returns the same candidate, which is no shadow any more and has no key yet.
    pub(crate) fn after_shadow(&self) -> Self {
        self.next(self.split.clone(), self.gate.lock().clone())
    }

    /// Returns whether this is the candidate.
    pub(crate) fn is_candidate(&self, loaded: &Weak<LoadedVersion>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.loaded), loaded.as_ptr())
    }

    /// Holds the candidate to another gate from now on, by what both did in this step so far too.
    pub(crate) fn set_gate(&self, gate: Gate) {
        *self.gate.lock() = gate;
    }

    /// Returns who reconciles a key. After a failure that is the old version, for every key and at once.
    pub(crate) fn track_of(&self, key: &Key) -> Track {
        if self.failure().is_some() { Track::Stable } else { self.split.track_of(key) }
    }

    /// Returns the share of the keys that it has beside chosen ones.
    pub(crate) fn share(&self) -> Option<Share> {
        self.split.share.filter(|_| self.failure().is_none())
    }

    /// Takes note of one reconcile. The one that takes the candidate beyond its gate is the last that begins.
    pub(crate) fn record(&self, side: Track, claim: &Claim<Key>, report: &CallReport<Outcome>) {
        let run = self.run(claim, report);
        self.note_in(side, |both| both.record(side, run));
    }

    /// Takes note of a fault of `map` or `poll`: a trap or a limit there counts as one of a reconcile.
    pub(crate) fn note_asked(&self, side: Track, fault: &Fault) {
        let end = fault_result(fault);
        self.note_in(side, |both| match side {
            Track::Stable => both.stable.note_asked(end),
            Track::Canary => both.canary.note_asked(end),
        });
    }

    /// Takes from a report what gates look at.
    fn run(&self, claim: &Claim<Key>, CallReport { result, cost }: &CallReport<Outcome>) -> RunRecord {
        let ended = self.began.elapsed();
        RunRecord {
            key: key_hash(claim.key(), self.split.salt),
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

    /// Returns what both versions did in this step.
    pub(crate) fn comparison(&self) -> Comparison {
        self.comparison.lock().clone()
    }

    /// Returns why it was found wanting.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.candidate.failed.get().map(String::as_str)
    }

    fn fail(&self, reason: String) {
        // The first reason counts.
        drop(self.candidate.failed.set(reason));
        self.candidate.over.cancel();
    }

    /// Notes that it is tried no more.
    pub(crate) fn finish(&self) {
        self.candidate.over.cancel();
    }

    /// Waits until it failed or is tried no more. *Cancel safety*: nothing is lost.
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
