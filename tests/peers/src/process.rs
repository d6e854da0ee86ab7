//! Runs a contender in a process of its own, with a time limit.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::plan::{Program, System, Work};
use crate::values::Values;

/// The paths of the programs and of their inputs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// This binary.
    pub(crate) this: PathBuf,
    /// The kube-rs program.
    pub(crate) kube: PathBuf,
    /// The Go program.
    pub(crate) go: PathBuf,
    /// The host's own program.
    pub(crate) host: PathBuf,
    /// The folder of the guests' components.
    pub(crate) guests: PathBuf,
    /// The folder for the contenders' data on disk.
    pub(crate) disk: PathBuf,
}

impl Programs {
    /// Returns the path of the host's own program.
    ///
    /// # Errors
    /// It is no text.
    pub(crate) fn host(&self) -> Result<&str> {
        self.host.to_str().context("the path of the host is no text")
    }
}

/// Runs `system` on `work` once, and returns its figures.
///
/// *Cancel safety*: the process is killed when the future is dropped.
///
/// # Errors
/// It does not start, fails, exceeds the work's timeout (it is killed), or prints something other than
/// figures.
pub(crate) async fn run(programs: &Programs, system: &System, work: &Work, server: Option<&str>) -> Result<Values> {
    figures(command(programs, system, work, server), work.timeout).await
}

/// Returns the command that runs `system` on `work`. The process is killed when it is dropped.
pub(crate) fn command(programs: &Programs, system: &System, work: &Work, server: Option<&str>) -> Command {
    let program = match system.program {
        Program::This => &programs.this,
        Program::Kube => &programs.kube,
        Program::Go => &programs.go,
    };
    let mut command = Command::new(program);
    // The default folder of temporary files is in memory on many machines.
    command.args(arguments(&programs.guests, system, work)).env("TMPDIR", &programs.disk).kill_on_drop(true);
    if let Some(server) = server {
        command.args(["--server", server]);
    }
    command
}

async fn figures(mut command: Command, timeout: Duration) -> Result<Values> {
    let program = command.as_std().get_program().to_owned();
    command.stdin(Stdio::null());
    let output = tokio::time::timeout(timeout, command.output()).await;
    let output = output.with_context(|| format!("it was ended after {timeout:?}"))?;
    let output = output.with_context(|| format!("{} does not start", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it ended with {}: {}", output.status, said.trim_end());
    serde_json::from_slice(&output.stdout).context("it did not print figures")
}

fn arguments(guests: &Path, system: &System, work: &Work) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        ["contender", system.name, work.suite.name(), work.name].map(OsString::from).into();
    for (name, value) in [
        ("--keys", work.size.keys.to_string()),
        ("--workers", work.size.workers.to_string()),
        ("--millis", work.size.millis.to_string()),
    ] {
        arguments.extend([OsString::from(name), value.into()]);
    }
    if system.program == Program::This && !guests.as_os_str().is_empty() {
        arguments.extend([OsString::from("--guests"), guests.into()]);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).kill_on_drop(true);
        command
    }

    #[tokio::test]
    async fn figures_are_what_a_contender_prints() {
        let values = figures(shell(r#"echo '{"ns": 1.5}'"#), Duration::from_secs(60)).await;
        assert_eq!(values.unwrap()["ns"], 1.5);
    }

    #[tokio::test]
    async fn a_contender_that_fails_or_prints_no_figures_is_an_error() {
        for (script, said) in [("echo why >&2; exit 3", "why"), ("echo nothing", "did not print figures")] {
            let error = figures(shell(script), Duration::from_secs(60)).await.unwrap_err();
            assert!(error.to_string().contains(said), "{error:#}");
        }
    }

    #[tokio::test]
    async fn a_contender_that_does_not_end_is_killed() {
        let error = figures(shell("exec sleep 3600"), Duration::from_millis(1)).await.unwrap_err();
        assert!(error.to_string().contains("ended after"), "{error:#}");
    }
}
