//! How far a candidate has come, and what is to be done next. Pure: the time is an argument.

use std::time::Duration;

use super::gate::{Analysis, analyse, is_conclusive};
use super::{CanaryPlan, Comparison, Share};
use crate::shadow::{ShadowPlan, ShadowReport, ShadowVerdict};

/// A step that is not over after so many times its length ends, one way or the other.
pub(crate) const STEP_TIMEOUT_FACTOR: u32 = 4;

/// How often the keys are looked at again in the time that a step lasts at least, its beginning included.
const STEP_RESYNCS: u128 = 2;

/// How often the keys are looked at again while a shadow lasts.
const SHADOW_RESYNCS: u128 = 4;

/// One canary.
#[derive(Clone, Debug)]
pub(crate) struct CanaryMachine {
    plan: CanaryPlan,
    /// `None`: the candidate's watches lack their first lists, and it has no key.
    share: Option<Share>,
    /// The share that it had when the host ended.
    resume_share: Option<Share>,
    /// How long the step has lasted, without the time for which it was held.
    lasted: Duration,
    /// When it was last looked at.
    seen: Duration,
    /// How often the keys have been looked at again in this step.
    resyncs: u128,
    /// It was a shadow for long enough.
    is_shadow_done: bool,
    /// How often the keys were looked at again for the shadow.
    shadow_resyncs: u128,
}

/// What there is to see at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation<'s> {
    /// Counted from a moment that stays the same.
    pub(crate) now: Duration,
    /// Somebody holds the rollout, or the keys.
    pub(crate) is_paused: bool,
    /// Every watch of the candidate had its first list.
    pub(crate) has_synced: bool,
    /// What both versions did since the step began.
    pub(crate) comparison: &'s Comparison,
    /// Why the candidate was taken off its keys already.
    pub(crate) failed: Option<&'s str>,
    /// What came of it as a shadow; `None`: it is none now.
    pub(crate) shadow: Option<&'s ShadowReport>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Nothing.
    Wait,
    /// Look at the keys of this step once more, so that a version that writes every time is seen.
    Resync,
    /// Try it with what the other version is answered, without a key.
    StartShadow,
    /// It does the same as the other version, as far as is wanted: no more of that.
    EndShadow,
    /// Give the candidate this share of the keys.
    SetShare(Share),
    /// Give it all.
    Promote,
    /// Take all from it, and why.
    RollBack(String),
}

impl CanaryMachine {
    /// Begins with a candidate that has no key. `resumes`: the share that it had when the host ended.
    pub(crate) fn new(plan: CanaryPlan, resumes: Option<Share>, now: Duration) -> Self {
        let is_shadowed = resumes.is_some();
        Self {
            plan,
            share: None,
            resume_share: resumes,
            lasted: Duration::ZERO,
            seen: now,
            resyncs: 0,
            is_shadow_done: is_shadowed,
            shadow_resyncs: 0,
        }
    }

    pub(crate) fn plan(&self) -> &CanaryPlan {
        &self.plan
    }

    /// Goes on by another plan. The share stays as it is until a step is over.
    pub(crate) fn set_plan(&mut self, plan: CanaryPlan) {
        self.plan = plan;
    }

    pub(crate) fn share(&self) -> Option<Share> {
        self.share
    }

    /// Says what is to be done now. But for the time that has passed and a second look nothing has changed: a step begins when
    /// [`CanaryMachine::widened`] says so.
    pub(crate) fn step(&mut self, sight: Observation<'_>) -> Action {
        let Observation { now, is_paused: held, has_synced: listed, comparison: both, failed, shadow } = sight;
        let passed = now.saturating_sub(self.seen);
        self.seen = now;
        if let Some(reason) = failed {
            return Action::RollBack(reason.to_owned());
        }
        let judgement = analyse(&self.plan.gate, both);
        if let Analysis::Fail(reason) = judgement {
            return Action::RollBack(reason);
        }
        // After a restart no key runs before it has its share again: that waits for nobody.
        if held && (self.share.is_some() || self.resume_share.is_none()) {
            return Action::Wait;
        }
        self.lasted += passed;
        if listed && let Some(plan) = self.shadow() {
            return self.step_shadow(plan.clone(), shadow);
        }
        let lasts = self.plan.gate.lasts;
        let is_late = self.lasted >= lasts * STEP_TIMEOUT_FACTOR;
        if self.share.is_none() {
            return match (listed, is_late) {
                (true, _) => self.next_action(),
                (false, true) => Action::RollBack("its watches have not had their first lists".to_owned()),
                (false, false) => Action::Wait,
            };
        }
        match judgement {
            Analysis::Pass if is_late || (self.lasted >= lasts && self.is_enough(both)) => self.next_action(),
            Analysis::Inconclusive(Some(reason)) if is_late => Action::RollBack(reason),
            Analysis::Inconclusive(None) if is_late => self.next_action(),
            Analysis::Pass | Analysis::Inconclusive(_) | Analysis::Fail(_) => self.resync_or_wait(),
        }
    }

    /// Returns whether a step has seen enough to end at its time. Before all keys come, that is enough to tell a bad candidate from a good one.
    fn is_enough(&self, both: &Comparison) -> bool {
        let is_last = self.plan.next_step(self.share).is_none();
        both.canary.runs >= u64::from(self.plan.gate.reconciles) && (!is_last || is_conclusive(both))
    }

    /// Looks at the keys twice in the time that a step lasts, for as long as it goes on.
    fn resync_or_wait(&mut self) -> Action {
        let looks = self.lasted.as_nanos() * STEP_RESYNCS / self.plan.gate.lasts.as_nanos().max(1);
        if looks == self.resyncs {
            return Action::Wait;
        }
        self.resyncs = looks;
        Action::Resync
    }

    /// Returns how it is to be a shadow still.
    pub(crate) fn shadow(&self) -> Option<&ShadowPlan> {
        self.plan.shadow.as_ref().filter(|_| !self.is_shadow_done)
    }

    fn step_shadow(&mut self, plan: ShadowPlan, report: Option<&ShadowReport>) -> Action {
        let Some(report) = report else {
            // It may have ended before its time, with the keys held back: then it begins anew.
            (self.lasted, self.shadow_resyncs) = (Duration::ZERO, 0);
            return Action::StartShadow;
        };
        match report.verdict(&plan, self.lasted) {
            ShadowVerdict::Failed(reason) => Action::RollBack(reason),
            ShadowVerdict::Passed => Action::EndShadow,
            ShadowVerdict::Inconclusive => {
                let looks = self.lasted.as_nanos() * SHADOW_RESYNCS / plan.lasts.as_nanos().max(1);
                if looks == self.shadow_resyncs {
                    return Action::Wait;
                }
                self.shadow_resyncs = looks;
                Action::Resync
            }
        }
    }

    /// Notes that it was a shadow for long enough.
    pub(crate) fn shadow_finished(&mut self, now: Duration) {
        (self.is_shadow_done, self.lasted, self.seen) = (true, Duration::ZERO, now);
    }

    /// Returns how long what it is at now lasts at least.
    pub(crate) fn lasts(&self) -> Duration {
        self.shadow().map_or(self.plan.gate.lasts, |shadow| shadow.lasts)
    }

    /// Notes that a step has begun.
    pub(crate) fn step_started(&mut self, share: Share, now: Duration) {
        self.share = Some(share);
        (self.lasted, self.seen, self.resyncs) = (Duration::ZERO, now, 0);
    }

    fn next_action(&self) -> Action {
        let next = match self.share {
            None => self.resume_share.or_else(|| self.plan.next_step(None)),
            share => self.plan.next_step(share),
        };
        next.map_or(Action::Promote, Action::SetShare)
    }
}
