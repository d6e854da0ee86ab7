//! A rollout that is under way: moves a canary from some keys to all, step by step, or rolls it back.
//!
//! The status is written before a step takes effect and after a rollback takes effect. After a crash in
//! between, the host recovers with one stable version and continues the rollout, or repeats the rollback. The
//! last step gives the canary all keys; its promotion is written afterwards. Each update writes the whole
//! status at once, so phase and conditions always match.

mod fleet;
mod state;

use homeostat_component::Severity;

pub(crate) use self::state::RolloutState;
use super::shared_rollout::{attempt_id, version_id};
use super::{
    Action, CanaryMachine, CanaryPlan, CanaryStep, Observation, PinnedKeys, Plan, RolloutPhase, RolloutStatus, Share,
};
use crate::controller_reconciler::{
    ControllerSync, DesiredController, DesiredGrants, LoadedDefinition, REPLACED, SyncError, SyncOutcome, suspension,
};
use crate::host_kinds::RESTARTED;
use crate::reasons::{chain, list};
use crate::stats::RolloutResult;
use crate::{Definition, Put, Suspend};

/// A rollout while its controller is reconciled: the host and the resource in `sync`; the controller, the
/// record and the machine in `state`.
pub(crate) struct ActiveRollout<'s, 'r> {
    sync: &'s mut ControllerSync<'r>,
    state: RolloutState,
}

/// The result of a check of a rollout.
enum StepOutcome {
    /// The rollout continues.
    InProgress(SyncOutcome),
    /// The rollout has ended.
    Finished(SyncOutcome),
    /// The canary is no longer the desired definition.
    Superseded,
}

/// Returns whether a change needs a rollout. A change of queue settings alone does not, because both versions
/// share one queue.
pub(crate) fn needs_rollout(running: &Definition, wanted: &Definition) -> bool {
    running.component.digest() != wanted.component.digest()
        || running.component.describe() != wanted.component.describe()
        || !running.grants.has_lines_of(&wanted.grants)
        || running.limits != wanted.limits
        || running.config != wanted.config
        || running.overrides.reuse_instances != wanted.overrides.reuse_instances
}

impl<'s, 'r> ActiveRollout<'s, 'r> {
    /// Starts a rollout: records the revision and the status, and prepares the canary.
    pub(crate) async fn start(
        sync: &'s mut ControllerSync<'r>,
        loaded: LoadedDefinition,
        plan: CanaryPlan,
        old_max: u32,
    ) -> Result<SyncOutcome, SyncError> {
        let Some(from) = sync.applied().map(|applied| applied.revision) else { return Err(SyncError::Stopping) };
        let (_, revision) = sync.history().record(&loaded.document, &loaded.definition.component).await?;
        let former = RolloutStatus::of(&sync.resource);
        let version = version_id(&loaded.document);
        let wanted = attempt_id(&version, &sync.resource);
        // Another spec, or a restart by a person.
        let is_retry = sync.is_restarted
            || former.is_some_and(|former| {
                former.rejects(&sync.resource).is_none() && former.is_other_attempt(&version, &wanted)
            });
        let record = RolloutStatus::begin(from, revision.number, &plan, &sync.resource);
        sync.write_rollout(&record).await?;
        let machine = CanaryMachine::new(plan, None, sync.now());
        let state = match RolloutState::prepare(sync, loaded, record, machine, PinnedKeys::default(), old_max).await {
            Err(SyncError::Refused(reason)) if revision.is_new => {
                // The revision never ran.
                sync.history().remove(revision.number).await?;
                return Err(SyncError::Refused(reason));
            }
            prepared => prepared?,
        };
        // The history keeps the canary in addition to the stable version and the usual number of old
        // revisions.
        sync.prune_history(from, old_max.saturating_add(1)).await;
        let mut rollout = Self { sync, state: RolloutState { is_retry, ..state } };
        match rollout.advance(false).await {
            Ok(StepOutcome::Finished(outcome)) => Ok(outcome),
            Ok(StepOutcome::InProgress(outcome)) => rollout.keep(Ok(outcome)),
            Ok(StepOutcome::Superseded) => rollout.keep(Err(SyncError::Stopping)),
            Err(error) => rollout.keep(Err(error)),
        }
    }

    /// Resumes a rollout after a restart: installs the stable version and prepares the canary again.
    pub(crate) async fn resume(sync: &'s mut ControllerSync<'r>, record: RolloutStatus) -> Result<(), SyncError> {
        let history = sync.history().read().await?;
        let find = |number: u64| history.iter().find(|recorded| recorded.number == number);
        let Some(stable) = find(record.from) else { return Ok(()) };
        let stable = DesiredController::of_revision(&stable.spec, &sync.resource)
            .map_err(|wrong| SyncError::Refused(list(&wrong)))?;
        let mut base = sync.load(stable).await?.definition;
        let tried = find(record.to).and_then(|to| DesiredController::of_revision(&to.spec, &sync.resource).ok());
        if let Some(tried) = tried.and_then(|tried| DesiredGrants::said(tried.checked)) {
            tried.reduce(&mut base);
        }
        // No key runs until the version of each key is known.
        sync.install(base, Suspend::Yes).await.map_err(|error| SyncError::Refused(list(&[chain(&error)])))?;
        sync.set_applied(None, record.from);
        let Some(tried) = find(record.to).filter(|_| record.phase.is_tried()) else { return Ok(()) };
        let Ok(canary) = DesiredController::of_revision(&tried.spec, &sync.resource) else { return Ok(()) };
        let old_max = canary.checked.old_revisions;
        // Revisions do not contain the rollout settings.
        let now = DesiredController::read(&sync.resource.document()["spec"]).ok();
        let Some(Plan::Canary(plan)) = now.map(|now| now.checked.plan) else { return Ok(()) };
        let loaded = sync.load(canary).await?;
        let machine = CanaryMachine::new(plan, record.resumes(), sync.now());
        let state = RolloutState::prepare(sync, loaded, record, machine, tried.pinned.clone(), old_max).await?;
        Self { sync, state }.keep(Ok(()))
    }

    /// Checks the rollout of a controller and performs its next action. Returns the outcome of the reconcile;
    /// `None` if there is no rollout or another definition has superseded it.
    pub(crate) async fn check(sync: &'s mut ControllerSync<'r>) -> Result<Option<SyncOutcome>, SyncError> {
        let Some(state) = sync.take_rollout() else { return Ok(None) };
        let mut rollout = Self { sync, state };
        match rollout.step().await {
            // The desired definition has changed since.
            Ok(StepOutcome::Finished(SyncOutcome::RolledBack(_)))
                if rollout.state.record.rejects(&rollout.sync.resource).is_none() =>
            {
                Ok(None)
            }
            Ok(StepOutcome::Finished(outcome)) => Ok(Some(outcome)),
            Ok(StepOutcome::InProgress(outcome)) => rollout.keep(Ok(Some(outcome))),
            Ok(StepOutcome::Superseded) => {
                if let Err(error) = rollout.abandon().await {
                    return rollout.keep(Err(error));
                }
                // Written first, because loading the new definition may take long.
                rollout.sync.write_status(&SyncOutcome::Replaced, None).await?;
                Ok(None)
            }
            Err(error) => rollout.keep(Err(error)),
        }
    }

    /// Keeps the rollout for the next reconcile.
    fn keep<R>(self, result: Result<R, SyncError>) -> Result<R, SyncError> {
        self.sync.keep_rollout(self.state);
        result
    }

    async fn step(&mut self) -> Result<StepOutcome, SyncError> {
        if self.state.is_over {
            return self.report_rollback().await;
        }
        let Some(step) = self.state.canary.step().filter(|_| self.state.canary.runs_in(self.sync.controller())) else {
            return Ok(StepOutcome::Superseded);
        };
        let (resource, record) = (&self.sync.resource, &self.state.record);
        let is_same_try = resource.annotation(RESTARTED) == record.restarted.as_deref();
        let is_same = Some(resource.generation()) == record.generation && is_same_try;
        let is_paused = match is_same {
            true => false,
            false => match self.adopt_spec(&step, is_same_try).await? {
                Some(is_paused) => is_paused,
                None => return Ok(StepOutcome::Superseded),
            },
        };
        Ok(match self.advance(is_paused).await? {
            StepOutcome::InProgress(_) if is_paused => StepOutcome::InProgress(SyncOutcome::Paused),
            progress => progress,
        })
    }

    /// Adopts the plan of a changed spec. Returns whether the spec pauses the rollout; `None` if the canary is
    /// no longer the desired definition.
    async fn adopt_spec(&mut self, step: &CanaryStep, is_same_try: bool) -> Result<Option<bool>, SyncError> {
        let Ok(mut desired) = DesiredController::read(&self.sync.resource.document()["spec"]) else { return Ok(None) };
        desired.pin(&self.state.document);
        if desired.spec.paused {
            return Ok(Some(true));
        }
        if desired.differs_from(&self.state.document) {
            return Ok(None);
        }
        let (plan, old_max) = (desired.checked.plan.clone(), desired.checked.old_revisions);
        let loaded = match self.sync.load(desired).await {
            Err(SyncError::Refused(_)) => return Ok(None),
            loaded => loaded?,
        };
        let is_same = loaded.document == self.state.document && is_same_try;
        let Plan::Canary(plan) = plan else {
            if is_same {
                // A person gives it all keys at once.
                self.announce(RolloutPhase::Complete, Share::ALL, None, None).await?;
            }
            return Ok(None);
        };
        if !is_same {
            self.sync.is_restarted = loaded.document == self.state.document;
            return Ok(None);
        }
        let running = self.state.canary.controller.slot.current();
        let kept = loaded.definition.keeps_placement(&running.definition);
        kept.map_err(|changed| SyncError::Refused(list(&[chain(&changed)])))?;
        step.set_gate(plan.gate.clone());
        self.state.machine.set_plan(plan);
        self.state.record.generation = Some(self.sync.resource.generation());
        self.state.old_max = old_max;
        Ok(Some(false))
    }

    async fn advance(&mut self, mut is_paused: bool) -> Result<StepOutcome, SyncError> {
        if let Some(outcome) = self.follow_course(&mut is_paused).await? {
            return Ok(outcome);
        }
        let controller = &self.state.canary.controller;
        let Some(step) = self.state.canary.step() else { return Ok(StepOutcome::Superseded) };
        let (comparison, shadow) = (step.comparison(), controller.shadow.report());
        let observation = Observation {
            now: self.sync.now(),
            is_paused: is_paused || suspension(&self.sync.resource) != Suspend::No,
            has_synced: controller.feeders.has_canary_synced(),
            comparison: &comparison,
            failed: step.failure(),
            shadow: shadow.as_ref(),
        };
        let failure = match self.state.machine.step(observation) {
            Action::Wait => None,
            Action::StartShadow => self.start_shadow().await?,
            Action::EndShadow => self.end_shadow().await?,
            Action::Resync => {
                self.state.canary.resync().await;
                None
            }
            Action::SetShare(share) => {
                self.set_share(share, None).await?;
                None
            }
            Action::Promote => return self.promote().await,
            Action::RollBack(reason) => Some(reason),
        };
        match failure {
            Some(reason) => self.roll_back(reason).await,
            None => Ok(self.in_progress()),
        }
    }

    fn in_progress(&self) -> StepOutcome {
        let RolloutStatus { from, to, .. } = self.state.record;
        StepOutcome::InProgress(SyncOutcome::RollingOut { from, to, share: self.state.machine.share() })
    }

    /// Writes the next phase into the record of all hosts and into the status, before it takes effect.
    async fn enter(&mut self, record: RolloutStatus) -> Result<(), SyncError> {
        self.announce(record.phase, record.share, record.salt, None).await?;
        let RolloutStatus { attempt, waits, .. } = self.state.record.clone();
        let record = RolloutStatus { attempt, waits, ..record };
        self.sync.write_rollout(&record).await?;
        self.state.record = record;
        Ok(())
    }

    /// Starts the canary's shadow. Returns why that failed.
    async fn start_shadow(&mut self) -> Result<Option<String>, SyncError> {
        self.enter(self.state.record.enter(RolloutPhase::Shadow)).await?;
        if let Err(error) = self.state.canary.start_shadow().await {
            return Ok(Some(chain(&error)));
        }
        let RolloutStatus { from, to, .. } = self.state.record;
        self.report_step("Shadow", &format!("revision {to} is a shadow of revision {from}"));
        Ok(None)
    }

    /// Ends the canary's shadow. Returns why that failed.
    async fn end_shadow(&mut self) -> Result<Option<String>, SyncError> {
        self.save_shadow_report();
        self.enter(self.state.record.enter(RolloutPhase::Listing)).await?;
        if let Err(error) = self.state.canary.end_shadow().await {
            return Ok(Some(chain(&error)));
        }
        self.state.machine.shadow_finished(self.sync.now());
        Ok(None)
    }

    /// Saves the report of a shadow that is about to end.
    fn save_shadow_report(&mut self) {
        if let Some(report) = self.state.canary.controller.shadow.report() {
            self.state.record.shadow = Some(serde_json::json!(report.brief()));
        }
    }

    /// Sets the share of the canary. `dealt` is the salt with which another host has dealt the keys.
    async fn set_share(&mut self, share: Share, dealt: Option<u64>) -> Result<(), SyncError> {
        let RolloutState { record, machine, canary, .. } = &self.state;
        let plan = machine.plan().clone();
        // Dealt once, and stored before it takes effect: new keys, later label changes or a restart move no
        // key.
        let is_first = machine.share().is_none() && record.resumes().is_none();
        let deal = if is_first || dealt.is_some_and(|dealt| dealt != record.salt()) {
            let deal = canary.deal(&plan, record.to, dealt).await?;
            self.sync.history().pin_keys(record.to, &deal.pinned).await?;
            Some(deal)
        } else {
            None
        };
        let salt = deal.as_ref().map_or_else(|| record.salt(), |deal| deal.salt);
        self.enter(RolloutStatus { salt: Some(salt), ..record.at_share(share, &plan) }).await?;
        self.state.canary.set_share(share, deal, plan.gate).await;
        self.state.machine.step_started(share, self.sync.now());
        let chosen = if plan.labels.is_empty() { "" } else { " and the keys that labels select" };
        let RolloutStatus { from, to, .. } = self.state.record;
        self.report_step(
            "Canary",
            &format!("revision {to} has {share} of the keys{chosen}, revision {from} the others"),
        );
        Ok(())
    }

    async fn promote(&mut self) -> Result<StepOutcome, SyncError> {
        self.announce(RolloutPhase::Complete, Share::ALL, None, None).await?;
        let is_decided = self.state.canary.controller.slot.placement.is_leased();
        let record = self.state.record.at_share(Share::ALL, self.state.machine.plan());
        self.sync.write_rollout(&record).await?;
        self.sync.history().mark_rolled_back(record.to, None).await?;
        // It failed while the status was written; the next check rolls it back.
        let Some(swapped) = self.state.canary.promote(is_decided).await else { return Ok(self.in_progress()) };
        let RolloutStatus { from, to, generation, .. } = record;
        self.state.canary.controller.telemetry.stats.rollout(RolloutResult::Promoted);
        self.report_step("Promoted", &format!("revision {to} has all keys, it replaces revision {from}"));
        self.sync.set_applied(generation, to);
        self.sync.prune_history(to, self.state.old_max).await;
        self.sync.wake_when_ready(self.state.canary.controller.clone());
        Ok(StepOutcome::Finished(SyncOutcome::Put(Put::Changed(swapped))))
    }

    /// Rolls the canary back on all hosts and reports it.
    async fn roll_back(&mut self, reason: String) -> Result<StepOutcome, SyncError> {
        self.state.owes_record = true;
        self.take_back(reason).await
    }

    /// Rolls the canary back on this host and reports it.
    async fn take_back(&mut self, reason: String) -> Result<StepOutcome, SyncError> {
        self.save_shadow_report();
        self.state.canary.roll_back().await;
        self.state.canary.controller.telemetry.stats.rollout(RolloutResult::RolledBack);
        self.sync.set_applied(None, self.state.record.from);
        self.state.record.roll_back(reason);
        self.state.is_over = true;
        self.report_rollback().await
    }

    /// Reports a rollback: in the revision, in the status and as an event.
    async fn report_rollback(&mut self) -> Result<StepOutcome, SyncError> {
        let reason = self.state.record.reason.clone().unwrap_or_default();
        if self.state.owes_record {
            self.announce_rollback(&reason).await?;
            self.state.owes_record = false;
        }
        let RolloutStatus { from, to, .. } = self.state.record;
        self.sync.history().mark_rolled_back(to, Some(&reason)).await?;
        self.sync.write_rollout(&self.state.record).await?;
        if let Some(controller) = self.sync.controller() {
            let message = format!("revision {to} was rolled back to revision {from}: {reason}");
            controller.context.event(&controller.name, None, Severity::Warning, "RolledBack", &message);
            tracing::info!("controller/{} rolled back: {message}", controller.name);
        }
        Ok(StepOutcome::Finished(SyncOutcome::RolledBack(reason)))
    }

    /// Takes all keys from a canary that is no longer desired.
    ///
    /// # Errors
    /// Those of the store; the canary keeps its keys then.
    async fn abandon(&mut self) -> Result<(), SyncError> {
        if self.sync.controller().is_none() {
            return Ok(());
        }
        self.announce_replaced().await?;
        let RolloutStatus { from, to, .. } = self.state.record;
        self.sync.history().mark_rolled_back(to, Some(REPLACED)).await?;
        let had_keys_taken = self.state.canary.roll_back().await;
        self.state.canary.controller.telemetry.stats.rollout(RolloutResult::Replaced);
        let message = match had_keys_taken {
            true => format!("revision {to} was replaced by another definition: revision {from} has all keys"),
            false => format!("revision {to} was dropped: another component was installed directly"),
        };
        self.report_step("CanaryEnded", &message);
        Ok(())
    }

    /// Reports a step as an event and in the log.
    fn report_step(&self, reason: &str, message: &str) {
        let controller = &self.state.canary.controller;
        controller.context.event(&controller.name, None, Severity::Normal, reason, message);
        tracing::info!("controller/{} rollout: {message}", controller.name);
    }
}
