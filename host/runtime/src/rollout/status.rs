//! The rollout in the status of a controller. Pure except for the clock.

use homeostat_store::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CanaryPlan, Share};
use crate::clock::now;
use crate::host_kinds::RESTARTED;

/// The phase of a rollout.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RolloutPhase {
    /// The canary has no keys: its watches have not had their first lists.
    Listing,
    /// The canary has no keys and runs as a shadow.
    Shadow,
    /// The canary has some keys.
    Canary,
    /// The canary was promoted: it has all keys.
    Complete,
    /// The canary was rolled back. It is not tried again until the definition changes or an operator restarts
    /// it.
    RolledBack,
}

impl RolloutPhase {
    /// Returns whether the phase has a canary.
    pub(crate) fn is_tried(self) -> bool {
        matches!(self, Self::Listing | Self::Shadow | Self::Canary)
    }
}

/// A rollout, as serialised in `status.rollout`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RolloutStatus {
    pub(crate) phase: RolloutPhase,
    /// The stable revision.
    pub(crate) from: u64,
    /// The canary's revision.
    pub(crate) to: u64,
    /// The canary's share of the keys.
    pub(crate) share: Share,
    /// The salt that deals the keys. `None` if no key was dealt yet, or an earlier version of the host dealt
    /// them by the revision number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) salt: Option<u64>,
    /// The current step, and the number of steps.
    pub(crate) step: usize,
    pub(crate) steps: usize,
    /// Start of the phase or step.
    pub(crate) since: String,
    /// Generation of the resource that desires the canary.
    pub(crate) generation: Option<u64>,
    /// The resource's restart annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restarted: Option<String>,
    /// The report of the shadow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shadow: Option<Value>,
    /// The reason of the rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The name of the canary in the record of all hosts; `None` where no other host has the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// The attempt in that record whose steps this host carries out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<String>,
    /// Whether that record knows that a person has paused the rollout on this host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) paused: bool,
    /// Why this host decides no step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waits: Option<String>,
}

impl RolloutStatus {
    /// Reads the rollout from the status of a controller.
    pub(crate) fn of(resource: &Resource) -> Option<Self> {
        serde_json::from_value(resource.status().get("rollout")?.clone()).ok()
    }

    pub(crate) fn begin(from: u64, to: u64, plan: &CanaryPlan, resource: &Resource) -> Self {
        Self {
            phase: RolloutPhase::Listing,
            from,
            to,
            share: Share::NONE,
            salt: None,
            step: 0,
            steps: plan.steps.len(),
            since: now(),
            generation: Some(resource.generation()),
            restarted: resource.annotation(RESTARTED).map(str::to_owned),
            shadow: None,
            reason: None,
            version: None,
            attempt: None,
            paused: false,
            waits: None,
        }
    }

    /// Returns the rollout in another phase, from now on.
    pub(crate) fn enter(&self, phase: RolloutPhase) -> Self {
        Self { phase, since: now(), ..self.clone() }
    }

    pub(crate) fn at_share(&self, share: Share, plan: &CanaryPlan) -> Self {
        let (step, steps) = (plan.step(Some(share)), plan.steps.len());
        Self { share, step, steps, ..self.enter(RolloutPhase::Canary) }
    }

    pub(crate) fn roll_back(&mut self, reason: String) {
        (self.phase, self.share, self.since) = (RolloutPhase::RolledBack, Share::NONE, now());
        (self.paused, self.waits) = (false, None);
        self.reason = Some(reason);
    }

    /// Returns the share with which the canary resumes after a restart; `None` if it had no keys.
    pub(crate) fn resumes(&self) -> Option<Share> {
        (self.phase == RolloutPhase::Canary).then_some(self.share)
    }

    /// Returns the salt that deals the keys.
    pub(crate) fn salt(&self) -> u64 {
        self.salt.unwrap_or(self.to)
    }

    /// Returns whether it was the rollback of another attempt of a version.
    pub(crate) fn is_other_attempt(&self, version: &str, attempt: &str) -> bool {
        self.phase == RolloutPhase::RolledBack
            && self.version.as_deref() == Some(version)
            && self.attempt.as_deref() != Some(attempt)
    }

    /// Returns the reason if the resource's current definition was rolled back.
    pub(crate) fn rejects(&self, resource: &Resource) -> Option<String> {
        let is_same = self.generation == Some(resource.generation())
            && self.restarted.as_deref() == resource.annotation(RESTARTED);
        (self.phase == RolloutPhase::RolledBack && is_same).then(|| self.reason.clone().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A restarted host deals the keys like the one before.
    #[test]
    fn a_rollout_record_keeps_its_salt_and_an_old_one_uses_the_revision() {
        let written = json!({
            "phase": "canary", "from": 6, "to": 7, "share": "50%", "step": 2, "steps": 2, "since": "2026-11-21T00:00:00Z", "generation": 3,
        });
        let before: RolloutStatus = serde_json::from_value(written).unwrap();
        assert_eq!((before.salt(), json!(before).get("salt")), (7, None));
        let dealt = RolloutStatus { salt: Some(115), ..before };
        let read: RolloutStatus =
            serde_json::from_value(json!(dealt.at_share(Share::ALL, &CanaryPlan::default()))).unwrap();
        assert_eq!(read.salt(), 115);
    }
}
