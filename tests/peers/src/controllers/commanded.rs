//! A controller that obeys lines on its standard input: the first starts its work, each further one asks for its memory,
//! and it ends with the input.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::values::Values;

/// How long the errors of a process that ended are read.
const ERRORS_MAX: Duration = Duration::from_secs(10);

/// The process. It is killed when this is dropped.
pub(super) struct CommandedController {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    errors: ChildStderr,
}

impl CommandedController {
    /// Starts the process, and waits until it is ready for commands. Returns its resident memory, too.
    pub(super) async fn prepare(mut command: Command) -> Result<(CommandedController, f64)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("the controller does not start")?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (input, output) = (input.context("it has no input")?, output.context("it has no output")?);
        let (lines, errors) = (BufReader::new(output).lines(), errors.context("it has no errors")?);
        let mut controller = CommandedController { child, input, lines, errors };
        let bytes = controller.printed_bytes().await?;
        Ok((controller, bytes))
    }

    /// Starts the controller in the process.
    pub(super) async fn start(&mut self) -> Result<()> {
        self.say("start").await
    }

    /// Returns its resident memory, which the process reads itself: Go collects its garbage before.
    pub(super) async fn resident_bytes(&mut self) -> Result<f64> {
        self.say("memory").await?;
        self.printed_bytes().await
    }

    async fn say(&mut self, line: &str) -> Result<()> {
        self.input.write_all(format!("{line}\n").as_bytes()).await.context("it does not read its input")
    }

    async fn printed_bytes(&mut self) -> Result<f64> {
        let Some(line) = self.lines.next_line().await? else { return Err(self.failure().await) };
        let values: Values = serde_json::from_str(&line).with_context(|| format!("it printed {line:?}"))?;
        values.get("resident").copied().context("it did not print its memory")
    }

    /// Returns why the process ended, once it has.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        // It prints nothing without a command.
        drop(self.lines.next_line().await);
        let mut said = String::new();
        let read = tokio::time::timeout(ERRORS_MAX, self.errors.read_to_string(&mut said)).await;
        drop(read);
        anyhow::anyhow!("it ended: {}", said.trim_end())
    }

    /// Returns the number of the process.
    pub(super) fn process(&self) -> Result<String> {
        Ok(self.child.id().context("it ended")?.to_string())
    }

    /// Closes the input, at which the controller ends, and waits for that.
    pub(super) async fn end(self) -> Result<()> {
        let CommandedController { mut child, input, lines: _lines, errors: _errors } = self;
        drop(input);
        child.wait().await?;
        Ok(())
    }
}
