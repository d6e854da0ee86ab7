//! The measured works, their sizes and their peers.
//!
//! A *work* is one piece of work that every contender does in the same way; one run of it gives one or more
//! figures.

use std::time::Duration;

use crate::arguments::{Size, Suite};

mod api;
mod density;
mod fleet;
mod languages;
mod queue;
mod runs;
mod store;
mod stores;
mod swap;

pub(crate) use api::{READS, TESTENV, WRITES};
pub(crate) use density::{CROWD_KEYS_EACH, FLIGHTS};
pub(crate) use stores::{STATUS_EMBEDDED, STATUS_FAR};

/// Whether a higher or a lower value is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// Higher is better.
    Higher,
    /// Lower is better.
    Lower,
}

/// One number of a work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// Its name in the table and in the file.
    pub(crate) name: String,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// Whether a higher or a lower value is better.
    pub(crate) better: Better,
    /// The name under which contenders print it.
    pub(crate) value: &'static str,
    /// How the two sides are compared.
    pub(crate) comparison: Comparison,
}

/// How a figure compares the numbers of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Ours beside the peer's.
    Plain,
    /// The excess of ours over the peer's, in each round, beside the peer's.
    AbovePeer,
}

/// A system that does a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct System {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Its name in the table and in the file.
    pub(crate) shown: &'static str,
    /// The program that contains it.
    pub(crate) program: Program,
}

/// The program that contains a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// This binary.
    This,
    /// The program in `kube/`.
    Kube,
    /// The program in `go/`.
    Go,
}

/// A real server. The driver starts it for one work, and all contenders of the work use it in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// kube-apiserver and etcd, which flushes each write before it acknowledges it.
    Cluster,
    /// nats-server with its defaults: it flushes its files every two minutes.
    Nats,
    /// nats-server that flushes each write before it acknowledges it.
    NatsFlushed,
}

/// One piece of work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Work {
    /// Its suite.
    pub(crate) suite: Suite,
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Its size.
    pub(crate) size: Size,
    /// Its figures.
    pub(crate) figures: Vec<Figure>,
    /// The systems that do it besides ours.
    pub(crate) peers: Vec<System>,
    /// The time limit of a contender: about ten times the expected duration.
    pub(crate) timeout: Duration,
    /// The server that its contenders use.
    pub(crate) backend: Option<Backend>,
}

/// Our own system.
pub(crate) const OURS: System = System { name: "homeostat", shown: "homeostat", program: Program::This };
const CLIENT_GO: System = System { name: "client-go", shown: "client-go workqueue", program: Program::Go };
const CLIENT_GO_METRICS: System =
    System { name: "client-go-metrics", shown: "client-go workqueue with metrics", program: Program::Go };
const CLIENT_GO_LIMITING: System =
    System { name: "client-go-limiting", shown: "client-go rate-limiting queue", program: Program::Go };
const CONTROLLER_RUNTIME_QUEUE: System =
    System { name: "controller-runtime", shown: "controller-runtime priority queue", program: Program::Go };
const CONTROLLER_RUNTIME: System =
    System { name: "controller-runtime", shown: "controller-runtime", program: Program::Go };
const CONTROLLER_RUNTIME_FAR: System =
    System { name: "controller-runtime", shown: "controller-runtime on Kubernetes", program: Program::Go };
const KUBE_CONTROLLER: System = System { name: "kube-rs", shown: "kube-rs controller", program: Program::Kube };
const ASYNC_NATS: System = System { name: "async-nats", shown: "bare async-nats", program: Program::This };
const KUBE_SCHEDULER: System = System { name: "kube-rs", shown: "kube-rs scheduler", program: Program::Kube };
const KUBE: System = System { name: "kube-rs", shown: "kube-rs applier", program: Program::Kube };
const WASMTIME: System = System { name: "wasmtime", shown: "bare wasmtime call", program: Program::This };
const KUBE_APISERVER: System =
    System { name: "kube-apiserver", shown: "kube-apiserver with etcd", program: Program::This };
const ETCD: System = System { name: "etcd", shown: "etcd", program: Program::Go };
const SANDBOX: System = System { name: "homeostat-component", shown: "the sandbox alone", program: Program::This };

/// Returns the works of a suite, in the order in which they are run.
pub(crate) fn works(suite: Suite) -> Vec<Work> {
    match suite {
        Suite::Queue => queue::works(),
        Suite::Loop => runs::loops(),
        Suite::Tax => runs::tax(),
        Suite::Store => store::works(),
        Suite::Stores => stores::works(),
        Suite::Density => density::works(),
        Suite::Swap => swap::works(),
        Suite::Fleet => fleet::works(),
        Suite::Languages => languages::works(),
        Suite::Api => api::works(),
    }
}

impl Work {
    /// Returns the same work in a tiny size, with the peers in this binary alone. It checks that the
    /// contenders run; the figures mean nothing.
    pub(crate) fn tiny(self) -> Work {
        const SIZE_MAX: Size = Size { keys: 200, workers: 4, millis: 20 };
        // Each may have a component to compile.
        const CONTROLLERS_MAX: usize = 4;
        let Size { keys, workers, millis } = self.size;
        // All waiting keys must be added before the first is due.
        let millis = if self.name == queue::WAITING { 1000 } else { millis.min(SIZE_MAX.millis) };
        let is_of_components = matches!(self.suite, Suite::Density | Suite::Swap);
        let keys_max = if is_of_components { CONTROLLERS_MAX } else { SIZE_MAX.keys };
        let workers_max = if self.suite == Suite::Fleet { fleet::HOSTS_TINY } else { SIZE_MAX.workers };
        let size = Size { keys: keys.min(keys_max), workers: workers.min(workers_max), millis };
        let peers = self.peers.into_iter().filter(|peer| peer.program == Program::This).collect();
        Work { size, peers, ..self }
    }
}

impl Figure {
    fn lower(name: &str, unit: &'static str, value: &'static str) -> Figure {
        Figure { name: name.to_owned(), unit, better: Better::Lower, value, comparison: Comparison::Plain }
    }

    fn higher(name: &str, unit: &'static str, value: &'static str) -> Figure {
        Figure { better: Better::Higher, ..Figure::lower(name, unit, value) }
    }
}

/// Returns a number with commas between the thousands.
pub(crate) fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests;
