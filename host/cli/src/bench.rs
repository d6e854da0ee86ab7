//! `homeostat bench PATH`: measures how fast one guest is on this machine, from the queue to the in-memory
//! store.
//!
//! The whole host runs: queue, workers, fresh instances, grants and the store. HTTP requests are refused,
//! because the network is not part of the measurement.

use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use homeostat_component::layers::EmptyWorld;
use homeostat_component::{CallSession, Component, Effects, Engine, EngineOptions, Grants, Limits};
use homeostat_runtime::{
    ControllerState, Definition, Feeder, FeederError, Host, Intake, IntakeError, Observer, Options, Overrides,
    Priority, ReconcileRecord, Recorder,
};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Key, Store, Write};
use parking_lot::Mutex;
use rustix::param::page_size;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::build;
use crate::compile::{self, CompileLimits};
use crate::exit;
use crate::global::{Format, Global};
use crate::layout;
use crate::output;
use crate::registry;
use crate::terminal::Screen;

/// Controllers that are added to measure the memory of an idle one.
const IDLE: u64 = 100;
/// Time limit for controllers to become ready, and for the host to stop.
const READY: Duration = Duration::from_secs(5);
/// How long the bare calls are measured.
const BARE: Duration = Duration::from_millis(500);
/// The controller's name.
const NAME: &str = "bench";

/// Measure how fast a guest is: reconciles, waiting time, instances, memory
///
/// Prints one line. The resources are generated, of the kind that the guest manages, in an in-memory store.
/// HTTP requests are refused.
#[derive(Args, Clone, Debug)]
pub(crate) struct BenchArgs {
    /// A component, or the folder of a guest's crate, which is built first
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Keys that are added at once
    #[arg(long, default_value = "1000", value_name = "N")]
    keys: NonZeroU32,
    /// Reconciles that may run at once [default: two for each processor]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroU32>,
    /// Seconds during which keys are added
    #[arg(long, default_value_t = 2, value_name = "SECONDS")]
    seconds: u32,
    #[command(flatten)]
    compile: CompileLimits,
}

/// The measurements.
struct BenchResult {
    reconciles: u64,
    failures: u64,
    per_second: f64,
    p50: Duration,
    p99: Duration,
    instances_per_second: f64,
    /// `None` if the system does not report memory.
    idle_bytes: Option<u64>,
}

/// Runs `homeostat bench`.
///
/// # Errors
/// When the guest does not build, cannot be read, or is refused.
pub(crate) async fn run(args: &BenchArgs, global: &Global, screen: &Screen) -> Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Json])?;
    let file = component_file(&args.path, screen).await?;
    let bytes = registry::read_file(&file)?;
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let workers = args.workers.map_or(processors * 2, NonZeroU32::get);
    let options = compile::engine_options(compile::user_cache(layout::COMPILED), args.compile)?;
    let engine = Engine::new(EngineOptions { instances_max: workers.clamp(16, 4096), ..options })
        .context("cannot start the WebAssembly engine")?;
    let loaded = engine.load(bytes).await;
    let component = loaded.map_err(|refused| exit::refused(format!("{}: {refused}", file.display())))?;
    // First, while nothing else has touched the heap.
    let idle_bytes = measure_idle(&engine, &component).await?;
    let bench = Bench::start(engine, component.clone(), args.keys.get(), workers).await?;
    let measured = bench.measure(Duration::from_secs(args.seconds.into())).await?;
    let figures = BenchResult { idle_bytes, instances_per_second: bare(&component, &bench.keys).await, ..measured };
    bench.host.shutdown(Duration::ZERO).await;
    match format {
        Format::Json => output::print(&output::json(&figures.to_json(args, workers)))?,
        _ => output::print(&format!("{}\n", figures.line()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the component at `path`, built if it is a project.
async fn component_file(path: &Path, screen: &Screen) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let folder = path.canonicalize().with_context(|| format!("{} cannot be read", path.display()))?;
    let mut guests = build::prepare(path, false, screen).await?;
    guests.retain(|guest| guest.folder == folder);
    if guests.is_empty() {
        return Err(exit::failed(format!(
            "{} is not a guest: a crate needs a `crate-type = [\"cdylib\"]`, another project the contract in `wit`",
            path.display()
        )));
    }
    let built = build::build(&guests, screen).await?;
    screen.status("");
    match built.artifacts.into_iter().next() {
        Some(artifact) if built.failed.is_empty() => Ok(artifact.file),
        _ => Err(exit::failed(format!("the guest does not build\n{}{}", built.diagnostics, built.tool_output))),
    }
}

/// A host with one controller, and keys for it.
struct Bench {
    host: Host,
    keys: Vec<Key>,
    tally: Arc<BenchRecorder>,
}

/// Collects the reconciles of one round.
#[derive(Default)]
struct BenchRecorder {
    round: Mutex<Round>,
    ended: Notify,
}

#[derive(Default)]
struct Round {
    /// From adding a key to the start of its reconcile.
    waits: Vec<Duration>,
    failures: u64,
}

impl BenchRecorder {
    /// Takes the round once it has this many reconciles.
    fn take(&self, reconciles: usize) -> Option<Round> {
        let mut round = self.round.lock();
        (round.waits.len() >= reconciles).then(|| std::mem::take(&mut *round))
    }
}

/// Hands the recorder to the only controller.
struct BenchObserver(Arc<BenchRecorder>);

impl Observer for BenchObserver {
    fn controller(&self, _: &Arc<str>) -> Arc<dyn Recorder> {
        self.0.clone()
    }
}

impl Recorder for BenchRecorder {
    fn record(&self, reconciled: &ReconcileRecord<'_>) {
        let mut round = self.round.lock();
        round.waits.push(reconciled.queued_for);
        round.failures += u64::from(reconciled.label.is_failure());
        drop(round);
        self.ended.notify_one();
    }
}

/// Adds every key once.
struct AllAtOnce(Vec<Key>);

impl Feeder for AllAtOnce {
    fn name(&self) -> &str {
        NAME
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

impl Bench {
    async fn start(engine: Engine, component: Component, count: u32, workers: u32) -> Result<Self> {
        let manages = component.describe().manages.clone();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(homeostat_store::Options::default()));
        let namespace = if manages.namespaced { "default" } else { "" };
        let keys: Vec<Key> =
            (0..count).map(|n| Key::new(manages.kind.clone(), namespace, &format!("bench-{n}"))).collect();
        if !manages.keys_only {
            for key in &keys {
                store.write(Write::Create { document: document(key) }).await.context("a resource cannot be created")?;
            }
        }
        let tally = Arc::<BenchRecorder>::default();
        let options = Options { observer: Arc::new(BenchObserver(tally.clone())), ..Options::new(engine, store) };
        let host = Host::start(options).await.context("cannot start the host")?;
        let overrides = Overrides { concurrency: Some(workers), ..Overrides::default() };
        let grants = everything_here();
        let definition = Definition { grants, overrides, ..Definition::new(NAME, component) };
        host.put(definition).await.context("the controller cannot be added")?;
        let bench = Self { host, keys, tally };
        if !manages.keys_only {
            // The first list puts every key on the queue.
            bench.all_ended().await;
        }
        Ok(bench)
    }

    async fn measure(&self, long: Duration) -> Result<BenchResult> {
        let (start, mut waits, mut failures) = (Instant::now(), Vec::new(), 0);
        while waits.is_empty() || start.elapsed() < long {
            let round = self.round().await?;
            waits.extend(round.waits);
            failures += round.failures;
        }
        let took = start.elapsed();
        waits.sort_unstable();
        Ok(BenchResult {
            reconciles: waits.len() as u64,
            failures,
            per_second: waits.len() as f64 / took.as_secs_f64(),
            p50: percentile(&waits, 50),
            p99: percentile(&waits, 99),
            instances_per_second: 0.0,
            idle_bytes: None,
        })
    }

    /// Adds every key at once and waits until all have run.
    async fn round(&self) -> Result<Round> {
        std::mem::take(&mut *self.tally.round.lock());
        self.host.feed(NAME, Arc::new(AllAtOnce(self.keys.clone())))?;
        Ok(self.all_ended().await)
    }

    /// Waits until as many reconciles have ended as there are keys.
    async fn all_ended(&self) -> Round {
        loop {
            let ended = self.tally.ended.notified();
            if let Some(round) = self.tally.take(self.keys.len()) {
                return round;
            }
            ended.await;
        }
    }
}

/// Returns how many fresh instances one task can call per second in sequence, without the host around them.
async fn bare(component: &Component, keys: &[Key]) -> f64 {
    let (mut caller, limits) = (CallSession::new(NAME), Limits::default());
    let nothing: Arc<dyn Effects> = Arc::new(EmptyWorld);
    let (start, mut count) = (Instant::now(), 0_usize);
    while start.elapsed() < BARE {
        component.reconcile(&mut caller, &keys[count % keys.len()], &limits, nothing.clone()).await;
        count += 1;
    }
    count as f64 / start.elapsed().as_secs_f64()
}

fn document(key: &Key) -> Value {
    let mut metadata = json!({"name": key.name()});
    if !key.namespace().is_empty() {
        metadata["namespace"] = key.namespace().into();
    }
    json!({"apiVersion": key.kind().api_version(), "kind": key.kind().name, "metadata": metadata, "spec": {}})
}

/// Returns the percentile: the smallest value that at least `percent` percent of the sorted values do not
/// exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Returns the memory of one idle controller, without the component itself, which all share.
///
/// The controllers have no grants and an empty store.
async fn measure_idle(engine: &Engine, component: &Component) -> Result<Option<u64>> {
    let store = Arc::new(MemoryStore::new(homeostat_store::Options::default()));
    let host = Host::start(Options::new(engine.clone(), store)).await.context("cannot start the host")?;
    // The first controllers also pay for one-time allocations.
    add_idle(&host, component, 0..IDLE).await?;
    let before = resident_bytes();
    add_idle(&host, component, IDLE..IDLE * 2).await?;
    let after = resident_bytes();
    // Controllers that do not stop in time end with the process.
    drop(tokio::time::timeout(READY, host.shutdown(Duration::ZERO)).await);
    Ok(before.zip(after).map(|(before, after)| after.saturating_sub(before) / IDLE))
}

/// Returns every grant except HTTP, so that requests are refused.
fn everything_here() -> Grants {
    Grants { http: Vec::new(), ..Grants::everything() }
}

/// Adds controllers and waits until they are ready, for [`READY`] at most: one whose start hook fails never
/// becomes ready.
async fn add_idle(host: &Host, component: &Component, numbers: Range<u64>) -> Result<()> {
    for number in numbers {
        let grants = everything_here();
        let definition = Definition { grants, ..Definition::new(&format!("idle-{number}"), component.clone()) };
        host.put(definition).await.context("a controller cannot be added")?;
    }
    let end = Instant::now() + READY;
    while Instant::now() < end && host.controllers().iter().any(|status| status.state != ControllerState::Ready) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

impl BenchResult {
    fn line(&self) -> String {
        let idle = self.idle_bytes.map_or("unknown".to_owned(), |bytes| bytes.to_string());
        let failed = if self.failures == 0 {
            String::new()
        } else {
            format!(", {} of {} failed", self.failures, self.reconciles)
        };
        format!(
            "{:.0} reconciles/s, add to start p50 {:.1} ms p99 {:.1} ms, {:.0} instances/s, {idle} bytes per idle controller{failed}",
            self.per_second,
            self.p50.as_secs_f64() * 1e3,
            self.p99.as_secs_f64() * 1e3,
            self.instances_per_second,
        )
    }

    fn to_json(&self, args: &BenchArgs, workers: u32) -> Value {
        json!({
            "apiVersion": "homeostat.dev/v1alpha1",
            "kind": "Benchmark",
            "path": args.path,
            "keys": args.keys,
            "workers": workers,
            "reconciles": self.reconciles,
            "failures": self.failures,
            "reconcilesPerSecond": self.per_second.round(),
            "addToStartP50Us": self.p50.as_micros() as u64,
            "addToStartP99Us": self.p99.as_micros() as u64,
            "instancesPerSecond": self.instances_per_second.round(),
            "bytesPerIdleController": self.idle_bytes,
        })
    }
}

#[cfg(test)]
mod tests;
