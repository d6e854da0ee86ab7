//! The works in which many tasks use one queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use homeostat_workqueue::{Next, Queue};
use tokio::sync::{Notify, mpsc};

use super::{TURN, add};
use crate::arguments::Size;
use crate::keys::{Name, names};
use crate::measure::{Laps, percentile_us};
use crate::values::{Values, named};

/// Tasks that add keys concurrently.
const PRODUCERS: usize = 50;
/// A worker adds one of this many held keys again.
const AGAIN_EVERY: usize = 10;
/// Keys that are added repeatedly beside workers.
const ADDED_KEYS: usize = 1000;
/// The pause before a worker is woken, so that it sleeps.
const REST: Duration = Duration::from_millis(1);

/// Adds a thousand keys repeatedly, while a thousand workers take keys, hold each for a millisecond, and
/// finish them.
pub(super) async fn add_contended(size: &Size) -> Result<Values> {
    let (queue, keys) = (Queue::default(), names(size.keys));
    keys.iter().for_each(|key| add(&queue, key));
    for _ in 0..size.workers {
        let queue = queue.clone();
        tokio::spawn(async move {
            while let Some(claim) = queue.claim().await {
                tokio::time::sleep(REST).await;
                claim.finish(Next::Done);
            }
        });
    }
    let long = Duration::from_millis(size.millis);
    let adding = tokio::spawn(async move {
        let added = &keys[..ADDED_KEYS.min(keys.len())];
        let mut laps = Laps::start(long);
        while laps.another() {
            added.iter().for_each(|key| add(&queue, key));
            tokio::task::yield_now().await;
        }
        laps.nanos_each(added.len())
    });
    let nanos = adding.await.context("the adding task failed")?;
    Ok(named([("ns", nanos)]))
}

/// Lets producers add their own keys and workers take them; every tenth key is added again while it is held.
pub(super) async fn producers(size: &Size) -> Result<Values> {
    let queue = Queue::<Name>::default();
    let keys: Vec<Vec<Name>> = names(size.keys).chunks(size.keys.div_ceil(PRODUCERS)).map(<[Name]>::to_vec).collect();
    let left = Arc::new(AtomicUsize::new(size.keys));
    let (runs, all_done) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
    let start = Instant::now();
    for _ in 0..size.workers {
        tokio::spawn(work(queue.clone(), left.clone(), runs.clone(), all_done.clone()));
    }
    for keys in keys {
        let queue = queue.clone();
        tokio::spawn(async move {
            for some in keys.chunks(TURN) {
                some.iter().for_each(|key| add(&queue, key));
                tokio::task::yield_now().await;
            }
        });
    }
    all_done.notified().await;
    let took = start.elapsed();
    Ok(named([("keys/s", runs.load(Ordering::Relaxed) as f64 / took.as_secs_f64())]))
}

async fn work(queue: Queue<Name>, left: Arc<AtomicUsize>, runs: Arc<AtomicUsize>, all_done: Arc<Notify>) {
    let mut taken = 0_usize;
    while let Some(first) = queue.claim().await {
        let mut next = Some(first);
        while let Some(claim) = next {
            taken += 1;
            if taken.is_multiple_of(AGAIN_EVERY) {
                left.fetch_add(1, Ordering::Relaxed);
                add(&queue, claim.key());
            }
            next = claim.finish_and_claim(Next::Done).1;
            runs.fetch_add(1, Ordering::Relaxed);
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                all_done.notify_one();
            }
            if taken.is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Adds a key to a queue whose worker sleeps, and measures the time until the worker has it.
pub(super) async fn wake_up(size: &Size) -> Result<Values> {
    let (queue, key) = (Queue::<Name>::default(), crate::keys::name(127));
    let (taken, mut took) = mpsc::channel(1);
    let worker = queue.clone();
    tokio::spawn(async move {
        while let Some(claim) = worker.claim().await {
            let now = Instant::now();
            claim.finish(Next::Done);
            if taken.send(now).await.is_err() {
                return;
            }
        }
    });
    let count = size.keys;
    let adding = tokio::spawn(async move {
        let mut waits = Vec::with_capacity(count);
        for _ in 0..count {
            tokio::time::sleep(REST).await;
            let start = Instant::now();
            add(&queue, &key);
            let Some(now) = took.recv().await else { break };
            waits.push(now.duration_since(start));
        }
        waits
    });
    let mut waits = adding.await.context("the adding task failed")?;
    anyhow::ensure!(waits.len() == count, "the worker ended");
    Ok(named([("p50 us", percentile_us(&mut waits, 50)), ("p99 us", percentile_us(&mut waits, 99))]))
}
