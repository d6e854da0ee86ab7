//! What one reconcile takes through the host, and through the sandbox alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use homeostat_component::layers::Nothing;
use homeostat_component::{Effects, Engine, EngineOptions, Grants, Limits};
use homeostat_store::Key;

use super::host::key;
use super::loops::no_op_run;
use crate::arguments::Size;
use crate::guests;
use crate::measure::{Laps, nanos_each};
use crate::values::{Values, named};

/// Calls between two looks at the clock.
const BATCH: usize = 100;

/// Through the host: queue, worker, grants, observer and all, with one worker.
pub(crate) async fn host(work: &str, size: &Size, guests: &Path) -> Result<Values> {
    ensure!(work == "no-op", "there is no tax on {work}");
    let (took, _) = no_op_run(size, guests).await?;
    Ok(named([("us", nanos_each(took, size.keys) / 1e3)]))
}

/// Through the sandbox with its limits and its meter, and nothing around it.
pub(crate) async fn sandbox(work: &str, size: &Size, guests: &Path) -> Result<Values> {
    ensure!(work == "no-op", "there is no tax on {work}");
    let engine = Engine::new(EngineOptions::default()).context("the engine does not start")?;
    let component = engine.load(guests::read(guests, "noop")?, &Grants::default()).await?;
    let keys: Vec<Key> = (0..BATCH).map(|number| key(&component.describe().manages.kind, number)).collect();
    let long = Duration::from_millis(size.millis);
    let calls = tokio::spawn(async move {
        let (name, limits): (Arc<str>, Limits) = ("measured".into(), Limits::default());
        let nothing: Arc<dyn Effects> = Arc::new(Nothing);
        let (mut laps, mut failed) = (Laps::start(long), 0_usize);
        while laps.another() {
            for key in &keys {
                let report = component.reconcile(&name, key, &limits, nothing.clone()).await;
                failed += usize::from(report.result.is_err());
            }
        }
        (laps.nanos_each(BATCH), failed)
    });
    let (nanos, failed) = calls.await.context("the calling task failed")?;
    ensure!(failed == 0, "{failed} calls failed");
    Ok(named([("us", nanos / 1e3)]))
}
