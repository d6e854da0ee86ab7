//! The effect of swaps, and of added and removed controllers, on keys, waits and memory: a whole host whose
//! controllers are resources.
//!
//! The load is 1,000 writes a second, one to each of 1,000 resources in turn. The controller's guest detects
//! when one key runs twice at once, and records the last value that it saw in the status.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use homeostat_component::{Digest, EngineOptions, Fault};
use homeostat_runtime::controller_reconciler::SyncOutcome;
use homeostat_runtime::manifest::ComponentSource;
use homeostat_runtime::{CodeSource, Observer, Put, ReconcileRecord, Recorder};
use homeostat_store::{Change, Key, Kind, Precondition, Propagation, Query, Request, Revision, Write};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::host::{BenchHost, key};
use super::idle::{compiled, mib, variant};
use crate::arguments::Size;
use crate::measure::{percentile_us, resident_bytes};
use crate::ticker::Ticks;
use crate::values::{Values, named};
use crate::{guests, keys};

/// The controller under load.
const LOADED: &str = "loaded";
/// Its resources, and the writes of one second.
const RESOURCES: usize = 1000;
/// Writes at every tick of 5 ms.
const AT_ONCE: usize = 5;
/// The time over which throughput is counted.
const WINDOW: Duration = Duration::from_millis(100);
/// Time limit for reconciling the writes made at the end of the last swap.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Time limit for reconciling the last writes. Later ones count as lost.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How often that is checked.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Repetitions of adding and removing controllers beside the bystander.
const TIMES: usize = 5;
/// The store's history limit: the history is full before memory is measured.
const HISTORY_MAX: u64 = 10_000;
/// The interval between added or removed controllers.
const CHANGE_EVERY: Duration = Duration::from_millis(5);
/// Swaps before memory is measured: one-time growth has happened by then.
const WARM_UP: usize = 100;
/// Components that are swapped in turn, repeatedly.
const VARIANTS: usize = 100;

pub(crate) async fn run(work: &str, size: &Size, guests: &Path) -> Result<Values> {
    let loaded = SwapHost::start(size, guests).await?;
    match work {
        "under load" => under_load(&loaded, size).await,
        "memory" => memory(&loaded, size).await,
        "bystander" => bystander(&loaded, size, guests).await,
        _ => anyhow::bail!("swap has no work {work}"),
    }
}

async fn under_load(loaded: &SwapHost, size: &Size) -> Result<Values> {
    let writing = loaded.write_on();
    // The first writes wait for work left over from the start.
    tokio::time::sleep(Duration::from_millis(size.millis)).await;
    let started = loaded.answers.take();
    let quiet = Instant::now();
    // On a busy machine, no reconcile may end in so short a time.
    while loaded.answers.is_empty() && quiet.elapsed() < ANSWER_MAX {
        tokio::time::sleep(Duration::from_millis(size.millis)).await;
    }
    let before = loaded.answers.take();
    let usual = before.per_window(quiet.elapsed());
    ensure!(usual > 0.0, "no write was answered");
    let began = Instant::now();
    let mut swaps = Vec::new();
    for number in 1..=size.keys {
        let at = Instant::now();
        loaded.swap(number).await?;
        swaps.push((at, Instant::now()));
    }
    tokio::time::sleep(PAUSE_MAX).await;
    let ended = Instant::now();
    writing.abort();
    let lost = loaded.lost().await?;
    loaded.ensure_answered_by(1 + size.keys as u64)?;
    let answered = loaded.answers.take();
    let mut waits: Vec<Duration> = before.answered.iter().map(WriteLatency::wait).collect();
    let mut took: Vec<Duration> = swaps.iter().map(|(from, to)| *to - *from).collect();
    // The longest wait of the writes made during the swap.
    let pause = |(from, to): &(Instant, Instant)| {
        let during = answered.answered.iter().filter(|answered| (*from..*to).contains(&answered.written));
        during.map(WriteLatency::wait).max().unwrap_or_default()
    };
    let mut pauses: Vec<Duration> = swaps.iter().map(pause).collect();
    let least = least_in_a_window(&answered.answered, began, ended);
    let twice = started.twice + before.twice + answered.twice;
    Ok(named([
        ("lost", lost as f64),
        ("twice", twice as f64),
        ("pause p99 us", percentile_us(&mut pauses, 99)),
        ("before p99 us", percentile_us(&mut waits, 99)),
        ("least percent", 100.0 * least as f64 / usual),
        ("swap p50 ms", percentile_us(&mut took, 50) / 1e3),
    ]))
}

async fn memory(loaded: &SwapHost, size: &Size) -> Result<Values> {
    for number in 1..=WARM_UP.min(size.keys) {
        loaded.swap(number).await?;
    }
    let before = resident_bytes()?;
    for number in 1..=size.keys {
        loaded.swap(number).await?;
    }
    Ok(named([("left mib", mib(resident_bytes()?.saturating_sub(before)))]))
}

async fn bystander(loaded: &SwapHost, size: &Size, guests: &Path) -> Result<Values> {
    let digest = loaded.code.keep(guests::read(guests, "noop")?);
    let writing = loaded.write_on();
    let (mut alone, mut beside, mut hurried) = (Vec::new(), Vec::new(), Vec::new());
    let took = |answers: AnswerLog| answers.answered.into_iter().map(|answered| answered.wait()).collect::<Vec<_>>();
    for _ in 0..TIMES {
        loaded.answers.take();
        tokio::time::sleep(Duration::from_millis(size.millis)).await;
        alone.extend(took(loaded.answers.take()));
        loaded.add_and_remove(size.keys, &digest, CHANGE_EVERY).await?;
        beside.extend(took(loaded.answers.take()));
        loaded.add_and_remove(size.keys, &digest, Duration::ZERO).await?;
        hurried.extend(took(loaded.answers.take()));
    }
    writing.abort();
    Ok(named([
        ("alone p99 us", percentile_us(&mut alone, 99)),
        ("beside p99 us", percentile_us(&mut beside, 99)),
        ("hurried p99 us", percentile_us(&mut hurried, 99)),
    ]))
}

/// A host with one controller and its resources.
struct SwapHost {
    measured: BenchHost,
    code: Arc<InMemoryCode>,
    /// The digests of the components that are swapped.
    digests: Vec<Digest>,
    kind: Kind,
    resources: usize,
    answers: Answers,
}

impl SwapHost {
    async fn start(size: &Size, guests: &Path) -> Result<SwapHost> {
        let component = guests::read(guests, "exclusive")?;
        let (code, answers) = (Arc::<InMemoryCode>::default(), Answers::default());
        let digests: Vec<Digest> =
            (0..VARIANTS.min(size.keys)).map(|number| code.keep(variant(&component, number))).collect();
        let options = EngineOptions { compiled: Some(compiled()), ..EngineOptions::default() };
        let store = homeostat_store::Options { history_max: HISTORY_MAX, ..homeostat_store::Options::default() };
        let measured = BenchHost::with_store(store, options, Arc::new(answers.clone())).await?;
        measured.host.run_controllers(code.clone()).await?;
        let kind = Kind::new("demo.homeostat.dev", "v1", "Exclusive");
        let resources = RESOURCES.min(10 * size.keys);
        let loaded = SwapHost { measured, code, digests, kind, resources, answers };
        // All are compiled now, so that no swap waits for a compilation.
        for digest in &loaded.digests {
            drop(loaded.measured.host.load(loaded.code.bytes(digest)?).await);
        }
        loaded.put(LOADED, &loaded.digests[0], size.workers).await?;
        loaded.measured.host.ready(LOADED).await?;
        for number in 0..loaded.resources {
            let key = loaded.key(number);
            let document = json!({
                "apiVersion": key.kind().api_version(), "kind": key.kind().name,
                "metadata": {"namespace": key.namespace(), "name": key.name()}, "spec": {"value": 0},
            });
            loaded.measured.store.write(Write::Create { document }).await?;
        }
        ensure!(loaded.lost().await? == 0, "the resources are not reconciled");
        loaded.answers.take();
        Ok(loaded)
    }

    fn key(&self, number: usize) -> Key {
        key(&self.kind, number)
    }

    /// Writes a controller, and waits until it is installed.
    async fn put(&self, name: &str, digest: &Digest, workers: usize) -> Result<Put> {
        let all = json!(["*"]);
        let document = json!({
            "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": { "name": name },
            "spec": {
                "component": { "digest": digest.as_str() }, "concurrency": workers, "revisionHistoryLimit": 2,
                "grants": { "resources": [{ "kinds": all, "verbs": all, "namespaces": all, "names": all }] },
            },
        });
        self.verdict(name, self.write(Write::Create { document }).await?).await
    }

    async fn swap(&self, number: usize) -> Result<()> {
        let digest = &self.digests[number % self.digests.len()];
        let change = Change::Merge(json!({ "spec": { "component": { "digest": digest.as_str() } } }));
        let write = Write::Patch { key: controller(LOADED), change, precondition: Precondition::default() };
        let put = self.verdict(LOADED, self.write(write).await?).await?;
        ensure!(matches!(put, Put::Changed(_)), "swap {number} came to {put:?}");
        Ok(())
    }

    /// Checks that the last reconcile was that of this generation, so that a swap without effect does not
    /// count.
    fn ensure_answered_by(&self, generation: u64) -> Result<()> {
        let status = self.measured.host.status(LOADED).context("it is there")?;
        let answered = status.answered.map(|answered| answered.generation);
        ensure!(answered == Some(generation), "generation {answered:?} has answered last, not {generation}");
        Ok(())
    }

    async fn write(&self, write: Write) -> Result<Revision> {
        let request = Request { manager: "peers".to_owned(), ..write.into() };
        Ok(self.measured.host.write(request).await?.resource.revision())
    }

    async fn verdict(&self, name: &str, revision: Revision) -> Result<Put> {
        match self.measured.host.sync_result(name, revision).await.outcome {
            SyncOutcome::Put(put) => Ok(put),
            outcome => anyhow::bail!("{name} came to {outcome:?}"),
        }
    }

    /// Adds this many controllers and removes them. Each step starts when the previous one has finished, and
    /// at least `every` after its start.
    async fn add_and_remove(&self, count: usize, digest: &Digest, every: Duration) -> Result<()> {
        let names: Vec<String> = (0..count).map(|number| format!("coming-{number}")).collect();
        let mut next = Instant::now();
        for name in &names {
            tokio::time::sleep_until(next).await;
            next += every;
            self.put(name, digest, 1).await?;
        }
        for name in &names {
            tokio::time::sleep_until(next).await;
            next += every;
            let (key, precondition) = (controller(name), Precondition::default());
            let write = Write::Delete { key, precondition, propagation: Propagation::Background, grace_seconds: None };
            let revision = self.write(write).await?;
            let outcome = self.measured.host.sync_result(name, revision).await.outcome;
            ensure!(matches!(outcome, SyncOutcome::Removed(_)), "{name} came to {outcome:?}");
        }
        Ok(())
    }

    /// Writes resources in turn, until the task is aborted.
    fn write_on(&self) -> tokio::task::JoinHandle<Result<()>> {
        let (store, answers) = (self.measured.store.clone(), self.answers.clone());
        let all: Vec<Key> = (0..self.resources).map(|number| self.key(number)).collect();
        tokio::spawn(async move {
            let mut ticks = Ticks::start()?;
            let mut value = 0;
            loop {
                ticks.next().await?;
                for _ in 0..AT_ONCE {
                    value += 1;
                    let number = value % all.len();
                    let change = Change::Merge(json!({ "spec": { "value": value } }));
                    let (key, precondition) = (all[number].clone(), Precondition::default());
                    answers.written(number);
                    store.write(Write::Patch { key, change, precondition }).await?;
                }
            }
        })
    }

    /// Waits until every resource's last write was seen, and returns how many never were.
    async fn lost(&self) -> Result<usize> {
        let until = Instant::now() + ANSWER_MAX;
        loop {
            let page = self.measured.store.list(&Query::all(self.kind.clone())).await?;
            let is_seen = |document: &Value| document["status"]["value"] == document["spec"]["value"];
            let lost = page.items.iter().filter(|resource| !is_seen(resource.document())).count();
            if lost == 0 || Instant::now() > until {
                return Ok(lost);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn controller(name: &str) -> Key {
    Key::new(Kind::new("homeostat.dev", "v1alpha1", "Controller"), "", name)
}

/// Returns the number of answered writes in the window with the fewest.
fn least_in_a_window(answered: &[WriteLatency], from: Instant, to: Instant) -> usize {
    let mut times: Vec<Instant> = answered.iter().map(|answered| answered.at).collect();
    times.sort_unstable();
    let until = |end: Instant| times.partition_point(|at| *at < end);
    let starts = std::iter::successors(Some(from), |start| Some(*start + LOOK_EVERY));
    let starts = starts.take_while(|start| *start + WINDOW <= to);
    starts.map(|start| until(start + WINDOW) - until(start)).min().unwrap_or(0)
}

/// A write, and the end of the first reconcile that began after it.
struct WriteLatency {
    written: Instant,
    at: Instant,
}

impl WriteLatency {
    fn wait(&self) -> Duration {
        self.at - self.written
    }
}

/// The writes with the times of their reconciles.
#[derive(Clone, Default)]
struct Answers(Arc<Mutex<AnswerLog>>);

#[derive(Default)]
struct AnswerLog {
    /// By resource number: the time of its oldest write without a reconcile.
    waiting: Vec<Option<Instant>>,
    answered: Vec<WriteLatency>,
    /// Reconciles that ran concurrently with another one of their key.
    twice: u64,
}

impl AnswerLog {
    /// Returns the average number of answered writes in a window, for a total time of this length.
    fn per_window(&self, length: Duration) -> f64 {
        self.answered.len() as f64 * WINDOW.div_duration_f64(length)
    }
}

impl Answers {
    fn written(&self, number: usize) {
        let mut taken = self.0.lock();
        if taken.waiting.len() <= number {
            taken.waiting.resize(number + 1, None);
        }
        taken.waiting[number].get_or_insert_with(Instant::now);
    }

    fn is_empty(&self) -> bool {
        self.0.lock().answered.is_empty()
    }

    /// Returns the log and starts a new one. Writes without a reconcile stay pending.
    fn take(&self) -> AnswerLog {
        let mut taken = self.0.lock();
        let waiting = taken.waiting.clone();
        std::mem::replace(&mut *taken, AnswerLog { waiting, ..AnswerLog::default() })
    }
}

impl Observer for Answers {
    fn controller(&self, name: &Arc<str>) -> Arc<dyn Recorder> {
        if **name == *LOADED { Arc::new(self.clone()) } else { Arc::new(NoopRecorder) }
    }
}

impl Recorder for Answers {
    fn record(&self, reconciled: &ReconcileRecord<'_>) {
        let at = Instant::now();
        let began = at - reconciled.worked_for;
        let Some(number) = keys::number(reconciled.key.name()) else { return };
        let mut taken = self.0.lock();
        let is_twice = |fault: &Fault| fault.to_string().contains("two at once");
        taken.twice += u64::from(reconciled.result.as_ref().is_err_and(is_twice));
        if let Some(written) = taken.waiting.get(number).copied().flatten().filter(|written| *written <= began) {
            taken.waiting[number] = None;
            taken.answered.push(WriteLatency { written, at });
        }
    }
}

/// Ignores the added and removed controllers.
struct NoopRecorder;

impl Recorder for NoopRecorder {
    fn record(&self, _: &ReconcileRecord<'_>) {}
}

/// Components in memory.
#[derive(Default)]
struct InMemoryCode(Mutex<Vec<(Digest, Vec<u8>)>>);

impl InMemoryCode {
    fn keep(&self, bytes: Vec<u8>) -> Digest {
        let digest = Digest::of(&bytes);
        self.0.lock().push((digest.clone(), bytes));
        digest
    }

    fn bytes(&self, digest: &Digest) -> Result<Vec<u8>> {
        let kept = self.0.lock();
        let found = kept.iter().find(|(known, _)| known == digest);
        Ok(found.context("this component is not stored")?.1.clone())
    }
}

#[async_trait]
impl CodeSource for InMemoryCode {
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String> {
        let digest = source.digest.as_deref().and_then(Digest::parse).ok_or("there is no digest")?;
        self.bytes(&digest).map_err(|error| error.to_string())
    }

    async fn sweep(&self, _: &BTreeSet<Digest>) {}
}
