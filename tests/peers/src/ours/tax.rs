//! The time of one reconcile through the host, and through the sandbox alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use homeostat_component::layers::EmptyWorld;
use homeostat_component::{CallSession, Effects, Engine, EngineOptions, Limits};
use homeostat_store::Key;

use super::host::key;
use super::loops::no_op_run;
use crate::arguments::Size;
use crate::guests;
use crate::measure::{Laps, nanos_each};
use crate::values::{Values, named};

/// Calls between two readings of the clock.
const BATCH: usize = 100;

/// Through the whole host, with one worker: queue, worker, grants and observer.
pub(crate) async fn host(work: &str, size: &Size, guests: &Path) -> Result<Values> {
    ensure!(work == "no-op", "there is no tax on {work}");
    let (took, _) = no_op_run(size, guests).await?;
    Ok(named([("us", nanos_each(took, size.keys) / 1e3)]))
}

/// Through the sandbox alone, with its limits and its meter, in this many concurrent tasks.
pub(crate) async fn sandbox(work: &str, size: &Size, guests: &Path) -> Result<Values> {
    ensure!(work == "no-op", "there is no tax on {work}");
    let engine = Engine::new(EngineOptions::default()).context("the engine does not start")?;
    let component = engine.load(guests::read(guests, "noop")?).await?;
    let calls = |laps: Laps| {
        let component = component.clone();
        async move {
            let mut laps = laps;
            let keys: Vec<Key> = (0..BATCH).map(|number| key(&component.describe().manages.kind, number)).collect();
            let (mut caller, limits) = (CallSession::new("measured"), Limits::default());
            let (nothing, mut failed): (Arc<dyn Effects>, usize) = (Arc::new(EmptyWorld), 0);
            while laps.another() {
                for key in &keys {
                    let report = component.reconcile(&mut caller, key, &limits, nothing.clone()).await;
                    failed += usize::from(report.result.is_err());
                }
            }
            (laps.nanos_each(BATCH), failed)
        }
    };
    Ok(named([("us", at_once(size, calls).await? / 1e3)]))
}

/// Lets as many tasks as there are workers call concurrently, each in laps of its own. Returns the
/// nanoseconds per call over all tasks together. Each task has a thread of its own, and returns how long its
/// calls took and how many failed.
pub(crate) async fn at_once<F>(size: &Size, calls: impl Fn(Laps) -> F) -> Result<f64>
where
    F: Future<Output = (f64, usize)> + Send + 'static,
{
    let long = Duration::from_millis(size.millis);
    let tasks: Vec<_> = (0..size.workers).map(|_| tokio::spawn(calls(Laps::start(long)))).collect();
    let mut each_ns = 0.0;
    for task in tasks {
        let (nanos, failed) = task.await.context("a calling task failed")?;
        ensure!(failed == 0, "{failed} calls failed");
        each_ns += 1.0 / nanos;
    }
    Ok(1.0 / each_ns)
}
