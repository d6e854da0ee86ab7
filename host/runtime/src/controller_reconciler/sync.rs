//! The reconcile of one `Controller`: from the resource to the installed version.

use std::sync::Arc;

use homeostat_component::{Component, Severity};
use homeostat_store::{Resource, Store};
use homeostat_workqueue::Next;
use serde_json::Value;

use super::active_rollout::{RolloutProgress, needs_rollout};
use super::desired::{self, DesiredController};
use super::grant_reduction::DesiredGrants;
use super::history::{self, ControllerRevision};
use super::report::{self, StatusInputs};
use super::sync_results::SyncOutcome;
use super::{AppliedState, ControllerReconciler, RESTARTED, STARTUP_MAX, key, tell_refused, wake_when_ready};
use crate::manifest::{ComponentSource, ValidSpec};
use crate::reasons::{chain, list};
use crate::rollout::{Plan, RolloutPhase, RolloutStatus};
use crate::{Definition, Error, Host, Put, Suspend};

/// Why a definition was not installed.
#[derive(Debug)]
pub(super) enum SyncError {
    /// The definition was refused, with the reason.
    Refused(String),
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
pub(super) struct LoadedDefinition {
    pub(super) definition: Definition,
    pub(super) document: Value,
}

impl AppliedState {
    pub(super) fn of(resource: &Resource, generation: Option<u64>, revision: u64) -> Self {
        let restarted = resource.annotation(RESTARTED).map(str::to_owned);
        Self { uid: resource.uid().to_owned(), generation, revision, restarted }
    }
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
        let seen = host.store().revision();
        let mut resource = match host.store().get(&key(name)).await {
            Ok(resource) if !resource.is_deleting() => resource,
            Ok(_) | Err(homeostat_store::Error::NotFound { .. }) => {
                self.remove(host, name, seen);
                return Ok(Next::Done);
            }
            Err(error) => return Err(chain(&error)),
        };
        if self.applied(name).is_some_and(|taken| taken.uid != resource.uid()) {
            // A new resource has the same name.
            self.remove(host, name, seen);
        }
        let looked_at = resource.revision();
        let (outcome, error) = match self.sync(host, &mut resource).await {
            Ok(outcome) => (outcome, None),
            Err(SyncError::Refused(reason)) => (SyncOutcome::Refused(reason.clone()), Some(reason)),
            Err(SyncError::Store(error)) => return Err(chain(&error)),
            Err(SyncError::Stopping) => return Ok(Next::Done),
        };
        if !matches!(outcome, SyncOutcome::Put(_)) && host.controller(name).is_err() {
            let has_run = self.install_fallback(host, &resource).await?;
            self.note_down(host, name, has_run, &outcome);
        } else {
            self.down.lock().remove(name);
        }
        let (next, holds) = match self.rollouts.lock().get(name) {
            Some(trying) => (trying.next(), trying.holds()),
            None => (Next::Done, false),
        };
        host.hold(name, if holds { Suspend::Yes } else { desired::suspension(&resource) });
        let seen = self.report(host, &resource, &outcome).await?;
        if let SyncOutcome::Refused(reason) = &outcome {
            tell_refused(host, name, reason);
        }
        host.verdicts().record(name, looked_at, seen, outcome);
        error.map_or(Ok(next), Err)
    }

    pub(super) fn applied(&self, name: &str) -> Option<AppliedState> {
        self.applied.lock().get(name).cloned()
    }

    /// Records the installed state of a name.
    pub(super) fn set_applied(&self, host: &Host, name: &str, taken: AppliedState) {
        if let Ok(controller) = host.controller(name) {
            controller.slot.current().set_revision(taken.revision);
        }
        self.applied.lock().insert(name.to_owned(), taken);
    }

    /// Installs the desired definition, unless it is installed or being rolled out.
    async fn sync(&self, host: &Host, resource: &mut Arc<Resource>) -> Result<SyncOutcome, SyncError> {
        let name = resource.key().name().to_owned();
        let record = RolloutStatus::of(resource);
        let mut cannot_resume = None;
        if let Some(record) = record.clone().filter(|record| record.phase != RolloutPhase::Complete)
            && host.controller(&name).is_err()
        {
            // A rollout that cannot be resumed is treated as if there had been none.
            match self.resume(host, resource, record).await {
                Err(SyncError::Store(error)) => return Err(SyncError::Store(error)),
                Err(SyncError::Refused(reason)) => cannot_resume = Some(reason),
                Ok(()) | Err(SyncError::Stopping) => {}
            }
        }
        let trying = self.rollouts.lock().remove(&name);
        if let Some(mut trying) = trying {
            match self.step_rollout(host, resource, &mut trying).await {
                // The desired definition has changed since.
                Ok(RolloutProgress::Finished(SyncOutcome::RolledBack(_)))
                    if trying.record.rejects(resource).is_none() => {}
                Ok(RolloutProgress::Finished(outcome)) => return Ok(outcome),
                Ok(RolloutProgress::InProgress(outcome)) => {
                    self.rollouts.lock().insert(name, trying);
                    return Ok(outcome);
                }
                Ok(RolloutProgress::Superseded) => {
                    if let Err(error) = self.abandon_rollout(host, &name, &trying).await {
                        self.rollouts.lock().insert(name, trying);
                        return Err(error.into());
                    }
                    // Written first, because loading the new definition may take long.
                    let status = self.status(host, resource, &SyncOutcome::Replaced, None);
                    *resource = report::write(&*host.store(), resource, status).await?;
                }
                Err(failed) => {
                    self.rollouts.lock().insert(name, trying);
                    return Err(failed);
                }
            }
        }
        if let Some(reason) = record.and_then(|record| record.rejects(resource)) {
            // After a rollback only the previous version may run. Its error is reported, and it is retried.
            return cannot_resume.map_or(Ok(SyncOutcome::RolledBack(reason)), |reason| Err(SyncError::Refused(reason)));
        }
        let generation = Some(resource.generation());
        if let Some(taken) = self.applied(&name).filter(|taken| taken.generation == generation) {
            return self.restart(host, resource, taken).await.map(SyncOutcome::Put);
        }
        let mut wanted = read(&resource.document()["spec"])?;
        if wanted.spec.paused {
            return Ok(SyncOutcome::Paused);
        }
        if wanted.is_to_be_resolved()
            && let Some(last) = history::read(&*host.store(), resource.uid()).await?.last()
        {
            wanted.pin(&last.spec);
        }
        let (old_max, plan) = (wanted.checked.old_revisions, wanted.checked.plan.clone());
        let loaded = self.load(host, &name, wanted).await?;
        self.desired_grants.lock().insert(name.clone(), DesiredGrants::of(&loaded.definition));
        if plan != Plan::Immediate && host.controller(&name).is_err() {
            self.install_previous(host, resource, &loaded.document).await?;
        }
        if let (Plan::Canary(plan), Some(running)) = (plan, host.definition(&name))
            && needs_rollout(&running, &loaded.definition)
        {
            self.apply_grant_reduction(host, resource).await?;
            return match self.start_rollout(host, resource, loaded, plan, old_max).await? {
                RolloutProgress::InProgress(outcome) | RolloutProgress::Finished(outcome) => Ok(outcome),
                RolloutProgress::Superseded => Err(SyncError::Stopping),
            };
        }
        let put = self.put(host, resource, loaded, old_max).await;
        if let Err(SyncError::Refused(_)) = put {
            self.apply_grant_reduction(host, resource).await?;
        }
        let (put, revision) = put?;
        self.set_applied(host, &name, AppliedState::of(resource, generation, revision));
        Ok(SyncOutcome::Put(put))
    }

    /// Restarts the current version if the restart annotation has changed.
    async fn restart(&self, host: &Host, resource: &Resource, taken: AppliedState) -> Result<Put, SyncError> {
        let now = AppliedState::of(resource, taken.generation, taken.revision);
        if now.restarted == taken.restarted {
            return Ok(Put::Unchanged);
        }
        let name = resource.key().name();
        let Ok(controller) = host.controller(name) else { return Err(SyncError::Stopping) };
        let renewed = controller.restart().await.map_err(|error| SyncError::Refused(list(&[chain(&error)])))?;
        self.applied.lock().insert(name.to_owned(), now);
        wake_when_ready(host, self, name, controller);
        Ok(Put::Changed(renewed))
    }

    /// Fetches and compiles the code of a definition, unless it already runs.
    pub(super) async fn load(
        &self,
        host: &Host,
        name: &str,
        wanted: DesiredController,
    ) -> Result<LoadedDefinition, SyncError> {
        let DesiredController { spec, checked, mut document } = wanted;
        let running = host.definition(name).filter(|running| {
            checked.digest.as_ref() == Some(running.component.digest()) && checked.grants == running.grants
        });
        let component = match running {
            Some(running) => running.component,
            None => self.component(host, name, &spec.component, &checked).await?,
        };
        document["component"]["digest"] = component.digest().as_str().into();
        let ValidSpec { grants, limits, config, overrides, suspend: _, digest: _, old_revisions: _, plan: _ } = checked;
        // The suspension belongs to the controller, not to a definition.
        let suspend = Suspend::No;
        let definition = Definition { name: name.to_owned(), component, grants, limits, config, overrides, suspend };
        Ok(LoadedDefinition { definition, document })
    }

    async fn component(
        &self,
        host: &Host,
        name: &str,
        source: &ComponentSource,
        checked: &ValidSpec,
    ) -> Result<Component, SyncError> {
        let refused = |refused: homeostat_component::LoadError| SyncError::Refused(list(&refused.reasons));
        if let Some(digest) = &checked.digest
            && let Some(loaded) = host.load_again(digest, &checked.limits).await
        {
            return loaded.map_err(refused);
        }
        let bytes = self.code.fetch(source).await.map_err(|reason| SyncError::Refused(list(&[reason])))?;
        // Boxed: the future is large, and most reconciles load nothing.
        let loading = Box::pin(host.load_within(bytes, checked.digest.as_ref(), &checked.limits));
        host.compilations().watched(host, name, loading).await.map_err(refused)
    }

    /// Records a definition as a revision and installs it. Returns the revision number too.
    async fn put(
        &self,
        host: &Host,
        resource: &Resource,
        LoadedDefinition { definition, document }: LoadedDefinition,
        old_max: u32,
    ) -> Result<(Put, u64), SyncError> {
        let (store, name) = (host.store(), resource.key().name());
        let history = history::read(&*store, resource.uid()).await?;
        let step = history::plan_revision(&history, &document);
        if step.is_new {
            history::write(&*store, resource, &document, &definition.component, &step).await?;
        }
        let put = match self.install(host, definition, desired::suspension(resource)).await {
            Err(Error::Stopping) => return Err(SyncError::Stopping),
            Err(error) => {
                if step.is_new {
                    // The revision never ran.
                    history::remove(&*store, &history::name(name, step.number)).await?;
                }
                return Err(SyncError::Refused(list(&[chain(&error)])));
            }
            Ok(put) => put,
        };
        if history.iter().any(|recorded| recorded.number == step.number && recorded.rolled_back) {
            // The revision has all keys now.
            history::mark_rolled_back(&*store, &history::name(name, step.number), None).await?;
        }
        self.prune_history(&*store, resource.uid(), step.number, old_max).await;
        Ok((put, step.number))
    }

    /// Deletes revisions beyond the history limit. A failed deletion is retried the next time.
    pub(super) async fn prune_history(&self, store: &dyn Store, uid: &str, current: u64, old_max: u32) {
        let cut = async {
            let surplus = history::surplus(&history::read(store, uid).await?, current, old_max);
            for name in &surplus {
                history::remove(store, name).await?;
            }
            Ok::<bool, homeostat_store::Error>(!surplus.is_empty())
        };
        match cut.await {
            Ok(true) => self.sweep_later(),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "cannot delete old revisions, it is retried later"),
        }
    }

    pub(super) async fn install(&self, host: &Host, definition: Definition, held: Suspend) -> Result<Put, Error> {
        let name = definition.name.clone();
        let put = host.put_held(definition, held).await?;
        if let (Ok(controller), true) = (host.controller(&name), put != Put::Unchanged) {
            wake_when_ready(host, self, &name, controller);
        }
        Ok(put)
    }

    /// Reduces the grants of the current version to the desired ones, if the desired definition cannot be
    /// installed or is only on some keys. See [`DesiredGrants`].
    async fn apply_grant_reduction(&self, host: &Host, resource: &Resource) -> Result<(), SyncError> {
        let name = resource.key().name();
        let Some(running) = host.definition(name) else { return Ok(()) };
        let kept = self.reduce_grants(running.clone());
        if kept.grants == running.grants {
            return Ok(());
        }
        match self.install(host, kept, desired::suspension(resource)).await {
            Err(Error::Stopping) => return Err(SyncError::Stopping),
            Err(error) => return Err(SyncError::Refused(list(&[chain(&error)]))),
            Ok(_) => {}
        }
        if let Some(taken) = self.applied(name) {
            self.set_applied(host, name, taken);
        }
        let message = "the current version keeps running, with only those of its grants that the manifest still has";
        host.emit_event(name, Severity::Warning, "GrantsReduced", message);
        Ok(())
    }

    /// Returns an older definition with the grants that it may still have.
    fn reduce_grants(&self, mut definition: Definition) -> Definition {
        if let Some(wanted) = self.desired_grants.lock().get(&definition.name) {
            wanted.reduce(&mut definition);
        }
        definition
    }

    /// After a restart, installs the previous version if it differs from the desired one, which is then
    /// rolled out beside it.
    async fn install_previous(&self, host: &Host, resource: &Resource, wanted: &Value) -> Result<(), SyncError> {
        let history = history::read(&*host.store(), resource.uid()).await?;
        let ran = history.iter().find(|recorded| Some(recorded.number) == ran(resource));
        if let Some(recorded) = ran.filter(|recorded| recorded.spec != *wanted) {
            // If it does not load, there is no stable version to roll out beside.
            self.install_revision(host, resource, recorded).await;
        }
        Ok(())
    }

    /// Updates the list of controllers that have run before but of which no version runs.
    fn note_down(&self, host: &Host, name: &str, has_run: bool, outcome: &SyncOutcome) {
        let mut down = self.down.lock();
        if has_run && host.controller(name).is_err() {
            let reason =
                if let SyncOutcome::Refused(reason) = outcome { reason } else { "none of its revisions can run" };
            down.insert(name.to_owned(), reason.to_owned());
        } else {
            down.remove(name);
        }
    }

    /// After a restart, if the desired definition fails to load, installs the previous revision, else the
    /// newest that loads. Returns whether any revision has ever run.
    async fn install_fallback(&self, host: &Host, resource: &Resource) -> Result<bool, String> {
        let history = history::read(&*host.store(), resource.uid()).await.map_err(|error| chain(&error))?;
        let has_run = |recorded: &&ControllerRevision| Some(recorded.number) == ran(resource);
        // Rolled-back revisions are not tried again automatically.
        let others = history.iter().rev().filter(|recorded| !recorded.rolled_back && !has_run(recorded));
        for recorded in history.iter().filter(has_run).chain(others) {
            if self.install_revision(host, resource, recorded).await {
                break;
            }
        }
        Ok(!history.is_empty())
    }

    /// Installs a revision when nothing runs. Returns whether it loads.
    async fn install_revision(
        &self,
        host: &Host,
        resource: &Resource,
        ControllerRevision { number, spec, .. }: &ControllerRevision,
    ) -> bool {
        let name = resource.key().name();
        let Ok(wanted) = read(spec) else { return false };
        let Ok(LoadedDefinition { definition, .. }) = self.load(host, name, wanted).await else { return false };
        if self.install(host, self.reduce_grants(definition), desired::suspension(resource)).await.is_err() {
            return false;
        }
        self.set_applied(host, name, AppliedState::of(resource, None, *number));
        true
    }

    /// Writes the status of a controller if it has changed. Returns the resource's revision afterwards.
    async fn report(
        &self,
        host: &Host,
        resource: &Arc<Resource>,
        outcome: &SyncOutcome,
    ) -> Result<homeostat_store::Revision, String> {
        let rollout = self.rollout(resource.key().name(), resource, outcome);
        let status = self.status(host, resource, outcome, rollout);
        if status == *resource.status() {
            return Ok(resource.revision());
        }
        match report::write(&*host.store(), resource, status).await {
            // The concurrent change is reconciled next.
            Err(homeostat_store::Error::Conflict { .. } | homeostat_store::Error::NotFound { .. }) => {
                Ok(resource.revision())
            }
            written => written.map(|written| written.revision()).map_err(|error| chain(&error)),
        }
    }

    /// Returns the status of a controller.
    pub(super) fn status(
        &self,
        host: &Host,
        resource: &Resource,
        outcome: &SyncOutcome,
        rollout: Option<RolloutStatus>,
    ) -> Value {
        let name = resource.key().name();
        let controller = host.controller(name).ok();
        let facts = StatusInputs {
            generation: resource.generation(),
            outcome,
            wanted: resource.document().pointer("/spec/component/digest").and_then(Value::as_str),
            running: controller.as_ref().map(|controller| controller.status()),
            is_new: controller.is_some_and(|controller| controller.began.elapsed() < STARTUP_MAX),
            revision: self.applied(name).map(|taken| taken.revision),
            cause: resource.annotation(history::CAUSE),
            rollout,
        };
        report::status(resource.status(), &facts, &crate::clock::now())
    }

    /// Returns the rollout for the status: the current one, or the last one while it is still relevant.
    fn rollout(&self, name: &str, resource: &Resource, outcome: &SyncOutcome) -> Option<RolloutStatus> {
        if let Some(trying) = self.rollouts.lock().get(name) {
            return Some(trying.record.clone());
        }
        let current = self.applied(name).map(|taken| taken.revision);
        let record = RolloutStatus::of(resource)?;
        match record.phase {
            // The rollout has just been promoted.
            RolloutPhase::Canary if current == Some(record.to) => Some(record.complete()),
            RolloutPhase::Complete if current == Some(record.to) => Some(record),
            RolloutPhase::RolledBack if matches!(outcome, SyncOutcome::RolledBack(_) | SyncOutcome::Paused) => {
                Some(record)
            }
            // The rolled-back revision is not tried again even if the previous one fails to load.
            RolloutPhase::RolledBack if record.rejects(resource).is_some() => Some(record),
            _ => None,
        }
    }
}

/// Returns the revision number in the last written status.
fn ran(resource: &Resource) -> Option<u64> {
    resource.status()["revision"].as_u64()
}

fn read(spec: &Value) -> Result<DesiredController, SyncError> {
    DesiredController::read(spec).map_err(|violations| SyncError::Refused(list(&violations)))
}
