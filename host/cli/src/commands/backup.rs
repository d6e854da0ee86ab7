//! `homeostat backup`: saves the store of a running host.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::client::Client;
use crate::global::{Format, Global};
use crate::output;

/// Save the resources of a running host in a file
///
/// The file is one moment of the store with its history, and is there when it is whole. The host goes on meanwhile. A file that is there
/// already is never replaced. `homeostat restore` makes a store of it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// The new file
    file: PathBuf,
}

/// Makes a backup.
///
/// # Errors
/// When there is such a file, it cannot be written, or the host cannot answer.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    global.format(&[Format::Table])?;
    let bytes = Client::new(global)?.save("/homeostat/v1/backup", &args.file).await?;
    output::print(&format!("{} saved, {bytes} bytes\n", args.file.display()))?;
    Ok(ExitCode::SUCCESS)
}
