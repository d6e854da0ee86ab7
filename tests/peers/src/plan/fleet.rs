//! The works of a fleet: the same loop on one host and on several, each with one processor.

use std::time::Duration;

use super::{Backend, Figure, Work};
use crate::arguments::{Size, Suite};

/// The works: the name, the hosts and the number of keys.
const WORKS: [(&str, usize, usize); 6] = [
    ("no-op loop, 1 host", 1, NO_OP_KEYS),
    ("no-op loop, 2 hosts", 2, NO_OP_KEYS),
    ("no-op loop, 4 hosts", 4, NO_OP_KEYS),
    ("status loop, 1 host", 1, STATUS_KEYS),
    ("status loop, 2 hosts", 2, STATUS_KEYS),
    ("status loop, 4 hosts", 4, STATUS_KEYS),
];
/// As many as a queue takes by default.
const NO_OP_KEYS: usize = 100_000;
const STATUS_KEYS: usize = 10_000;
/// Hosts of a tiny work at most: each more costs seconds until it has its shards.
pub(super) const HOSTS_TINY: usize = 2;

pub(super) fn works() -> Vec<Work> {
    WORKS.into_iter().map(|(name, hosts, keys)| work(name, hosts, keys)).collect()
}

/// The workers of the size are the hosts.
fn work(name: &'static str, hosts: usize, keys: usize) -> Work {
    let figures = vec![
        Figure::higher(name, "keys/s", "keys/s"),
        Figure::lower(&format!("processor time per key, {name}"), "µs", "cpu us"),
    ];
    let size = Size { keys, workers: hosts, millis: 0 };
    let timeout = Duration::from_secs(180);
    Work { suite: Suite::Fleet, name, size, figures, peers: Vec::new(), timeout, backend: Some(Backend::Nats) }
}
