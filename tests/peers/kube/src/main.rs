//! The kube-rs contender: its scheduler as a queue, its applier as a loop, and a whole controller in a cluster.
//!
//! Each run is one process that does one work and prints its figures as one line of JSON, as every contender
//! does. Stop-watch, keys, threads and command line are the same source files as ours.

#[path = "../../src/arguments/contender.rs"]
mod arguments;
mod commands;
#[path = "../../src/keys.rs"]
mod keys;
mod loops;
#[path = "../../src/measure.rs"]
#[expect(dead_code, reason = "some of the stop-watch is for queues that threads share")]
mod measure;
mod queue;
mod stores;
#[path = "../../src/threads.rs"]
mod threads;
#[path = "../../src/values.rs"]
mod values;

use anyhow::{Result, bail};
use clap::Parser;

use arguments::{Contender, Suite};
use values::Values;

/// Measure kube-rs
#[derive(Debug, Parser)]
#[command(name = "peers-kube")]
enum Arguments {
    /// Do one work and print its figures
    Contender(Contender),
}

fn main() -> Result<()> {
    let Arguments::Contender(contender) = Arguments::parse();
    let tokio = threads::tokio()?;
    if contender.suite == Suite::Stores {
        return tokio.block_on(stores::control(&contender));
    }
    values::print(&tokio.block_on(run(&contender))?)
}

async fn run(contender: &Contender) -> Result<Values> {
    let Contender { system, suite, work, size, server: _ } = contender;
    match (system.as_str(), suite) {
        ("kube-rs", Suite::Queue) => queue::run(work, size).await,
        ("kube-rs", Suite::Loop) => loops::run(work, size).await,
        _ => bail!("{system} has nothing to do with {}", suite.name()),
    }
}
