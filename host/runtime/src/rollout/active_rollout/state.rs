//! The state of a rollout that is under way, between two reconciles of its controller.

use std::time::Duration;

use homeostat_workqueue::{Next, Priority};
use serde_json::Value;

use crate::Error;
use crate::controller_reconciler::{ControllerSync, LoadedDefinition, SyncError};
use crate::reasons::{chain, list};
use crate::rollout::canary::Canary;
use crate::rollout::shared_rollout::version_id;
use crate::rollout::{CanaryMachine, KeySplit, PinnedKeys, RolloutPhase, RolloutStatus, SharedRollout};

/// The interval between two checks of a rollout: a tenth of a step, within these bounds. A failed analysis is
/// noticed at once.
const POLL_INTERVAL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The state of a rollout between two reconciles of its controller.
pub(crate) struct RolloutState {
    pub(crate) record: RolloutStatus,
    pub(super) canary: Canary,
    pub(super) machine: CanaryMachine,
    /// The canary's definition, as recorded in its revision.
    pub(super) document: Value,
    pub(super) old_max: u32,
    /// The name of the canary in the record of all hosts.
    pub(super) version: String,
    /// A person asks for another attempt after a rollback that this host knows, and the record has none yet.
    pub(super) is_retry: bool,
    /// Rolled back, but not yet in the status.
    pub(super) is_over: bool,
    /// Rolled back, but not yet in the record of all hosts.
    pub(super) owes_record: bool,
}

impl RolloutState {
    /// Returns when to check next.
    pub(crate) fn next(&self) -> Next {
        Next::After((self.machine.lasts() / 10).clamp(POLL_INTERVAL.0, POLL_INTERVAL.1))
    }

    /// Returns whether the keys are dealt as a rollout says, or it decides something else.
    pub(crate) fn has_step_of(&self, rollout: &SharedRollout) -> bool {
        match rollout.phase {
            _ if rollout.version != self.version => !self.holds(),
            RolloutPhase::Listing | RolloutPhase::Shadow => !self.holds(),
            RolloutPhase::Canary => {
                let is_same_attempt = self.record.attempt.as_deref() == Some(&*rollout.attempt);
                is_same_attempt && self.machine.share() == Some(rollout.share) && self.record.salt == rollout.salt
            }
            RolloutPhase::Complete | RolloutPhase::RolledBack => false,
        }
    }

    /// Returns whether all keys must wait: after a restart the canary is not ready for its keys yet.
    pub(crate) fn holds(&self) -> bool {
        self.machine.share().is_none() && self.record.resumes().is_some()
    }

    /// Prepares a canary without keys. `pinned` are the keys pinned by labels before a restart.
    pub(super) async fn prepare(
        sync: &ControllerSync<'_>,
        LoadedDefinition { definition, document }: LoadedDefinition,
        record: RolloutStatus,
        machine: CanaryMachine,
        pinned: PinnedKeys,
        old_max: u32,
    ) -> Result<Self, SyncError> {
        let Some(controller) = sync.controller() else { return Err(SyncError::Stopping) };
        let split = KeySplit { share: None, pinned, salt: record.salt() };
        let (gate, is_shadow) = (machine.plan().gate.clone(), machine.shadow().is_some());
        let (canary, step) = match Canary::start(controller.clone(), definition, gate, split, is_shadow).await {
            Ok(started) => started,
            Err(Error::Stopping | Error::UnknownController(_)) => return Err(SyncError::Stopping),
            Err(error) => return Err(SyncError::Refused(list(&[chain(&error)]))),
        };
        step.loaded.set_revision(record.to);
        let wake = sync.waker(Priority::HIGH);
        sync.host.spawn(async move {
            tokio::select! {
                biased;
                () = step.finished() => wake(),
                () = controller.feeders.stopped() => {}
            }
        });
        let version = version_id(&document);
        let is_shared = sync.controller().is_some_and(|controller| controller.slot.placement.is_leased());
        let record = RolloutStatus { version: is_shared.then(|| version.clone()), ..record };
        let (is_retry, is_over, owes_record) = Default::default();
        Ok(Self { record, canary, machine, document, old_max, version, is_retry, is_over, owes_record })
    }
}
