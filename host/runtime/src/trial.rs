//! A candidate beside what a controller runs: which keys it has, what both do, and whether it may go on.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use homeostat_component::{CallReport, EffectClass, Fault, Outcome};
use homeostat_store::Key;
use homeostat_workqueue::Claim;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::rollout::{Both, End, Gate, Judgement, Part, Past, Run, Share, Side, hash, judge};
use crate::slot::Loaded;

/// A guest that asks to be run again before that does so at once.
const SOON: Duration = Duration::from_secs(1);

/// One step of one candidate. Another step is another value, so that nothing of the one before counts in it.
pub(crate) struct Trial {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) part: Part,
    /// Nothing that it does is applied yet: nobody asks it for keys.
    pub(crate) is_shadow: bool,
    gate: Mutex<Gate>,
    both: Mutex<Both>,
    /// When the step began.
    began: Instant,
    fate: Arc<Fate>,
}

/// What became of a candidate, over all of its steps.
#[derive(Default)]
struct Fate {
    failed: OnceLock<String>,
    /// Cancelled when it failed, or is tried no more.
    over: CancellationToken,
}

impl Trial {
    /// Begins with a candidate that has no key, and is a shadow first or is not.
    /// `past`: what the other version has done so far.
    pub(crate) fn begin(loaded: Loaded, part: Part, gate: Gate, is_shadow: bool, past: Past) -> Self {
        let (gate, both) = (Mutex::new(gate), Mutex::new(Both { past, ..Both::default() }));
        let (began, fate) = (Instant::now(), Arc::default());
        Self { loaded: Arc::new(loaded), part, is_shadow, gate, both, began, fate }
    }

    /// Returns the same candidate with other keys, or held to another gate. Figures begin anew.
    pub(crate) fn next(&self, part: Part, gate: Gate) -> Self {
        let (loaded, fate) = (self.loaded.clone(), self.fate.clone());
        let both = Mutex::new(Both { past: self.both.lock().past, ..Both::default() });
        Self { loaded, part, is_shadow: false, gate: Mutex::new(gate), both, began: Instant::now(), fate }
    }

    /// Returns the same candidate, which is no shadow any more and has no key yet.
    pub(crate) fn after_shadow(&self) -> Self {
        self.next(self.part.clone(), self.gate.lock().clone())
    }

    /// Returns whether this is the candidate.
    pub(crate) fn is_of(&self, loaded: &Weak<Loaded>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.loaded), loaded.as_ptr())
    }

    /// Holds the candidate to another gate from now on, by what both did in this step so far too.
    pub(crate) fn hold_to(&self, gate: Gate) {
        *self.gate.lock() = gate;
    }

    /// Returns who reconciles a key. After a failure that is the old version, for every key and at once.
    pub(crate) fn side(&self, key: &Key) -> Side {
        if self.failed().is_some() { Side::Old } else { self.part.side(key) }
    }

    /// Returns the share of the keys that it has beside chosen ones.
    pub(crate) fn share(&self) -> Option<Share> {
        self.part.share.filter(|_| self.failed().is_none())
    }

    /// Takes note of one reconcile. The one that takes the candidate beyond its gate is the last that begins.
    pub(crate) fn note(&self, side: Side, claim: &Claim<Key>, report: &CallReport<Outcome>) {
        let run = self.run(claim, report);
        self.note_in(side, |both| both.note(side, run));
    }

    /// Takes note of a fault of `map` or `poll`: a trap or a limit there counts as one of a reconcile.
    pub(crate) fn note_asked(&self, side: Side, fault: &Fault) {
        let end = end(fault);
        self.note_in(side, |both| match side {
            Side::Old => both.old.note_asked(end),
            Side::New => both.new.note_asked(end),
        });
    }

    /// Takes from a report what gates look at.
    fn run(&self, claim: &Claim<Key>, CallReport { result, cost }: &CallReport<Outcome>) -> Run {
        let ended = self.began.elapsed();
        Run {
            key: hash(claim.key(), self.part.salt),
            is_look: claim.is_without_event(),
            is_retry: claim.failures() > 0,
            end: self::ended(result),
            writes: cost.effects.of(EffectClass::Write),
            again_soon: matches!(result, Ok(Outcome::AgainAfter(delay)) if *delay < SOON),
            ready: ended.saturating_sub(cost.wall).saturating_sub(claim.queued_for()),
            ended,
            wall: cost.wall,
        }
    }

    fn note_in(&self, side: Side, note: impl FnOnce(&mut Both)) {
        let mut both = self.both.lock();
        note(&mut both);
        if side == Side::New
            && let Judgement::Beyond(reason) = judge(&self.gate.lock(), &both)
        {
            self.fail(reason);
        }
    }

    /// Returns what both versions did in this step.
    pub(crate) fn figures(&self) -> Both {
        self.both.lock().clone()
    }

    /// Returns why it was found wanting.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.fate.failed.get().map(String::as_str)
    }

    fn fail(&self, reason: String) {
        // The first reason counts.
        drop(self.fate.failed.set(reason));
        self.fate.over.cancel();
    }

    /// Notes that it is tried no more.
    pub(crate) fn end(&self) {
        self.fate.over.cancel();
    }

    /// Waits until it failed or is tried no more. *Cancel safety*: nothing is lost.
    pub(crate) async fn over(&self) {
        self.fate.over.cancelled().await;
    }
}

/// Returns how a reconcile ended.
pub(crate) fn ended(result: &Result<Outcome, Fault>) -> End {
    result.as_ref().err().map_or(End::Fine, end)
}

fn end(fault: &Fault) -> End {
    match fault {
        Fault::Failure { .. } => End::Error,
        Fault::Trap { .. } => End::Trap,
        Fault::Limit { .. } => End::Limit,
    }
}
