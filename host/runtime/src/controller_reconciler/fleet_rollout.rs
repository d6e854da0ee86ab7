//! What the record of a rollout means for a controller on this host: whether it may work, and what it writes when a
//! person installs a version for all keys.

use std::sync::Arc;

use super::sync::ControllerSync;
use super::sync_results::SyncOutcome;
use crate::Put;
use crate::controller_reconciler::DesiredController;
use crate::fleet::{RecordView, RolloutRecord};
use crate::rollout::{
    Plan, RolloutPhase, RolloutStatus, SeenRollout, Share, SharedRollout, SharedStep, attempt_id, version_id,
};

impl ControllerSync<'_> {
    fn rollout_record(&self) -> Option<Arc<RolloutRecord>> {
        self.controller()?.slot.placement.rollout().cloned()
    }

    /// Returns whether other hosts try a version that the manifest of this host does not have.
    pub(super) fn rolls_out_elsewhere(&self) -> bool {
        let Some(record) = self.rollout_record() else { return false };
        match SeenRollout::in_record(&record.view()) {
            SeenRollout::Written(rollout) => rollout.phase.is_tried() && self.has_step_of(&rollout).is_none(),
            SeenRollout::Unknown | SeenRollout::Absent | SeenRollout::Unreadable => false,
        }
    }

    /// Returns whether all hosts try a version again, or have promoted it, that was rolled back on this host.
    pub(super) fn is_tried_again(&self, status: &RolloutStatus) -> bool {
        let (RolloutPhase::RolledBack, Some(version), Some(record)) =
            (status.phase, &status.version, self.rollout_record())
        else {
            return false;
        };
        SeenRollout::in_record(&record.view()).of(version).is_some_and(|rollout| match rollout.phase {
            RolloutPhase::RolledBack => false,
            RolloutPhase::Complete => true,
            _ => status.attempt.as_deref() != Some(&*rollout.attempt),
        })
    }

    /// Says whether this host does what the record of the rollout says, after a reconcile. Only then it takes leases.
    pub(super) async fn settle_rollout(&self, outcome: &SyncOutcome) -> homeostat_store::Result<()> {
        let Some(record) = self.rollout_record() else { return Ok(()) };
        let view = record.view();
        let seen = SeenRollout::in_record(&view);
        let problem = match &seen {
            SeenRollout::Unknown | SeenRollout::Absent => return Ok(()),
            SeenRollout::Unreadable => Some("a later version of the host wrote the record of the rollout".to_owned()),
            SeenRollout::Written(rollout) => {
                match self.has_step_of(rollout) {
                    Some(true) => None,
                    Some(false) => return Ok(()),
                    // The next reconcile starts it.
                    None if RolloutStatus::of(&self.resource).is_some_and(|status| self.is_tried_again(&status)) => {
                        return Ok(());
                    }
                    None => self.whole_version_problem(&record, &view, &seen, rollout, outcome).await?,
                }
            }
        };
        record.settle(&view, problem);
        Ok(())
    }

    /// Returns why this host may not work with one version for all keys, if it may not.
    async fn whole_version_problem(
        &self,
        record: &RolloutRecord,
        view: &RecordView,
        seen: &SeenRollout,
        rollout: &SharedRollout,
        outcome: &SyncOutcome,
    ) -> homeostat_store::Result<Option<String>> {
        let is_complete = rollout.phase == RolloutPhase::Complete;
        let has_changed = matches!(outcome, SyncOutcome::Put(Put::Changed(_)));
        if is_complete && !has_changed {
            return Ok(None);
        }
        let Some(revision) = self.applied().map(|applied| applied.revision) else { return Ok(None) };
        let history = self.history().read().await?;
        let Some(running) = history.iter().find(|recorded| recorded.number == revision) else { return Ok(None) };
        let running = version_id(&running.spec);
        let is_candidate = running == rollout.version;
        let leads = self.controller().is_some_and(|controller| controller.slot.placement.leads());
        let is_news = if is_candidate { !is_complete } else { has_changed };
        if is_news && leads && matches!(outcome, SyncOutcome::Put(_)) {
            // A person has installed it for all keys.
            let step = SharedStep {
                version: &running,
                attempt: &attempt_id(&running, &self.resource),
                phase: RolloutPhase::Complete,
                share: Share::ALL,
                salt: None,
                paused: false,
                reason: None,
            };
            // A record that has changed meanwhile is looked at again.
            let _is_written = record.write(view, &SharedRollout::after(seen, step).text()).await?;
            return Ok(None);
        }
        let plan = DesiredController::read(&self.resource.document()["spec"]).ok().map(|desired| desired.checked.plan);
        let is_problem = is_candidate && !is_complete && plan != Some(Plan::Immediate);
        Ok(is_problem.then(|| {
            "all keys would get a version whose rollout has not ended, or was rolled back: this host has no other one"
                .to_owned()
        }))
    }
}
