//! What the keeper does about a candidate: step by step from some keys to all, or back.
//!
//! What a step is to be stands in the status before it takes effect, and going back is done before it is written: who is killed in
//! between finds one version current, and goes on, or tries and goes back once more. The last step is to all keys; that the candidate is what
//! runs is written behind it. Each of these is one write of the whole status: nobody reads a phase beside conditions that belong to another.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Severity;
use homeostat_store::Resource;
use homeostat_workqueue::{Next, Priority};
use serde_json::Value;

use super::bring::{Failed, Loaded};
use super::history::{self, Recorded};
use super::record::Record;
use super::reduced::WantedGrants;
use super::verdicts::Outcome;
use super::{Job, Keeper, RESTARTED, Taken, report, wake_when_ready, wanted};
use crate::controller::Controller;
use crate::reasons::{chain, list};
use crate::rollout::{self, Chosen, Machine, Move, Part, Plan, Share, Sight};
use crate::stats::Rollout;
use crate::{Definition, Error, Host, Suspend};

/// The wait between two looks at a candidate: a tenth of a step, within these bounds. What goes beyond a gate is seen at once.
const LOOK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A candidate that is tried.
pub(super) struct Trying {
    pub(super) record: Record,
    machine: Machine,
    /// Its definition, as it stands in the history.
    document: Value,
    old_max: u32,
    /// It has gone back, and the status does not say so yet.
    is_over: bool,
}

/// What became of a look at a candidate.
pub(super) enum Looked {
    /// It is still tried.
    Goes(Outcome),
    /// It is tried no more.
    Ended(Outcome),
    /// It is not what is wanted now.
    Unwanted,
}

impl Trying {
    /// Returns when to look at it next.
    pub(super) fn next(&self) -> Next {
        Next::After((self.machine.lasts() / 10).clamp(LOOK.0, LOOK.1))
    }

    /// Keeps what came of a shadow that is about to end.
    fn note_shadow(&mut self, controller: &Controller) {
        if let Some(report) = controller.shadow_report() {
            self.record.shadow = Some(serde_json::json!(report.brief()));
        }
    }

    /// Returns whether no key may run: after a restart it is not ready for those that it had.
    pub(super) fn holds(&self) -> bool {
        self.machine.share().is_none() && self.record.resumes().is_some()
    }

    fn outcome(&self) -> Outcome {
        let Record { from, to, .. } = self.record;
        Outcome::Trying { from, to, share: self.machine.share() }
    }
}

/// Returns whether another definition can be tried beside one that runs: what only says how the one queue of both is driven cannot.
pub(super) fn can_be_tried(running: &Definition, wanted: &Definition) -> bool {
    running.component.digest() != wanted.component.digest()
        || !running.grants.has_lines_of(&wanted.grants)
        || running.limits != wanted.limits
        || running.config != wanted.config
}

impl Keeper {
    /// Begins to try a definition beside the one that runs: writes it into the history and into the status, and prepares it.
    pub(super) async fn try_out(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        Loaded { definition, document }: Loaded,
        plan: rollout::Canary,
        old_max: u32,
    ) -> Result<Looked, Failed> {
        let (store, name) = (host.store(), resource.key().name().to_owned());
        let Some(from) = self.taken(&name).map(|taken| taken.revision) else { return Err(Failed::Stopping) };
        let history = history::read(&*store, resource.uid()).await?;
        let step = history::step(&history, &document);
        if step.is_new {
            history::record(&*store, resource, &document, &definition.component, &step).await?;
        }
        let record = Record::begin(from, step.number, &plan, resource);
        self.tell_of(host, resource, &record).await?;
        let (machine, chosen) = (Machine::new(plan, None, self.now()), Chosen::default());
        let tried = self.prepare(host, &name, definition, record, document, chosen, machine, old_max);
        let mut trying = match tried.await {
            Err(Failed::Refused(reason)) if step.is_new => {
                // It never ran.
                history::remove(&*store, &history::name(&name, step.number)).await?;
                return Err(Failed::Refused(reason));
            }
            tried => tried?,
        };
        // What is tried stays beside what runs, and as many others as are kept.
        self.cut(&*store, resource.uid(), from, old_max.saturating_add(1)).await;
        let looked = self.advance(host, resource, &mut trying, false).await;
        self.trying.lock().insert(name, trying);
        looked
    }

    /// Makes a candidate ready, without a key. `chosen`: the keys that labels chose before the host ended.
    #[expect(clippy::too_many_arguments, reason = "they are what a candidate is")]
    async fn prepare(
        &self,
        host: &Host,
        name: &str,
        definition: Definition,
        record: Record,
        document: Value,
        chosen: Chosen,
        machine: Machine,
        old_max: u32,
    ) -> Result<Trying, Failed> {
        let Ok(controller) = host.controller(name) else { return Err(Failed::Stopping) };
        let part = Part { share: None, chosen, salt: record.to };
        let gate = machine.plan().gate.clone();
        let trial = match controller.try_out(definition, gate, part, machine.shadow().is_some()).await {
            Ok(trial) => trial,
            Err(Error::Stopping | Error::UnknownController(_)) => return Err(Failed::Stopping),
            Err(error) => return Err(Failed::Refused(list(&[chain(&error)]))),
        };
        trial.loaded.is_revision(record.to);
        let (queue, job) = (self.queue.clone(), Job::Look(name.into()));
        host.spawn(async move {
            tokio::select! {
                biased;
                () = trial.over() => {}
                () = controller.feeding.stopped() => return,
            }
            // A queue that is closed is that of a host that ends.
            let _ = queue.add(job, Priority::HIGH);
        });
        Ok(Trying { record, machine, document, old_max, is_over: false })
    }

    /// Goes on where a host that ended has left off: puts in what ran, and tries again what was tried.
    pub(super) async fn resume(&self, host: &Host, resource: &Arc<Resource>, record: Record) -> Result<(), Failed> {
        let name = resource.key().name();
        let history = history::read(&*host.store(), resource.uid()).await?;
        let find = |number: u64| history.iter().find(|recorded| recorded.number == number);
        let Some(Recorded { spec, .. }) = find(record.from) else { return Ok(()) };
        let base =
            self.load(host, name, wanted::Wanted::read(spec).map_err(|wrong| Failed::Refused(list(&wrong)))?).await?;
        let mut base = base.definition;
        let tried = find(record.to).and_then(|to| wanted::Wanted::read(&to.spec).ok());
        if let Some(tried) = tried.and_then(|tried| WantedGrants::said(tried.checked)) {
            tried.reduce(&mut base);
        }
        // Nothing runs before it is clear by which version.
        self.install(host, base, Suspend::Yes).await.map_err(|error| Failed::Refused(list(&[chain(&error)])))?;
        self.took(host, name, Taken::of(resource, None, record.from));
        let Some(Recorded { spec, chosen, .. }) = find(record.to).filter(|_| record.phase.is_tried()) else {
            return Ok(());
        };
        let Ok(wanted) = wanted::Wanted::read(spec) else { return Ok(()) };
        let old_max = wanted.checked.old_revisions;
        // The history does not have how a definition is put in.
        let now = wanted::Wanted::read(&resource.document()["spec"]).ok();
        let Some(Plan::Canary(plan)) = now.map(|now| now.checked.plan) else { return Ok(()) };
        let Loaded { definition, document } = self.load(host, name, wanted).await?;
        let machine = Machine::new(plan, record.resumes(), self.now());
        let trying = self.prepare(host, name, definition, record, document, chosen.clone(), machine, old_max).await?;
        self.trying.lock().insert(name.to_owned(), trying);
        Ok(())
    }

    /// Looks at a candidate, and does what is to be done about it.
    pub(super) async fn look_at(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        trying: &mut Trying,
    ) -> Result<Looked, Failed> {
        let name = resource.key().name().to_owned();
        if trying.is_over {
            return self.tell_gone_back(host, resource, trying).await;
        }
        let Some(trial) = host.controller(&name).ok().and_then(|controller| controller.slot.trial()) else {
            return Ok(Looked::Unwanted);
        };
        let is_same_try = resource.annotation(RESTARTED) == trying.record.restarted.as_deref();
        let mut is_paused = false;
        if Some(resource.generation()) != trying.record.generation || !is_same_try {
            let Ok(mut wanted) = wanted::Wanted::read(&resource.document()["spec"]) else {
                return Ok(Looked::Unwanted);
            };
            wanted.pin(&trying.document);
            is_paused = wanted.spec.paused;
            if !is_paused && wanted.differs_from(&trying.document) {
                return Ok(Looked::Unwanted);
            }
            if !is_paused {
                let (plan, old_max) = (wanted.checked.plan.clone(), wanted.checked.old_revisions);
                let loaded = match self.load(host, &name, wanted).await {
                    Err(Failed::Refused(_)) => return Ok(Looked::Unwanted),
                    loaded => loaded?,
                };
                let Plan::Canary(plan) = plan else { return Ok(Looked::Unwanted) };
                if loaded.document != trying.document || !is_same_try {
                    return Ok(Looked::Unwanted);
                }
                trial.hold_to(plan.gate.clone());
                trying.machine.follow(plan);
                trying.record.generation = Some(resource.generation());
                trying.old_max = old_max;
            }
        }
        let looked = self.advance(host, resource, trying, is_paused).await?;
        Ok(match looked {
            Looked::Goes(_) if is_paused => Looked::Goes(Outcome::Paused),
            looked => looked,
        })
    }

    async fn advance(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        trying: &mut Trying,
        is_paused: bool,
    ) -> Result<Looked, Failed> {
        let name = resource.key().name().to_owned();
        let Ok(controller) = host.controller(&name) else { return Err(Failed::Stopping) };
        let Some(trial) = controller.slot.trial() else { return Ok(Looked::Unwanted) };
        let (both, shadow) = (trial.figures(), controller.shadow_report());
        let sight = Sight {
            now: self.now(),
            held: is_paused || wanted::suspension(resource) != Suspend::No,
            listed: controller.feeding.is_listed_for_trial(),
            both: &both,
            failed: trial.failed(),
            shadow: shadow.as_ref(),
        };
        match trying.machine.step(sight) {
            Move::Stay => {}
            Move::BeginShadow => {
                if let Err(reason) = self.begin_shadow(host, resource, &controller, trying).await? {
                    return self.go_back(host, resource, &controller, trying, reason).await;
                }
            }
            Move::EndShadow => {
                trying.note_shadow(&controller);
                let record = trying.record.listing();
                self.tell_of(host, resource, &record).await?;
                trying.record = record;
                match controller.end_shadow_of_trial().await {
                    Ok(()) => trying.machine.shadowed(self.now()),
                    Err(error) => return self.go_back(host, resource, &controller, trying, chain(&error)).await,
                }
            }
            Move::LookAgain => controller.look_at_trial().await,
            Move::Widen(share) => self.widen(host, resource, &controller, trying, share).await?,
            Move::Promote => return self.promote(host, resource, &controller, trying).await,
            Move::GoBack(reason) => return self.go_back(host, resource, &controller, trying, reason).await,
        }
        Ok(Looked::Goes(trying.outcome()))
    }

    /// Takes all keys from a candidate that was found wanting, and says so.
    async fn go_back(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        controller: &Controller,
        trying: &mut Trying,
        reason: String,
    ) -> Result<Looked, Failed> {
        trying.note_shadow(controller);
        controller.go_back().await;
        controller.stats.rollout(Rollout::RolledBack);
        let name = resource.key().name().to_owned();
        self.took(host, &name, Taken::of(resource, None, trying.record.from));
        trying.record.go_back(reason);
        trying.is_over = true;
        self.tell_gone_back(host, resource, trying).await
    }

    /// Tries a candidate as a shadow. The inner error says why it can be none.
    async fn begin_shadow(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        controller: &Arc<Controller>,
        trying: &mut Trying,
    ) -> Result<Result<(), String>, Failed> {
        let record = trying.record.shadow();
        self.tell_of(host, resource, &record).await?;
        if let Err(error) = controller.shadow_trial().await {
            return Ok(Err(chain(&error)));
        }
        let message = format!("revision {} is a shadow of revision {}", record.to, record.from);
        tell(controller, "Shadow", &message);
        trying.record = record;
        Ok(Ok(()))
    }

    async fn widen(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        controller: &Controller,
        trying: &mut Trying,
        share: Share,
    ) -> Result<(), Failed> {
        let (plan, is_first) = (trying.machine.plan(), trying.machine.share().is_none());
        // Chosen once, and kept before anything of it takes effect: labels that change later, or a restart, move no key.
        let chosen = if is_first && trying.record.resumes().is_none() {
            let chosen = controller.chosen(plan, trying.record.to).await?;
            let revision = history::name(&controller.name, trying.record.to);
            history::choose(&*host.store(), &revision, &chosen).await?;
            Some(chosen)
        } else {
            None
        };
        let record = trying.record.widen(share, plan);
        self.tell_of(host, resource, &record).await?;
        controller.widen(share, chosen, plan.gate.clone()).await;
        trying.machine.widened(share, self.now());
        let chosen = if trying.machine.plan().labels.is_empty() { "" } else { " beside the keys that labels choose" };
        let message =
            format!("revision {} has {share} of the keys{chosen}, revision {} the others", record.to, record.from);
        tell(controller, "Canary", &message);
        trying.record = record;
        Ok(())
    }

    async fn promote(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        controller: &Arc<Controller>,
        trying: &mut Trying,
    ) -> Result<Looked, Failed> {
        let (store, name) = (host.store(), resource.key().name().to_owned());
        let record = trying.record.widen(Share::ALL, trying.machine.plan());
        self.tell_of(host, resource, &record).await?;
        history::mark(&*store, &history::name(&name, record.to), None).await?;
        // It failed while that was written: the next look takes it back.
        let Some(swapped) = controller.promote().await else { return Ok(Looked::Goes(trying.outcome())) };
        controller.stats.rollout(Rollout::Promoted);
        let message = format!("revision {} has all keys, after revision {}", record.to, record.from);
        tell(controller, "Promoted", &message);
        self.took(host, &name, Taken::of(resource, record.generation, record.to));
        self.cut(&*store, resource.uid(), record.to, trying.old_max).await;
        wake_when_ready(host, self, &name, controller.clone());
        Ok(Looked::Ended(Outcome::Put(crate::Put::Changed(swapped))))
    }

    /// Says that a candidate has gone back: in its history, in the status, and in an event.
    async fn tell_gone_back(
        &self,
        host: &Host,
        resource: &mut Arc<Resource>,
        trying: &Trying,
    ) -> Result<Looked, Failed> {
        let (store, name, record) = (host.store(), resource.key().name().to_owned(), &trying.record);
        let reason = record.reason.clone().unwrap_or_default();
        history::mark(&*store, &history::name(&name, record.to), Some(&reason)).await?;
        self.tell_of(host, resource, record).await?;
        if let Ok(controller) = host.controller(&name) {
            let message = format!("revision {} went back to revision {}: {reason}", record.to, record.from);
            controller.context.event(&controller.name, None, Severity::Warning, "RolledBack", &message);
            tracing::info!("controller/{name} rolled back: {message}");
        }
        Ok(Looked::Ended(Outcome::RolledBack(reason)))
    }

    /// Takes all keys from a candidate that is not wanted any more.
    ///
    /// # Errors
    /// Those of the store; then it has them still.
    pub(super) async fn drop_tried(&self, host: &Host, name: &str, trying: &Trying) -> homeostat_store::Result<()> {
        let Ok(controller) = host.controller(name) else { return Ok(()) };
        let Record { from, to, .. } = trying.record;
        history::mark(&*host.store(), &history::name(name, to), Some(history::REPLACED)).await?;
        let had_keys_taken = controller.go_back().await;
        controller.stats.rollout(Rollout::Replaced);
        let message = match had_keys_taken {
            true => format!("revision {to} is tried no more, something else is wanted: revision {from} has all keys"),
            false => {
                format!("revision {to} is tried no more: another component was put in beside what the resource says")
            }
        };
        tell(&controller, "CanaryEnded", &message);
        Ok(())
    }

    /// Writes how far a rollout has come into the status of its controller, which is then what was written.
    async fn tell_of(&self, host: &Host, resource: &mut Arc<Resource>, record: &Record) -> Result<(), Failed> {
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

/// Tells of a step, as an event and in the log.
fn tell(controller: &Controller, reason: &str, message: &str) {
    controller.context.event(&controller.name, None, Severity::Normal, reason, message);
    tracing::info!("controller/{} rollout: {message}", controller.name);
}
