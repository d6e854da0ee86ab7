//! Installs an earlier revision of a controller, or the current one with fewer grants, where the desired definition cannot be
//! installed.

use homeostat_component::Severity;
use serde_json::Value;

use super::desired::{self, DesiredController};
use super::history::ControllerRevision;
use super::sync::{ControllerSync, LoadedDefinition, SyncError};
use super::sync_results::SyncOutcome;
use crate::reasons::{chain, list};
use crate::{Definition, Error};

impl ControllerSync<'_> {
    /// Reduces the grants of the current version to the desired ones, if the desired definition cannot be
    /// installed or is only on some keys. See [`DesiredGrants`](super::grant_reduction::DesiredGrants).
    pub(super) async fn apply_grant_reduction(&self) -> Result<(), SyncError> {
        let Some(running) = self.host.definition(self.name()) else { return Ok(()) };
        let kept = self.reduce_grants(running.clone());
        if kept.grants == running.grants {
            return Ok(());
        }
        match self.install(kept, desired::suspension(&self.resource)).await {
            Err(Error::Stopping) => return Err(SyncError::Stopping),
            Err(error) => return Err(SyncError::Refused(list(&[chain(&error)]))),
            Ok(_) => {}
        }
        if let Some(applied) = self.applied() {
            self.set_revision(applied.revision);
        }
        let message = "the current version keeps running, with only those of its grants that the manifest still has";
        self.host.emit_event(self.name(), Severity::Warning, "GrantsReduced", message);
        Ok(())
    }

    /// Returns an older definition with the grants that it may still have.
    fn reduce_grants(&self, mut definition: Definition) -> Definition {
        if let Some(wanted) = self.reconciler.desired_grants.lock().get(&definition.name) {
            wanted.reduce(&mut definition);
        }
        definition
    }

    /// After a restart, installs the previous version if it differs from the desired one, which is then
    /// rolled out beside it.
    pub(super) async fn install_previous(&self, wanted: &Value) -> Result<(), SyncError> {
        let history = self.history().read().await?;
        let ran = history.iter().find(|recorded| self.has_run(recorded));
        if let Some(recorded) = ran.filter(|recorded| recorded.spec != *wanted) {
            // If it does not load, there is no stable version to roll out beside.
            self.install_revision(recorded).await;
        }
        Ok(())
    }

    /// Updates the list of controllers that have run before but of which no version runs.
    pub(super) fn note_down(&self, has_run: bool, outcome: &SyncOutcome) {
        let mut down = self.reconciler.down.lock();
        if has_run && self.controller().is_none() {
            let reason =
                if let SyncOutcome::Refused(reason) = outcome { reason } else { "none of its revisions can run" };
            down.insert(self.name().to_owned(), reason.to_owned());
        } else {
            down.remove(self.name());
        }
    }

    /// After a restart, if the desired definition fails to load, installs the previous revision, else the
    /// newest that loads. Returns whether any revision has ever run.
    pub(super) async fn install_fallback(&self) -> Result<bool, String> {
        let history = self.history().read().await.map_err(|error| chain(&error))?;
        // Rolled-back revisions are not tried again automatically.
        let others = history.iter().rev().filter(|recorded| !recorded.rolled_back && !self.has_run(recorded));
        for recorded in history.iter().filter(|recorded| self.has_run(recorded)).chain(others) {
            if self.install_revision(recorded).await {
                break;
            }
        }
        Ok(!history.is_empty())
    }

    /// Returns whether a revision is the one in the last written status.
    fn has_run(&self, recorded: &ControllerRevision) -> bool {
        self.resource.status()["revision"].as_u64() == Some(recorded.number)
    }

    /// Installs a revision when nothing runs. Returns whether it loads.
    async fn install_revision(&self, ControllerRevision { number, spec, .. }: &ControllerRevision) -> bool {
        let Ok(wanted) = DesiredController::of_revision(spec, &self.resource) else { return false };
        let Ok(LoadedDefinition { definition, .. }) = self.load(wanted).await else { return false };
        if self.install(self.reduce_grants(definition), desired::suspension(&self.resource)).await.is_err() {
            return false;
        }
        self.set_applied(None, *number);
        true
    }
}
