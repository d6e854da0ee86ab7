//! What the command line says.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

mod contender;

pub(crate) use contender::{Contender, Size, Suite};

/// Measure this host beside others: the queue, the loop around it, what the sandbox costs, the store, and how much fits a process
#[derive(Debug, Parser)]
#[command(name = "homeostat-peers", args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// What to measure
    #[arg(required = true)]
    pub(crate) suite: Option<Suite>,
    /// How often each contender runs; the table has medians
    #[arg(long, default_value = "7", value_name = "N")]
    pub(crate) rounds: NonZeroU32,
    /// Measure only what has this in its name, and write no results
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Where to write the results [default: cargo's `target/peers`]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Take the guests from here instead of building them
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) guests: Option<PathBuf>,
    /// Do everything in sizes that take no time, without the peers that are programs of their own: the figures mean nothing then
    #[arg(long, hide = true)]
    pub(crate) tiny: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Be one contender: do one work and print its figures
    #[command(hide = true)]
    Contender {
        #[command(flatten)]
        contender: Contender,
        /// Where the guests lie, as components
        #[arg(long, default_value = ".", value_name = "FOLDER")]
        guests: PathBuf,
    },
    /// Print the time again and again, for a contender to react to
    #[command(hide = true)]
    Ticker,
}
