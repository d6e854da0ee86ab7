//! kube-rs's scheduler as a queue.
//!
//! It is a stream over a stream of requests. Here the requests come from memory, without a channel. Running
//! keys are kept beside it, as in kube-rs's own runner. Only one task can use it, so there are no figures for
//! works with many.

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use futures_util::{Stream, StreamExt};
use kube_runtime::scheduler::{ScheduleRequest, Scheduler, scheduler};

use crate::arguments::Size;
use crate::keys::{Name, names, shuffled};
use crate::measure::{Due, Laps, nanos_each, resident_bytes};
use crate::values::{Values, named};

pub(crate) async fn run(work: &str, size: &Size) -> Result<Values> {
    match work {
        "add+get+done" => add_get_done(size).await,
        "add only" => add_only(size),
        "waiting" => waiting(size).await,
        "depth" => depth(size).await,
        _ => bail!("kube-rs's scheduler has no work {work}"),
    }
}

/// Pending requests, shared by the producer and the scheduler, which reads them as an endless stream.
#[derive(Clone, Default)]
struct Requests(Rc<RefCell<VecDeque<ScheduleRequest<Name>>>>);

impl Stream for Requests {
    type Item = ScheduleRequest<Name>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.borrow_mut().pop_front().map_or(Poll::Pending, |request| Poll::Ready(Some(request)))
    }
}

/// The scheduler with its requests and running keys.
struct Queue {
    requests: Requests,
    scheduler: Pin<Box<Scheduler<Name, Requests>>>,
    running: HashSet<Name>,
}

impl Queue {
    fn new() -> Queue {
        let requests = Requests::default();
        let scheduler = Box::pin(scheduler(requests.clone()));
        Queue { requests, scheduler, running: HashSet::new() }
    }

    fn add(&self, key: &Name, run_at: tokio::time::Instant) {
        self.requests.0.borrow_mut().push_back(ScheduleRequest { message: Name::clone(key), run_at });
    }

    /// Lets the scheduler read the pending requests without handing out a key.
    fn take_in(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let polled = self.scheduler.as_mut().hold().poll_next_unpin(&mut context);
        debug_assert!(polled.is_pending(), "it holds everything");
    }

    async fn get(&mut self) -> Option<Name> {
        let running = &self.running;
        let key = self.scheduler.as_mut().hold_unless(|key| !running.contains(key)).next().await?;
        self.running.insert(Name::clone(&key));
        Some(key)
    }

    fn done(&mut self, key: &Name) {
        self.running.remove(key);
    }
}

async fn add_get_done(size: &Size) -> Result<Values> {
    let (mut queue, keys) = (Queue::new(), names(size.keys));
    let mut laps = Laps::start(Duration::from_millis(size.millis));
    while laps.another() {
        keys.iter().for_each(|key| queue.add(key, tokio::time::Instant::now()));
        for _ in 0..keys.len() {
            if let Some(key) = queue.get().await {
                queue.done(&key);
            }
        }
    }
    Ok(named([("ns", laps.nanos_each(keys.len()))]))
}

fn add_only(size: &Size) -> Result<Values> {
    let (mut queue, keys) = (Queue::new(), names(size.keys));
    let mut laps = Laps::start(Duration::from_millis(size.millis));
    while laps.another() {
        keys.iter().for_each(|key| queue.add(key, tokio::time::Instant::now()));
        queue.take_in();
    }
    Ok(named([("ns", laps.nanos_each(keys.len()))]))
}

async fn depth(size: &Size) -> Result<Values> {
    const BATCH: usize = 100;
    let mut queue = Queue::new();
    names(size.keys).iter().for_each(|key| queue.add(key, tokio::time::Instant::now()));
    let mut laps = Laps::start(Duration::from_millis(size.millis));
    while laps.another() {
        for _ in 0..BATCH {
            if let Some(key) = queue.get().await {
                queue.done(&key);
                queue.add(&key, tokio::time::Instant::now());
            }
        }
    }
    Ok(named([("ns", laps.nanos_each(BATCH))]))
}

async fn waiting(size: &Size) -> Result<Values> {
    let empty = resident_bytes()?;
    let keys = names(size.keys);
    let full = resident_bytes()?;
    let first_due = Duration::from_millis(size.millis);
    let due = Due::new(first_due, keys.len());
    let mut queue = Queue::new();
    let (before, start) = (resident_bytes()?, Instant::now());
    for number in shuffled(keys.len()) {
        queue.add(&keys[number], tokio::time::Instant::from_std(start + due.of(number)));
        // One by one: pending requests would count as the scheduler's memory.
        queue.take_in();
    }
    let built = start.elapsed();
    let after = resident_bytes()?;
    ensure!(built < first_due, "adding took {built:?}: the first keys were due before the last was added");
    tokio::time::sleep(first_due.saturating_sub(start.elapsed())).await;
    let mut order = Vec::with_capacity(keys.len());
    while order.len() < keys.len() {
        let Some(key) = queue.get().await else { bail!("the scheduler ended") };
        order.push((start.elapsed(), Name::clone(&key)));
        queue.done(&key);
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
