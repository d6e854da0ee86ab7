//! The works of the queue, through its public API alone. Workers take one key after the other, as the host's
//! do.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use homeostat_workqueue::{Next, Priority, Queue};

use crate::arguments::Size;
use crate::keys::{Name, names, shuffled};
use crate::measure::{Due, Laps, nanos_each, processor_nanos, resident_bytes};
use crate::values::{Values, named};

mod shared;

/// Keys that a worker takes before it lets other tasks run.
const TURN: usize = 100;

pub(crate) async fn run(work: &str, size: &Size) -> Result<Values> {
    match work {
        "add+get+done" => add_get_done(size),
        "add only" => add_only(size),
        "add contended" => shared::add_contended(size).await,
        "waiting" => waiting(size).await,
        "producers" => shared::producers(size).await,
        "wake-up" => shared::wake_up(size).await,
        "idle" => idle(size).await,
        "depth" => depth(size),
        _ => bail!("the queue has no work {work}"),
    }
}

fn add_get_done(size: &Size) -> Result<Values> {
    let (queue, keys) = (Queue::default(), names(size.keys));
    let mut laps = Laps::start(Duration::from_millis(size.millis));
    while laps.another() {
        keys.iter().for_each(|key| add(&queue, key));
        let mut next = queue.try_claim();
        while let Some(claim) = next {
            next = claim.finish_and_claim(Next::Done).1;
        }
    }
    let nanos = laps.nanos_each(keys.len());
    ensure!(queue.is_empty(), "keys were left over");
    Ok(named([("ns", nanos)]))
}

fn add_only(size: &Size) -> Result<Values> {
    let (queue, keys) = (Queue::default(), names(size.keys));
    let mut laps = Laps::start(Duration::from_millis(size.millis));
    while laps.another() {
        keys.iter().for_each(|key| add(&queue, key));
    }
    Ok(named([("ns", laps.nanos_each(keys.len()))]))
}

/// Takes the first of this many ready keys, finishes it, and adds it at the end.
fn depth(size: &Size) -> Result<Values> {
    const BATCH: usize = 1000;
    let queue = Queue::default();
    names(size.keys).iter().for_each(|key| add(&queue, key));
    let mut held = queue.try_claim();
    let mut laps = Laps::start(Duration::from_millis(size.millis));
    while laps.another() {
        for _ in 0..BATCH {
            let Some(claim) = held else { bail!("the keys have run out") };
            let key = Name::clone(claim.key());
            held = claim.finish_and_claim(Next::Done).1;
            add(&queue, &key);
        }
    }
    let nanos = laps.nanos_each(BATCH);
    Ok(named([("ns", nanos)]))
}

/// Adds keys that are due within a tenth of a second, all at once and in pseudo-random order; then takes them
/// when they are due.
async fn waiting(size: &Size) -> Result<Values> {
    let empty = resident_bytes()?;
    let keys = names(size.keys);
    let full = resident_bytes()?;
    let first_due = Duration::from_millis(size.millis);
    let mut due = Due::new(first_due, keys.len());
    let queue = Queue::default();
    let (before, start, mut now) = (resident_bytes()?, Instant::now(), Duration::ZERO);
    for number in shuffled(keys.len()) {
        let key = Name::clone(&keys[number]);
        queue.add_after(key, due.of(number).saturating_sub(now), Priority::NORMAL)?;
        let after = start.elapsed();
        due.added_within(number, after - now);
        now = after;
    }
    let built = start.elapsed();
    let after = resident_bytes()?;
    ensure!(built < first_due, "adding took {built:?}: the first keys were due before the last was added");
    tokio::time::sleep(first_due.saturating_sub(start.elapsed())).await;
    let mut order = Vec::with_capacity(keys.len());
    while order.len() < keys.len() {
        let mut next = queue.claim().await;
        while let Some(claim) = next {
            order.push((start.elapsed(), Name::clone(claim.key())));
            next = claim.finish_and_claim(Next::Done).1;
        }
    }
    let fired = start.elapsed() - first_due;
    let out_of_order = due.out_of_order(&order)?;
    let each = |bytes: u64| bytes as f64 / keys.len() as f64;
    Ok(named([
        ("bytes", each(after.saturating_sub(before))),
        ("key bytes", each(full.saturating_sub(empty))),
        ("build ns", nanos_each(built, keys.len())),
        ("fire ns", nanos_each(fired, keys.len())),
        ("out of order", out_of_order as f64),
    ]))
}

/// The CPU time of queues whose workers sleep.
async fn idle(size: &Size) -> Result<Values> {
    let queues: Vec<Queue<Name>> = (0..size.keys).map(|_| Queue::default()).collect();
    for queue in &queues {
        let queue = queue.clone();
        tokio::spawn(async move { queue.claim().await.is_some() });
    }
    let long = Duration::from_millis(size.millis);
    tokio::time::sleep(long / 3).await;
    let (before, start) = (processor_nanos()?, Instant::now());
    tokio::time::sleep(long).await;
    let spent = processor_nanos()?.saturating_sub(before);
    Ok(named([("us/s", spent as f64 / 1e3 / start.elapsed().as_secs_f64())]))
}

fn add(queue: &Queue<Name>, key: &Name) {
    queue.add(Name::clone(key), Priority::NORMAL).expect("nobody closes the queue");
}
