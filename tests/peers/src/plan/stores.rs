//! The works of the stores that are far away.

use std::time::Duration;

use super::{ASYNC_NATS, Backend, CONTROLLER_RUNTIME, CONTROLLER_RUNTIME_FAR, Figure, KUBE_CONTROLLER, System, Work};
use crate::arguments::{Size, Suite};

/// The work of a controller in a cluster, which the driver measures from outside.
pub(crate) const STATUS_FAR: &str = "status kubernetes";
/// The same work on our embedded store. The peer does it in a cluster.
pub(crate) const STATUS_EMBEDDED: &str = "status embedded";

/// Resources.
const KEYS: usize = 10_000;
/// Workers of each controller.
const WORKERS: usize = 8;
/// How long single changes are measured, and how long writers.
const MILLIS: u64 = 4000;
/// Writers at once.
const WRITERS: usize = 64;

pub(super) fn works() -> Vec<Work> {
    vec![
        status_far(),
        status_embedded(),
        writes("write flushed", Backend::NatsFlushed, "durable writes, nats", "durable write, nats"),
        writes("write", Backend::Nats, "writes, nats with its default flush", "write, nats with its default flush"),
    ]
}

fn status_far() -> Work {
    let figures = vec![
        Figure::higher("status loop, kubernetes", "keys/s", "keys/s"),
        Figure::lower("requests per key", "requests", "requests"),
        Figure::lower("p50 event to status, kubernetes", "ms", "p50 ms"),
        Figure::lower("p99 event to status, kubernetes", "ms", "p99 ms"),
        Figure::lower("processor time per key", "µs", "cpu us"),
        Figure::lower("memory after the status loop, kubernetes", "MiB", "mib"),
        Figure::lower("peak memory of the status loop, kubernetes", "MiB", "peak mib"),
        Figure::lower("memory per cached resource", "B", "bytes"),
    ];
    let peers = vec![CONTROLLER_RUNTIME, KUBE_CONTROLLER];
    work(STATUS_FAR, WORKERS, figures, peers, Backend::Cluster)
}

fn status_embedded() -> Work {
    let figures = vec![Figure::higher("status loop, embedded store", "keys/s", "keys/s")];
    work(STATUS_EMBEDDED, WORKERS, figures, vec![CONTROLLER_RUNTIME_FAR], Backend::Cluster)
}

fn writes(name: &'static str, backend: Backend, all: &str, one: &str) -> Work {
    let figures = vec![
        Figure::higher(all, "writes/s", "writes/s"),
        Figure::lower(&format!("p50 of a {one}"), "ms", "p50 ms"),
        Figure::lower(&format!("p99 of a {one}"), "ms", "p99 ms"),
    ];
    work(name, WRITERS, figures, vec![ASYNC_NATS], backend)
}

fn work(name: &'static str, workers: usize, figures: Vec<Figure>, peers: Vec<System>, backend: Backend) -> Work {
    let size = Size { keys: KEYS, workers, millis: MILLIS };
    let timeout = Duration::from_secs(180);
    Work { suite: Suite::Stores, name, size, figures, peers, timeout, backend: Some(backend) }
}
