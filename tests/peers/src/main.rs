//! Measures this host beside others, on the same work, in turn.
//!
//! The driver runs *contenders*: each is a process of its own, does one piece of *work*, and prints its figures as one line of JSON.
//! Ours and those in Rust are subcommands of this binary, those in Go one program under `go/`, with the same arguments.
//!
//! In order: [`plan`] says what is measured and beside whom, [`driver`] runs it, [`report`] does the arithmetic. What a contender does
//! is in [`ours`], [`kube`] and [`bare`], with their shared stop-watch in [`measure`].
//!
//! Absent on purpose: opinions. A figure is better or worse by its number alone; why, stands in `docs/performance.md`.

mod arguments;
mod bare;
mod contender;
mod driver;
mod go;
mod guests;
mod keys;
mod kube;
mod measure;
mod ours;
mod plan;
mod process;
mod report;
mod ticker;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let tokio = tokio_runtime()?;
    match arguments.command {
        Some(Command::Contender(contender)) => tokio.block_on(contender::run(&contender))?,
        Some(Command::Ticker) => ticker::print()?,
        None => tokio.block_on(driver::run(&arguments))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the scheduler as the host's binary does: what is measured is what runs.
fn tokio_runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().event_interval(1).global_queue_interval(1);
    builder.build().context("the threads cannot be started")
}
