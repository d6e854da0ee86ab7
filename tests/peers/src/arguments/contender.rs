//! What the command line of a contender says. Every program in Rust that has contenders takes this file in.

use clap::{Args, ValueEnum};

/// The suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// The work queue, beside client-go's, controller-runtime's and kube-rs's
    Queue,
    /// The whole loop with sandboxed guests, beside controller-runtime and kube-rs with native code
    Loop,
    /// What the host adds to the bare call of a component
    Tax,
    /// The embedded store and its API, beside etcd
    Store,
    /// Memory of controllers that are idle or busy, starting, and neighbours, beside controller-runtime
    Density,
    /// What swaps, and controllers that come and go, do to keys, waits and memory
    Swap,
}

impl Suite {
    /// Returns the suite's name, as it stands on the command line and in the name of the file of results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Suite::Queue => "queue",
            Suite::Loop => "loop",
            Suite::Tax => "tax",
            Suite::Store => "store",
            Suite::Density => "density",
            Suite::Swap => "swap",
        }
    }
}

/// One run of one contender.
#[derive(Args, Clone, Debug)]
// Whoever takes it in may have a subcommand of that name, and groups have names of their own.
#[group(skip)]
pub(crate) struct Contender {
    /// Who
    pub(crate) system: String,
    /// What
    pub(crate) suite: Suite,
    /// What of it
    pub(crate) work: String,
    #[command(flatten)]
    pub(crate) size: Size,
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
