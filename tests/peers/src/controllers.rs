//! Measures a controller in a cluster from outside, in the same way whatever it is written in.
//!
//! The controller is a process that obeys lines on its standard input ([`crate::commands`]). The driver changes the
//! resources, watches them, reads the counts of the server, and reads the memory of the process.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

use crate::cluster::MeasuredCluster;
use crate::measure::{peak_bytes_of, percentile_us, processor_nanos_of};
use crate::plan::{System, Work};
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
    let command = process::command(programs, system, work, Some(cluster.kubeconfig()?));
    let (progress, mut tasks) = (Progress::new(work.size.keys), JoinSet::new());
    cluster.follow(Arc::clone(&progress), &mut tasks).await?;
    let measured = tokio::time::timeout(work.timeout, measure(command, work, cluster, &progress));
    tokio::select! {
        measured = measured => measured.with_context(|| format!("it was ended after {:?}", work.timeout))?,
        failed = tasks.join_next() => match failed.context("nobody watches")? {
            Ok(Ok(())) => bail!("the watch of the driver ended"),
            Ok(Err(error)) => Err(error.context("the watch of the driver failed")),
            Err(error) => Err(error.into()),
        },
    }
}

async fn measure(command: Command, work: &Work, cluster: &MeasuredCluster, progress: &Progress) -> Result<Values> {
    let keys = work.size.keys;
    cluster.change_all(keys).await?;
    progress.until(keys).await;
    let mut controller = Controller::start(command)?;
    let empty = controller.resident_bytes().await?;
    let (requests, nanos) = (cluster.requests()?, controller.processor_nanos()?);
    let start = Instant::now();
    controller.say("start").await?;
    controller.unless_it_ends(progress.until(0)).await?;
    let took = start.elapsed();
    tokio::time::sleep(REST).await;
    let requests = cluster.requests()? - requests;
    let nanos = controller.processor_nanos()? - nanos;
    let peak = controller.peak_bytes()?;
    controller.say("memory").await?;
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

/// The process of a controller. It is killed when this is dropped.
struct Controller {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    said: ChildStderr,
}

impl Controller {
    fn start(mut command: Command) -> Result<Controller> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("the controller does not start")?;
        let (input, output, said) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (input, output) = (input.context("it has no input")?, output.context("it has no output")?);
        Ok(Controller { child, input, lines: BufReader::new(output).lines(), said: said.context("it has no errors")? })
    }

    async fn say(&mut self, line: &str) -> Result<()> {
        self.input.write_all(format!("{line}\n").as_bytes()).await.context("it does not read its input")
    }

    /// Returns the memory that the controller prints.
    async fn resident_bytes(&mut self) -> Result<f64> {
        let Some(line) = self.lines.next_line().await? else { return Err(self.failure().await) };
        let values: Values = serde_json::from_str(&line).with_context(|| format!("it printed {line:?}"))?;
        values.get("resident").copied().context("it did not print its memory")
    }

    /// Waits for the future, and fails when the process ends before.
    async fn unless_it_ends(&mut self, wait: impl Future<Output = ()>) -> Result<()> {
        tokio::select! {
            () = wait => Ok(()),
            _ = self.lines.next_line() => Err(self.failure().await),
        }
    }

    async fn failure(&mut self) -> anyhow::Error {
        let mut said = String::new();
        let read = tokio::time::timeout(END_MAX, self.said.read_to_string(&mut said)).await;
        drop(read);
        anyhow::anyhow!("it ended: {}", said.trim_end())
    }

    fn process(&self) -> Result<String> {
        Ok(self.child.id().context("it ended")?.to_string())
    }

    fn peak_bytes(&self) -> Result<u64> {
        peak_bytes_of(&self.process()?)
    }

    fn processor_nanos(&self) -> Result<u64> {
        processor_nanos_of(&self.process()?)
    }

    /// Closes the input, at which the controller ends.
    async fn end(self) -> Result<()> {
        let Controller { mut child, input, lines: _lines, said: _said } = self;
        drop(input);
        tokio::time::timeout(END_MAX, child.wait()).await.context("it does not end")??;
        Ok(())
    }
}
