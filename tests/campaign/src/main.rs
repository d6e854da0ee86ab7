//! Campaigns against the embedded store and the leases of a fleet: crashes, power losses, failing disks, damaged files and
//! hosts that fail, many times, each of them counted.
//!
//! Each campaign of the store writes documents that follow from a name and a counter ([`document`]), by several concurrent
//! tasks ([`load`]). It records the acknowledged writes outside of the store ([`ledger`]), causes a fault,
//! and compares ([`store_check`]). The last line on standard output has the counts. The exit code is 0 only if
//! nothing was lost. The campaign of a fleet is a simulation ([`fleet`]).
//!
//! Deliberately absent: any knowledge of the store's implementation. Random decisions follow from the seed,
//! except for the scheduling of threads.

mod damage;
mod disk;
mod document;
mod faults;
mod findings;
mod fleet;
mod kill;
mod ledger;
mod load;
mod machine;
mod power;
mod store_check;

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Test the store with crashes, power losses, failing disks and damaged files, and a fleet of hosts")]
struct Arguments {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Debug, Args)]
struct SeedArguments {
    /// Seed of all random decisions
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Subcommand)]
enum Campaign {
    /// Kill a writer process at random moments
    Kill {
        /// Number of kills
        #[arg(long, default_value_t = 1000)]
        cycles: u64,
        #[command(flatten)]
        seed: SeedArguments,
    },
    /// Cut the power of a disk that keeps, drops and tears unsynced writes
    PowerLoss {
        /// Number of power losses
        #[arg(long, default_value_t = 2000)]
        crashes: u64,
        #[command(flatten)]
        seed: SeedArguments,
    },
    /// Make writes, syncs and reads of a disk fail
    Disk {
        /// Number of cycles
        #[arg(long, default_value_t = 500)]
        cycles: u64,
        #[command(flatten)]
        seed: SeedArguments,
    },
    /// Damage closed files, and open them
    Damage {
        /// Number of damaged files
        #[arg(long, default_value_t = 500)]
        cycles: u64,
        #[command(flatten)]
        seed: SeedArguments,
    },
    /// Simulate hosts that crash, pause, lose their store and come back
    Fleet {
        /// Simulated hours
        #[arg(long, default_value_t = 10_000)]
        hours: u64,
        #[command(flatten)]
        seed: SeedArguments,
    },
    /// Write to a file until killed, and print the acknowledged writes
    #[command(hide = true)]
    Writer {
        /// The file
        path: PathBuf,
        /// Seed of the writes
        seed: u64,
        /// Counters are above this
        base: u64,
    },
}

fn main() -> Result<ExitCode> {
    let outcome = match Arguments::parse().campaign {
        Campaign::Kill { cycles, seed } => kill::run(cycles, seed.seed)?,
        Campaign::PowerLoss { crashes, seed } => power::run(crashes, seed.seed)?,
        Campaign::Disk { cycles, seed } => faults::run(cycles, seed.seed)?,
        Campaign::Damage { cycles, seed } => damage::run(cycles, seed.seed)?,
        Campaign::Fleet { hours, seed } => fleet::run(hours, seed.seed),
        Campaign::Writer { path, seed, base } => {
            kill::write(&path, seed, base)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    writeln!(stdout(), "{}", outcome.count)?;
    Ok(if outcome.is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
