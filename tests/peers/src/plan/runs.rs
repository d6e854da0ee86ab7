//! The works of the loop, and of the cost of the sandbox.

use std::time::Duration;

use super::{CONTROLLER_RUNTIME, Comparison, Figure, KUBE, SANDBOX, System, WASMTIME, Work};
use crate::arguments::{Size, Suite};
use crate::cores::TWO_CORES;

const KEYS: usize = 100_000;
/// How long a controller is measured beside another one.
const BESIDE_MILLIS: u64 = 3000;

pub(super) fn loops() -> Vec<Work> {
    let mut works: Vec<Work> = [1, 2, 8].map(no_op).into();
    works.extend([1, 2, 8].map(status));
    works.extend([
        beside("alone", "alone"),
        beside("beside ready", "beside 100,000 ready keys"),
        beside("beside hog", "beside code that only computes"),
    ]);
    works
}

pub(super) fn tax() -> Vec<Work> {
    let reconcile = Figure::lower("reconcile, no-op", "µs", "us");
    let tax = Figure { name: "host tax, no-op".to_owned(), comparison: Comparison::AbovePeer, ..reconcile.clone() };
    let size = Size { keys: KEYS, workers: 1, millis: 1000 };
    let peers = [WASMTIME, SANDBOX];
    let cores = Figure::higher("no-op reconcile, two cores beside one", "x", "x");
    vec![
        Work { figures: vec![reconcile, tax], ..work(Suite::Tax, "no-op", size, &peers) },
        Work { figures: vec![cores], ..work(Suite::Tax, TWO_CORES, size, &peers) },
    ]
}

fn no_op(workers: usize) -> Work {
    let each = format!("no-op loop, {}", counted(workers));
    let wait = format!("p99 add to start, {each}");
    let figures = vec![Figure::higher(&each, "keys/s", "keys/s"), Figure::lower(&wait, "ms", "p99 ms")];
    let size = Size { keys: KEYS, workers, millis: 0 };
    Work { figures, ..work(Suite::Loop, "no-op", size, &[CONTROLLER_RUNTIME, KUBE]) }
}

fn status(workers: usize) -> Work {
    let each = format!("status loop, {}", counted(workers));
    let figures = vec![Figure::higher(&each, "keys/s", "keys/s")];
    let size = Size { keys: KEYS, workers, millis: 0 };
    Work { figures, ..work(Suite::Loop, "status", size, &[]) }
}

fn beside(name: &'static str, whom: &str) -> Work {
    let figures = ["p50", "p99"].map(|part| {
        let value = if part == "p50" { "p50 us" } else { "p99 us" };
        Figure::lower(&format!("{part} add to start, {whom}"), "µs", value)
    });
    let size = Size { keys: KEYS, workers: 4, millis: BESIDE_MILLIS };
    Work { figures: figures.into(), ..work(Suite::Loop, name, size, &[CONTROLLER_RUNTIME]) }
}

fn counted(workers: usize) -> String {
    if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") }
}

fn work(suite: Suite, name: &'static str, size: Size, peers: &[System]) -> Work {
    Work {
        suite,
        name,
        size,
        figures: Vec::new(),
        peers: peers.into(),
        timeout: Duration::from_secs(120),
        backend: None,
    }
}
