//! The works of swaps: under load, repeatedly, and beside an unrelated controller.

use std::time::Duration;

use super::{Figure, Work};
use crate::arguments::{Size, Suite};

/// Consecutive swaps under load.
const SWAPS: usize = 100;
/// Swaps after which memory must be the same as before.
const MANY_SWAPS: usize = 1000;
/// Controllers that are added and removed beside one that stays.
const COMING: usize = 500;
/// How long the load is measured before the first change.
const WATCHED_MILLIS: u64 = 2000;

pub(super) fn works() -> Vec<Work> {
    let under_load = vec![
        Figure::lower("keys lost", "keys", "lost"),
        Figure::lower("keys run twice at once", "keys", "twice"),
        Figure::lower("swap pause p99", "µs", "pause p99 us"),
        Figure::lower("p99 event to answer, before the swaps", "µs", "before p99 us"),
        Figure::higher("least throughput in 100 ms of swaps, beside that before", "%", "least percent"),
        Figure::lower("swap, from its write to its verdict, p50", "ms", "swap p50 ms"),
    ];
    let memory = vec![Figure::lower("memory that 1,000 swaps leave behind", "MiB", "left mib")];
    let bystander = vec![
        Figure::lower("bystander p99", "µs", "beside p99 us"),
        Figure::lower("bystander p99, as fast as controllers come and go", "µs", "hurried p99 us"),
        Figure::lower("bystander p99, nothing beside it", "µs", "alone p99 us"),
    ];
    vec![
        work("under load", SWAPS, under_load),
        work("memory", MANY_SWAPS, memory),
        work("bystander", COMING, bystander),
    ]
}

fn work(name: &'static str, changes: usize, figures: Vec<Figure>) -> Work {
    let size = Size { keys: changes, workers: 4, millis: WATCHED_MILLIS };
    // The first run compiles a component for each swap.
    Work {
        suite: Suite::Swap,
        name,
        size,
        figures,
        peers: Vec::new(),
        timeout: Duration::from_secs(300),
        backend: None,
    }
}
