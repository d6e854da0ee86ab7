//! Measures a controller in a cluster from outside, in the same way whatever it is written in.
//!
//! Ours runs in the host's own program ([`host`]). A peer obeys lines on its standard input ([`commanded`]). The driver changes the resources, watches them, reads the counts of the server, and reads the memory
//! of the process.

mod commanded;
mod host;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::task::JoinSet;

use self::commanded::CommandedController;
use self::host::HostController;
use crate::cluster::MeasuredCluster;
use crate::measure::{peak_bytes_of, percentile_us, processor_nanos_of, resident_bytes_of};
use crate::plan::{OURS, System, Work};
use crate::process::{self, Programs};
use crate::progress::Progress;
use crate::values::{Values, named};

/// How long the controller has nothing to do before its requests are counted and its memory is read.
const REST: Duration = Duration::from_secs(1);
/// How long a controller may take to end.
const END_MAX: Duration = Duration::from_secs(10);

/// Runs `system` on `work` once, and returns its figures.
///
/// *Cancel safety*: the process is killed when the future is dropped.
///
/// # Errors
/// The process does not start, ends, or exceeds the work's timeout; or the cluster does not answer.
pub(crate) async fn run(
    programs: &Programs,
    system: &System,
    work: &Work,
    cluster: &MeasuredCluster,
) -> Result<Values> {
    let (progress, mut tasks) = (Progress::new(work.size.keys), JoinSet::new());
    cluster.follow(Arc::clone(&progress), &mut tasks).await?;
    let measured = tokio::time::timeout(work.timeout, measure(programs, system, work, cluster, &progress));
    tokio::select! {
        measured = measured => measured.with_context(|| format!("it was ended after {:?}", work.timeout))?,
        failed = tasks.join_next() => match failed.context("nobody watches")? {
            Ok(Ok(())) => bail!("the watch of the driver ended"),
            Ok(Err(error)) => Err(error.context("the watch of the driver failed")),
            Err(error) => Err(error.into()),
        },
    }
}

async fn measure(
    programs: &Programs,
    system: &System,
    work: &Work,
    cluster: &MeasuredCluster,
    progress: &Progress,
) -> Result<Values> {
    let keys = work.size.keys;
    cluster.change_all(keys).await?;
    progress.until(keys).await;
    let (mut controller, empty) = Controller::prepare(programs, system, work, cluster).await?;
    let (requests, nanos) = (cluster.requests()?, controller.processor_nanos()?);
    let start = Instant::now();
    controller.start().await?;
    controller.unless_it_ends(progress.until(0)).await?;
    let took = start.elapsed();
    tokio::time::sleep(REST).await;
    let requests = cluster.requests()? - requests;
    let nanos = controller.processor_nanos()? - nanos;
    let peak = controller.peak_bytes()?;
    let full = controller.resident_bytes().await?;
    drop(progress.take_waits());
    let changed = cluster.change_some(keys, Duration::from_millis(work.size.millis)).await?;
    // The last change may not have reached the watch.
    tokio::time::sleep(REST).await;
    controller.unless_it_ends(progress.until(0)).await?;
    let mut waits = progress.take_waits();
    ensure!(waits.len() == changed, "{changed} changes gave {} statuses", waits.len());
    controller.end().await?;
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    Ok(named([
        ("keys/s", keys as f64 / took.as_secs_f64()),
        ("requests", requests / keys as f64),
        ("cpu us", nanos as f64 / 1e3 / keys as f64),
        ("p50 ms", percentile_us(&mut waits, 50) / 1e3),
        ("p99 ms", percentile_us(&mut waits, 99) / 1e3),
        ("mib", mib(full)),
        ("peak mib", mib(peak as f64)),
        ("bytes", (full - empty) / keys as f64),
    ]))
}

/// A running process with a controller. It is killed when this is dropped.
enum Controller {
    Host(Box<HostController>),
    Commanded(Box<CommandedController>),
}

impl Controller {
    /// Starts the process of `system`, whose controller does nothing yet, and returns its resident memory, too.
    async fn prepare(
        programs: &Programs,
        system: &System,
        work: &Work,
        cluster: &MeasuredCluster,
    ) -> Result<(Controller, f64)> {
        let kubeconfig = cluster.kubeconfig()?;
        if *system == OURS {
            let host = HostController::prepare(programs, work, kubeconfig).await?;
            let mut controller = Controller::Host(Box::new(host));
            let bytes = controller.resident_bytes().await?;
            return Ok((controller, bytes));
        }
        let command = process::command(programs, system, work, Some(kubeconfig));
        let (commanded, bytes) = CommandedController::prepare(command).await?;
        Ok((Controller::Commanded(Box::new(commanded)), bytes))
    }

    /// Starts the controller in the process.
    async fn start(&mut self) -> Result<()> {
        match self {
            Controller::Host(host) => host.start(),
            Controller::Commanded(commanded) => commanded.start().await,
        }
    }

    /// Returns the resident memory of the process.
    async fn resident_bytes(&mut self) -> Result<f64> {
        match self {
            Controller::Host(host) => Ok(resident_bytes_of(&host.process().id()?)? as f64),
            Controller::Commanded(commanded) => commanded.resident_bytes().await,
        }
    }

    /// Waits for the future, and fails when the process ends before.
    async fn unless_it_ends(&mut self, wait: impl Future<Output = ()>) -> Result<()> {
        tokio::select! {
            () = wait => Ok(()),
            error = self.failure() => Err(error),
        }
    }

    /// Returns why the process ended, once it has.
    async fn failure(&mut self) -> anyhow::Error {
        match self {
            Controller::Host(host) => host.failure().await,
            Controller::Commanded(commanded) => commanded.failure().await,
        }
    }

    fn peak_bytes(&self) -> Result<u64> {
        peak_bytes_of(&self.process()?)
    }

    fn processor_nanos(&self) -> Result<u64> {
        processor_nanos_of(&self.process()?)
    }

    fn process(&self) -> Result<String> {
        match self {
            Controller::Host(host) => host.process().id(),
            Controller::Commanded(commanded) => commanded.process(),
        }
    }

    /// Asks the process to end, and waits for that.
    async fn end(self) -> Result<()> {
        let ended = async {
            match self {
                Controller::Host(host) => host.end().await,
                Controller::Commanded(commanded) => commanded.end().await,
            }
        };
        tokio::time::timeout(END_MAX, ended).await.context("it does not end")?
    }
}
