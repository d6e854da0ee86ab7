//! The command line of a contender. Every Rust program with contenders includes this file.

use clap::{Args, ValueEnum};

/// The suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// The work queue, beside client-go's, controller-runtime's and kube-rs's
    Queue,
    /// The whole loop with sandboxed guests, beside controller-runtime and kube-rs with native code
    Loop,
    /// The cost of the host around the bare call of a component
    Tax,
    /// The embedded store and its API, beside etcd
    Store,
    /// Stores that are far away: in Kubernetes beside controller-runtime and kube-rs, in NATS beside async-nats
    Stores,
    /// Memory of idle and busy controllers, start-up, and neighbours, beside controller-runtime
    Density,
    /// The effect of swaps, and of added and removed controllers, on keys, waits and memory
    Swap,
    /// One host and several over one bucket of NATS, each with one processor
    Fleet,
    /// The same controller in each language, as `homeostat new` writes it: its compilation and its reconciles
    Languages,
    /// The Kubernetes API of a host, beside kube-apiserver with etcd
    Api,
}

impl Suite {
    /// Returns the suite's name on the command line and in the name of the results file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Suite::Queue => "queue",
            Suite::Loop => "loop",
            Suite::Tax => "tax",
            Suite::Store => "store",
            Suite::Stores => "stores",
            Suite::Density => "density",
            Suite::Swap => "swap",
            Suite::Fleet => "fleet",
            Suite::Languages => "languages",
            Suite::Api => "api",
        }
    }
}

/// One run of one contender.
#[derive(Args, Clone, Debug)]
// A program that includes this file may have a subcommand of that name, and groups have names of their own.
#[group(skip)]
pub(crate) struct Contender {
    /// The system
    pub(crate) system: String,
    /// The suite
    pub(crate) suite: Suite,
    /// The work in the suite
    pub(crate) work: String,
    #[command(flatten)]
    pub(crate) size: Size,
    /// The server of the work: a file of kubectl, or a URL
    #[arg(long)]
    pub(crate) server: Option<String>,
}

/// The size of a work. Each work defines the meaning of its numbers.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// Number of keys, or of the work's other items
    #[arg(long, default_value_t = 1000)]
    pub(crate) keys: usize,
    /// Workers
    #[arg(long, default_value_t = 1)]
    pub(crate) workers: usize,
    /// Duration of the measurement in milliseconds, or of the wait before it if the work has an end of its
    /// own
    #[arg(long, default_value_t = 1000)]
    pub(crate) millis: u64,
}
