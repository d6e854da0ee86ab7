//! The embedded store, used directly and through the API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Error, Kind, Options, Precondition, Request, Scope, Store, Write};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::api_server::ApiServer;
use crate::arguments::Size;
use crate::keys;
use crate::measure::{peak_bytes, percentile_us, restart_peak};
use crate::values::{Values, named};

/// The text in a resource, such that the stored resource has 1 KiB.
const TEXT_BYTES: usize = 480;
/// Writers at once, at most.
pub(crate) const WRITERS_MAX: usize = 64;
/// The field manager.
const MANAGER: &str = "peers";

pub(crate) async fn run(work: &str, size: &Size) -> Result<Values> {
    let folder = tempfile::tempdir().context("no folder for the store can be created")?;
    let options = Options::default();
    let store: Arc<EmbeddedStore> = Arc::new(EmbeddedStore::open(folder.path().join("store.redb"), options)?);
    match work {
        "write" => writes(in_process(store), size).await,
        "write over loopback" => writes(Arc::new(ApiServer::start(store).await?), size).await,
        "fan-out" => fan_out(in_process(store), size).await,
        "fan-out over loopback" => fan_out(Arc::new(ApiServer::start(store).await?), size).await,
        "list" => list(store, size).await,
        _ => bail!("the store has no work {work}"),
    }
}

/// A client of the store.
#[async_trait]
pub(crate) trait StoreClient: Send + Sync + 'static {
    /// Creates or replaces the resource of this number with [`document`]. `writer` is below the number of
    /// writers; each writer waits for the response.
    async fn write(&self, writer: usize, number: usize, round: usize) -> Result<()>;

    /// Watches all resources from now on, in a task that records each event. The task ends with the watch.
    async fn watch(&self, arrivals: Arc<Arrivals>, tasks: &mut JoinSet<()>) -> Result<()>;
}

/// Direct calls of a store.
struct InProcess(Arc<dyn Store>);

/// Returns a client that calls the store directly.
pub(super) fn in_process(store: Arc<dyn Store>) -> Arc<dyn StoreClient> {
    Arc::new(InProcess(store))
}

#[async_trait]
impl StoreClient for InProcess {
    async fn write(&self, _: usize, number: usize, round: usize) -> Result<()> {
        let document = || document(number, round);
        let write = Write::Update { document: document(), precondition: Precondition::default() };
        let request = |write| Request { manager: MANAGER.to_owned(), ..Request::from(write) };
        match self.0.submit(request(write)).await {
            Err(Error::NotFound { .. }) => self.0.submit(request(Write::Create { document: document() })).await?,
            answer => answer?,
        };
        Ok(())
    }

    async fn watch(&self, arrivals: Arc<Arrivals>, tasks: &mut JoinSet<()>) -> Result<()> {
        let mut watch = self.0.watch(Scope::Kind(kind()), self.0.revision(&Scope::Everything).await?).await?;
        tasks.spawn(async move {
            while watch.next().await.is_ok() {
                arrivals.note();
            }
        });
        Ok(())
    }
}

/// The written kind.
pub(crate) fn kind() -> Kind {
    Kind::new("peers.homeostat.dev", "v1", "Item")
}

/// Returns the resource after this many rounds.
pub(crate) fn document(number: usize, round: usize) -> Value {
    let ((namespace, name), kind) = (keys::parts(number), kind());
    json!({
        "apiVersion": kind.api_version(), "kind": kind.name,
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": "measured"}},
        "spec": {"text": filler(round)},
    })
}

/// Returns the JSON text of [`document`], formatted without building the document.
pub(super) fn text(number: usize, round: usize) -> String {
    let ((namespace, name), Kind { group, version, name: kind }) = (keys::parts(number), kind());
    format!(
        r#"{{"apiVersion":"{group}/{version}","kind":"{kind}","metadata":{{"labels":{{"app":"measured"}},"name":"{name}","namespace":"{namespace}"}},"spec":{{"text":"{}"}}}}"#,
        filler(round)
    )
}

fn filler(round: usize) -> String {
    let text = round.to_string();
    let rest = "x".repeat(TEXT_BYTES - text.len());
    text + &rest
}

/// Runs a task for each writer, and returns their results.
pub(crate) async fn together<T, F>(writers: usize, run: impl Fn(usize) -> F) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut tasks: JoinSet<Result<T>> = (0..writers).map(run).collect();
    let mut results = Vec::with_capacity(writers);
    while let Some(result) = tasks.join_next().await {
        results.push(result.context("a writer failed")??);
    }
    Ok(results)
}

/// Creates this many resources.
async fn fill(way: &Arc<dyn StoreClient>, count: usize) -> Result<()> {
    let filler = |filler| {
        let way = Arc::clone(way);
        async move {
            for number in (filler..count).step_by(WRITERS_MAX) {
                way.write(filler, number, 0).await?;
            }
            Ok(())
        }
    };
    together(WRITERS_MAX, filler).await.map(drop)
}

/// Changes resources from this many writers, each one resource after the other.
pub(crate) async fn writes(way: Arc<dyn StoreClient>, size: &Size) -> Result<Values> {
    let Size { keys, workers, millis } = *size;
    fill(&way, keys).await?;
    let long = Duration::from_millis(millis);
    let warm = Instant::now() + long / 4;
    let end = warm + long;
    let writer = |writer| {
        let way = Arc::clone(&way);
        async move {
            let mut took = Vec::new();
            for round in 1.. {
                for number in (writer..keys).step_by(workers) {
                    let start = Instant::now();
                    // A busy machine may leave a short run without a write: each writer measures one.
                    if start > end && !took.is_empty() {
                        return Ok(took);
                    }
                    way.write(writer, number, round).await?;
                    if start > warm {
                        took.push(start.elapsed());
                    }
                }
            }
            Ok(took)
        }
    };
    let mut took = together(workers, writer).await?.concat();
    Ok(named([
        ("writes/s", took.len() as f64 / long.as_secs_f64()),
        ("p50 ms", percentile_us(&mut took, 50) / 1e3),
        ("p99 ms", percentile_us(&mut took, 99) / 1e3),
    ]))
}

/// Measures how long a write takes to reach one watcher, and then the last of many.
async fn fan_out(way: Arc<dyn StoreClient>, size: &Size) -> Result<Values> {
    let mut one = reach(&*way, 1, size.keys).await?;
    let mut all = reach(&*way, size.workers, size.keys).await?;
    Ok(named([("one us", percentile_us(&mut one, 50)), ("all us", percentile_us(&mut all, 50))]))
}

/// Counts the events of one write that are still to arrive. Only the last one wakes the waiting task: a
/// thousand wake-ups would cost more than the measured work.
#[derive(Default)]
pub(crate) struct Arrivals {
    left: AtomicUsize,
    last: Notify,
}

impl Arrivals {
    /// Expects so many arrivals from now on.
    pub(crate) fn expect(&self, count: usize) {
        self.left.store(count, Ordering::Relaxed);
    }

    /// Waits for the last of the expected arrivals.
    pub(crate) async fn all(&self) {
        self.last.notified().await;
    }

    /// Records one arrival.
    pub(crate) fn note(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.last.notify_one();
        }
    }
}

/// Returns, for each write, the time until the last of the watchers had its event.
async fn reach(way: &dyn StoreClient, watchers: usize, writes: usize) -> Result<Vec<Duration>> {
    let (arrivals, mut tasks) = (Arc::new(Arrivals::default()), JoinSet::new());
    for _ in 0..watchers {
        way.watch(Arc::clone(&arrivals), &mut tasks).await?;
    }
    let mut took = Vec::with_capacity(writes);
    for number in 0..writes {
        let start = Instant::now();
        // One event for each watcher: a create is a single write as well.
        arrivals.expect(watchers);
        way.write(0, number, watchers).await?;
        tokio::select! {
            () = arrivals.all() => took.push(start.elapsed()),
            _ = tasks.join_next() => bail!("a watcher ended"),
        }
    }
    Ok(took)
}

/// Lists everything at once through the API, and measures the peak growth of this process. The client keeps
/// nothing.
async fn list(store: Arc<EmbeddedStore>, size: &Size) -> Result<Values> {
    let served = ApiServer::start(Arc::clone(&store)).await?;
    fill(&in_process(store), size.keys).await?;
    let before = restart_peak()?;
    let start = Instant::now();
    let bytes = served.list().await?;
    let took = start.elapsed();
    ensure!(bytes > size.keys * TEXT_BYTES, "{bytes} bytes are not {} resources", size.keys);
    let grown = peak_bytes()?.saturating_sub(before).max(1);
    Ok(named([("ms", took.as_secs_f64() * 1e3), ("mib", grown as f64 / f64::from(1 << 20))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_resource_is_that_of_its_document() {
        assert_eq!(text(12_345, 67), document(12_345, 67).to_string());
        assert_eq!(filler(67).len(), TEXT_BYTES);
    }
}
