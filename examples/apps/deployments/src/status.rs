//! The status of a Deployment: sums over its ReplicaSets, and two conditions.

use homeostat_sdk::condition::Status;
use homeostat_sdk::prelude::*;

use crate::api::{DeploymentStatus, ReplicaSet};
use crate::rollout::Rollout;

const PROGRESSING: &str = "Progressing";
const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

/// The inputs of the status.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) generation: u64,
    pub(crate) rollout: Rollout,
    pub(crate) progress_deadline: Duration,
    pub(crate) new: Option<&'a Resource<ReplicaSet>>,
    pub(crate) old: &'a [Resource<ReplicaSet>],
}

impl Observed<'_> {
    /// Returns the next status after `before`. It differs only in actual changes.
    pub(crate) fn status(&self, before: &DeploymentStatus, now: Time) -> DeploymentStatus {
        let mut status = DeploymentStatus {
            observed_generation: self.generation,
            collision_count: before.collision_count,
            conditions: before.conditions.clone(),
            ..DeploymentStatus::default()
        };
        let mut asked_for = 0;
        for set in self.new.into_iter().chain(self.old) {
            asked_for += set.spec.replicas;
            let Some(of_set) = &set.status else { continue };
            status.replicas += of_set.replicas;
            status.ready_replicas += of_set.ready_replicas;
            status.available_replicas += of_set.available_replicas;
        }
        status.updated_replicas = self.new.and_then(|set| set.status.as_ref()).map_or(0, |of_set| of_set.replicas);
        status.unavailable_replicas = asked_for.saturating_sub(status.available_replicas);
        status.conditions.set_at(self.available(&status, before, now), || now);
        status.conditions.set_at(self.progressing(&status, before, now), || now);
        status
    }

    /// Returns whether all desired replicas exist, and no others.
    pub(crate) fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let desired = self.rollout.desired;
        let up_to_date = self.new.into_iter().chain(self.old).all(is_observed);
        up_to_date
            && status.updated_replicas == desired
            && status.replicas == desired
            && status.available_replicas == desired
    }

    /// Returns the time until the rollout exceeds its progress deadline.
    pub(crate) fn deadline_in(&self, status: &DeploymentStatus, now: Time) -> Option<Duration> {
        let progressing = status.conditions.get(PROGRESSING)?;
        let running = progressing.status == Status::True && progressing.reason != COMPLETE;
        let since = progressing.last_update_time.filter(|_| running)?;
        Some(self.progress_deadline.saturating_sub(now.since(since)).max(Duration::from_millis(1)))
    }

    fn available(&self, status: &DeploymentStatus, before: &DeploymentStatus, now: Time) -> Condition {
        let enough = status.available_replicas >= self.rollout.min_available();
        let condition = Condition::new("Available", enough);
        let condition = if enough {
            condition.because("MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            condition.because("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        updated(condition, before, now)
    }

    fn progressing(&self, status: &DeploymentStatus, before: &DeploymentStatus, now: Time) -> Condition {
        if self.rollout.paused {
            let paused = Condition::new(PROGRESSING, Status::Unknown);
            return updated(paused.because("DeploymentPaused", "Deployment is paused"), before, now);
        }
        let name = self.new.map_or("", |set| set.metadata.name.as_str());
        let last = before.conditions.get(PROGRESSING);
        if self.is_complete(status) {
            let message = format!("ReplicaSet {name:?} has successfully progressed.");
            return updated(Condition::new(PROGRESSING, true).because(COMPLETE, message), before, now);
        }
        let of_this_set = last.filter(|last| last.message.contains(&format!("{name:?}")));
        let Some(last) = of_this_set.filter(|_| !advanced(status, before)) else {
            let message = format!("ReplicaSet {name:?} is progressing.");
            let moving = Condition::new(PROGRESSING, true).because("ReplicaSetUpdated", message);
            return Condition { last_update_time: Some(now.whole_seconds()), ..moving };
        };
        let late = last.last_update_time.is_none_or(|since| now.since(since) >= self.progress_deadline);
        if late && last.reason != COMPLETE && last.reason != TIMED_OUT {
            let message = format!("ReplicaSet {name:?} has timed out progressing.");
            return updated(Condition::new(PROGRESSING, false).because(TIMED_OUT, message), before, now);
        }
        last.clone()
    }
}

/// Returns whether the status of a ReplicaSet refers to its current spec.
pub(crate) fn is_observed(set: &Resource<ReplicaSet>) -> bool {
    set.status.as_ref().is_some_and(|status| status.observed_generation >= set.metadata.generation)
}

/// Returns whether the rollout advanced: more new pods, fewer old ones, or more ready ones.
fn advanced(status: &DeploymentStatus, before: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas.saturating_sub(status.updated_replicas);
    status.updated_replicas > before.updated_replicas
        || old(status) < old(before)
        || status.ready_replicas > before.ready_replicas
        || status.available_replicas > before.available_replicas
}

/// Sets the time of the last change: now, unless the condition is unchanged.
fn updated(mut condition: Condition, before: &DeploymentStatus, now: Time) -> Condition {
    let same = before.conditions.get(&condition.kind).filter(|last| {
        last.status == condition.status && last.reason == condition.reason && last.message == condition.message
    });
    condition.last_update_time = same.and_then(|last| last.last_update_time).or_else(|| Some(now.whole_seconds()));
    condition
}

#[cfg(test)]
mod tests;
