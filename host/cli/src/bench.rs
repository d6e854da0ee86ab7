//! `homeostat bench PATH`: how fast one guest is on this machine, from the queue to the store in memory.
//!
//! Uses the parts that a host is made of: the queue, fresh instances, grants, the store. HTTP requests are refused: a network is not
//! what is measured.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_trait::async_trait;
use clap::Args;
use homeostat_component::layers::{Emitted, Followed, Granted, HttpClient, Line, Sink, World};
use homeostat_component::{
    Answer, Call, Component, Effect, Effects, Engine, EngineOptions, HttpError, Limits, StoreError,
};
use homeostat_runtime::{Definition, Host, Options};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Key, Store, Write};
use homeostat_workqueue::{Next, Priority, Queue};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::build;
use crate::exit;
use crate::global::{Format, Global};
use crate::inspect::everything;
use crate::output;
use crate::terminal::Screen;

/// Controllers that are added to find out what an idle one takes.
const IDLE: u64 = 100;
/// The share of the time that is spent on the bare calls.
const BARE: Duration = Duration::from_millis(500);
/// The name under which the guest runs.
const NAME: &str = "bench";

/// Measure how fast a guest is: reconciles, waiting time, instances, memory
///
/// Prints one line. Resources of the kind that the guest manages are made up, in a store in memory; HTTP requests are refused.
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
    /// How long to go on adding them, in seconds
    #[arg(long, default_value_t = 2, value_name = "SECONDS")]
    seconds: u32,
}

/// What was measured.
struct Figures {
    reconciles: u64,
    failures: u64,
    per_second: f64,
    p50: Duration,
    p99: Duration,
    instances_per_second: f64,
    /// `None` where the system does not say.
    idle_bytes: Option<u64>,
}

/// Runs `homeostat bench`.
///
/// # Errors
/// When the guest does not build, cannot be read, or is refused.
pub(crate) async fn run(args: &BenchArgs, global: &Global, screen: &Screen) -> Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Json])?;
    let file = component_file(&args.path, screen).await?;
    let bytes = std::fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let workers = args.workers.map_or(processors * 2, NonZeroU32::get);
    let engine = Engine::new(EngineOptions { instances_max: workers.clamp(16, 4096), ..EngineOptions::default() })
        .context("the WebAssembly engine does not start")?;
    let loaded = engine.load(bytes, &everything()).await;
    let component = loaded.map_err(|refused| exit::refused(format!("{}: {refused}", file.display())))?;
    // First, while nothing else has touched the heap.
    let idle_bytes = measure_idle(&engine, &component).await?;
    let bench = Bench::new(component, args.keys.get()).await?;
    bench.round(workers).await;
    let figures = Figures { idle_bytes, ..bench.measure(workers, Duration::from_secs(args.seconds.into())).await };
    match format {
        Format::Json => output::print(&output::json(&figures.to_json(args, workers)))?,
        _ => output::print(&format!("{}\n", figures.line()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the component at `path`, built if it is a crate.
async fn component_file(path: &Path, screen: &Screen) -> Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    build::prepare(path, screen).await?;
    let folder = path.canonicalize().with_context(|| format!("{} cannot be read", path.display()))?;
    let mut guests = build::discover(path).await?;
    guests.retain(|guest| guest.folder == folder);
    if guests.is_empty() {
        return Err(exit::failed(format!(
            "{} is no guest: its crate needs a `crate-type = [\"cdylib\"]`",
            path.display()
        )));
    }
    let built = build::build(&guests, screen).await?;
    screen.status("");
    match built.artifacts.into_iter().next() {
        Some(artifact) if built.failed.is_empty() => Ok(artifact.file),
        _ => Err(exit::failed(format!("the guest does not build\n{}", built.said.trim_end()))),
    }
}

/// A guest, keys for it, and the world that it acts on.
struct Bench {
    component: Component,
    name: Arc<str>,
    keys: Vec<Key>,
    effects: Arc<dyn Effects>,
    limits: Limits,
}

impl Bench {
    async fn new(component: Component, count: u32) -> Result<Self> {
        let manages = component.describe().manages.clone();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(homeostat_store::Options::default()));
        let namespace = if manages.namespaced { "default" } else { "" };
        let keys: Vec<Key> =
            (0..count).map(|n| Key::new(manages.kind.clone(), namespace, &format!("bench-{n}"))).collect();
        if !manages.keys_only {
            for key in &keys {
                store.write(Write::Create { document: document(key) }).await.context("a resource cannot be made up")?;
            }
        }
        let http = HttpClient::new(Limits::default().http_body_bytes_max).context("the HTTP client does not start")?;
        let world = World::new(store, Arc::new(Deaf), Arc::default(), http);
        let effects = Arc::new(Granted::new(Arc::new(everything()), Offline(world)));
        Ok(Self { component, name: NAME.into(), keys, effects, limits: Limits::default() })
    }

    async fn measure(&self, workers: u32, long: Duration) -> Figures {
        let (start, mut waits, mut failures) = (Instant::now(), Vec::new(), 0);
        while waits.is_empty() || start.elapsed() < long {
            let round = self.round(workers).await;
            waits.extend(round.waits);
            failures += round.failures;
        }
        let took = start.elapsed();
        waits.sort_unstable();
        Figures {
            reconciles: waits.len() as u64,
            failures,
            per_second: waits.len() as f64 / took.as_secs_f64(),
            p50: percentile(&waits, 50),
            p99: percentile(&waits, 99),
            instances_per_second: self.bare().await,
            idle_bytes: None,
        }
    }

    /// Adds every key at once and waits until all have run.
    async fn round(&self, workers: u32) -> Round {
        let queue: Queue<Key> = Queue::new(homeostat_workqueue::Options::default());
        let failures = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        // Nobody else has the queue, so that it is not closed.
        let _cannot_fail = queue.add_all(self.keys.iter().cloned(), Priority::NORMAL);
        for _ in 0..workers {
            let (queue, failures) = (queue.clone(), failures.clone());
            let (component, name) = (self.component.clone(), self.name.clone());
            let (effects, limits) = (self.effects.clone(), self.limits.clone());
            tasks.spawn(async move {
                let mut waits = Vec::new();
                while let Some(claim) = queue.try_claim() {
                    waits.push(claim.queued_for());
                    let report = component.reconcile(&name, claim.key(), &limits, effects.clone()).await;
                    failures.fetch_add(u64::from(report.result.is_err()), Ordering::Relaxed);
                    claim.finish(Next::Done);
                }
                waits
            });
        }
        let waits = tasks.join_all().await.concat();
        Round { waits, failures: failures.load(Ordering::Relaxed) }
    }

    /// Returns how many fresh instances a second one task calls, one after the other.
    async fn bare(&self) -> f64 {
        let (start, mut count) = (Instant::now(), 0_u64);
        while start.elapsed() < BARE {
            let key = &self.keys[count as usize % self.keys.len()];
            self.component.reconcile(&self.name, key, &self.limits, self.effects.clone()).await;
            count += 1;
        }
        count as f64 / start.elapsed().as_secs_f64()
    }
}

/// What one round of all keys came to.
struct Round {
    /// From the adding of a key to the start of its reconcile.
    waits: Vec<Duration>,
    failures: u64,
}

fn document(key: &Key) -> Value {
    let mut metadata = json!({"name": key.name()});
    if !key.namespace().is_empty() {
        metadata["namespace"] = key.namespace().into();
    }
    json!({"apiVersion": key.kind().api_version(), "kind": key.kind().name, "metadata": metadata, "spec": {}})
}

/// Returns the value that `percent` of the sorted values do not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Returns what one controller with nothing to do takes of memory, the component itself not counted: all have the same.
async fn measure_idle(engine: &Engine, component: &Component) -> Result<Option<u64>> {
    let store = Arc::new(MemoryStore::new(homeostat_store::Options::default()));
    let host = Host::start(Options::new(engine.clone(), store)).await.context("the host does not start")?;
    let put = async |n: u64| {
        let definition = Definition { suspend: true, ..Definition::new(&format!("idle-{n}"), component.clone()) };
        host.put(definition).await.map(drop).context("a controller cannot be added")
    };
    // The first ones pay for what is made once.
    for n in 0..IDLE {
        put(n).await?;
    }
    let before = resident_bytes();
    for n in IDLE..IDLE * 2 {
        put(n).await?;
    }
    let after = resident_bytes();
    host.shutdown(Duration::ZERO).await;
    Ok(before.zip(after).map(|(before, after)| after.saturating_sub(before) / IDLE))
}

/// Returns the memory that this process has in use.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let auxiliary = std::fs::read("/proc/self/auxv").ok()?;
    Some(pages * page_bytes(&auxiliary).unwrap_or(4096))
}

/// Finds the size of a page in what the kernel tells every process: pairs of words, the first one being 6 for this.
fn page_bytes(auxiliary: &[u8]) -> Option<u64> {
    const PAGE_SIZE: u64 = 6;
    let word = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_ne_bytes);
    let mut pairs = auxiliary.chunks_exact(16).filter_map(|pair| Some((word(&pair[..8])?, word(&pair[8..])?)));
    pairs.find_map(|(name, value)| (name == PAGE_SIZE).then_some(value))
}

impl Figures {
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

/// Hears nothing of what guests tell.
struct Deaf;

impl Sink for Deaf {
    fn event(&self, _: &Call, _: Emitted) {}

    fn line(&self, _: &Call, _: Line) {}

    fn follow(&self, _: &Call, _: Followed) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A world without a network.
struct Offline(World);

#[async_trait]
impl Effects for Offline {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        match effect {
            Effect::Http(_) => Answer::Http(Err(HttpError::Unreachable("a benchmark has no network".into()))),
            effect => self.0.perform(call, effect).await,
        }
    }
}

#[cfg(test)]
mod tests;
