//! What the command line says.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Measure this host beside others: the queue, the loop around it, and what the sandbox costs
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
    /// Do everything in sizes that take no time, without the peers in Go: the figures mean nothing then
    #[arg(long, hide = true)]
    pub(crate) tiny: bool,
}

/// The suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// The work queue, beside client-go's, controller-runtime's and kube-rs's
    Queue,
    /// The whole loop with sandboxed guests, beside controller-runtime and kube-rs with native code
    Loop,
    /// What the host adds to the bare call of a component
    Tax,
}

impl Suite {
    /// Returns the suite's name, as it stands on the command line and in the name of the file of results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Suite::Queue => "queue",
            Suite::Loop => "loop",
            Suite::Tax => "tax",
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Be one contender: do one work and print its figures
    #[command(hide = true)]
    Contender(Contender),
    /// Print the time again and again, for a contender to react to
    #[command(hide = true)]
    Ticker,
}

/// One run of one contender.
#[derive(Args, Clone, Debug)]
pub(crate) struct Contender {
    /// Who
    pub(crate) system: String,
    /// What
    pub(crate) suite: Suite,
    /// What of it
    pub(crate) work: String,
    #[command(flatten)]
    pub(crate) size: Size,
    /// Where the guests lie, as components
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    pub(crate) guests: PathBuf,
}

/// How large a work is. What a number means is the work's business.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// Keys, or whatever there is many of
    #[arg(long, default_value_t = 1000)]
    pub(crate) keys: usize,
    /// Workers
    #[arg(long, default_value_t = 1)]
    pub(crate) workers: usize,
    /// How long to measure, in milliseconds; or how long to wait, where the work itself has an end
    #[arg(long, default_value_t = 1000)]
    pub(crate) millis: u64,
}
