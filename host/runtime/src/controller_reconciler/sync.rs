//! The reconcile of one `Controller`: from the resource to the installed version.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Component;
use homeostat_store::{Resource, Revision, Scope};
use homeostat_workqueue::{Next, Priority};
use serde_json::Value;

use super::desired::{self, DesiredController};
use super::grant_reduction::DesiredGrants;
use super::history::{CAUSE, History};
use super::report::{self, StatusInputs};
use super::sync_results::SyncOutcome;
use super::{AppliedState, ControllerReconciler, Job, STARTUP_MAX, key, tell_refused};
use crate::controller::Controller;
use crate::host_kinds::{RESTARTED, controllers};
use crate::manifest::{ComponentSource, ValidSpec};
use crate::reasons::{chain, list};
use crate::rollout::{
    ActiveRollout, Plan, RolloutPhase, RolloutState, RolloutStatus, Share, SharedRollout, needs_rollout,
};
use crate::{ControllerStatus, Definition, Error, Host, Put, Suspend};

/// Why a definition was not installed.
#[derive(Debug)]
pub(crate) enum SyncError {
    /// The definition was refused, with the reason.
    Refused(String),
    /// Nothing may run until a prerequisite is there.
    Waiting(String),
    /// The store failed.
    Store(homeostat_store::Error),
    /// The host is stopping.
    Stopping,
}

impl From<homeostat_store::Error> for SyncError {
    fn from(error: homeostat_store::Error) -> Self {
        Self::Store(error)
    }
}

/// A loaded definition, and its document for the history.
pub(crate) struct LoadedDefinition {
    pub(crate) definition: Definition,
    pub(crate) document: Value,
}

impl AppliedState {
    fn of(resource: &Resource, generation: Option<u64>, revision: u64) -> Self {
        let restarted = resource.annotation(RESTARTED).map(str::to_owned);
        Self { uid: resource.uid().to_owned(), generation, revision, restarted }
    }
}

/// One reconcile of one `Controller`.
pub(crate) struct ControllerSync<'r> {
    pub(super) reconciler: &'r ControllerReconciler,
    pub(crate) host: &'r Host,
    /// The resource, as last read or written.
    pub(crate) resource: Arc<Resource>,
    /// Whether a person has restarted a rollout that was under way.
    pub(crate) is_restarted: bool,
}

impl ControllerReconciler {
    /// Reconciles one name. Returns when to reconcile it again.
    ///
    /// *Cancel safety*: a recorded revision that was not installed is installed by the next reconcile.
    ///
    /// # Errors
    /// The reason for a retry with backoff.
    pub(super) async fn reconcile(&self, host: &Host, name: &str) -> Result<Next, String> {
        // Taken before the read, so that a later deletion is reported again.
        let seen = host.store().revision(&Scope::Kind(controllers())).await.map_err(|error| chain(&error))?;
        let resource = match host.store().get(&key(name)).await {
            Ok(resource) if !resource.is_deleting() => resource,
            Ok(_) | Err(homeostat_store::Error::NotFound { .. }) => {
                self.remove(host, name, seen);
                return Ok(Next::Done);
            }
            Err(error) => return Err(chain(&error)),
        };
        let sync = ControllerSync { reconciler: self, host, resource, is_restarted: false };
        if sync.applied().is_some_and(|applied| applied.uid != sync.resource.uid()) {
            // A new resource has the same name.
            self.remove(host, name, seen);
        }
        sync.run().await
    }
}

impl ControllerSync<'_> {
    pub(super) fn name(&self) -> &str {
        self.resource.key().name()
    }

    /// Returns the running controller, `None` if there is none.
    pub(crate) fn controller(&self) -> Option<Arc<Controller>> {
        self.host.controller(self.name()).ok()
    }

    /// Returns the time since the reconciler began, the origin of all rollouts.
    pub(crate) fn now(&self) -> Duration {
        self.reconciler.began.elapsed()
    }

    /// Returns a call that enqueues this controller again. A closed queue means that the host is ending.
    pub(crate) fn waker(&self, priority: Priority) -> impl Fn() + Send + 'static + use<> {
        let (queue, job) = (self.reconciler.queue.clone(), Job::Reconcile(self.name().into()));
        move || {
            let _ = queue.add(job.clone(), priority);
        }
    }

    /// Enqueues the controller when it becomes ready, and when that takes long, so that its status is updated.
    pub(crate) fn wake_when_ready(&self, controller: Arc<Controller>) {
        let wake = self.waker(Priority::LOW);
        self.host.spawn(async move {
            let is_ready = match tokio::time::timeout(STARTUP_MAX, controller.is_ready()).await {
                Ok(is_ready) => is_ready,
                Err(_) => {
                    wake();
                    controller.is_ready().await
                }
            };
            if is_ready {
                wake();
            }
        });
    }

    /// Enqueues the controller whenever its leases come, go or change hands, so that its status is updated.
    fn wake_with_placement(&self, controller: Arc<Controller>) {
        if controller.slot.placement.is_leased() {
            let (wake, mut changes) = (self.waker(Priority::LOW), controller.slot.placement.changes());
            self.host.spawn(async move {
                let stopped = controller.feeders.stopped();
                tokio::pin!(stopped);
                loop {
                    tokio::select! {
                        biased;
                        () = &mut stopped => return,
                        // The sender lives as long as the placement.
                        _changed = changes.changed() => wake(),
                    }
                }
            });
        }
    }

    pub(crate) fn applied(&self) -> Option<AppliedState> {
        self.reconciler.applied.lock().get(self.name()).cloned()
    }

    /// Records the installed state of the name.
    pub(crate) fn set_applied(&self, generation: Option<u64>, revision: u64) {
        self.set_revision(revision);
        let applied = AppliedState::of(&self.resource, generation, revision);
        self.reconciler.applied.lock().insert(self.name().to_owned(), applied);
    }

    /// Sets the revision of the current version.
    pub(super) fn set_revision(&self, revision: u64) {
        if let Some(controller) = self.controller() {
            controller.slot.current().set_revision(revision);
        }
    }

    /// Takes the rollout of the name until [`ControllerSync::keep_rollout`].
    pub(crate) fn take_rollout(&self) -> Option<RolloutState> {
        self.reconciler.rollouts.lock().remove(self.name())
    }

    /// Returns whether a rollout in progress has carried out a step of the record; `None` if there is none.
    pub(super) fn has_step_of(&self, rollout: &SharedRollout) -> Option<bool> {
        Some(self.reconciler.rollouts.lock().get(self.name())?.has_step_of(rollout))
    }

    pub(crate) fn keep_rollout(&self, rollout: RolloutState) {
        self.reconciler.rollouts.lock().insert(self.name().to_owned(), rollout);
    }

    /// Installs the desired definition, or the next best, and reports the outcome. Returns when to reconcile
    /// again.
    async fn run(mut self) -> Result<Next, String> {
        let (name, looked_at) = (self.name().to_owned(), self.resource.revision());
        let (outcome, error) = match self.sync().await {
            Ok(outcome) => (outcome, None),
            Err(SyncError::Refused(reason)) => (SyncOutcome::Refused(reason.clone()), Some(reason)),
            Err(SyncError::Waiting(reason)) => {
                self.report_waiting(&reason);
                (SyncOutcome::Waiting(reason), None)
            }
            Err(SyncError::Store(error)) => return Err(chain(&error)),
            Err(SyncError::Stopping) => return Ok(Next::Done),
        };
        if !matches!(outcome, SyncOutcome::Put(_) | SyncOutcome::Waiting(_)) && self.controller().is_none() {
            let has_run = self.install_fallback().await?;
            self.note_down(has_run, &outcome);
        } else {
            self.reconciler.down.lock().remove(&name);
        }
        let (next, holds) = match self.reconciler.rollouts.lock().get(&name) {
            Some(rollout) => (rollout.next(), rollout.holds()),
            None => (Next::Done, false),
        };
        self.host.hold(&name, if holds { Suspend::Yes } else { desired::suspension(&self.resource) });
        self.settle_rollout(&outcome).await.map_err(|error| chain(&error))?;
        let seen = self.report(&outcome).await?;
        if let SyncOutcome::Refused(reason) = &outcome {
            tell_refused(self.host, &name, reason);
        }
        self.host.verdicts().record(&name, looked_at, seen, outcome);
        error.map_or(Ok(next), Err)
    }

    /// Installs the desired definition, unless it is installed or being rolled out.
    async fn sync(&mut self) -> Result<SyncOutcome, SyncError> {
        self.check_prerequisites().await?;
        let record = RolloutStatus::of(&self.resource);
        let mut cannot_resume = None;
        if let Some(record) = record.clone().filter(|record| record.phase != RolloutPhase::Complete)
            && self.controller().is_none()
        {
            // A rollout that cannot be resumed is treated as if there had been none.
            match ActiveRollout::resume(self, record).await {
                Err(SyncError::Store(error)) => return Err(SyncError::Store(error)),
                Err(SyncError::Refused(reason) | SyncError::Waiting(reason)) => cannot_resume = Some(reason),
                Ok(()) | Err(SyncError::Stopping) => {}
            }
        }
        if let Some(outcome) = ActiveRollout::check(self).await? {
            return Ok(outcome);
        }
        let record = record.filter(|record| !self.is_tried_again(record));
        if let Some(reason) = record.and_then(|record| record.rejects(&self.resource)) {
            // After a rollback only the previous version may run. Its error is reported, and it is retried.
            return cannot_resume.map_or(Ok(SyncOutcome::RolledBack(reason)), |reason| Err(SyncError::Refused(reason)));
        }
        let generation = Some(self.resource.generation());
        if let Some(applied) = self.applied().filter(|applied| applied.generation == generation) {
            return self.restart(applied).await.map(SyncOutcome::Put);
        }
        let mut wanted = read(&self.resource.document()["spec"])?;
        if wanted.spec.paused {
            return Ok(SyncOutcome::Paused);
        }
        if wanted.is_to_be_resolved()
            && let Some(last) = self.history().read().await?.last()
        {
            wanted.pin(&last.spec);
        }
        let (old_max, plan) = (wanted.checked.old_revisions, wanted.checked.plan.clone());
        let loaded = self.load(wanted).await?;
        let grants = DesiredGrants::of(&loaded.definition);
        self.reconciler.desired_grants.lock().insert(self.name().to_owned(), grants);
        if plan != Plan::Immediate && self.controller().is_none() {
            self.install_previous(&loaded.document).await?;
        }
        if let (Plan::Canary(plan), Some(running)) = (plan, self.host.definition(self.name()))
            && needs_rollout(&running, &loaded.definition)
        {
            self.apply_grant_reduction().await?;
            return ActiveRollout::start(self, loaded, plan, old_max).await;
        }
        let put = self.put(loaded, old_max).await;
        if let Err(SyncError::Refused(_)) = put {
            self.apply_grant_reduction().await?;
        }
        let (put, revision) = put?;
        self.set_applied(generation, revision);
        Ok(SyncOutcome::Put(put))
    }

    /// Restarts the current version if the restart annotation has changed.
    async fn restart(&self, applied: AppliedState) -> Result<Put, SyncError> {
        let now = AppliedState::of(&self.resource, applied.generation, applied.revision);
        if now.restarted == applied.restarted {
            return Ok(Put::Unchanged);
        }
        let Some(controller) = self.controller() else { return Err(SyncError::Stopping) };
        let renewed = controller.restart().await.map_err(|error| SyncError::Refused(list(&[chain(&error)])))?;
        self.reconciler.applied.lock().insert(self.name().to_owned(), now);
        self.wake_when_ready(controller);
        Ok(Put::Changed(renewed))
    }

    /// Fetches and compiles the code of a definition, unless it already runs.
    pub(crate) async fn load(&self, wanted: DesiredController) -> Result<LoadedDefinition, SyncError> {
        let DesiredController { spec, checked, mut document } = wanted;
        // An earlier revision may have rights that its creator has lost.
        if let Some(reason) = self.missing_right(&spec.component, &checked).await? {
            return Err(SyncError::Refused(reason));
        }
        let running = self.host.definition(self.name()).filter(|running| {
            // The component reads its settings when it describes itself.
            checked.digest.as_ref() == Some(running.component.digest())
                && checked.grants == running.grants
                && checked.config == running.config
        });
        let component = match running {
            Some(running) => running.component,
            None => self.component(&spec.component, &checked).await?,
        };
        document["component"]["digest"] = component.digest().as_str().into();
        let ValidSpec {
            grants,
            limits,
            config,
            overrides,
            placement,
            feeders,
            suspend: _,
            digest: _,
            old_revisions: _,
            plan: _,
            kinds,
        } = checked;
        let kinds = kinds.resolve(&self.host.kinds());
        let kinds = kinds.map_err(|kind| SyncError::Refused(format!("no declaration of the kind {kind} exists")))?;
        let component =
            component.with_kinds(kinds.assigned).map_err(|refused| SyncError::Refused(list(&refused.reasons)))?;
        let required_kinds = kinds.required;
        // The suspension belongs to the controller, not to a definition.
        let (name, suspend) = (self.name().to_owned(), Suspend::No);
        let definition = Definition {
            name,
            component,
            grants,
            limits,
            config,
            overrides,
            suspend,
            placement,
            feeders,
            required_kinds,
        };
        Ok(LoadedDefinition { definition, document })
    }

    async fn component(&self, source: &ComponentSource, checked: &ValidSpec) -> Result<Component, SyncError> {
        let host = self.host;
        let refused = |refused: homeostat_component::LoadError| SyncError::Refused(list(&refused.reasons));
        if let Some(digest) = &checked.digest
            && let Some(loaded) = host.load_again(digest, &checked.limits, &checked.config).await
        {
            return loaded.map_err(refused);
        }
        let fetched = self.reconciler.code.fetch(source).await;
        let bytes = fetched.map_err(|reason| SyncError::Refused(list(&[reason])))?;
        // Boxed: the future is large, and most reconciles load nothing.
        let loading = Box::pin(host.load_within(bytes, checked.digest.as_ref(), &checked.limits, &checked.config));
        host.compilations().watched(host, self.name(), loading).await.map_err(refused)
    }

    /// Records a definition as a revision and installs it. Returns the revision number too.
    async fn put(&self, loaded: LoadedDefinition, old_max: u32) -> Result<(Put, u64), SyncError> {
        let (history, step) = self.history().record(&loaded.document, &loaded.definition.component).await?;
        let put = match self.install(loaded.definition, desired::suspension(&self.resource)).await {
            Err(Error::Stopping) => return Err(SyncError::Stopping),
            Err(error) => {
                if step.is_new {
                    // The revision never ran.
                    self.history().remove(step.number).await?;
                }
                return Err(SyncError::Refused(list(&[chain(&error)])));
            }
            Ok(put) => put,
        };
        if history.iter().any(|recorded| recorded.number == step.number && recorded.rolled_back) {
            // The revision has all keys now.
            self.history().mark_rolled_back(step.number, None).await?;
        }
        self.prune_history(step.number, old_max).await;
        Ok((put, step.number))
    }

    pub(crate) fn history(&self) -> History {
        History::of(self.host.store(), self.resource.clone())
    }

    /// Deletes revisions beyond the history limit. A failed deletion is retried the next time.
    pub(crate) async fn prune_history(&self, current: u64, old_max: u32) {
        match self.history().prune(current, old_max).await {
            Ok(true) => self.reconciler.sweep_later(),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "cannot delete old revisions, it is retried later"),
        }
    }

    pub(crate) async fn install(&self, definition: Definition, held: Suspend) -> Result<Put, Error> {
        let put = self.host.put_held(definition, held).await?;
        if let (Some(controller), true) = (self.controller(), put != Put::Unchanged) {
            if put == Put::Added {
                self.wake_with_placement(controller.clone());
            }
            self.wake_when_ready(controller);
        }
        Ok(put)
    }

    /// Writes the status after a reconcile. Returns the resource's revision afterwards.
    async fn report(&mut self, outcome: &SyncOutcome) -> Result<Revision, String> {
        let rollout = self.rollout(outcome);
        match self.write_status(outcome, rollout).await {
            // The concurrent change is reconciled next.
            Ok(()) | Err(homeostat_store::Error::Conflict { .. } | homeostat_store::Error::NotFound { .. }) => {
                Ok(self.resource.revision())
            }
            Err(error) => Err(chain(&error)),
        }
    }

    /// Writes the rollout into the controller's status.
    ///
    /// # Errors
    /// As [`ControllerSync::write_status`].
    pub(crate) async fn write_rollout(&mut self, record: &RolloutStatus) -> homeostat_store::Result<()> {
        let outcome = match &record.reason {
            Some(reason) if record.phase == RolloutPhase::RolledBack => SyncOutcome::RolledBack(reason.clone()),
            _ => SyncOutcome::RollingOut { from: record.from, to: record.to, share: record.resumes() },
        };
        self.write_status(&outcome, Some(record.clone())).await
    }

    /// Writes the status of the controller if it has changed, and takes the written resource.
    ///
    /// # Errors
    /// Those of the store; `Conflict` if the resource has changed meanwhile.
    pub(crate) async fn write_status(
        &mut self,
        outcome: &SyncOutcome,
        rollout: Option<RolloutStatus>,
    ) -> homeostat_store::Result<()> {
        let controller = self.controller();
        let is_new = |controller: &Arc<Controller>| controller.telemetry.began.elapsed() < STARTUP_MAX;
        let running = controller.as_ref().map(|controller| controller.status());
        let used = |running: &ControllerStatus| {
            self.host.stores().readiness([&running.manages].into_iter().chain(&running.watches))
        };
        let inputs = StatusInputs {
            generation: self.resource.generation(),
            outcome,
            wanted: self.resource.document().pointer("/spec/component/digest").and_then(Value::as_str),
            is_new: controller.as_ref().is_some_and(is_new),
            stores: running.as_ref().and_then(used),
            running,
            revision: self.applied().map(|applied| applied.revision),
            cause: self.resource.annotation(CAUSE),
            rollout,
            is_elsewhere: self.rolls_out_elsewhere(),
        };
        let status = report::status(self.resource.status(), &inputs, &crate::clock::now());
        if status != *self.resource.status() {
            self.resource = report::write(&*self.host.store(), &self.resource, status).await?;
        }
        Ok(())
    }

    /// Returns the rollout for the status: the current one, or the last one while it is still relevant.
    fn rollout(&self, outcome: &SyncOutcome) -> Option<RolloutStatus> {
        if let Some(rollout) = self.reconciler.rollouts.lock().get(self.name()) {
            return Some(rollout.record.clone());
        }
        let current = self.applied().map(|applied| applied.revision);
        let record = RolloutStatus::of(&self.resource)?;
        match record.phase {
            // The rollout has just been promoted.
            RolloutPhase::Canary if current == Some(record.to) => {
                Some(RolloutStatus { share: Share::ALL, ..record.enter(RolloutPhase::Complete) })
            }
            RolloutPhase::Complete if current == Some(record.to) => Some(record),
            RolloutPhase::RolledBack if matches!(outcome, SyncOutcome::RolledBack(_) | SyncOutcome::Paused) => {
                Some(record)
            }
            // The rolled-back revision is not tried again even if the previous one fails to load.
            RolloutPhase::RolledBack if record.rejects(&self.resource).is_some() => Some(record),
            _ => None,
        }
    }
}

fn read(spec: &Value) -> Result<DesiredController, SyncError> {
    DesiredController::read(spec).map_err(|violations| SyncError::Refused(list(&violations)))
}
