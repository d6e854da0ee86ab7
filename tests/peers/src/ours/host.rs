//! A whole host in this process, over an in-memory store or others, with helpers for the works.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use homeostat_component::{Component, Engine, EngineOptions, Grants, HttpGrant, ResourceGrant, Verb};
use homeostat_runtime::{
    Definition, Feeder, FeederError, Host, Intake, IntakeError, Observer, Options, Overrides, Priority,
    ReconcileRecord, Recorder, ShardedSum,
};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Key, Kind, Store};

use crate::{guests, keys};

/// The interval between checks for completion: a thousandth of the shortest measurement.
const LOOKS_EVERY: Duration = Duration::from_micros(500);

/// A host and its store.
pub(crate) struct BenchHost {
    pub(crate) host: Host,
    pub(crate) store: Arc<dyn Store>,
}

impl BenchHost {
    /// Starts a host without controllers.
    pub(crate) async fn start(observer: Arc<dyn Observer>) -> Result<BenchHost> {
        BenchHost::with(EngineOptions::default(), observer).await
    }

    /// Starts a host without controllers, with these engine options.
    pub(crate) async fn with(options: EngineOptions, observer: Arc<dyn Observer>) -> Result<BenchHost> {
        BenchHost::with_store(homeostat_store::Options::default(), options, observer).await
    }

    /// Starts a host without controllers, with these store and engine options.
    pub(crate) async fn with_store(
        store: homeostat_store::Options,
        options: EngineOptions,
        observer: Arc<dyn Observer>,
    ) -> Result<BenchHost> {
        let engine = Engine::new(options).context("the engine does not start")?;
        BenchHost::over(Options { observer, ..Options::new(engine, Arc::new(MemoryStore::new(store))) }).await
    }

    /// Starts a host without controllers, with these options.
    pub(crate) async fn over(options: Options) -> Result<BenchHost> {
        let store = options.stores.whole();
        let host = Host::start(options).await.context("the host does not start")?;
        Ok(BenchHost { host, store })
    }

    /// Loads the guest `guest` and returns a definition of a controller with that name and all resource
    /// grants.
    pub(crate) async fn definition(
        &self,
        name: &str,
        guest: &str,
        folder: &Path,
        workers: usize,
    ) -> Result<Definition> {
        self.definition_with_http(name, guest, folder, workers, Vec::new()).await
    }

    /// The same, with HTTP grants as well.
    pub(crate) async fn definition_with_http(
        &self,
        name: &str,
        guest: &str,
        folder: &Path,
        workers: usize,
        http: Vec<HttpGrant>,
    ) -> Result<Definition> {
        let grants = Grants { resources: vec![everything()], http, ..Grants::default() };
        let component = self.host.load(guests::read(folder, guest)?).await?;
        let concurrency = Some(u32::try_from(workers).context("there are too many workers")?);
        let overrides = Overrides { concurrency, ..Overrides::default() };
        Ok(Definition { grants, overrides, ..Definition::new(name, component) })
    }

    /// Adds a controller and waits until it is ready. Returns the kind that it manages.
    pub(crate) async fn add(&self, definition: Definition) -> Result<Kind> {
        let (name, component): (String, Component) = (definition.name.clone(), definition.component.clone());
        self.host.put(definition).await?;
        self.host.ready(&name).await?;
        Ok(component.describe().manages.kind.clone())
    }

    /// Adds keys to a controller's queue, all at once.
    pub(crate) fn feed(&self, controller: &str, keys: Vec<Key>) -> Result<()> {
        Ok(self.host.feed(controller, Arc::new(AllAtOnce(keys)))?)
    }
}

/// Returns a grant of everything on every resource.
pub(super) fn everything() -> ResourceGrant {
    let all = || vec!["*".to_owned()];
    ResourceGrant { kinds: all(), verbs: vec![Verb::Any], namespaces: all(), names: all() }
}

/// Returns the key of number `number`.
pub(crate) fn key(kind: &Kind, number: usize) -> Key {
    let (namespace, name) = keys::parts(number);
    Key::new(kind.clone(), &namespace, &name)
}

/// Adds every key once.
struct AllAtOnce(Vec<Key>);

impl Feeder for AllAtOnce {
    fn name(&self) -> &str {
        "all at once"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        for key in &self.0 {
            while intake.add(key.clone(), Priority::NORMAL) == Err(IntakeError::Full) {
                intake.wait_for_room().await;
            }
        }
        Ok(())
    }
}

/// Counts the reconciles of the only controller, and records how long their keys waited.
#[derive(Clone, Default)]
pub(crate) struct CountingObserver(Arc<WaitRecorder>);

/// Sharded by thread, as the host's own metrics are.
#[derive(Default)]
struct WaitRecorder(ShardedSum<ReconcileCounts>);

/// The counts of a series of reconciles.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReconcileCounts {
    /// From adding each key to the start of its reconcile.
    pub(crate) waits: Vec<Duration>,
    pub(crate) failures: u64,
}

impl Observer for CountingObserver {
    fn controller(&self, _: &Arc<str>) -> Arc<dyn Recorder> {
        self.0.clone()
    }
}

impl Recorder for WaitRecorder {
    fn record(&self, reconciled: &ReconcileRecord<'_>) {
        // Between the claim and the sandbox, the key may have waited for its turn.
        let begun_after = reconciled.worked_for.saturating_sub(reconciled.cost.wall);
        let mut counted = self.0.local();
        counted.waits.push(reconciled.queued_for + begun_after);
        counted.failures += u64::from(reconciled.label.is_failure());
    }
}

impl CountingObserver {
    /// Returns the counts and resets them.
    pub(crate) fn take(&self) -> ReconcileCounts {
        let mut all = ReconcileCounts::default();
        for mut part in self.0.0.shards() {
            let ReconcileCounts { waits, failures } = std::mem::take(&mut *part);
            all.waits.extend(waits);
            all.failures += failures;
        }
        all
    }

    /// Waits until this many reconciles have ended since the last reset, and up to [`LOOKS_EVERY`] longer.
    pub(crate) async fn until(&self, reconciles: usize) {
        while self.0.0.shards().map(|part| part.waits.len()).sum::<usize>() < reconciles {
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }
}
