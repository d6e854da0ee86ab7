//! The commands of the driver to a controller that it measures from outside.

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::measure::resident_bytes;
use crate::values::{self, named};

/// Prints the memory of this process, starts the work at the first line of standard input, and prints the memory
/// again for each further line. Returns at the end of the input.
///
/// # Errors
/// The work does not start, or a standard stream is broken.
pub(crate) async fn obey(start: impl Future<Output = Result<()>>) -> Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    print_memory()?;
    if lines.next_line().await?.is_none() {
        return Ok(());
    }
    start.await?;
    while lines.next_line().await?.is_some() {
        print_memory()?;
    }
    Ok(())
}

fn print_memory() -> Result<()> {
    values::print(&named([("resident", resident_bytes()? as f64)]))
}
