//! The works of the queue.

use std::time::Duration;

use super::{
    CLIENT_GO, CLIENT_GO_LIMITING, CLIENT_GO_METRICS, CONTROLLER_RUNTIME_QUEUE, Figure, KUBE_SCHEDULER, System, Work,
    with_commas,
};
use crate::arguments::{Size, Suite};

/// Queues that hold keys and hand them out.
const ALL: &[System] = &[CLIENT_GO, CLIENT_GO_METRICS, CLIENT_GO_LIMITING, CONTROLLER_RUNTIME_QUEUE, KUBE_SCHEDULER];
/// Queues that more than one thread can use.
const SHARED: &[System] = &[CLIENT_GO, CLIENT_GO_METRICS, CLIENT_GO_LIMITING, CONTROLLER_RUNTIME_QUEUE];
/// Queues that can hold a key until it is due. client-go's plain queue cannot.
const DELAYING: &[System] = &[CLIENT_GO_LIMITING, CONTROLLER_RUNTIME_QUEUE, KUBE_SCHEDULER];

/// The work whose keys become due.
pub(super) const WAITING: &str = "waiting";

pub(super) fn works() -> Vec<Work> {
    let mut works = vec![
        work("add+get+done", (1000, 1, 1000), ALL, vec![Figure::lower("add+get+done", "ns/key", "ns")]),
        work("add only", (1000, 1, 1000), ALL, vec![Figure::lower("add of a key that is ready", "ns/add", "ns")]),
        work(
            "add contended",
            (1_000_000, 1000, 1000),
            SHARED,
            vec![Figure::lower("add beside 1,000 workers and 1,000,000 keys", "ns/add", "ns")],
        ),
        work(WAITING, (1_000_000, 1, 12_000), DELAYING, waiting()),
        work(
            "producers",
            (1_000_000, 10, 0),
            SHARED,
            vec![Figure::higher("50 producers x 10 workers", "keys/s", "keys/s")],
        ),
        work(
            "wake-up",
            (2000, 1, 0),
            SHARED,
            vec![
                Figure::lower("p50 add to start, sleeping worker", "µs", "p50 us"),
                Figure::lower("p99 add to start, sleeping worker", "µs", "p99 us"),
            ],
        ),
        work(
            "idle",
            (1000, 1, 3000),
            SHARED,
            vec![Figure::lower("processor time of 1,000 idle queues", "µs/s", "us/s")],
        ),
    ];
    works.extend([1000, 10_000, 100_000, 1_000_000].map(depth));
    works
}

fn waiting() -> Vec<Figure> {
    vec![
        Figure::lower("bytes per waiting key", "B", "bytes"),
        Figure::lower("bytes of the key itself", "B", "key bytes"),
        Figure::lower("add of a waiting key, 1,000,000 of them", "ns/key", "build ns"),
        Figure::lower("get+done of a key that was waiting, 1,000,000 of them", "ns/key", "fire ns"),
        Figure::lower("keys out of order, of 1,000,000 that were waiting", "keys", "out of order"),
    ]
}

fn depth(keys: usize) -> Work {
    let name = format!("get+done+add among {} ready keys", with_commas(keys));
    work("depth", (keys, 1, 1000), ALL, vec![Figure::lower(&name, "ns/key", "ns")])
}

fn work(
    name: &'static str,
    (keys, workers, millis): (usize, usize, u64),
    peers: &[System],
    figures: Vec<Figure>,
) -> Work {
    let size = Size { keys, workers, millis };
    Work {
        suite: Suite::Queue,
        name,
        size,
        figures,
        peers: peers.into(),
        timeout: Duration::from_secs(90),
        backend: None,
    }
}
