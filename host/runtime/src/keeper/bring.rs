//! What the keeper does about one name: from the resource to what runs.

use std::sync::Arc;

use homeostat_component::{Component, Severity};
use homeostat_store::{Resource, Store};
use homeostat_workqueue::Next;
use serde_json::Value;

use super::canary::{Looked, can_be_tried};
use super::history::{self, Recorded};
use super::record::{Phase, Record};
use super::reduced::WantedGrants;
use super::report::{self, Facts};
use super::verdicts::Outcome;
use super::wanted::{self, Wanted};
use super::{BEGINNING_MAX, Keeper, RESTARTED, Taken, key, tell_refused, wake_when_ready};
use crate::manifest::{Checked, ComponentSource};
use crate::reasons::{chain, list};
use crate::rollout::Plan;
use crate::{Definition, Error, Host, Put, Suspend};

/// Why nothing was put in.
#[derive(Debug)]
pub(super) enum Failed {
    /// What is wanted cannot run, and why.
    Refused(String),
    /// It is not known, because of the store.
    Store(homeostat_store::Error),
    /// The host ends.
    Stopping,
}

impl From<homeostat_store::Error> for Failed {
    fn from(error: homeostat_store::Error) -> Self {
        Self::Store(error)
    }
}

/// A definition that could be put in, and what the history is to say of it.
pub(super) struct Loaded {
    pub(super) definition: Definition,
    pub(super) document: Value,
}

impl Taken {
    pub(super) fn of(resource: &Resource, generation: Option<u64>, revision: u64) -> Self {
        let restarted = resource.annotation(RESTARTED).map(str::to_owned);
        Self { uid: resource.uid().to_owned(), generation, revision, restarted }
    }
}

impl Keeper {
    /// Makes true what the store says of a name.
    ///
    /// *Cancel safety*: what was written into the history and is not put in is put in by whoever looks next.
    ///
    /// Returns when it is to be looked at again.
    ///
    /// # Errors
    /// Why it is to be tried again.
    pub(super) async fn reconcile(&self, host: &Host, name: &str) -> Result<Next, String> {
        // Before the look: what is deleted after it is told of again.
        let seen = host.store().revision();
        let mut resource = match host.store().get(&key(name)).await {
            Ok(resource) if !resource.is_deleting() => resource,
            Ok(_) | Err(homeostat_store::Error::NotFound { .. }) => {
                self.take_out(host, name, seen);
                return Ok(Next::Done);
            }
            Err(error) => return Err(chain(&error)),
        };
        if self.taken(name).is_some_and(|taken| taken.uid != resource.uid()) {
            // Its name was used again.
            self.take_out(host, name, seen);
        }
        let looked_at = resource.revision();
        let (outcome, error) = match self.bring(host, &mut resource).await {
            Ok(outcome) => (outcome, None),
            Err(Failed::Refused(reason)) => (Outcome::Refused(reason.clone()), Some(reason)),
            Err(Failed::Store(error)) => return Err(chain(&error)),
            Err(Failed::Stopping) => return Ok(Next::Done),
        };
        if !matches!(outcome, Outcome::Put(_)) && host.controller(name).is_err() {
            let has_run = self.fall_back(host, &resource).await?;
            self.note_down(host, name, has_run, &outcome);
        } else {
            self.down.lock().remove(name);
        }
        let (next, holds) = match self.trying.lock().get(name) {
            Some(trying) => (trying.next(), trying.holds()),
            None => (Next::Done, false),
        };
        host.hold(name, if holds { Suspend::Yes } else { wanted::suspension(&resource) });
        let seen = self.report(host, &resource, &outcome).await?;
        if let Outcome::Refused(reason) = &outcome {
            tell_refused(host, name, reason);
        }
        host.verdicts().note(name, looked_at, seen, outcome);
        error.map_or(Ok(next), Err)
    }

    pub(super) fn taken(&self, name: &str) -> Option<Taken> {
        self.taken.lock().get(name).cloned()
    }

    /// Notes what was put in under a name.
    pub(super) fn took(&self, host: &Host, name: &str, taken: Taken) {
        if let Ok(controller) = host.controller(name) {
            controller.slot.current().is_revision(taken.revision);
        }
        self.taken.lock().insert(name.to_owned(), taken);
    }

    /// Takes over what a resource wants, unless it runs already, or is tried.
    async fn bring(&self, host: &Host, resource: &mut Arc<Resource>) -> Result<Outcome, Failed> {
        let name = resource.key().name().to_owned();
        let record = Record::of(resource);
        let mut cannot_resume = None;
        if let Some(record) = record.clone().filter(|record| record.phase != Phase::Complete)
            && host.controller(&name).is_err()
        {
            // What cannot go on is looked at as if nothing had been there.
            match self.resume(host, resource, record).await {
                Err(Failed::Store(error)) => return Err(Failed::Store(error)),
                Err(Failed::Refused(reason)) => cannot_resume = Some(reason),
                Ok(()) | Err(Failed::Stopping) => {}
            }
        }
        let trying = self.trying.lock().remove(&name);
        if let Some(mut trying) = trying {
            match self.look_at(host, resource, &mut trying).await {
                // Something else is wanted since.
                Ok(Looked::Ended(Outcome::RolledBack(_))) if trying.record.refuses(resource).is_none() => {}
                Ok(Looked::Ended(outcome)) => return Ok(outcome),
                Ok(Looked::Goes(outcome)) => {
                    self.trying.lock().insert(name, trying);
                    return Ok(outcome);
                }
                Ok(Looked::Unwanted) => {
                    if let Err(error) = self.drop_tried(host, &name, &trying).await {
                        self.trying.lock().insert(name, trying);
                        return Err(error.into());
                    }
                    // To load what is wanted instead may take long.
                    let status = self.status(host, resource, &Outcome::Replaced, None);
                    *resource = report::write(&*host.store(), resource, status).await?;
                }
                Err(failed) => {
                    self.trying.lock().insert(name, trying);
                    return Err(failed);
                }
            }
        }
        if let Some(reason) = record.and_then(|record| record.refuses(resource)) {
            // What ran is all that may run: why it cannot is told, and it is tried again.
            return cannot_resume.map_or(Ok(Outcome::RolledBack(reason)), |reason| Err(Failed::Refused(reason)));
        }
        let generation = Some(resource.generation());
        if let Some(taken) = self.taken(&name).filter(|taken| taken.generation == generation) {
            return self.renew(host, resource, taken).await.map(Outcome::Put);
        }
        let mut wanted = read(&resource.document()["spec"])?;
        if wanted.spec.paused {
            return Ok(Outcome::Paused);
        }
        if wanted.is_to_be_resolved()
            && let Some(last) = history::read(&*host.store(), resource.uid()).await?.last()
        {
            wanted.pin(&last.spec);
        }
        let (old_max, plan) = (wanted.checked.old_revisions, wanted.checked.plan.clone());
        let loaded = self.load(host, &name, wanted).await?;
        self.wanted_grants.lock().insert(name.clone(), WantedGrants::of(&loaded.definition));
        if plan != Plan::Immediate && host.controller(&name).is_err() {
            self.begin_with_what_ran(host, resource, &loaded.document).await?;
        }
        if let (Plan::Canary(plan), Some(running)) = (plan, host.definition(&name))
            && can_be_tried(&running, &loaded.definition)
        {
            self.keep_to_wanted(host, resource).await?;
            return match self.try_out(host, resource, loaded, plan, old_max).await? {
                Looked::Goes(outcome) | Looked::Ended(outcome) => Ok(outcome),
                Looked::Unwanted => Err(Failed::Stopping),
            };
        }
        let put = self.put(host, resource, loaded, old_max).await;
        if let Err(Failed::Refused(_)) = put {
            self.keep_to_wanted(host, resource).await?;
        }
        let (put, revision) = put?;
        self.took(host, &name, Taken::of(resource, generation, revision));
        Ok(Outcome::Put(put))
    }

    /// Begins anew with what runs, if its resource says so and has not said so before.
    async fn renew(&self, host: &Host, resource: &Resource, taken: Taken) -> Result<Put, Failed> {
        let now = Taken::of(resource, taken.generation, taken.revision);
        if now.restarted == taken.restarted {
            return Ok(Put::Unchanged);
        }
        let name = resource.key().name();
        let Ok(controller) = host.controller(name) else { return Err(Failed::Stopping) };
        let renewed = controller.renew().await.map_err(|error| Failed::Refused(list(&[chain(&error)])))?;
        self.taken.lock().insert(name.to_owned(), now);
        wake_when_ready(host, self, name, controller);
        Ok(Put::Changed(renewed))
    }

    /// Fetches the code of a definition, unless it runs, and compiles it.
    pub(super) async fn load(&self, host: &Host, name: &str, wanted: Wanted) -> Result<Loaded, Failed> {
        let Wanted { spec, checked, mut document } = wanted;
        let running = host.definition(name).filter(|running| {
            checked.digest.as_ref() == Some(running.component.digest()) && checked.grants == running.grants
        });
        let component = match running {
            Some(running) => running.component,
            None => self.component(host, name, &spec.component, &checked).await?,
        };
        document["component"]["digest"] = component.digest().as_str().into();
        let Checked { grants, limits, config, overrides, suspend: _, digest: _, old_revisions: _, plan: _ } = checked;
        // Held back is the controller, whichever definition it runs.
        let suspend = Suspend::No;
        let definition = Definition { name: name.to_owned(), component, grants, limits, config, overrides, suspend };
        Ok(Loaded { definition, document })
    }

    async fn component(
        &self,
        host: &Host,
        name: &str,
        source: &ComponentSource,
        checked: &Checked,
    ) -> Result<Component, Failed> {
        let refused = |refused: homeostat_component::LoadError| Failed::Refused(list(&refused.reasons));
        if let Some(digest) = &checked.digest
            && let Some(loaded) = host.load_again(digest, &checked.grants, &checked.limits).await
        {
            return loaded.map_err(refused);
        }
        let bytes = self.code.fetch(source).await.map_err(|reason| Failed::Refused(list(&[reason])))?;
        // Boxed: it is large, and most looks load nothing.
        let loading = Box::pin(host.load_within(bytes, checked.digest.as_ref(), &checked.grants, &checked.limits));
        host.compilations().watched(host, name, loading).await.map_err(refused)
    }

    /// Writes a definition into the history and puts it in. Returns the number of its revision too.
    async fn put(
        &self,
        host: &Host,
        resource: &Resource,
        Loaded { definition, document }: Loaded,
        old_max: u32,
    ) -> Result<(Put, u64), Failed> {
        let (store, name) = (host.store(), resource.key().name());
        let history = history::read(&*store, resource.uid()).await?;
        let step = history::step(&history, &document);
        if step.is_new {
            history::record(&*store, resource, &document, &definition.component, &step).await?;
        }
        let put = match self.install(host, definition, wanted::suspension(resource)).await {
            Err(Error::Stopping) => return Err(Failed::Stopping),
            Err(error) => {
                if step.is_new {
                    // It never ran.
                    history::remove(&*store, &history::name(name, step.number)).await?;
                }
                return Err(Failed::Refused(list(&[chain(&error)])));
            }
            Ok(put) => put,
        };
        if history.iter().any(|recorded| recorded.number == step.number && recorded.went_back) {
            // Now it has all keys.
            history::mark(&*store, &history::name(name, step.number), None).await?;
        }
        self.cut(&*store, resource.uid(), step.number, old_max).await;
        Ok((put, step.number))
    }

    /// Takes what is not kept out of a history. What cannot be taken out now is the next time.
    pub(super) async fn cut(&self, store: &dyn Store, uid: &str, current: u64, old_max: u32) {
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
            Err(error) => tracing::warn!(%error, "old revisions stay for now"),
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

    /// Keeps what runs to the grants that are wanted now: they cannot be put in, or are only tried. See [`WantedGrants`].
    async fn keep_to_wanted(&self, host: &Host, resource: &Resource) -> Result<(), Failed> {
        let name = resource.key().name();
        let Some(running) = host.definition(name) else { return Ok(()) };
        let kept = self.kept_to_wanted(running.clone());
        if kept.grants == running.grants {
            return Ok(());
        }
        match self.install(host, kept, wanted::suspension(resource)).await {
            Err(Error::Stopping) => return Err(Failed::Stopping),
            Err(error) => return Err(Failed::Refused(list(&[chain(&error)]))),
            Ok(_) => {}
        }
        if let Some(taken) = self.taken(name) {
            self.took(host, name, taken);
        }
        let message = "what runs goes on, with those of its grants that the manifest still has";
        host.tell(name, Severity::Warning, "GrantsReduced", message);
        Ok(())
    }

    /// Returns a definition that ran before the one that is wanted, as far as it may run now.
    fn kept_to_wanted(&self, mut definition: Definition) -> Definition {
        if let Some(wanted) = self.wanted_grants.lock().get(&definition.name) {
            wanted.reduce(&mut definition);
        }
        definition
    }

    /// Puts in what ran when the host ended, where that is something else than what is wanted: that is tried beside it.
    async fn begin_with_what_ran(&self, host: &Host, resource: &Resource, wanted: &Value) -> Result<(), Failed> {
        let history = history::read(&*host.store(), resource.uid()).await?;
        let ran = history.iter().find(|recorded| Some(recorded.number) == ran(resource));
        if let Some(recorded) = ran.filter(|recorded| recorded.spec != *wanted) {
            // Where it cannot run any more there is nothing to try anything beside.
            self.put_back(host, resource, recorded).await;
        }
        Ok(())
    }

    /// Notes whether a controller that has run is one of which nothing runs.
    fn note_down(&self, host: &Host, name: &str, has_run: bool, outcome: &Outcome) {
        let mut down = self.down.lock();
        if has_run && host.controller(name).is_err() {
            let reason = if let Outcome::Refused(reason) = outcome { reason } else { "no revision of it can run" };
            down.insert(name.to_owned(), reason.to_owned());
        } else {
            down.remove(name);
        }
    }

    /// Puts in what ran, else the newest revision that can be, where what is wanted cannot and nothing runs: the host has started anew.
    /// Returns whether any has ever run.
    async fn fall_back(&self, host: &Host, resource: &Resource) -> Result<bool, String> {
        let history = history::read(&*host.store(), resource.uid()).await.map_err(|error| chain(&error))?;
        let has_run = |recorded: &&Recorded| Some(recorded.number) == ran(resource);
        // What went back is not tried again behind anybody's back.
        let others = history.iter().rev().filter(|recorded| !recorded.went_back && !has_run(recorded));
        for recorded in history.iter().filter(has_run).chain(others) {
            if self.put_back(host, resource, recorded).await {
                break;
            }
        }
        Ok(!history.is_empty())
    }

    /// Puts in a revision, where nothing runs. Returns whether it can run.
    async fn put_back(&self, host: &Host, resource: &Resource, Recorded { number, spec, .. }: &Recorded) -> bool {
        let name = resource.key().name();
        let Ok(wanted) = read(spec) else { return false };
        let Ok(Loaded { definition, .. }) = self.load(host, name, wanted).await else { return false };
        if self.install(host, self.kept_to_wanted(definition), wanted::suspension(resource)).await.is_err() {
            return false;
        }
        self.took(host, name, Taken::of(resource, None, *number));
        true
    }

    /// Says in the status of a controller how it is, when that is something else than it says. Returns the revision that it has then.
    async fn report(
        &self,
        host: &Host,
        resource: &Arc<Resource>,
        outcome: &Outcome,
    ) -> Result<homeostat_store::Revision, String> {
        let rollout = self.rollout(resource.key().name(), resource, outcome);
        let status = self.status(host, resource, outcome, rollout);
        if status == *resource.status() {
            return Ok(resource.revision());
        }
        match report::write(&*host.store(), resource, status).await {
            // Who came between is looked at next.
            Err(homeostat_store::Error::Conflict { .. } | homeostat_store::Error::NotFound { .. }) => {
                Ok(resource.revision())
            }
            written => written.map(|written| written.revision()).map_err(|error| chain(&error)),
        }
    }

    /// Returns what the status of a controller is to say.
    pub(super) fn status(&self, host: &Host, resource: &Resource, outcome: &Outcome, rollout: Option<Record>) -> Value {
        let name = resource.key().name();
        let controller = host.controller(name).ok();
        let facts = Facts {
            generation: resource.generation(),
            outcome,
            wanted: resource.document().pointer("/spec/component/digest").and_then(Value::as_str),
            running: controller.as_ref().map(|controller| controller.status()),
            is_new: controller.is_some_and(|controller| controller.began.elapsed() < BEGINNING_MAX),
            revision: self.taken(name).map(|taken| taken.revision),
            cause: resource.annotation(history::CAUSE),
            rollout,
        };
        report::status(resource.status(), &facts, &crate::context::now())
    }

    /// Returns what is to be said of a rollout: of the one that goes on, or of the last one for as long as it tells something about now.
    fn rollout(&self, name: &str, resource: &Resource, outcome: &Outcome) -> Option<Record> {
        if let Some(trying) = self.trying.lock().get(name) {
            return Some(trying.record.clone());
        }
        let current = self.taken(name).map(|taken| taken.revision);
        let record = Record::of(resource)?;
        match record.phase {
            // It has just been given the last of them.
            Phase::Canary if current == Some(record.to) => Some(record.complete()),
            Phase::Complete if current == Some(record.to) => Some(record),
            Phase::RolledBack if matches!(outcome, Outcome::RolledBack(_) | Outcome::Paused) => Some(record),
            // What went back is not tried again because what ran cannot run either.
            Phase::RolledBack if record.refuses(resource).is_some() => Some(record),
            _ => None,
        }
    }
}

/// Returns the number of the revision that ran when the status was written.
fn ran(resource: &Resource) -> Option<u64> {
    resource.status()["revision"].as_u64()
}

fn read(spec: &Value) -> Result<Wanted, Failed> {
    Wanted::read(spec).map_err(|violations| Failed::Refused(list(&violations)))
}
