//! Events from outside, with their times.
//!
//! Another process writes the time into a pipe every 5 ms. A reader whose threads are busy reads it late, and
//! that delay counts. It would not show if the reader generated the events itself.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};

/// The interval between events.
const EVERY: Duration = Duration::from_millis(5);

/// Writes the time to standard output, eight bytes each, until the reader closes it.
///
/// # Errors
/// The clock is before 1970.
pub(crate) fn print() -> Result<()> {
    let mut output = std::io::stdout().lock();
    loop {
        std::thread::park_timeout(EVERY);
        if output.write_all(&now()?.to_le_bytes()).and_then(|()| output.flush()).is_err() {
            return Ok(());
        }
    }
}

/// Returns the nanoseconds since 1970.
///
/// # Errors
/// The clock is before 1970.
pub(crate) fn now() -> Result<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
    u64::try_from(since.as_nanos()).context("the clock is after 2554")
}

/// The reader's end.
pub(crate) struct Ticks {
    output: ChildStdout,
    /// Killed when this is dropped.
    _process: Child,
}

impl Ticks {
    /// Starts the process.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start() -> Result<Ticks> {
        let program = std::env::current_exe().context("this program does not know where it is")?;
        let mut command = Command::new(program);
        command.arg("ticker").stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().context("the ticker does not start")?;
        let output = process.stdout.take().context("the ticker has no output")?;
        Ok(Ticks { output, _process: process })
    }

    /// Waits for the next event and returns its time.
    ///
    /// # Errors
    /// The process has ended.
    pub(crate) async fn next(&mut self) -> Result<u64> {
        self.output.read_u64_le().await.context("the ticker has ended")
    }
}
