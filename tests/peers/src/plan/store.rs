//! The works of the store.

use std::time::Duration;

use super::{ETCD, Figure, Work};
use crate::arguments::{Size, Suite};

/// Resources that are written one after the other.
const WRITTEN: usize = 10_000;
/// Resources that are listed.
const LISTED: usize = 100_000;
/// How long writers are measured.
const MILLIS: u64 = 4000;
/// Writes whose events are measured.
const EVENTS: usize = 200;
/// Watchers of one kind.
const WATCHERS: usize = 1000;

/// Where the client is: in the same process, or behind a socket.
const PLACES: [(&str, &str); 2] = [("", ""), (" over loopback", " over loopback")];

pub(super) fn works() -> Vec<Work> {
    let mut works = Vec::new();
    for (place, shown) in PLACES {
        works.extend([1, 64].map(|writers| writes(place, shown, writers)));
    }
    works.extend(PLACES.map(|(place, shown)| fan_out(place, shown)));
    works.push(list());
    works
}

fn writes(place: &str, shown: &str, writers: usize) -> Work {
    let who = if writers == 1 { "1 writer".to_owned() } else { format!("{writers} writers") };
    let figures = vec![
        Figure::higher(&format!("durable writes{shown}, {who}"), "writes/s", "writes/s"),
        Figure::lower(&format!("p50 of a durable write{shown}, {who}"), "ms", "p50 ms"),
        Figure::lower(&format!("p99 of a durable write{shown}, {who}"), "ms", "p99 ms"),
    ];
    let name = if place.is_empty() { "write" } else { "write over loopback" };
    work(name, Size { keys: WRITTEN, workers: writers, millis: MILLIS }, figures)
}

fn fan_out(place: &str, shown: &str) -> Work {
    let figures = vec![
        Figure::lower(&format!("write to its one watcher{shown}, p50"), "µs", "one us"),
        Figure::lower(&format!("write to the last of 1,000 watchers{shown}, p50"), "µs", "all us"),
    ];
    let name = if place.is_empty() { "fan-out" } else { "fan-out over loopback" };
    work(name, Size { keys: EVENTS, workers: WATCHERS, millis: 0 }, figures)
}

fn list() -> Work {
    let figures = vec![
        Figure::lower("list of 100,000 resources", "ms", "ms"),
        Figure::lower("memory that a list of 100,000 resources takes", "MiB", "mib"),
    ];
    work("list", Size { keys: LISTED, workers: 1, millis: 0 }, figures)
}

fn work(name: &'static str, size: Size, figures: Vec<Figure>) -> Work {
    Work {
        suite: Suite::Store,
        name,
        size,
        figures,
        peers: vec![ETCD],
        timeout: Duration::from_secs(180),
        backend: None,
    }
}
