//! Measures this host beside others, on the same work, in turn.
//!
//! The driver runs *contenders*: each is a process of its own, does one piece of *work*, and prints its figures as one line of JSON.
//! Ours and the bare machine are subcommands of this binary; kube-rs is a program under `kube/` and those in Go (etcd among them) are one
//! under `go/`, with the same arguments. Those two are built when they are measured, and only then.
//!
//! In order: [`plan`] says what is measured and beside whom, [`driver`] runs it, [`report`] does the arithmetic. What a contender does
//! is in [`ours`] and [`bare`], with their stop-watch in [`measure`].
//!
//! Absent on purpose: opinions. A figure is better or worse by its number alone; why, stands in `docs/performance.md`.

mod arguments;
mod bare;
mod contender;
mod cores;
mod driver;
mod go;
mod guests;
mod keys;
mod kube;
mod measure;
#[path = "../../../host/cli/src/memory.rs"]
mod memory;
mod ours;
mod plan;
mod process;
mod report;
mod threads;
mod ticker;
mod values;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use arguments::{Arguments, Command};

/// As in the host's own binary: what is measured is what runs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    memory::keep_little();
    let tokio = threads::tokio()?;
    match arguments.command {
        Some(Command::Contender { contender, guests }) => tokio.block_on(contender::run(&contender, &guests))?,
        Some(Command::Ticker) => ticker::print()?,
        None => tokio.block_on(driver::run(&arguments))?,
    }
    Ok(ExitCode::SUCCESS)
}
