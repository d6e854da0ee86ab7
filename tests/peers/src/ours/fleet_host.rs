//! One host of a measured fleet, in a process of its own. It obeys lines on its standard input.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use homeostat_fleet::{ShardBy, Shards};
use homeostat_runtime::{FleetOptions, Observer, Options, PlacementSpec, ReconcileRecord, Recorder, Stores};
use homeostat_store::memory::MemoryStore;
use homeostat_store::routes::{Routes, Rule};
use homeostat_store::{Key, RoutedStore, Store, StorePart, View};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::host::{BenchHost, key};
use super::idle::engine;
use super::stores::nats_store;
use crate::arguments::Contender;
use crate::measure::processor_nanos;
use crate::values::{self, named};

/// The guest of the status loop.
pub(super) const STATUS_GUEST: &str = "status";
/// The line at which the host adds its keys to the queue, once. At any other one it prints its state.
pub(super) const FEED: &str = "feed";
/// Shards of the controller: as many as the largest fleet has hosts.
pub(super) const SHARDS: u32 = 4;

const CONTROLLER: &str = "measured";
const BUS: &str = "bus";
/// Leases of this length even out within some seconds. A lease that is lost would show in the figures.
const LEASE_LENGTH: Duration = Duration::from_secs(3);
/// Workers of a controller that writes nothing. Each host has one processor.
const WORKERS: usize = 2;
/// Workers of a controller that writes statuses, as in the status loop on Kubernetes.
const WRITING_WORKERS: usize = 8;
/// How long reconciles may take to finish at the end.
const END_MAX: Duration = Duration::from_secs(5);

/// Runs a host of a fleet until its input ends. `guest` is what its controller runs; the contender's server is the URL,
/// the bucket and the name of the host.
///
/// # Errors
/// The host does not start, or a standard stream is broken.
pub(crate) async fn run(guest: &str, contender: &Contender, guests: &Path) -> Result<()> {
    let server = contender.server.as_deref().context("a host of a fleet needs a server")?;
    let [url, bucket, name] = server.split(' ').collect::<Vec<_>>()[..] else {
        anyhow::bail!("{server:?} is not a URL, a bucket and a name")
    };
    let count = Arc::new(ReconcileCounter::default());
    let far: Arc<dyn Store> = Arc::new(nats_store(url, bucket)?);
    let rule = Rule { pattern: "demo.homeostat.dev/*".parse()?, store: BUS.into(), view: View::Whole };
    let others = vec![StorePart { name: BUS.into(), store: far }];
    let home: Arc<dyn Store> = Arc::new(MemoryStore::new(homeostat_store::Options::default()));
    let stores = Stores::Routed(Arc::new(RoutedStore::new(home, others, Routes::new(vec![rule])?)?));
    let fleet = FleetOptions::new(Some(name), LEASE_LENGTH);
    let observer: Arc<dyn Observer> = Arc::new(CounterObserver(Arc::clone(&count)));
    let measured = BenchHost::over(Options { fleet, observer, ..Options::with_stores(engine()?, stores) }).await?;
    let workers = if guest == STATUS_GUEST { WRITING_WORKERS } else { WORKERS };
    let mut definition = measured.definition(CONTROLLER, guest, guests, workers).await?;
    let shards = Shards::new(SHARDS, ShardBy::Key).context("there are too many shards")?;
    definition.placement = PlacementSpec::Sharded(shards);
    let kind = definition.component.describe().manages.kind.clone();
    measured.host.put(definition).await?;
    // No part of the measured work.
    let mut keys: Vec<Key> = (0..contender.size.keys).map(|number| key(&kind, number)).collect();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        if line == FEED {
            measured.feed(CONTROLLER, std::mem::take(&mut keys))?;
        } else {
            print_state(&measured, &count)?;
        }
    }
    measured.host.shutdown(END_MAX).await;
    Ok(())
}

fn print_state(measured: &BenchHost, count: &ReconcileCounter) -> Result<()> {
    let status = measured.host.status(CONTROLLER).context("the controller is gone")?;
    let held = status.leases.iter().filter(|lease| lease.is_held).count();
    values::print(&named([
        ("held", held as f64),
        ("reconciled", count.ended.load(Ordering::Relaxed) as f64),
        ("failed", count.failed.load(Ordering::Relaxed) as f64),
        ("nanos", processor_nanos()? as f64),
    ]))
}

#[derive(Default)]
struct ReconcileCounter {
    ended: AtomicU64,
    failed: AtomicU64,
}

struct CounterObserver(Arc<ReconcileCounter>);

impl Observer for CounterObserver {
    fn controller(&self, _: &Arc<str>) -> Arc<dyn Recorder> {
        Arc::clone(&self.0) as Arc<dyn Recorder>
    }
}

impl Recorder for ReconcileCounter {
    fn record(&self, reconciled: &ReconcileRecord<'_>) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.failed.fetch_add(u64::from(reconciled.label.is_failure()), Ordering::Relaxed);
    }
}
