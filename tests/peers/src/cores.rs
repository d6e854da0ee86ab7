//! The gain from a second processor: a contender on two of them, beside the same one on one.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::arguments::{Contender, Size};
use crate::values::{Values, named};

/// The name of this work.
pub(crate) const TWO_CORES: &str = "two cores";

/// Runs the contender's empty reconciles in two processes, one after the other: bound to one processor, which
/// gives it one thread, and bound to two, with a worker for each. Returns the ratio of their throughputs.
pub(crate) async fn run(contender: &Contender, guests: &Path) -> Result<Values> {
    let one_us = bound("0", 1, contender, guests).await?;
    let two_us = bound("0,1", 2, contender, guests).await?;
    Ok(named([("x", one_us / two_us)]))
}

/// Returns the time per reconcile on these processors, in microseconds.
async fn bound(processors: &str, workers: usize, contender: &Contender, guests: &Path) -> Result<f64> {
    let Contender { system, suite, work: _, size: Size { keys, workers: _, millis }, server: _ } = contender;
    let this = std::env::current_exe().context("this program does not know where it is")?;
    let mut command = Command::new("taskset");
    command
        .args(["-c", processors])
        .arg(this)
        .args(["contender", system, suite.name(), "no-op"])
        .arg("--guests")
        .arg(guests);
    for (name, value) in
        [("--keys", keys.to_string()), ("--workers", workers.to_string()), ("--millis", millis.to_string())]
    {
        command.args([name, &value]);
    }
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.context("taskset, of util-linux, does not start")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "on processors {processors} it ended with {}: {}", output.status, said.trim_end());
    let values: Values = serde_json::from_slice(&output.stdout).context("it did not print figures")?;
    values.get("us").copied().context("it did not say how long a reconcile takes")
}
