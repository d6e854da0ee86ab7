//! The Kubernetes API of a host, and of kube-apiserver with etcd, as one client with TLS and a token uses it.
//!
//! The resources are `ConfigMap`s of 1 KiB. Both systems are programs of their own, with their default settings; the
//! client is this process, so that its costs are the same.

mod clients;
mod servers;
mod testenv;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use homeostat_servers::Flush;

use self::clients::Clients;
use self::servers::MeasuredServer;
use crate::arguments::{Contender, Size};
use crate::measure::percentile_us;
use crate::ours::store::WRITERS_MAX;
use crate::plan::{READS, TESTENV, WRITES};
use crate::values::{Values, named};

/// How long a server has nothing to do before its memory is read.
const REST: Duration = Duration::from_secs(1);
/// Lists of each length; the figure is the median.
const LISTS: usize = 3;
/// Writes whose events are measured.
const EVENTS: usize = 200;

/// Does one work of the suite. The contender's server is the host's program.
///
/// # Errors
/// There is no such work, a server does not start, or it refuses a request.
pub(crate) async fn run(contender: &Contender) -> Result<Values> {
    let Contender { system, suite: _, work, size, server } = contender;
    let program = server.as_deref().context("the work needs the host's program")?;
    match work.as_str() {
        WRITES => writes(MeasuredServer::start(system, program, Flush::Always).await?, size).await,
        READS => reads(MeasuredServer::start(system, program, Flush::Never).await?, size).await,
        TESTENV => {
            let mut took = testenv::starts(system, program, size.keys).await?;
            Ok(named([("ready ms", percentile_us(&mut took, 50) / 1e3)]))
        }
        _ => bail!("the API has no work {work}"),
    }
}

async fn writes(server: MeasuredServer, size: &Size) -> Result<Values> {
    let Size { keys, workers, millis } = *size;
    tokio::time::sleep(REST).await;
    let idle = server.resident_mib()?;
    let clients = Arc::new(Clients::open(&server.endpoint, workers).await?);
    let start = Instant::now();
    let mut creates = clients.create(0..keys).await?;
    let took = start.elapsed();
    let long = Duration::from_millis(millis);
    let mut updates = clients.update(keys, long).await?;
    tokio::time::sleep(REST).await;
    Ok(named([
        ("ready ms", server.ready_after.as_secs_f64() * 1e3),
        ("idle mib", idle),
        ("creates/s", keys as f64 / took.as_secs_f64()),
        ("create p50 ms", percentile_us(&mut creates, 50) / 1e3),
        ("create p99 ms", percentile_us(&mut creates, 99) / 1e3),
        ("updates/s", updates.len() as f64 / long.as_secs_f64()),
        ("update p50 ms", percentile_us(&mut updates, 50) / 1e3),
        ("update p99 ms", percentile_us(&mut updates, 99) / 1e3),
        ("mib", server.resident_mib()?),
    ]))
}

/// Lists a tenth of the resources and then all of them. Then changes reach many watchers.
async fn reads(server: MeasuredServer, size: &Size) -> Result<Values> {
    let (keys, few) = (size.keys, size.keys / 10);
    let clients = Arc::new(Clients::open(&server.endpoint, WRITERS_MAX).await?);
    clients.create(0..few).await?;
    let mut short = lists(&clients, few).await?;
    clients.create(few..keys).await?;
    let mut long = lists(&clients, keys).await?;
    let resident = server.resident_mib()?;
    let mut reached = clients.reach(size.workers, EVENTS.min(keys)).await?;
    Ok(named([
        ("list ms", percentile_us(&mut short, 50) / 1e3),
        ("long list ms", percentile_us(&mut long, 50) / 1e3),
        ("mib", resident),
        ("watch p50 ms", percentile_us(&mut reached, 50) / 1e3),
        ("watch p99 ms", percentile_us(&mut reached, 99) / 1e3),
    ]))
}

/// Returns how long each of some lists takes. They keep nothing.
async fn lists(clients: &Clients, count: usize) -> Result<Vec<Duration>> {
    let mut took = Vec::with_capacity(LISTS);
    for _ in 0..LISTS {
        took.push(clients.list(count).await?);
    }
    Ok(took)
}
