//! `homeostat build DIR`: builds the guests of a folder once.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;

use crate::exit::{self, ExitReason};
use crate::output;
use crate::terminal::Screen;

/// Build the guests of a folder
///
/// Guests are the projects in DIR and directly below it. Each becomes DIR/NAME.wasm; standard output has the paths.
/// A project is a crate with a `cdylib`, or it has the contract in `wit` and one of `go.mod`, `package.json`,
/// `src/app.py` and `src/main.c`. Guests whose sources have not changed are not built again.
#[derive(Args, Clone, Debug)]
pub(crate) struct BuildArgs {
    /// The folder with the projects
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    #[command(flatten)]
    install: InstallArgs,
}

/// The option that `build` and `dev` share.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct InstallArgs {
    /// Install the tools that a project pins, where they are missing: into its `.venv` or `node_modules`
    #[arg(long)]
    pub(crate) install: bool,
}

/// Runs `homeostat build`.
///
/// # Errors
/// When a tool is missing, or the folder has no guest.
pub(crate) async fn run(args: &BuildArgs, screen: &Screen) -> Result<ExitCode> {
    let BuildArgs { folder, install: InstallArgs { install } } = args;
    let guests = super::prepare(folder, *install, screen).await?;
    if guests.is_empty() {
        return Err(exit::failed(format!(
            "no guest found in {}: `homeostat new NAME --lang LANGUAGE` makes one",
            folder.display()
        )));
    }
    let names: Vec<&str> = guests.iter().map(|guest| guest.name.as_str()).collect();
    screen.line(&format!("building {}", names.join(", ")));
    let start = Instant::now();
    let built = super::build(&guests, screen).await?;
    super::show_output(&built, screen);
    for artifact in &built.artifacts {
        super::install(artifact, folder)?;
        output::print(&format!("{}\n", folder.join(format!("{}.wasm", artifact.name)).display()))?;
    }
    if !built.failed.is_empty() {
        screen.line(&format!("{} did not build", built.failed.join(", ")));
        return Ok(ExitReason::Failed.into());
    }
    if built.unchanged.len() == guests.len() {
        screen.line("up to date");
    } else {
        screen.line(&format!("built in {:.1} s", start.elapsed().as_secs_f32()));
    }
    Ok(ExitCode::SUCCESS)
}
