//! The works about memory of idle and active controllers, about start-up, and about neighbours.

use std::time::Duration;

use super::{CONTROLLER_RUNTIME, Figure, System, Work, with_commas};
use crate::arguments::{Size, Suite};

/// Numbers of calls in flight, in increasing order.
pub(crate) const FLIGHTS: [(usize, &str); 4] = [(1, "1 mib"), (10, "10 mib"), (100, "100 mib"), (250, "250 mib")];

/// Controllers of the work about a crowd.
const CROWD: usize = 10_000;
/// Keys that wait in the queue of each of them.
pub(crate) const CROWD_KEYS_EACH: usize = 100;

/// The misbehaving neighbours: the name of the work, and its name in the table. The peer's code is native, so
/// it can only be alone or compute.
const NEIGHBOURS: [(&str, &str, &[System]); 20] = [
    ("alone", "alone", &[CONTROLLER_RUNTIME]),
    ("beside loop each", "beside a controller per core that loops", &[CONTROLLER_RUNTIME]),
    ("beside loop ten", "beside ten controllers per core that loop", &[CONTROLLER_RUNTIME]),
    ("beside memory", "beside one that allocates without end", &[]),
    ("beside stuck", "beside one that is stuck in a host call", &[]),
    ("beside slow", "beside one that waits for its deadline", &[]),
    ("beside trap", "beside one that traps", &[]),
    ("beside panic", "beside one that panics", &[]),
    ("beside recurse", "beside one that exhausts its stack", &[]),
    ("beside calls", "beside one that reads without end", &[]),
    ("beside handles", "beside one that opens handles without end", &[]),
    ("beside log-flood", "beside one that logs without end", &[]),
    ("beside print-flood", "beside one that prints without end", &[]),
    ("beside event-flood", "beside one that emits events without end", &[]),
    ("beside write-flood", "beside one that writes without end", &[]),
    ("beside random-flood", "beside one that asks for randomness without end", &[]),
    ("beside free-calls", "beside one that calls without end", &[]),
    ("beside huge-text", "beside one that hands over 20 MB", &[]),
    ("beside huge-list", "beside one that hands over half a million fields", &[]),
    ("beside again", "beside one that wants to run again at once", &[]),
];
/// Keys of each misbehaving controller: more than can be in backoff at once.
const HOSTILE_KEYS: usize = 1000;
/// How long the neighbours are measured.
const WATCHED_MILLIS: u64 = 3000;

pub(super) fn works() -> Vec<Work> {
    let mut works = vec![
        idle("idle one", 1000, "one component", &[CONTROLLER_RUNTIME]),
        idle("idle one", 10_000, "one component", &[CONTROLLER_RUNTIME]),
        idle("idle distinct", 100, "distinct components", &[]),
        idle("idle distinct", 1000, "distinct components", &[]),
        first_answer(),
        crowd(),
    ];
    works.extend([1, 100, 1000].map(in_flight));
    works.extend(NEIGHBOURS.map(|(name, whom, peers)| neighbours(name, whom, peers)));
    works
}

/// The cost of one more controller is reported for a thousand of them; that of the whole process for every
/// number.
fn idle(name: &'static str, controllers: usize, what: &str, peers: &[System]) -> Work {
    let count = with_commas(controllers);
    // The name under which others have published the figure for a hundred controllers with components of
    // their own.
    let all = if (controllers, name) == (100, "idle distinct") {
        "100 idle controllers".to_owned()
    } else {
        format!("{count} idle controllers, {what}")
    };
    let mut figures = Vec::new();
    if controllers == 1000 {
        figures.push(Figure::lower(&format!("idle controller, {what}"), "MiB", "each mib"));
        figures.push(Figure::lower(&format!("idle controller, {what}, Pss"), "MiB", "each pss mib"));
    }
    figures.push(Figure::lower(&all, "MiB", "all mib"));
    figures.push(Figure::lower(&format!("{all}, Pss"), "MiB", "all pss mib"));
    work(name, Size { keys: controllers, workers: 1, millis: 0 }, figures, peers)
}

fn first_answer() -> Work {
    let figures = vec![
        Figure::lower("cached compilation to first answer, p50", "µs", "cached p50 us"),
        Figure::lower("cached compilation to first answer, p99", "µs", "cached p99 us"),
        Figure::lower("answer of a component at rest, p50", "µs", "rest p50 us"),
        Figure::lower("answer of a component at rest, p99", "µs", "rest p99 us"),
        Figure::lower("answer of the same right after, p50", "µs", "again p50 us"),
    ];
    work("first answer", Size { keys: 100, workers: 1, millis: 0 }, figures, &[])
}

/// Many controllers with many waiting keys.
fn crowd() -> Work {
    let whom = format!("{} controllers and {} keys", with_commas(CROWD), with_commas(CROWD * CROWD_KEYS_EACH));
    let figures = vec![
        Figure::lower(&format!("start-up of {} controllers", with_commas(CROWD)), "s", "start s"),
        Figure::lower(&format!("memory of {whom}"), "MiB", "all mib"),
        Figure::lower("memory per waiting key among them", "B", "key bytes"),
        Figure::lower(&format!("p50 event to start, {whom}"), "µs", "p50 us"),
        Figure::lower(&format!("p99 event to start, {whom}"), "µs", "p99 us"),
    ];
    work("crowd", Size { keys: CROWD, workers: 1, millis: WATCHED_MILLIS }, figures, &[])
}

fn in_flight(controllers: usize) -> Work {
    let one = if controllers == 1 { "controller" } else { "controllers" };
    let figure = |(flight, value): (usize, &'static str)| {
        let name = format!("memory of {flight} in flight, {} {one}", with_commas(controllers));
        Figure::lower(&name, "MiB", value)
    };
    let size = Size { keys: controllers, workers: 1, millis: 0 };
    work("in flight", size, FLIGHTS.map(figure).into(), &[])
}

fn neighbours(name: &'static str, whom: &str, peers: &[System]) -> Work {
    let figure = |(part, value): (&str, &'static str)| {
        Figure::lower(&format!("{part} event to answer of 50 controllers, {whom}"), "µs", value)
    };
    let figures = [("p50", "p50 us"), ("p99", "p99 us")].map(figure).into();
    work(name, Size { keys: HOSTILE_KEYS, workers: 4, millis: WATCHED_MILLIS }, figures, peers)
}

fn work(name: &'static str, size: Size, figures: Vec<Figure>, peers: &[System]) -> Work {
    // The first run compiles a thousand components.
    Work {
        suite: Suite::Density,
        name,
        size,
        figures,
        peers: peers.into(),
        timeout: Duration::from_secs(600),
        backend: None,
    }
}
