//! Measures this host beside others, on the same work, in turn.
//!
//! The driver runs *contenders*: each is a process of its own, does one piece of *work*, and prints its
//! figures as one line of JSON. Our own contenders and bare wasmtime are subcommands of this binary. kube-rs
//! is a program under `kube/`, and the Go contenders (etcd among them) are one under `go/`, with the same
//! arguments. Those two are built only when they are measured.
//!
//! The suite `api` has the host's own program beside other servers, which its contenders start ([`api`]).
//! The suite `stores` has real servers, which the driver starts. A controller in a cluster does not measure itself:
//! [`controllers`] starts it, ours in the host's own program, watches its resources, and counts its requests.
//!
//! [`plan`] defines the works and their contenders, [`driver`] runs them, and [`report`] does the arithmetic.
//! Our contenders are in [`ours`] and [`bare`], with their stop-watch in [`measure`].
//!
//! Deliberately absent: opinions. A figure is better or worse by its number alone; `docs/performance.md`
//! explains why.

mod api;
mod arguments;
mod backends;
mod bare;
mod bare_nats;
mod cluster;
mod connection;
mod contender;
mod controllers;
mod cores;
mod driver;
mod go;
mod guests;
mod host_process;
mod keys;
mod kube;
mod measure;
#[path = "../../../host/cli/src/memory.rs"]
mod memory;
mod ours;
mod plan;
mod process;
mod progress;
mod projects;
mod report;
mod threads;
mod ticker;
mod values;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use arguments::{Arguments, Command};

/// The allocator of the host's own binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    memory::keep_little();
    match arguments.command {
        // It limits the memory of this process, which has no other threads yet.
        Some(Command::Compile { task }) => {
            return Ok(task.run(&mut std::io::stdin().lock(), &mut std::io::stdout().lock())?.code().into());
        }
        Some(Command::Contender { contender, guests }) => {
            threads::tokio()?.block_on(contender::run(&contender, &guests))?;
        }
        Some(Command::Ticker) => ticker::print()?,
        None => threads::tokio()?.block_on(driver::run(&arguments))?,
    }
    Ok(ExitCode::SUCCESS)
}
