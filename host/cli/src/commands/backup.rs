//! `homeostat backup`: saves the store of a running host to a file.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::client::Client;
use crate::global::{Format, Global};
use crate::output;

/// Back up the store of a running host to a file
///
/// The file is a consistent snapshot of the store with its history, and appears when it is complete. The host
/// keeps running. An existing file is never replaced. `homeostat restore` creates a store from it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// The new file
    file: PathBuf,
}

/// Runs `homeostat backup`.
///
/// # Errors
/// When the file exists or cannot be written, or the host cannot answer.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let bytes = Client::new(global)?.save("/homeostat/v1/backup", &args.file).await?;
    output::print(&format!("{} saved, {bytes} bytes\n", args.file.display()))?;
    Ok(ExitCode::SUCCESS)
}
