//! How far a candidate has come, and what is to be done next. Pure: the time is an argument.

use std::time::Duration;

use super::gate::{Judgement, judge, tells};
use super::{Both, Canary, Share};
use crate::shadow::{ShadowPlan, ShadowReport, ShadowVerdict};

/// A step that is not over after so many times its length ends, one way or the other.
pub(crate) const PATIENCE: u32 = 4;

/// How often the keys are looked at again in the time that a step lasts at least, its beginning included.
const STEP_LOOKS: u128 = 2;

/// How often the keys are looked at again while a shadow lasts.
const SHADOW_LOOKS: u128 = 4;

/// One canary.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    plan: Canary,
    /// `None`: the candidate's watches lack their first lists, and it has no key.
    share: Option<Share>,
    /// The share that it had when the host ended.
    resumes: Option<Share>,
    /// How long the step has lasted, without the time for which it was held.
    lasted: Duration,
    /// When it was last looked at.
    seen: Duration,
    /// How often the keys have been looked at again in this step.
    looks: u128,
    /// It was a shadow for long enough.
    is_shadowed: bool,
    /// How often the keys were looked at again for the shadow.
    shadow_looks: u128,
}

/// What there is to see at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'s> {
    /// Counted from a moment that stays the same.
    pub(crate) now: Duration,
    /// Somebody holds the rollout, or the keys.
    pub(crate) held: bool,
    /// Every watch of the candidate had its first list.
    pub(crate) listed: bool,
    /// What both versions did since the step began.
    pub(crate) both: &'s Both,
    /// Why the candidate was taken off its keys already.
    pub(crate) failed: Option<&'s str>,
    /// What came of it as a shadow; `None`: it is none now.
    pub(crate) shadow: Option<&'s ShadowReport>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Move {
    /// Nothing.
    Stay,
    /// Look at the keys of this step once more, so that a version that writes every time is seen.
    LookAgain,
    /// Try it with what the other version is answered, without a key.
    BeginShadow,
    /// It does the same as the other version, as far as is wanted: no more of that.
    EndShadow,
    /// Give the candidate this share of the keys.
    Widen(Share),
    /// Give it all.
    Promote,
    /// Take all from it, and why.
    GoBack(String),
}

impl Machine {
    /// Begins with a candidate that has no key. `resumes`: the share that it had when the host ended.
    pub(crate) fn new(plan: Canary, resumes: Option<Share>, now: Duration) -> Self {
        let is_shadowed = resumes.is_some();
        Self { plan, share: None, resumes, lasted: Duration::ZERO, seen: now, looks: 0, is_shadowed, shadow_looks: 0 }
    }

    pub(crate) fn plan(&self) -> &Canary {
        &self.plan
    }

    /// Goes on by another plan. The share stays as it is until a step is over.
    pub(crate) fn follow(&mut self, plan: Canary) {
        self.plan = plan;
    }

    pub(crate) fn share(&self) -> Option<Share> {
        self.share
    }

    /// Says what is to be done now. But for the time that has passed and a second look nothing has changed: a step begins when
    /// [`Machine::widened`] says so.
    pub(crate) fn step(&mut self, sight: Sight<'_>) -> Move {
        let Sight { now, held, listed, both, failed, shadow } = sight;
        let passed = now.saturating_sub(self.seen);
        self.seen = now;
        if let Some(reason) = failed {
            return Move::GoBack(reason.to_owned());
        }
        let judgement = judge(&self.plan.gate, both);
        if let Judgement::Beyond(reason) = judgement {
            return Move::GoBack(reason);
        }
        // After a restart no key runs before it has its share again: that waits for nobody.
        if held && (self.share.is_some() || self.resumes.is_none()) {
            return Move::Stay;
        }
        self.lasted += passed;
        if listed && let Some(plan) = self.shadow() {
            return self.step_shadow(plan.clone(), shadow);
        }
        let lasts = self.plan.gate.lasts;
        let is_late = self.lasted >= lasts * PATIENCE;
        if self.share.is_none() {
            return match (listed, is_late) {
                (true, _) => self.widen(),
                (false, true) => Move::GoBack("its watches have not had their first lists".to_owned()),
                (false, false) => Move::Stay,
            };
        }
        match judgement {
            Judgement::Within if is_late || (self.lasted >= lasts && self.is_enough(both)) => self.widen(),
            Judgement::Doubtful(Some(reason)) if is_late => Move::GoBack(reason),
            Judgement::Doubtful(None) if is_late => self.widen(),
            Judgement::Within | Judgement::Doubtful(_) | Judgement::Beyond(_) => self.look_again(),
        }
    }

    /// Returns whether a step has seen enough to end at its time. Before all keys come, that is enough to tell a bad candidate from a good one.
    fn is_enough(&self, both: &Both) -> bool {
        let is_last = self.plan.after(self.share).is_none();
        both.new.runs >= u64::from(self.plan.gate.reconciles) && (!is_last || tells(both))
    }

    /// Looks at the keys twice in the time that a step lasts, for as long as it goes on.
    fn look_again(&mut self) -> Move {
        let looks = self.lasted.as_nanos() * STEP_LOOKS / self.plan.gate.lasts.as_nanos().max(1);
        if looks == self.looks {
            return Move::Stay;
        }
        self.looks = looks;
        Move::LookAgain
    }

    /// Returns how it is to be a shadow still.
    pub(crate) fn shadow(&self) -> Option<&ShadowPlan> {
        self.plan.shadow.as_ref().filter(|_| !self.is_shadowed)
    }

    fn step_shadow(&mut self, plan: ShadowPlan, report: Option<&ShadowReport>) -> Move {
        let Some(report) = report else {
            // It may have ended before its time, with the keys held back: then it begins anew.
            (self.lasted, self.shadow_looks) = (Duration::ZERO, 0);
            return Move::BeginShadow;
        };
        match report.verdict(&plan, self.lasted) {
            ShadowVerdict::Failed(reason) => Move::GoBack(reason),
            ShadowVerdict::Passed => Move::EndShadow,
            ShadowVerdict::Waits => {
                let looks = self.lasted.as_nanos() * SHADOW_LOOKS / plan.lasts.as_nanos().max(1);
                if looks == self.shadow_looks {
                    return Move::Stay;
                }
                self.shadow_looks = looks;
                Move::LookAgain
            }
        }
    }

    /// Notes that it was a shadow for long enough.
    pub(crate) fn shadowed(&mut self, now: Duration) {
        (self.is_shadowed, self.lasted, self.seen) = (true, Duration::ZERO, now);
    }

    /// Returns how long what it is at now lasts at least.
    pub(crate) fn lasts(&self) -> Duration {
        self.shadow().map_or(self.plan.gate.lasts, |shadow| shadow.lasts)
    }

    /// Notes that a step has begun.
    pub(crate) fn widened(&mut self, share: Share, now: Duration) {
        self.share = Some(share);
        (self.lasted, self.seen, self.looks) = (Duration::ZERO, now, 0);
    }

    fn widen(&self) -> Move {
        let next = match self.share {
            None => self.resumes.or_else(|| self.plan.after(None)),
            share => self.plan.after(share),
        };
        next.map_or(Move::Promote, Move::Widen)
    }
}
