//! The effect of one misbehaving controller on fifty well-behaved ones.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use homeostat_component::{AddressRange, BackoffSpec, EngineOptions, HttpGrant};
use homeostat_runtime::{
    Definition, Feeder, FeederError, Intake, Observer, Overrides, Priority, ReconcileRecord, Recorder,
};
use homeostat_store::{Key, Kind, Write};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;

use super::host::{BenchHost, key};
use super::idle::compiled;
use crate::arguments::Size;
use crate::keys;
use crate::measure::percentile_us;
use crate::ticker::{self, Ticks};
use crate::values::{Values, named};

/// Well-behaved controllers.
const GOOD: usize = 50;
/// The number of them that each event is for, in turn.
const AT_ONCE: usize = 5;
/// Events before the measured ones.
const WARM_UP: usize = 100;
/// Bound on the pending events of one controller: more than occur in a work.
const EVENTS_MAX: usize = 10_000;
/// The name prefix of misbehaving controllers.
const BAD: &str = "bad";
/// A failed key is retried so soon that there is always one to run.
const BACKOFF: Duration = Duration::from_millis(5);

pub(super) async fn alone(size: &Size, guests: &Path) -> Result<Values> {
    let times = Times::default();
    watch(&start(&times).await?, &times, size, guests).await
}

/// Beside one or several controllers whose guest performs `attack` on four workers.
pub(super) async fn beside(attack: &str, size: &Size, guests: &Path) -> Result<Values> {
    let times = Times::default();
    let measured = start(&times).await?;
    let cores = std::thread::available_parallelism().context("the processors cannot be counted")?.get();
    // Until the measurement ends, this listener accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
    match attack {
        "loop each" => hostile(&measured, "loop", cores, size, guests).await?,
        "loop ten" => hostile(&measured, "loop", 10 * cores, size, guests).await?,
        "stuck" => stuck(&measured, &silent, size, guests).await?,
        attack => hostile(&measured, attack, 1, size, guests).await?,
    }
    watch(&measured, &times, size, guests).await
}

/// Starts a host as after a restart: its guests are compiled already.
async fn start(times: &Times) -> Result<BenchHost> {
    let options = EngineOptions { compiled: Some(compiled()), ..EngineOptions::default() };
    BenchHost::with(options, Arc::new(times.clone())).await
}

async fn hostile(measured: &BenchHost, attack: &str, controllers: usize, size: &Size, guests: &Path) -> Result<()> {
    let definition = eager(measured.definition(BAD, "hostile", guests, size.workers).await?);
    for number in 0..controllers {
        let name = format!("{BAD}-{number}");
        let kind = measured.add(Definition { name: name.clone(), ..definition.clone() }).await?;
        let keys = (0..size.keys).map(|at| Key::new(kind.clone(), &format!("{name}-{at}"), attack));
        let keys: Vec<Key> = keys.collect();
        if attack == "write-flood" {
            for key in &keys {
                create(measured, key, json!({})).await?;
            }
        }
        measured.feed(&name, keys)?;
    }
    Ok(())
}

/// A controller whose guest waits for a server that never answers.
async fn stuck(measured: &BenchHost, silent: &TcpListener, size: &Size, guests: &Path) -> Result<()> {
    let url = format!("http://{}/", silent.local_addr().context("the port has no number")?);
    let http = HttpGrant {
        urls: vec![format!("{url}*")],
        methods: vec!["GET".to_owned()],
        addresses: vec![AddressRange::Loopback],
        headers: Default::default(),
    };
    let mut definition = measured.definition_with_http(BAD, "fetcher", guests, size.workers, vec![http]).await?;
    definition = eager(definition);
    let kind = measured.add(definition).await?;
    for number in 0..size.keys {
        create(measured, &key(&kind, number), json!({ "url": url })).await?;
    }
    Ok(())
}

fn eager(definition: Definition) -> Definition {
    let backoff = Some(BackoffSpec { base: BACKOFF, max: BACKOFF, retries_max: None });
    Definition { overrides: Overrides { backoff, ..definition.overrides.clone() }, ..definition }
}

async fn create(measured: &BenchHost, key: &Key, spec: serde_json::Value) -> Result<()> {
    let document = json!({
        "apiVersion": key.kind().api_version(), "kind": key.kind().name,
        "metadata": {"namespace": key.namespace(), "name": key.name()}, "spec": spec,
    });
    measured.store.write(Write::Create { document }).await?;
    Ok(())
}

async fn watch(measured: &BenchHost, times: &Times, size: &Size, guests: &Path) -> Result<Values> {
    let definition = measured.definition("good", "noop", guests, size.workers).await?;
    let mut queues = Vec::new();
    for number in 0..GOOD {
        let name = format!("good-{number}");
        let kind = measured.add(Definition { name: name.clone(), ..definition.clone() }).await?;
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        measured.host.feed(&name, Arc::new(Events { kind, numbers: tokio::sync::Mutex::new(receiver) }))?;
        queues.push(sender);
    }
    let happening = tokio::spawn(happen(times.clone(), queues));
    times.until(WARM_UP).await;
    tokio::time::sleep(Duration::from_millis(size.millis)).await;
    times.until(WARM_UP + 1).await;
    happening.abort();
    let now = ticker::now()?;
    // An event whose reconcile has not ended yet counts until now.
    let took = |event: &Event| event.ended.unwrap_or(now).saturating_sub(event.happened);
    let mut took: Vec<Duration> = times.0.lock().iter().skip(WARM_UP).map(took).map(Duration::from_nanos).collect();
    Ok(named([("p50 us", percentile_us(&mut took, 50)), ("p99 us", percentile_us(&mut took, 99))]))
}

/// Hands each event from outside to the next controllers in turn.
async fn happen(times: Times, queues: Vec<mpsc::Sender<usize>>) -> Result<()> {
    let mut ticks = Ticks::start()?;
    loop {
        let happened = ticks.next().await?;
        for _ in 0..AT_ONCE {
            let number = times.note(happened);
            queues[number % queues.len()].send(number).await.context("the controller has ended")?;
        }
    }
}

/// The time of an event, and that of the end of its reconcile, in nanoseconds since 1970.
struct Event {
    happened: u64,
    ended: Option<u64>,
}

/// All events in order: the number of an event is that of its key.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<Vec<Event>>>);

impl Times {
    /// Records an event, and returns its number.
    fn note(&self, happened: u64) -> usize {
        let mut events = self.0.lock();
        events.push(Event { happened, ended: None });
        events.len() - 1
    }

    /// Waits until this many events have happened.
    async fn until(&self, events: usize) {
        while self.0.lock().len() < events {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Observer for Times {
    fn controller(&self, name: &Arc<str>) -> Arc<dyn Recorder> {
        if name.starts_with(BAD) { Arc::new(NoopRecorder) } else { Arc::new(self.clone()) }
    }
}

impl Recorder for Times {
    fn record(&self, reconciled: &ReconcileRecord<'_>) {
        let (Ok(now), Some(number)) = (ticker::now(), keys::number(reconciled.key.name())) else { return };
        if let Some(event) = self.0.lock().get_mut(number) {
            event.ended = Some(now);
        }
    }
}

/// Ignores misbehaving controllers.
struct NoopRecorder;

impl Recorder for NoopRecorder {
    fn record(&self, _: &ReconcileRecord<'_>) {}
}

/// Adds a key for each event of one controller.
struct Events {
    kind: Kind,
    numbers: tokio::sync::Mutex<mpsc::Receiver<usize>>,
}

impl Feeder for Events {
    fn name(&self) -> &str {
        "events"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        let mut numbers = self.numbers.lock().await;
        while let Some(number) = numbers.recv().await {
            intake.add(key(&self.kind, number), Priority::NORMAL).map_err(|error| FeederError(error.to_string()))?;
        }
        Ok(())
    }
}
