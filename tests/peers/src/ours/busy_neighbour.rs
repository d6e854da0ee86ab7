//! How long the keys of one controller wait while another one is busy.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use homeostat_runtime::{Feeder, FeederError, Intake, Observer, Priority, ReconcileRecord, Recorder};
use homeostat_store::{Key, Kind};
use parking_lot::Mutex;

use super::host::{BenchHost, key};
use crate::arguments::Size;
use crate::keys;
use crate::measure::percentile_us;
use crate::ticker::{self, Ticks};
use crate::values::{Values, named};

const WATCHED: &str = "watched";
const BUSY: &str = "busy";
/// How often the busy controller gets all of its keys again, before they run out.
const REFILL_EVERY: Duration = Duration::from_millis(100);
/// Keys of the guest that computes until its limit: more than can be in backoff at once.
const HOG_KEYS: usize = 1000;
/// Events before the measured ones.
const WARM_UP: usize = 20;

pub(super) async fn alone(size: &Size, guests: &Path) -> Result<Values> {
    let times = Times::default();
    watch(&BenchHost::start(Arc::new(times.clone())).await?, &times, size, guests).await
}

/// Beside a controller that always has this many ready keys.
pub(super) async fn ready(size: &Size, guests: &Path) -> Result<Values> {
    let times = Times::default();
    let measured = BenchHost::start(Arc::new(times.clone())).await?;
    let kind = measured.add(measured.definition(BUSY, "noop", guests, size.workers).await?).await?;
    let keys = (0..size.keys).map(|number| key(&kind, number)).collect();
    measured.host.feed(BUSY, Arc::new(Refill(keys)))?;
    watch(&measured, &times, size, guests).await
}

/// Beside a controller whose guest only computes, on all of its workers, until it is stopped.
pub(super) async fn hog(size: &Size, guests: &Path) -> Result<Values> {
    let times = Times::default();
    let measured = BenchHost::start(Arc::new(times.clone())).await?;
    let kind = measured.add(measured.definition(BUSY, "hostile", guests, size.workers).await?).await?;
    let keys = (0..HOG_KEYS).map(|number| Key::new(kind.clone(), &format!("ns-{number}"), "loop")).collect();
    measured.feed(BUSY, keys)?;
    watch(&measured, &times, size, guests).await
}

async fn watch(measured: &BenchHost, times: &Times, size: &Size, guests: &Path) -> Result<Values> {
    let kind = measured.add(measured.definition(WATCHED, "noop", guests, size.workers).await?).await?;
    measured.host.feed(WATCHED, Arc::new(Events { kind, times: times.clone() }))?;
    times.until(WARM_UP).await;
    tokio::time::sleep(Duration::from_millis(size.millis)).await;
    times.until(WARM_UP + 1).await;
    let now = ticker::now()?;
    // An event whose reconcile has not begun yet counts until now.
    let waited = |event: &Event| event.begun.unwrap_or(now).saturating_sub(event.happened);
    let mut waits: Vec<Duration> = times.0.lock().iter().skip(WARM_UP).map(waited).map(Duration::from_nanos).collect();
    Ok(named([("p50 us", percentile_us(&mut waits, 50)), ("p99 us", percentile_us(&mut waits, 99))]))
}

/// The time of an event, and that of the start of its key's reconcile, in nanoseconds since 1970.
struct Event {
    happened: u64,
    begun: Option<u64>,
}

/// All events in order: the number of an event is that of its key.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<Vec<Event>>>);

impl Times {
    /// Waits until this many events have happened.
    async fn until(&self, events: usize) {
        while self.0.lock().len() < events {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Observer for Times {
    fn controller(&self, name: &Arc<str>) -> Arc<dyn Recorder> {
        if **name == *WATCHED { Arc::new(self.clone()) } else { Arc::new(NoopRecorder) }
    }
}

impl Recorder for Times {
    fn record(&self, reconciled: &ReconcileRecord<'_>) {
        let (Ok(now), Some(number)) = (ticker::now(), keys::number(reconciled.key.name())) else { return };
        if let Some(event) = self.0.lock().get_mut(number) {
            event.begun = Some(now.saturating_sub(reconciled.cost.wall.as_nanos() as u64));
        }
    }
}

/// Ignores the busy controller.
struct NoopRecorder;

impl Recorder for NoopRecorder {
    fn record(&self, _: &ReconcileRecord<'_>) {}
}

/// Adds all of its keys repeatedly.
struct Refill(Vec<Key>);

impl Feeder for Refill {
    fn name(&self) -> &str {
        "refill"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        loop {
            for some in self.0.chunks(100) {
                for key in some {
                    intake.add(key.clone(), Priority::NORMAL).map_err(|error| FeederError(error.to_string()))?;
                }
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(REFILL_EVERY).await;
        }
    }
}

/// Adds a key for each event.
struct Events {
    kind: Kind,
    times: Times,
}

impl Feeder for Events {
    fn name(&self) -> &str {
        "events"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        let failed = |error: anyhow::Error| FeederError(format!("{error:#}"));
        let mut ticks = Ticks::start().map_err(failed)?;
        loop {
            let happened = ticks.next().await.map_err(failed)?;
            let mut times = self.times.0.lock();
            let number = times.len();
            times.push(Event { happened, begun: None });
            drop(times);
            intake.add(key(&self.kind, number), Priority::NORMAL).map_err(|error| FeederError(error.to_string()))?;
        }
    }
}
