//! Foreign bytes against everything in the host that reads them: realistic inputs, changed at random, and laws that must hold for each.
//!
//! A target ([`target`]) is one reader and its law, a pure function of the bytes. Inputs are what lies in its folder of the corpus
//! ([`corpus`]), changed in a few places ([`mutate`]). Each is judged under a clock, and a panic is caught ([`judge`]). The last line on
//! standard output is the count; the exit code is 0 only when every law held.
//!
//! Absent on purpose: any knowledge of how a reader works inside, and feedback of coverage. The same seed and number make the same input.

mod corpus;
#[path = "../../src/dice.rs"]
mod dice;
mod judge;
mod mutate;
mod run;
mod target;
mod targets;
mod world;

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use run::RunLength;
use target::Target;

#[derive(Debug, Parser)]
#[command(about = "What foreign bytes do to the readers of the host")]
struct Arguments {
    /// The reader
    #[arg(value_enum)]
    target: Target,
    /// For how long
    #[arg(long, default_value_t = 1)]
    minutes: u64,
    /// How many inputs, however long they take
    #[arg(long, conflicts_with = "minutes")]
    inputs: Option<u64>,
    /// Decides what the inputs are
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<ExitCode> {
    let Arguments { target, minutes, inputs, seed } = Arguments::parse();
    let length = inputs.map_or(RunLength::Time(Duration::from_secs(minutes.saturating_mul(60))), RunLength::Inputs);
    let count = run::run(target, &length, seed)?;
    writeln!(stdout(), "{count}")?;
    Ok(if count.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
