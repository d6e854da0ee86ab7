//! The state machine of a canary. Pure: the time is an argument.

use std::time::Duration;

use super::gate::{Analysis, analyse, is_conclusive};
use super::plan::STEP_TIMEOUT_FACTOR;
use super::{CanaryPlan, Comparison, ShadowPlan, ShadowReport, ShadowVerdict, Share};

/// Resyncs of the keys in a step's minimum duration, including the one at its start.
const STEP_RESYNCS: u128 = 2;

/// Resyncs of the keys during a shadow.
const SHADOW_RESYNCS: u128 = 4;

/// The state of one canary.
#[derive(Clone, Debug)]
pub(crate) struct CanaryMachine {
    plan: CanaryPlan,
    /// `None` while the canary's watches have not had their first lists; it has no keys then.
    share: Option<Share>,
    /// The share that it had before a restart of the host.
    resume_share: Option<Share>,
    /// Duration of the step so far, without paused time.
    lasted: Duration,
    /// The time of the last observation.
    seen: Duration,
    /// Resyncs in this step.
    resyncs: u128,
    /// The shadow phase is over.
    is_shadow_done: bool,
    /// Resyncs during the shadow.
    shadow_resyncs: u128,
}

/// An observation of the canary at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation<'s> {
    /// The time, from a fixed origin.
    pub(crate) now: Duration,
    /// The rollout is paused, or the controller is suspended.
    pub(crate) is_paused: bool,
    /// Every watch of the canary had its first list.
    pub(crate) has_synced: bool,
    /// The statistics of both versions since the step began.
    pub(crate) comparison: &'s Comparison,
    /// The reason if the canary has already failed.
    pub(crate) failed: Option<&'s str>,
    /// The report of the running shadow.
    pub(crate) shadow: Option<&'s ShadowReport>,
}

/// The next action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Nothing.
    Wait,
    /// Requeue the keys of this step, which reveals a version that writes every time.
    Resync,
    /// Start the shadow; the canary has no keys.
    StartShadow,
    /// End the shadow: the versions agree well enough.
    EndShadow,
    /// Set the canary's share of the keys.
    SetShare(Share),
    /// Promote: give it all keys.
    Promote,
    /// Roll back, for this reason.
    RollBack(String),
}

impl CanaryMachine {
    /// Returns the state of a canary without keys. `resumes` is the share that it had before a restart of the
    /// host.
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

    /// Replaces the plan. The share stays until the step is over.
    pub(crate) fn set_plan(&mut self, plan: CanaryPlan) {
        self.plan = plan;
    }

    pub(crate) fn share(&self) -> Option<Share> {
        self.share
    }

    /// Returns the next action. The state changes only in elapsed time and resyncs:
    /// [`CanaryMachine::step_started`] starts a step.
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
        // After a restart no key runs before the canary has its share again, so this does not wait for a
        // resume.
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

    /// Returns whether the step has enough data to end. The last step must be able to tell a bad canary from
    /// a good one.
    fn is_enough(&self, both: &Comparison) -> bool {
        let is_last = self.plan.next_step(self.share).is_none();
        both.canary.runs >= u64::from(self.plan.gate.reconciles) && (!is_last || is_conclusive(both))
    }

    /// Requeues the keys twice in the step's minimum duration, for as long as the step lasts.
    fn resync_or_wait(&mut self) -> Action {
        let looks = self.lasted.as_nanos() * STEP_RESYNCS / self.plan.gate.lasts.as_nanos().max(1);
        if looks == self.resyncs {
            return Action::Wait;
        }
        self.resyncs = looks;
        Action::Resync
    }

    /// Returns the plan of the shadow phase, while it is not over.
    pub(crate) fn shadow(&self) -> Option<&ShadowPlan> {
        self.plan.shadow.as_ref().filter(|_| !self.is_shadow_done)
    }

    fn step_shadow(&mut self, plan: ShadowPlan, report: Option<&ShadowReport>) -> Action {
        let Some(report) = report else {
            // A suspension may have ended the shadow early; it starts again.
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

    /// Records that the shadow phase is over.
    pub(crate) fn shadow_finished(&mut self, now: Duration) {
        (self.is_shadow_done, self.lasted, self.seen) = (true, Duration::ZERO, now);
    }

    /// Returns the minimum duration of the current step or shadow.
    pub(crate) fn lasts(&self) -> Duration {
        self.shadow().map_or(self.plan.gate.lasts, |shadow| shadow.lasts)
    }

    /// Records that a step has started.
    pub(crate) fn step_started(&mut self, share: Share, now: Duration) {
        self.share = Some(share);
        self.step_restarted(now);
    }

    /// Records that the current step begins again: another host decided until now.
    pub(crate) fn step_restarted(&mut self, now: Duration) {
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
