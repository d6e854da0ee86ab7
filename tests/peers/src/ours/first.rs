//! The time of a component's first call when its code is on disk only.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use homeostat_component::layers::EmptyWorld;
use homeostat_component::{CallSession, Component, Effects, Limits};

use super::host::key;
use super::idle::{all_rest, compile_apart, engine, variant};
use crate::arguments::Size;
use crate::guests;
use crate::measure::percentile_us;
use crate::values::{Values, named};

/// Loads different components that were compiled before and calls each; then calls them again after their
/// code was evicted.
pub(super) async fn run(size: &Size, guests: &Path) -> Result<Values> {
    compile_apart(size.keys, guests).await?;
    let (engine, guest) = (engine()?, guests::read(guests, "noop")?);
    let (mut components, mut cached) = (Vec::new(), Vec::new());
    for number in 0..size.keys {
        let bytes = variant(&guest, number);
        let start = Instant::now();
        let component = engine.load(bytes).await?;
        call(&component).await?;
        cached.push(start.elapsed());
        components.push(component);
    }
    tokio::select! {
        never = engine.evict_idle() => match never {},
        rested = all_rest(&engine) => rested?,
    }
    let (mut rested, mut again) = (Vec::new(), Vec::new());
    for component in &components {
        rested.push(call(component).await?);
        again.push(call(component).await?);
    }
    Ok(named([
        ("cached p50 us", percentile_us(&mut cached, 50)),
        ("cached p99 us", percentile_us(&mut cached, 99)),
        ("rest p50 us", percentile_us(&mut rested, 50)),
        ("rest p99 us", percentile_us(&mut rested, 99)),
        ("again p50 us", percentile_us(&mut again, 50)),
    ]))
}

/// Calls a component once, and returns the duration.
async fn call(component: &Component) -> Result<Duration> {
    let (mut caller, nothing): (CallSession, Arc<dyn Effects>) = (CallSession::new("measured"), Arc::new(EmptyWorld));
    let key = key(&component.describe().manages.kind, 0);
    let start = Instant::now();
    let report = component.reconcile(&mut caller, &key, &Limits::default(), nothing).await;
    let took = start.elapsed();
    match report.result {
        Ok(_) => Ok(took),
        Err(fault) => bail!("the call failed: {fault}"),
    }
}
