//! The command line.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use homeostat_component::CompileTask;

mod contender;

pub(crate) use contender::{Contender, Size, Suite};

/// Measure this host beside others: the queue, the loop around it, the cost of the sandbox, the store, and
/// how much fits in a process
#[derive(Debug, Parser)]
#[command(name = "homeostat-peers", args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The suite to measure
    #[arg(required = true)]
    pub(crate) suite: Option<Suite>,
    /// Runs of each contender; the table has medians
    #[arg(long, default_value = "7", value_name = "N")]
    pub(crate) rounds: NonZeroU32,
    /// Measure only works and figures with this text in their name, and write no results
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Folder for the results [default: cargo's `target/peers`]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Folder of built guests, instead of building them
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) guests: Option<PathBuf>,
    /// The program `homeostat`, instead of building it
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) host: Option<PathBuf>,
    /// Run everything in tiny sizes, without the peers in other programs: the figures are meaningless then
    #[arg(long, hide = true)]
    pub(crate) tiny: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one contender: do one work and print its figures
    #[command(hide = true)]
    Contender {
        #[command(flatten)]
        contender: Contender,
        /// Folder of the guests' components
        #[arg(long, default_value = ".", value_name = "FOLDER")]
        guests: PathBuf,
    },
    /// Compile one component from standard input to standard output
    #[command(hide = true)]
    Compile {
        /// The compile task with its limits, as JSON
        task: CompileTask,
    },
    /// Print the time repeatedly, as events for a contender
    #[command(hide = true)]
    Ticker,
}
