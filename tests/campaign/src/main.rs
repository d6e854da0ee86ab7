//! Campaigns against the store in a file: crashes, power losses, failing disks and damaged files, many times, each of them counted.
//!
//! Each campaign writes documents of which nothing but their name and a counter is free ([`document`]), by several tasks at once
//! ([`load`]), keeps outside of the store what was acknowledged ([`ledger`]), lets something happen, and compares ([`check`]). The last
//! line on standard output is the count; the exit code is 0 only when nothing was lost.
//!
//! Absent on purpose: any knowledge of how the store works inside. What a random moment hits follows from the seed, but for the
//! scheduling of threads.

mod check;
mod damage;
#[path = "../../src/dice.rs"]
mod dice;
mod disk;
mod document;
mod faults;
mod findings;
mod kill;
mod ledger;
mod load;
mod machine;
mod power;

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "What a crash, a power loss, a failing disk or a damaged file does to the store")]
struct Arguments {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Debug, Args)]
struct SeedArguments {
    /// Decides what happens and when
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Subcommand)]
enum Campaign {
    /// Ends a process that writes, at random moments
    Kill {
        /// How often
        #[arg(long, default_value_t = 1000)]
        cycles: u64,
        #[command(flatten)]
        seed: SeedArguments,
    },
    /// Cuts the power of a disk that keeps, drops and tears what was not synced
    PowerLoss {
        /// How often
        #[arg(long, default_value_t = 2000)]
        crashes: u64,
        #[command(flatten)]
        seed: SeedArguments,
    },
    /// Lets writes, syncs and reads of a disk fail
    Disk {
        /// How often
        #[arg(long, default_value_t = 500)]
        cycles: u64,
        #[command(flatten)]
        seed: SeedArguments,
    },
    /// Damages files that were closed, and opens them
    Damage {
        /// How many
        #[arg(long, default_value_t = 500)]
        cycles: u64,
        #[command(flatten)]
        seed: SeedArguments,
    },
    /// Writes to a file until it is ended, and says what was acknowledged
    #[command(hide = true)]
    Writer {
        /// The file
        path: PathBuf,
        /// Decides what is written
        seed: u64,
        /// Counters begin above this
        base: u64,
    },
}

fn main() -> Result<ExitCode> {
    let outcome = match Arguments::parse().campaign {
        Campaign::Kill { cycles, seed } => kill::run(cycles, seed.seed)?,
        Campaign::PowerLoss { crashes, seed } => power::run(crashes, seed.seed)?,
        Campaign::Disk { cycles, seed } => faults::run(cycles, seed.seed)?,
        Campaign::Damage { cycles, seed } => damage::run(cycles, seed.seed)?,
        Campaign::Writer { path, seed, base } => {
            kill::write(&path, seed, base)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    writeln!(stdout(), "{}", outcome.count)?;
    Ok(if outcome.is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
