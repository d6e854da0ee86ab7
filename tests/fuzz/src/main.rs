//! A fuzzer for every parser of foreign bytes in the host: realistic inputs, mutated at random, and
//! properties that must hold for each.
//!
//! A target ([`target`]) is one parser and its property, a pure function of the bytes. Inputs are the files
//! of its corpus ([`corpus`]), mutated in a few places ([`mutate`]). Each is judged with a time limit, and
//! panics are caught ([`judge`]). The last line on standard output has the counts. The exit code is 0 only if
//! every property held.
//!
//! In an ordinary build the same seed and number make the same input. In a build that counts edges
//! ([`coverage`]), inputs that reach new code join the inputs that all others are derived from.
//!
//! Deliberately absent: any knowledge of a parser's implementation.

mod corpus;
mod coverage;
mod judge;
mod mutate;
mod run;
mod target;
mod targets;
mod test_store;

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use run::RunLength;
use target::Target;

#[derive(Debug, Parser)]
#[command(about = "Fuzz the host's parsers of foreign bytes")]
struct Arguments {
    /// The target
    #[arg(value_enum)]
    target: Target,
    /// Duration in minutes
    #[arg(long, default_value_t = 1)]
    minutes: u64,
    /// Number of inputs, regardless of the time
    #[arg(long, conflicts_with = "minutes")]
    inputs: Option<u64>,
    /// Seed of the inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Derive inputs from the given ones alone, also in a build that counts edges
    #[arg(long)]
    blind: bool,
}

fn main() -> Result<ExitCode> {
    let Arguments { target, minutes, inputs, seed, blind } = Arguments::parse();
    let length = inputs.map_or(RunLength::Time(Duration::from_secs(minutes.saturating_mul(60))), RunLength::Inputs);
    let count = run::run(target, &length, seed, blind)?;
    writeln!(stdout(), "{count}")?;
    Ok(if count.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
