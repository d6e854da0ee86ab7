//! The simulator: a store, a queue and a controller, without threads and without waiting.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use homeostat_component::layers::{DenialObserver, EnqueuedKey, FollowTarget, Granted, HttpClient, Roles, World};
use homeostat_component::{
    Call, Capability, Changes, ControllerSpec, Disclosure, DuringDelay, Effects, Fault, Grants, KindDeclaration,
    Mapping, Outcome,
};
use homeostat_runtime::Settings;
use homeostat_runtime::mapping::{self, ManagedKind};
use homeostat_runtime::settle::settle;
use homeostat_store::garbage::{GarbageCollector, checks};
use homeostat_store::memory::MemoryStore;
use homeostat_store::schema::Schema;
use homeostat_store::{
    Error as StoreError, Event, EventType, Key, Kind, Options, Propagation, Resource, Revision, Scope, Store, Watch,
    Write,
};
use homeostat_workqueue::state::{ClaimToken, State};
use homeostat_workqueue::{Backoff, Priority};
use parking_lot::Mutex;
use serde_json::Value;

use crate::clock::VirtualClock;
use crate::effects::{InjectedFault, RecordedEvent, RecordedLine, RecordingSink, Records, Virtual};
use crate::reconciler::Reconciler;

/// Reconciles of one [`Simulator::settle`] at most. A controller that needs more is taken for a hot loop.
pub const RECONCILES_MAX: usize = 1000;

/// Why a simulation cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store refused a write of the test, or a schema is not structural.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The controller does not come to rest.
    #[error(
        "the controller does not come to rest: after {RECONCILES_MAX} reconciles {key} is still queued, and ran {runs} times; \
         its last result is {last}. A status with a time stamp, or a write in each reconcile, queues its key again and again"
    )]
    HotLoop {
        /// The key that ran most often.
        key: Key,
        /// How often it ran.
        runs: usize,
        /// Its last result, for a person.
        last: String,
    },
    /// The mapper of the controller failed.
    #[error("the mapping of a change of {changed} failed: {fault}")]
    Mapper {
        /// The changed resource.
        changed: Key,
        /// The failure of the mapper.
        fault: Fault,
    },
    /// The simulator cannot start.
    #[error("the simulator cannot start: {0}")]
    Start(String),
}

/// One reconcile and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The key.
    pub key: Key,
    /// The result.
    pub result: Result<Outcome, Fault>,
}

/// One controller over a store in memory.
pub struct Simulator<R> {
    reconciler: R,
    grants: Arc<Grants>,
    managed: ManagedKind,
    store: Arc<MemoryStore>,
    clock: Arc<VirtualClock>,
    records: Arc<Records>,
    kinds: Arc<Mutex<Vec<Kind>>>,
    effects: Arc<dyn Effects>,
    garbage: GarbageCollector,
    queue: State<Key>,
    watch: Watch,
    /// The revision up to which changes have led to keys.
    seen: Revision,
    follows: BTreeMap<Key, Vec<FollowTarget>>,
}

/// Hears of denials and tells nobody: the guest gets the answer.
struct Nobody;

impl DenialObserver for Nobody {
    fn denied(&self, _: &Call, _: Capability, _: &str) {}
}

impl<R: Reconciler> Simulator<R> {
    /// Creates an empty world for a controller with these grants and settings. The kinds of its description are
    /// declared.
    ///
    /// # Errors
    /// [`Error::Store`] for a schema that is not structural; [`Error::Start`].
    pub async fn new(reconciler: R, grants: Grants, config: BTreeMap<String, String>) -> Result<Self, Error> {
        let (clock, records) = (Arc::new(VirtualClock::default()), Arc::new(Records::default()));
        let store = Arc::new(MemoryStore::new(Options { clock: clock.clone(), ..Options::default() }));
        let spec = reconciler.describe();
        let kinds = Arc::<Mutex<Vec<Kind>>>::default();
        let http = HttpClient::new(1 << 20).map_err(|error| Error::Start(error.to_string()))?;
        let world = World::new(store.clone(), Arc::new(RecordingSink(records.clone())), Arc::new(config), http);
        let world = Virtual { clock: clock.clone(), records: records.clone(), kinds: kinds.clone(), inner: world };
        let grants = Arc::new(grants);
        let effects = Arc::new(Roles::new(spec, Arc::new(Nobody), Granted::new(grants.clone(), world)));
        let watch = store.watch(Scope::Everything, Revision::ZERO).await?;
        let (managed, queue) = (ManagedKind::of(&spec.manages), State::new(queue_options(spec)));
        let garbage = GarbageCollector::new(store.clone());
        let described: Vec<KindDeclaration> =
            std::iter::once(&spec.manages).chain(spec.watches.iter().map(|watch| &watch.of)).cloned().collect();
        let mut simulator = Self {
            reconciler,
            grants,
            managed,
            store,
            clock,
            records,
            kinds,
            effects,
            garbage,
            queue,
            watch,
            seen: Revision::ZERO,
            follows: BTreeMap::new(),
        };
        for declaration in &described {
            simulator.declare(declaration)?;
        }
        Ok(simulator)
    }

    /// Declares a kind that the description does not name, as a definition does. The controller cannot use an undeclared
    /// kind.
    ///
    /// # Errors
    /// [`Error::Store`] for a schema that is not structural.
    pub fn declare(&mut self, declaration: &KindDeclaration) -> Result<(), Error> {
        let KindDeclaration { kind, schema, .. } = declaration;
        let schema = schema.as_ref().map(Schema::parse).transpose()?;
        if let Some(schemas) = self.store.schemas().filter(|_| schema.is_some()) {
            schemas.set(kind, [(kind.version.clone(), schema)]);
        }
        self.kinds.lock().push(kind.clone());
        Ok(())
    }

    /// Creates or replaces a resource, as another client. A `status` in the document is written, too.
    ///
    /// # Errors
    /// [`Error::Store`] with the reason of the store.
    pub async fn put(&mut self, document: Value) -> Result<Arc<Resource>, Error> {
        let status = document.get("status").cloned();
        let target = Write::Create { document: document.clone() }.target()?;
        let key = Key::new(target.kind, &target.namespace, target.name.as_deref().unwrap_or_default());
        let write = match self.store.get(&key).await {
            Ok(_) => Write::Update { document, precondition: Default::default() },
            Err(_) => Write::Create { document },
        };
        let mut written = self.store.write(write).await?.resource;
        if let Some(status) = status {
            let (key, precondition) = (written.key().clone(), Default::default());
            written = self.store.write(Write::UpdateStatus { key, status, precondition }).await?.resource;
        }
        Ok(written)
    }

    /// Deletes a resource, as another client.
    ///
    /// # Errors
    /// [`Error::Store`] with the reason of the store.
    pub async fn delete(&mut self, key: &Key) -> Result<(), Error> {
        let (key, precondition, propagation) = (key.clone(), Default::default(), Propagation::Background);
        self.store.write(Write::Delete { key, precondition, propagation, grace_seconds: None }).await?;
        Ok(())
    }

    /// Returns a resource as it is now.
    ///
    /// # Errors
    /// [`Error::Store`], also for a resource that does not exist.
    pub async fn get(&self, key: &Key) -> Result<Arc<Resource>, Error> {
        Ok(self.store.get(key).await?)
    }

    /// Returns the store, for reads that have no method here.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Adds a fault. Faults are tried in the order of their addition.
    pub fn inject(&mut self, fault: InjectedFault) {
        self.records.faults.lock().push(fault);
    }

    /// Removes every fault.
    pub fn heal(&mut self) {
        self.records.faults.lock().clear();
    }

    /// Returns the events since the last call, at most 10 000.
    pub fn take_events(&mut self) -> Vec<RecordedEvent> {
        std::mem::take(&mut *self.records.events.lock())
    }

    /// Returns the log lines since the last call, at most 10 000.
    pub fn take_lines(&mut self) -> Vec<RecordedLine> {
        std::mem::take(&mut *self.records.lines.lock())
    }

    /// Reconciles one key once, whether it is queued or not. Other keys stay queued.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Mapper`].
    pub async fn reconcile(&mut self, key: &Key) -> Result<Run, Error> {
        self.follow_changes().await?;
        let now = self.clock.moment();
        // The highest band has no other key, so the next claim is this one.
        let _added = self.queue.add(now, key.clone(), Priority::HIGHEST);
        let run = match self.queue.claim(now) {
            Some(claim) => self.run(claim).await,
            None => Run { key: key.clone(), result: Ok(Outcome::Settled) },
        };
        self.follow_changes().await?;
        Ok(run)
    }

    /// Reconciles keys until none is ready, and returns the runs in their order. Keys that wait for a delay or
    /// for a retry keep waiting: [`Simulator::advance`] moves the clock.
    ///
    /// # Errors
    /// [`Error::HotLoop`] after [`RECONCILES_MAX`] reconciles; [`Error::Store`], [`Error::Mapper`].
    pub async fn settle(&mut self) -> Result<Vec<Run>, Error> {
        let mut runs = Vec::new();
        self.settle_into(&mut runs).await?;
        Ok(runs)
    }

    /// Moves the clock by `by`, and reconciles each key at the moment at which it is due.
    ///
    /// # Errors
    /// As [`Simulator::settle`].
    pub async fn advance(&mut self, by: Duration) -> Result<Vec<Run>, Error> {
        let (end, mut runs) = (self.clock.moment().after(by), Vec::new());
        loop {
            self.settle_into(&mut runs).await?;
            let now = self.clock.moment();
            let next = self.queue.next_due().filter(|due| *due <= end).unwrap_or(end);
            self.clock.advance(next.since(now));
            if next == end && now == end {
                return Ok(runs);
            }
        }
    }

    /// Returns the time until the next waiting key is due; `None` if no key waits.
    pub fn next_due(&mut self) -> Option<Duration> {
        let now = self.clock.moment();
        self.queue.next_due().map(|due| due.since(now))
    }

    async fn settle_into(&mut self, runs: &mut Vec<Run>) -> Result<(), Error> {
        self.follow_changes().await?;
        while let Some(claim) = self.queue.claim(self.clock.moment()) {
            if runs.len() == RECONCILES_MAX {
                return Err(hot_loop(runs));
            }
            runs.push(self.run(claim).await);
            self.follow_changes().await?;
        }
        Ok(())
    }

    async fn run(&mut self, claim: ClaimToken<Key>) -> Run {
        let key = claim.key.clone();
        self.records.follows.lock().clear();
        let result = self.reconciler.reconcile(&key, self.effects.clone()).await;
        let followed = std::mem::take(&mut *self.records.follows.lock());
        if result.is_ok() {
            if followed.is_empty() {
                self.follows.remove(&key)
            } else {
                self.follows.insert(key.clone(), followed)
            };
        }
        self.enqueue_own();
        let _finished = self.queue.finish(self.clock.moment(), claim, settle(&result).0, 0);
        Run { key, result }
    }

    /// Queues the keys that the last reconcile enqueued itself. Keys of other kinds are dropped.
    fn enqueue_own(&mut self) {
        let enqueued = std::mem::take(&mut *self.records.enqueued.lock());
        let now = self.clock.moment();
        for EnqueuedKey { key, after, priority, hold } in enqueued {
            if !key.kind().same_type(&self.managed.kind) {
                continue;
            }
            let priority = Priority::ALL[priority as usize];
            let _added = match hold {
                true => self.queue.add_held(now, key, after, priority),
                false => self.queue.add_after(now, key, after, priority),
            };
        }
    }

    /// Collects garbage and queues the keys that the changes since the last call affect.
    async fn follow_changes(&mut self) -> Result<(), Error> {
        while self.seen < self.store.revision(&Scope::Everything).await? {
            let event = self.watch.next().await?;
            self.seen = event.revision;
            for key in self.affected(&event).await? {
                let _added = self.queue.add(self.clock.moment(), key, Priority::NORMAL);
            }
            for check in checks(&event) {
                self.garbage.check(&check).await?;
            }
        }
        Ok(())
    }

    /// Returns the keys that a change affects.
    async fn affected(&self, event: &Event) -> Result<Vec<Key>, Error> {
        let (spec, changed) = (self.reconciler.describe(), event.resource.key());
        let versions = || std::iter::once(&event.resource).chain(&event.previous);
        let mut keys = Vec::new();
        if changed.kind().same_type(&self.managed.kind)
            && counts(spec.changes, event)
            && self.grants.discloses(changed, Disclosure::Key)
        {
            keys.push(changed.clone());
        }
        for watch in spec.watches.iter().filter(|watch| watch.of.kind.same_type(changed.kind())) {
            if !counts(watch.changes, event) || !self.grants.discloses(changed, watch.mapping.disclosure()) {
                continue;
            }
            for version in versions() {
                match watch.mapping {
                    Mapping::Guest => {
                        let mapped = self.reconciler.map(&watch.name, version, self.effects.clone()).await;
                        let of_kind = |key: &Key| key.kind().same_type(&self.managed.kind);
                        let mapped = mapped.map_err(|fault| Error::Mapper { changed: changed.clone(), fault })?;
                        keys.extend(mapped.into_iter().filter(of_kind));
                    }
                    _ => keys.extend(mapping::keys(&watch.mapping, &self.managed, version).keys),
                }
            }
        }
        let follows = |targets: &[FollowTarget]| {
            targets.iter().any(|target| match target {
                FollowTarget::Key(key) => key == changed,
                FollowTarget::All(kind, selector) => {
                    kind.same_type(changed.kind()) && versions().any(|version| selector.matches(version))
                }
            })
        };
        keys.extend(self.follows.iter().filter(|(_, targets)| follows(targets)).map(|(key, _)| key.clone()));
        Ok(keys)
    }
}

/// Returns the options of the queue: those of the host, without jitter and without bounds.
fn queue_options(spec: &ControllerSpec) -> homeostat_workqueue::Options {
    let Settings { backoff, during_delay, .. } = Settings::merge(spec, &Default::default());
    homeostat_workqueue::Options {
        during_delay: match during_delay {
            DuringDelay::RunNow => homeostat_workqueue::DuringDelay::RunNow,
            DuringDelay::Hold => homeostat_workqueue::DuringDelay::Hold,
        },
        backoff: Backoff { base: backoff.base, max: backoff.max, retries_max: backoff.retries_max, jitter: 0.0 },
        ageing_claims: NonZeroU32::MAX,
        ..homeostat_workqueue::Options::default()
    }
}

/// Returns whether a change counts for a watch.
fn counts(changes: Changes, event: &Event) -> bool {
    let (Changes::ButStatus, EventType::Modified, Some(previous)) = (changes, event.kind, &event.previous) else {
        return true;
    };
    without_status(previous) != without_status(&event.resource)
}

/// Returns a document without its status and without what changes with each write.
fn without_status(resource: &Resource) -> Value {
    let mut document = resource.document().clone();
    if let Some(fields) = document.as_object_mut() {
        fields.remove("status");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
        }
    }
    document
}

fn hot_loop(runs: &[Run]) -> Error {
    let mut by_key: BTreeMap<&Key, usize> = BTreeMap::new();
    for run in runs {
        *by_key.entry(&run.key).or_default() += 1;
    }
    let (key, runs_of_key) = by_key.into_iter().max_by_key(|(_, runs)| *runs).unwrap_or((&runs[0].key, 0));
    let last = runs.iter().rev().find(|run| run.key == *key).map(|run| match &run.result {
        Ok(Outcome::Settled) => "settled".to_owned(),
        Ok(Outcome::AgainAfter(delay)) => format!("again after {delay:?}"),
        Err(fault) => format!("failed: {fault}"),
    });
    Error::HotLoop { key: key.clone(), runs: runs_of_key, last: last.unwrap_or_default() }
}

#[cfg(test)]
mod tests;
