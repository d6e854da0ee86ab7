//! What the status of a controller says about its rollout. Pure.

use homeostat_store::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RESTARTED;
use super::verdicts::SyncOutcome;
use crate::context::now;
use crate::rollout::{CanaryPlan, Share};

/// How far a rollout has come.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum RolloutPhase {
    /// The candidate has no key: its watches lack their first lists.
    Listing,
    /// The candidate has no key: it is tried with what the other version is answered.
    Shadow,
    /// The candidate has some keys.
    Canary,
    /// It has all, and is what runs.
    Complete,
    /// It has none, and is not tried again until something else is wanted, or somebody says so.
    RolledBack,
}

impl RolloutPhase {
    /// Returns whether there is a candidate.
    pub(super) fn is_tried(self) -> bool {
        matches!(self, Self::Listing | Self::Shadow | Self::Canary)
    }
}

/// A rollout, as it stands in `status.rollout`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RolloutStatus {
    pub(super) phase: RolloutPhase,
    /// The revision that ran before.
    pub(super) from: u64,
    /// The revision that is tried, or was.
    pub(super) to: u64,
    /// The share of the keys that it has.
    pub(super) share: Share,
    /// Which step that is, and of how many.
    pub(super) step: usize,
    pub(super) steps: usize,
    /// When the phase, or the step, began.
    pub(super) since: String,
    /// Of the resource that wants it.
    pub(super) generation: Option<u64>,
    /// What the resource said of when to begin anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) restarted: Option<String>,
    /// What came of it as a shadow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shadow: Option<Value>,
    /// Why it went back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

impl RolloutStatus {
    /// Reads what the status of a controller says.
    pub(super) fn of(resource: &Resource) -> Option<Self> {
        serde_json::from_value(resource.status().get("rollout")?.clone()).ok()
    }

    pub(super) fn begin(from: u64, to: u64, plan: &CanaryPlan, resource: &Resource) -> Self {
        Self {
            phase: RolloutPhase::Listing,
            from,
            to,
            share: Share::NONE,
            step: 0,
            steps: plan.steps.len(),
            since: now(),
            generation: Some(resource.generation()),
            restarted: resource.annotation(RESTARTED).map(str::to_owned),
            shadow: None,
            reason: None,
        }
    }

    pub(super) fn listing(&self) -> Self {
        Self { phase: RolloutPhase::Listing, since: now(), ..self.clone() }
    }

    pub(super) fn shadow(&self) -> Self {
        Self { phase: RolloutPhase::Shadow, since: now(), ..self.clone() }
    }

    pub(super) fn at_share(&self, share: Share, plan: &CanaryPlan) -> Self {
        let (step, steps) = (plan.step(Some(share)), plan.steps.len());
        Self { phase: RolloutPhase::Canary, share, step, steps, since: now(), ..self.clone() }
    }

    pub(super) fn complete(&self) -> Self {
        Self { phase: RolloutPhase::Complete, share: Share::ALL, since: now(), ..self.clone() }
    }

    pub(super) fn roll_back(&mut self, reason: String) {
        (self.phase, self.share, self.since) = (RolloutPhase::RolledBack, Share::NONE, now());
        self.reason = Some(reason);
    }

    /// Returns the share with which a candidate goes on after a restart; `None`: it had no key.
    pub(super) fn resumes(&self) -> Option<Share> {
        (self.phase == RolloutPhase::Canary).then_some(self.share)
    }

    /// Returns what a rollout that is told of came to.
    pub(super) fn outcome(&self) -> SyncOutcome {
        match &self.reason {
            Some(reason) if self.phase == RolloutPhase::RolledBack => SyncOutcome::RolledBack(reason.clone()),
            _ => SyncOutcome::RollingOut { from: self.from, to: self.to, share: self.resumes() },
        }
    }

    /// Returns why what a resource wants now went back, if it did.
    pub(super) fn rejects(&self, resource: &Resource) -> Option<String> {
        let is_same = self.generation == Some(resource.generation())
            && self.restarted.as_deref() == resource.annotation(RESTARTED);
        (self.phase == RolloutPhase::RolledBack && is_same).then(|| self.reason.clone().unwrap_or_default())
    }
}
