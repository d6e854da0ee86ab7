//! A controller in one language: its compilation, its first answers, and the cost of its reconciles.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use homeostat_component::{Compiler, EngineOptions, Tier, TierPolicy};
use homeostat_runtime::{Definition, Observer, Overrides, ReconcileRecord, Recorder};
use homeostat_store::{Key, Kind, Query, Store, Write};
use parking_lot::Mutex;
use serde_json::json;

use super::host::{BenchHost, key};
use super::idle::mib;
use crate::arguments::Size;
use crate::measure::children_seconds;
use crate::values::{Values, named};
use crate::{guests, keys};

const NAME: &str = "measured";
/// The interval between checks for completion.
const LOOKS_EVERY: Duration = Duration::from_millis(2);
/// How often each key is reconciled on optimised code, in fresh instances and in kept ones.
const ROUNDS: usize = 5;

/// Starts a host without a cache over resources that exist, as `homeostat run` compiles: the first answer, all answers,
/// the optimised code, and then the cost of a reconcile on it.
///
/// # Errors
/// The component is missing or is refused, or a reconcile fails.
pub(crate) async fn run(language: &str, size: &Size, folder: &Path) -> Result<Values> {
    let component_bytes = guests::read(folder, language)?.len();
    let observer = CostObserver::default();
    let options =
        EngineOptions { compiler: Some(compiler()?), tiers: TierPolicy::BaselineFirst, ..EngineOptions::default() };
    let measured = BenchHost::with(options, Arc::new(observer.clone())).await?;
    let start = Instant::now();
    let definition = measured.definition(NAME, language, folder, size.workers).await?;
    let ready_cpu = children_seconds()?;
    let kind = definition.component.describe().manages.kind.clone();
    for number in 0..size.keys {
        let (namespace, name) = keys::parts(number);
        let document = json!({
            "apiVersion": kind.api_version(), "kind": kind.name,
            "metadata": {"namespace": namespace, "name": name}, "spec": {"name": "World"},
        });
        measured.store.write(Write::Create { document }).await?;
    }
    measured.host.put(definition.clone()).await?;
    until_answered(&measured.store, &kind, 1).await?;
    let first = start.elapsed();
    until_answered(&measured.store, &kind, size.keys).await?;
    let settled = start.elapsed();
    until_optimised(&measured).await?;
    let (optimised, optimised_cpu) = (start.elapsed(), children_seconds()?);
    let keys: Vec<Key> = (0..size.keys).map(|number| key(&kind, number)).collect();
    let fresh = reconcile_all(&measured, &observer, &keys).await?;
    let overrides = Overrides { reuse_instances: true, ..definition.overrides.clone() };
    measured.host.put(Definition { overrides, ..definition }).await?;
    let kept = reconcile_all(&measured, &observer, &keys).await?;
    Ok(named([
        ("mib", mib(component_bytes as u64)),
        ("ready cpu s", ready_cpu),
        ("first s", first.as_secs_f64()),
        ("settled s", settled.as_secs_f64()),
        ("optimised s", optimised.as_secs_f64()),
        ("optimised cpu s", optimised_cpu),
        ("reconcile us", fresh.cpu_us()),
        ("kept us", kept.cpu_us()),
        ("instance mib", mib(fresh.memory_bytes_max)),
    ]))
}

/// Reconciles each key several times, and returns what that took.
async fn reconcile_all(measured: &BenchHost, observer: &CostObserver, keys: &[Key]) -> Result<CostSum> {
    observer.take();
    for _ in 0..ROUNDS {
        measured.feed(NAME, keys.to_vec())?;
        observer.until(keys.len()).await;
        observer.start_round();
    }
    let costs = observer.take();
    ensure!(costs.failures == 0, "{} reconciles failed", costs.failures);
    Ok(costs)
}

/// Returns this program as the compiler of components, each in a process of its own.
fn compiler() -> Result<Compiler> {
    let program = std::env::current_exe().context("this program does not know where it is")?;
    Ok(Compiler { program, arguments: vec!["compile".to_owned()], environment: Default::default() })
}

/// Waits until this many resources have a message.
async fn until_answered(store: &Arc<dyn Store>, kind: &Kind, resources: usize) -> Result<()> {
    loop {
        let list = store.list(&Query::all(kind.clone())).await?;
        if list.items.iter().filter(|resource| resource.status()["message"].is_string()).count() >= resources {
            return Ok(());
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

async fn until_optimised(measured: &BenchHost) -> Result<()> {
    loop {
        let status = measured.host.status(NAME).context("the controller is gone")?;
        ensure!(status.code.error.is_none(), "the code is not optimised: {:?}", status.code.error);
        if status.code.tier == Tier::Optimised {
            return Ok(());
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

/// Adds up what the reconciles of the only controller use.
#[derive(Clone, Default)]
struct CostObserver(Arc<CostRecorder>);

#[derive(Default)]
struct CostRecorder(Mutex<CostSum>);

#[derive(Clone, Copy, Debug, Default)]
struct CostSum {
    reconciles: usize,
    /// Those of the current round.
    in_round: usize,
    failures: u64,
    cpu: Duration,
    memory_bytes_max: u64,
}

impl CostSum {
    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.reconciles.max(1) as f64
    }
}

impl CostObserver {
    fn take(&self) -> CostSum {
        std::mem::take(&mut self.0.0.lock())
    }

    fn start_round(&self) {
        self.0.0.lock().in_round = 0;
    }

    /// Waits until this many reconciles of the round have ended.
    async fn until(&self, reconciles: usize) {
        while self.0.0.lock().in_round < reconciles {
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }
}

impl Observer for CostObserver {
    fn controller(&self, _: &Arc<str>) -> Arc<dyn Recorder> {
        self.0.clone()
    }
}

impl Recorder for CostRecorder {
    fn record(&self, reconciled: &ReconcileRecord<'_>) {
        let mut sum = self.0.lock();
        sum.reconciles += 1;
        sum.in_round += 1;
        sum.failures += u64::from(reconciled.label.is_failure());
        sum.cpu += reconciled.cost.cpu;
        sum.memory_bytes_max = sum.memory_bytes_max.max(reconciled.cost.memory_bytes_max);
    }
}
