//! Rollouts: moves a canary from some keys to all, step by step, or rolls it back.
//!
//! The status is written before a step takes effect and after a rollback takes effect. After a crash in
//! between, the host recovers with one stable version and continues the rollout, or repeats the rollback. The
//! last step gives the canary all keys; its promotion is written afterwards. Each update writes the whole
//! status at once, so phase and conditions always match.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Severity;
use homeostat_store::Resource;
use homeostat_workqueue::{Next, Priority};
use serde_json::Value;

use super::grant_reduction::DesiredGrants;
use super::history::{self, ControllerRevision};
use super::sync::{LoadedDefinition, SyncError};
use super::sync_results::SyncOutcome;
use super::{AppliedState, ControllerReconciler, Job, RESTARTED, desired, report, wake_when_ready};
use crate::controller::Controller;
use crate::reasons::{chain, list};
use crate::rollout::{self, Action, CanaryMachine, KeySplit, Observation, PinnedKeys, Plan, RolloutStatus, Share};
use crate::stats::RolloutResult;
use crate::{Definition, Error, Host, Suspend};

/// The interval between two checks of a rollout: a tenth of a step, within these bounds. A failed analysis is
/// noticed at once.
const POLL_INTERVAL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A rollout in progress.
pub(super) struct ActiveRollout {
    pub(super) record: RolloutStatus,
    machine: CanaryMachine,
    /// The canary's definition, as recorded in its revision.
    document: Value,
    old_max: u32,
    /// Rolled back, but not yet in the status.
    is_over: bool,
}

/// The result of a check of a rollout.
pub(super) enum RolloutProgress {
    /// The rollout continues.
    InProgress(SyncOutcome),
    /// The rollout has ended.
    Finished(SyncOutcome),
    /// The canary is no longer the desired definition.
    Superseded,
}

impl ActiveRollout {
    /// Returns when to check next.
    pub(super) fn next(&self) -> Next {
        Next::After((self.machine.lasts() / 10).clamp(POLL_INTERVAL.0, POLL_INTERVAL.1))
    }

    /// Saves the report of a shadow that is about to end.
    fn note_shadow(&mut self, controller: &Controller) {
        if let Some(report) = controller.shadow_report() {
            self.record.shadow = Some(serde_json::json!(report.brief()));
        }
    }

    /// Returns whether all keys must wait: after a restart the canary is not ready for its keys yet.
    pub(super) fn holds(&self) -> bool {
        self.machine.share().is_none() && self.record.resumes().is_some()
    }

    fn outcome(&self) -> SyncOutcome {
        let RolloutStatus { from, to, .. } = self.record;
        SyncOutcome::RollingOut { from, to, share: self.machine.share() }
    }
}

/// Returns whether a change needs a rollout. A change of queue settings alone does not, because both versions
/// share one queue.
pub(super) fn needs_rollout(running: &Definition, wanted: &Definition) -> bool {
    running.component.digest() != wanted.component.digest()
        || !running.grants.has_lines_of(&wanted.grants)
        || running.limits != wanted.limits
        || running.config != wanted.config
}

impl ControllerReconciler {
    /// Starts a rollout: records the revision and the status, and prepares the canary.
    pub(super) async fn start_rollout(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        LoadedDefinition { definition, document }: LoadedDefinition,
        plan: rollout::CanaryPlan,
        old_max: u32,
    ) -> Result<RolloutProgress, SyncError> {
        let (store, name) = (host.store(), resource.key().name().to_owned());
        let Some(from) = self.applied(&name).map(|taken| taken.revision) else { return Err(SyncError::Stopping) };
        let history = history::read(&*store, resource.uid()).await?;
        let step = history::plan_revision(&history, &document);
        if step.is_new {
            history::write(&*store, resource, &document, &definition.component, &step).await?;
        }
        let record = RolloutStatus::begin(from, step.number, &plan, resource);
        self.write_rollout(host, resource, &record).await?;
        let (machine, chosen) = (CanaryMachine::new(plan, None, self.now()), PinnedKeys::default());
        let tried = self.prepare(host, &name, definition, record, document, chosen, machine, old_max);
        let mut trying = match tried.await {
            Err(SyncError::Refused(reason)) if step.is_new => {
                // The revision never ran.
                history::remove(&*store, &history::name(&name, step.number)).await?;
                return Err(SyncError::Refused(reason));
            }
            tried => tried?,
        };
        // The history keeps the canary in addition to the stable version and the usual number of old
        // revisions.
        self.prune_history(&*store, resource.uid(), from, old_max.saturating_add(1)).await;
        let looked = self.advance(host, resource, &mut trying, false).await;
        self.rollouts.lock().insert(name, trying);
        looked
    }

    /// Prepares a canary without keys. `chosen` are the keys pinned by labels before a restart.
    #[expect(clippy::too_many_arguments, reason = "they are what a candidate is")]
    async fn prepare(
        &self,
        host: &Host,
        name: &str,
        definition: Definition,
        record: RolloutStatus,
        document: Value,
        chosen: PinnedKeys,
        machine: CanaryMachine,
        old_max: u32,
    ) -> Result<ActiveRollout, SyncError> {
        let Ok(controller) = host.controller(name) else { return Err(SyncError::Stopping) };
        let part = KeySplit { share: None, pinned: chosen, salt: record.salt() };
        let gate = machine.plan().gate.clone();
        let trial = match controller.start_canary(definition, gate, part, machine.shadow().is_some()).await {
            Ok(trial) => trial,
            Err(Error::Stopping | Error::UnknownController(_)) => return Err(SyncError::Stopping),
            Err(error) => return Err(SyncError::Refused(list(&[chain(&error)]))),
        };
        trial.loaded.set_revision(record.to);
        let (queue, job) = (self.queue.clone(), Job::Reconcile(name.into()));
        host.spawn(async move {
            tokio::select! {
                biased;
                () = trial.finished() => {}
                () = controller.feeders.stopped() => return,
            }
            // A closed queue means that the host is ending.
            let _ = queue.add(job, Priority::HIGH);
        });
        Ok(ActiveRollout { record, machine, document, old_max, is_over: false })
    }

    /// Resumes a rollout after a restart: installs the stable version and prepares the canary again.
    pub(super) async fn resume(
        &self,
        host: &Host,
        resource: &Arc<Resource>,
        record: RolloutStatus,
    ) -> Result<(), SyncError> {
        let name = resource.key().name();
        let history = history::read(&*host.store(), resource.uid()).await?;
        let find = |number: u64| history.iter().find(|recorded| recorded.number == number);
        let Some(ControllerRevision { spec, .. }) = find(record.from) else { return Ok(()) };
        let base = self
            .load(host, name, desired::DesiredController::read(spec).map_err(|wrong| SyncError::Refused(list(&wrong)))?)
            .await?;
        let mut base = base.definition;
        let tried = find(record.to).and_then(|to| desired::DesiredController::read(&to.spec).ok());
        if let Some(tried) = tried.and_then(|tried| DesiredGrants::said(tried.checked)) {
            tried.reduce(&mut base);
        }
        // No key runs until the version of each key is known.
        self.install(host, base, Suspend::Yes).await.map_err(|error| SyncError::Refused(list(&[chain(&error)])))?;
        self.set_applied(host, name, AppliedState::of(resource, None, record.from));
        let Some(ControllerRevision { spec, pinned: chosen, .. }) = find(record.to).filter(|_| record.phase.is_tried())
        else {
            return Ok(());
        };
        let Ok(wanted) = desired::DesiredController::read(spec) else { return Ok(()) };
        let old_max = wanted.checked.old_revisions;
        // Revisions do not contain the rollout settings.
        let now = desired::DesiredController::read(&resource.document()["spec"]).ok();
        let Some(Plan::Canary(plan)) = now.map(|now| now.checked.plan) else { return Ok(()) };
        let LoadedDefinition { definition, document } = self.load(host, name, wanted).await?;
        let machine = CanaryMachine::new(plan, record.resumes(), self.now());
        let trying = self.prepare(host, name, definition, record, document, chosen.clone(), machine, old_max).await?;
        self.rollouts.lock().insert(name.to_owned(), trying);
        Ok(())
    }

    /// Checks a rollout and performs the next action.
    pub(super) async fn step_rollout(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        trying: &mut ActiveRollout,
    ) -> Result<RolloutProgress, SyncError> {
        let name = resource.key().name().to_owned();
        if trying.is_over {
            return self.report_rollback(host, resource, trying).await;
        }
        let Some(trial) = host.controller(&name).ok().and_then(|controller| controller.slot.canary()) else {
            return Ok(RolloutProgress::Superseded);
        };
        let is_same_try = resource.annotation(RESTARTED) == trying.record.restarted.as_deref();
        let mut is_paused = false;
        if Some(resource.generation()) != trying.record.generation || !is_same_try {
            let Ok(mut wanted) = desired::DesiredController::read(&resource.document()["spec"]) else {
                return Ok(RolloutProgress::Superseded);
            };
            wanted.pin(&trying.document);
            is_paused = wanted.spec.paused;
            if !is_paused && wanted.differs_from(&trying.document) {
                return Ok(RolloutProgress::Superseded);
            }
            if !is_paused {
                let (plan, old_max) = (wanted.checked.plan.clone(), wanted.checked.old_revisions);
                let loaded = match self.load(host, &name, wanted).await {
                    Err(SyncError::Refused(_)) => return Ok(RolloutProgress::Superseded),
                    loaded => loaded?,
                };
                let Plan::Canary(plan) = plan else { return Ok(RolloutProgress::Superseded) };
                if loaded.document != trying.document || !is_same_try {
                    return Ok(RolloutProgress::Superseded);
                }
                trial.set_gate(plan.gate.clone());
                trying.machine.set_plan(plan);
                trying.record.generation = Some(resource.generation());
                trying.old_max = old_max;
            }
        }
        let looked = self.advance(host, resource, trying, is_paused).await?;
        Ok(match looked {
            RolloutProgress::InProgress(_) if is_paused => RolloutProgress::InProgress(SyncOutcome::Paused),
            looked => looked,
        })
    }

    async fn advance(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        trying: &mut ActiveRollout,
        is_paused: bool,
    ) -> Result<RolloutProgress, SyncError> {
        let name = resource.key().name().to_owned();
        let Ok(controller) = host.controller(&name) else { return Err(SyncError::Stopping) };
        let Some(trial) = controller.slot.canary() else { return Ok(RolloutProgress::Superseded) };
        let (both, shadow) = (trial.comparison(), controller.shadow_report());
        let sight = Observation {
            now: self.now(),
            is_paused: is_paused || desired::suspension(resource) != Suspend::No,
            has_synced: controller.feeders.has_canary_synced(),
            comparison: &both,
            failed: trial.failure(),
            shadow: shadow.as_ref(),
        };
        match trying.machine.step(sight) {
            Action::Wait => {}
            Action::StartShadow => {
                if let Err(reason) = self.start_shadow(host, resource, &controller, trying).await? {
                    return self.roll_back(host, resource, &controller, trying, reason).await;
                }
            }
            Action::EndShadow => {
                trying.note_shadow(&controller);
                let record = trying.record.listing();
                self.write_rollout(host, resource, &record).await?;
                trying.record = record;
                match controller.end_canary_shadow().await {
                    Ok(()) => trying.machine.shadow_finished(self.now()),
                    Err(error) => return self.roll_back(host, resource, &controller, trying, chain(&error)).await,
                }
            }
            Action::Resync => controller.resync_canary().await,
            Action::SetShare(share) => self.set_share(host, resource, &controller, trying, share).await?,
            Action::Promote => return self.promote(host, resource, &controller, trying).await,
            Action::RollBack(reason) => return self.roll_back(host, resource, &controller, trying, reason).await,
        }
        Ok(RolloutProgress::InProgress(trying.outcome()))
    }

    /// Rolls the canary back and reports it.
    async fn roll_back(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        controller: &Controller,
        trying: &mut ActiveRollout,
        reason: String,
    ) -> Result<RolloutProgress, SyncError> {
        trying.note_shadow(controller);
        controller.roll_back().await;
        controller.stats.rollout(RolloutResult::RolledBack);
        let name = resource.key().name().to_owned();
        self.set_applied(host, &name, AppliedState::of(resource, None, trying.record.from));
        trying.record.roll_back(reason);
        trying.is_over = true;
        self.report_rollback(host, resource, trying).await
    }

    /// Starts the canary's shadow. The inner error says why that failed.
    async fn start_shadow(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        controller: &Arc<Controller>,
        trying: &mut ActiveRollout,
    ) -> Result<Result<(), String>, SyncError> {
        let record = trying.record.shadow();
        self.write_rollout(host, resource, &record).await?;
        if let Err(error) = controller.start_canary_shadow().await {
            return Ok(Err(chain(&error)));
        }
        let message = format!("revision {} is a shadow of revision {}", record.to, record.from);
        report_step(controller, "Shadow", &message);
        trying.record = record;
        Ok(Ok(()))
    }

    async fn set_share(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        controller: &Controller,
        trying: &mut ActiveRollout,
        share: Share,
    ) -> Result<(), SyncError> {
        let (plan, is_first) = (trying.machine.plan(), trying.machine.share().is_none());
        // Dealt once, and stored before it takes effect: new keys, later label changes or a restart move no
        // key.
        let deal = if is_first && trying.record.resumes().is_none() {
            let deal = controller.deal(plan, trying.record.to).await?;
            let revision = history::name(&controller.name, trying.record.to);
            history::pin_keys(&*host.store(), &revision, &deal.pinned).await?;
            Some(deal)
        } else {
            None
        };
        let salt = deal.as_ref().map_or_else(|| trying.record.salt(), |deal| deal.salt);
        let record = RolloutStatus { salt: Some(salt), ..trying.record.at_share(share, plan) };
        self.write_rollout(host, resource, &record).await?;
        controller.set_canary_share(share, deal, plan.gate.clone()).await;
        trying.machine.step_started(share, self.now());
        let chosen = if trying.machine.plan().labels.is_empty() { "" } else { " and the keys that labels select" };
        let message =
            format!("revision {} has {share} of the keys{chosen}, revision {} the others", record.to, record.from);
        report_step(controller, "Canary", &message);
        trying.record = record;
        Ok(())
    }

    async fn promote(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        controller: &Arc<Controller>,
        trying: &mut ActiveRollout,
    ) -> Result<RolloutProgress, SyncError> {
        let (store, name) = (host.store(), resource.key().name().to_owned());
        let record = trying.record.at_share(Share::ALL, trying.machine.plan());
        self.write_rollout(host, resource, &record).await?;
        history::mark_rolled_back(&*store, &history::name(&name, record.to), None).await?;
        // It failed while the status was written; the next check rolls it back.
        let Some(swapped) = controller.promote().await else {
            return Ok(RolloutProgress::InProgress(trying.outcome()));
        };
        controller.stats.rollout(RolloutResult::Promoted);
        let message = format!("revision {} has all keys, it replaces revision {}", record.to, record.from);
        report_step(controller, "Promoted", &message);
        self.set_applied(host, &name, AppliedState::of(resource, record.generation, record.to));
        self.prune_history(&*store, resource.uid(), record.to, trying.old_max).await;
        wake_when_ready(host, self, &name, controller.clone());
        Ok(RolloutProgress::Finished(SyncOutcome::Put(crate::Put::Changed(swapped))))
    }

    /// Reports a rollback: in the revision, in the status and as an event.
    async fn report_rollback(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        trying: &ActiveRollout,
    ) -> Result<RolloutProgress, SyncError> {
        let (store, name, record) = (host.store(), resource.key().name().to_owned(), &trying.record);
        let reason = record.reason.clone().unwrap_or_default();
        history::mark_rolled_back(&*store, &history::name(&name, record.to), Some(&reason)).await?;
        self.write_rollout(host, resource, record).await?;
        if let Ok(controller) = host.controller(&name) {
            let message = format!("revision {} was rolled back to revision {}: {reason}", record.to, record.from);
            controller.context.event(&controller.name, None, Severity::Warning, "RolledBack", &message);
            tracing::info!("controller/{name} rolled back: {message}");
        }
        Ok(RolloutProgress::Finished(SyncOutcome::RolledBack(reason)))
    }

    /// Takes all keys from a canary that is no longer desired.
    ///
    /// # Errors
    /// Those of the store; the canary keeps its keys then.
    pub(super) async fn abandon_rollout(
        &self,
        host: &Host,
        name: &str,
        trying: &ActiveRollout,
    ) -> homeostat_store::Result<()> {
        let Ok(controller) = host.controller(name) else { return Ok(()) };
        let RolloutStatus { from, to, .. } = trying.record;
        history::mark_rolled_back(&*host.store(), &history::name(name, to), Some(history::REPLACED)).await?;
        let had_keys_taken = controller.roll_back().await;
        controller.stats.rollout(RolloutResult::Replaced);
        let message = match had_keys_taken {
            true => format!("revision {to} was replaced by another definition: revision {from} has all keys"),
            false => {
                format!("revision {to} was dropped: another component was installed directly")
            }
        };
        report_step(&controller, "CanaryEnded", &message);
        Ok(())
    }

    /// Writes the rollout into the controller's status, and updates `resource` to the written version.
    async fn write_rollout(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        record: &RolloutStatus,
    ) -> Result<(), SyncError> {
        let status = self.status(host, resource, &record.outcome(), Some(record.clone()));
        if status != *resource.status() {
            *resource = report::write(&*host.store(), resource, status).await?;
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Reports a step as an event and in the log.
fn report_step(controller: &Controller, reason: &str, message: &str) {
    controller.context.event(&controller.name, None, Severity::Normal, reason, message);
    tracing::info!("controller/{} rollout: {message}", controller.name);
}
