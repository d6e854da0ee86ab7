//! The loop of a whole host: keys in, sandboxed reconciles out.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use homeostat_runtime::Suspend;
use homeostat_store::{Key, Write};

use super::busy_neighbour;
use super::host::{BenchHost, CountingObserver, key};
use super::store::{WRITERS_MAX, together};
use crate::arguments::Size;
use crate::cluster::{TEXT_BYTES, resource};
use crate::measure::percentile_us;
use crate::values::{Values, named};

/// The controller that is measured.
const NAME: &str = "measured";
/// Keys before the measured ones.
const WARM_UP_KEYS: usize = 1000;

pub(crate) async fn run(work: &str, size: &Size, guests: &Path) -> Result<Values> {
    match work {
        "no-op" => no_op(size, guests).await,
        "status" => status(size, guests).await,
        "alone" => busy_neighbour::alone(size, guests).await,
        "beside ready" => busy_neighbour::ready(size, guests).await,
        "beside hog" => busy_neighbour::hog(size, guests).await,
        _ => bail!("the loop has no work {work}"),
    }
}

async fn no_op(size: &Size, guests: &Path) -> Result<Values> {
    let (took, mut waits) = no_op_run(size, guests).await?;
    let per_second = size.keys as f64 / took.as_secs_f64();
    Ok(named([("keys/s", per_second), ("p99 ms", percentile_us(&mut waits, 99) / 1e3)]))
}

/// Runs this many keys through the guest that does nothing. Returns the duration, and how long each key
/// waited.
pub(super) async fn no_op_run(size: &Size, guests: &Path) -> Result<(Duration, Vec<Duration>)> {
    let count = CountingObserver::default();
    let measured = BenchHost::start(Arc::new(count.clone())).await?;
    let kind = measured.add(measured.definition(NAME, "noop", guests, size.workers).await?).await?;
    let keys: Vec<Key> = (0..size.keys).map(|number| key(&kind, number)).collect();
    let warm_up = WARM_UP_KEYS.min(keys.len());
    measured.feed(NAME, keys[..warm_up].to_vec())?;
    count.until(warm_up).await;
    drop(count.take());
    let start = Instant::now();
    measured.feed(NAME, keys)?;
    count.until(size.keys).await;
    let took = start.elapsed();
    let counted = count.take();
    ensure!(counted.failures == 0, "{} reconciles failed", counted.failures);
    Ok((took, counted.waits))
}

/// Lets a guest write the status of every resource once. Each write is a change, so every key runs twice; the
/// second run has nothing to do.
async fn status(size: &Size, guests: &Path) -> Result<Values> {
    let count = CountingObserver::default();
    let measured = BenchHost::start(Arc::new(count.clone())).await?;
    status_over(&measured, &count, size, guests).await
}

/// The same over the store of this host.
pub(super) async fn status_over(
    measured: &BenchHost,
    count: &CountingObserver,
    size: &Size,
    guests: &Path,
) -> Result<Values> {
    let mut definition = measured.definition(NAME, "status", guests, size.workers).await?;
    let filler = |filler| {
        let (store, keys) = (Arc::clone(&measured.store), size.keys);
        async move {
            for number in (filler..keys).step_by(WRITERS_MAX) {
                store.write(Write::Create { document: resource(number, TEXT_BYTES) }).await?;
            }
            Ok(())
        }
    };
    together(WRITERS_MAX, filler).await?;
    definition.suspend = Suspend::Yes;
    measured.add(definition.clone()).await?;
    let start = Instant::now();
    definition.suspend = Suspend::No;
    measured.host.put(definition).await?;
    count.until(size.keys * 2).await;
    let took = start.elapsed();
    let failures = count.take().failures;
    ensure!(failures == 0, "{failures} reconciles failed");
    Ok(named([("keys/s", size.keys as f64 / took.as_secs_f64())]))
}
