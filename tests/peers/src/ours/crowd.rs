//! Ten thousand controllers with a hundred waiting keys each, and new events among them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use homeostat_component::Grants;
use homeostat_runtime::{Definition, Feeder, FeederError, Host, Intake, Options, Priority};
use homeostat_store::Store;
use homeostat_store::embedded::EmbeddedStore;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::host::{CountingObserver, everything, key};
use super::idle::{compile_apart, engine, mib, variant};
use crate::arguments::Size;
use crate::guests;
use crate::keys::shuffled;
use crate::measure::{percentile_us, resident_bytes};
use crate::plan::CROWD_KEYS_EACH;
use crate::values::{Values, named};

/// The delay of the waiting keys: longer than the work.
const DELAY: Duration = Duration::from_secs(3600);
/// The interval of new events.
const EVENT_EVERY: Duration = Duration::from_millis(1);
/// The pause in which idle threads and the like end.
const SETTLE: Duration = Duration::from_millis(500);

/// Starts the controllers, lets keys wait in their queues, and adds a further key to one of them after another.
pub(super) async fn run(size: &Size, guests: &Path) -> Result<Values> {
    compile_apart(1, guests).await?;
    let component = variant(&guests::read(guests, "noop")?, 0);
    let folder = tempfile::tempdir().context("no folder for the store can be created")?;
    let store: Arc<dyn Store> =
        Arc::new(EmbeddedStore::open(folder.path().join("store.redb"), homeostat_store::Options::default())?);
    let (engine, count) = (engine()?, CountingObserver::default());
    // The half of the room that is first come, first served is for all of them.
    let queue_keys_max = 4 * (size.keys * CROWD_KEYS_EACH) as u64;
    let options = Options { observer: Arc::new(count.clone()), queue_keys_max, ..Options::new(engine, store) };
    let start = Instant::now();
    let host = Host::start(options).await.context("the host does not start")?;
    let _api = homeostat_api::serve(homeostat_api::Options::default(), host.clone()).await?;
    let grants = Grants { resources: vec![everything()], ..Grants::default() };
    let names: Vec<String> = (0..size.keys).map(|number| format!("crowd-{number}")).collect();
    for name in &names {
        let component = host.load(component.clone()).await?;
        host.put(Definition { grants: grants.clone(), ..Definition::new(name, component) }).await?;
    }
    for name in &names {
        host.ready(name).await?;
    }
    let started = start.elapsed();
    tokio::time::sleep(SETTLE).await;
    let empty = resident_bytes()?;
    let (filled, mut intakes) = mpsc::channel(names.len());
    for name in &names {
        host.feed(name, Arc::new(WaitingKeys(filled.clone())))?;
    }
    let mut all = Vec::with_capacity(names.len());
    while all.len() < names.len() {
        all.push(intakes.recv().await.context("a feeder ended")?);
    }
    tokio::time::sleep(SETTLE).await;
    let full = resident_bytes()?;
    let mut waits = events(&all, &count, Duration::from_millis(size.millis)).await?;
    Ok(named([
        ("start s", started.as_secs_f64()),
        ("all mib", mib(full)),
        ("key bytes", full.saturating_sub(empty) as f64 / (names.len() * CROWD_KEYS_EACH) as f64),
        ("p50 us", percentile_us(&mut waits, 50)),
        ("p99 us", percentile_us(&mut waits, 99)),
    ]))
}

/// Adds a new key to one controller after another, and returns how long each waited for its reconcile.
async fn events(intakes: &[Intake], count: &CountingObserver, long: Duration) -> Result<Vec<Duration>> {
    drop(count.take());
    let mut ticks = tokio::time::interval(EVENT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (start, mut added) = (Instant::now(), 0);
    for number in shuffled(intakes.len()).take_while(|_| start.elapsed() < long) {
        ticks.tick().await;
        let intake = &intakes[number];
        intake.add(key(intake.manages(), CROWD_KEYS_EACH), Priority::NORMAL)?;
        added += 1;
    }
    count.until(added).await;
    let counted = count.take();
    ensure!(counted.failures == 0, "{} reconciles failed", counted.failures);
    Ok(counted.waits)
}

/// Lets keys wait in a queue, and hands out the way to it.
struct WaitingKeys(mpsc::Sender<Intake>);

impl Feeder for WaitingKeys {
    fn name(&self) -> &str {
        "waiting keys"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        for number in 0..CROWD_KEYS_EACH {
            while intake.add_after(key(intake.manages(), number), DELAY, Priority::NORMAL).is_err() {
                intake.wait_for_room().await;
            }
        }
        // The driver has gone if nobody receives it.
        let _gone = self.0.send(intake.clone()).await;
        std::future::pending().await
    }
}
