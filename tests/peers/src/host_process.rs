//! The process of `homeostat run`, which the driver and contenders start.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

/// A running host. It is killed when this is dropped.
pub(crate) struct HostProcess {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl HostProcess {
    /// Starts a host with the default settings of its program, and these further arguments.
    ///
    /// # Errors
    /// The program does not start.
    pub(crate) fn start(program: &Path, manifests: &Path, data: &Path, arguments: &[&OsStr]) -> Result<HostProcess> {
        let mut command = Command::new(program);
        command.arg("run").arg(manifests).arg("--data").arg(data).args(arguments);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("the host does not start")?;
        let lines = BufReader::new(child.stderr.take().context("the host has no errors")?).lines();
        Ok(HostProcess { child, lines })
    }

    /// Waits for a line with a text in it, and returns what follows the text.
    ///
    /// # Errors
    /// The host ended before. The error has the lines that it wrote meanwhile.
    pub(crate) async fn line_after(&mut self, text: &str) -> Result<String> {
        let mut said = Vec::new();
        while let Some(line) = self.lines.next_line().await? {
            if let Some((_, rest)) = line.split_once(text) {
                return Ok(rest.to_owned());
            }
            said.push(line);
        }
        Err(ended(&said))
    }

    /// Waits until the host ends, and returns the error with the lines that it wrote meanwhile.
    pub(crate) async fn failure(&mut self) -> anyhow::Error {
        ended(&self.remaining_lines().await)
    }

    /// Returns the lines that the host writes until it ends.
    async fn remaining_lines(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        // A line that cannot be read is the last one.
        while let Ok(Some(line)) = self.lines.next_line().await {
            said.push(line);
        }
        said
    }

    /// Returns the number of the process.
    ///
    /// # Errors
    /// The caller has waited for the end of the host.
    pub(crate) fn id(&self) -> Result<String> {
        Ok(self.child.id().context("the host ended")?.to_string())
    }

    /// Asks the host to stop, so that it releases its leases, and waits until it has ended.
    ///
    /// # Errors
    /// The host has ended before, or it fails. The error has the lines that it wrote since the last one that was read.
    pub(crate) async fn stop(mut self) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            return Err(self.failure().await);
        }
        let id = Pid::from_raw(self.id()?.parse()?).context("no process has this number")?;
        kill_process(id, Signal::TERM).context("the host cannot be stopped")?;
        // It would wait for a reader of its lines.
        let said = self.remaining_lines().await;
        let status = self.child.wait().await?;
        ensure!(status.success(), "the host ended with {status}: {}", said.join("\n"));
        Ok(())
    }
}

/// Returns the error of a host that ended after these lines.
fn ended(said: &[String]) -> anyhow::Error {
    anyhow::anyhow!("the host ended: {}", said.join("\n"))
}
