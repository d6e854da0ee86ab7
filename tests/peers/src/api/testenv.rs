//! The starts of servers for the tests of operators: `homeostat testenv`, and kube-apiserver with etcd, as envtest starts
//! them.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use homeostat_servers::Flush;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::servers::MeasuredServer;

/// Returns how long each of some starts takes. A cluster takes seconds, and starts once.
///
/// # Errors
/// A server does not start.
pub(super) async fn starts(system: &str, program: &str, count: usize) -> Result<Vec<Duration>> {
    if system != "homeostat" {
        return Ok(vec![MeasuredServer::start(system, program, Flush::Never).await?.ready_after]);
    }
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        took.push(start(Path::new(program)).await?);
    }
    Ok(took)
}

/// Returns the time from the start of a process until it has printed its kubeconfig. The process ends afterwards.
async fn start(program: &Path) -> Result<Duration> {
    let mut command = Command::new(program);
    command.args(["testenv", "--stdin"]).env_clear().kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let begin = Instant::now();
    let mut child = command.spawn().context("the host does not start")?;
    let mut lines = BufReader::new(child.stdout.take().context("the host has no output")?).lines();
    let line = lines.next_line().await?.context("the host ended before it was ready")?;
    let took = begin.elapsed();
    ensure!(line.contains("current-context"), "the host does not begin with its kubeconfig");
    drop(child.stdin.take());
    let status = child.wait().await?;
    ensure!(status.success(), "the host ended with {status}");
    Ok(took)
}
