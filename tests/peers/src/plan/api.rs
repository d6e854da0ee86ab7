//! The works of the Kubernetes API: the same requests to a host, and to kube-apiserver with etcd.

use std::time::Duration;

use super::{Figure, KUBE_APISERVER, Work};
use crate::arguments::{Size, Suite};

/// The work with writes, whose servers flush each of them.
pub(crate) const WRITES: &str = "writes";
/// The work with lists and watches.
pub(crate) const READS: &str = "reads";

/// The work with hosts for the tests of operators.
pub(crate) const TESTENV: &str = "testenv";

/// Starts of a host for tests; the figure is the median.
const STARTS: usize = 9;
/// Resources that are written one after the other.
const WRITTEN: usize = 10_000;
/// Resources of the longer list; the shorter one has a tenth of them.
const LISTED: usize = 100_000;
/// How long updates are measured.
const MILLIS: u64 = 4000;
/// Writers at once.
const WRITERS: usize = 64;
/// Watchers of one kind.
const WATCHERS: usize = 1000;

pub(super) fn works() -> Vec<Work> {
    vec![writes(), reads(), testenv()]
}

fn writes() -> Work {
    let figures = vec![
        Figure::lower("time to ready, API", "ms", "ready ms"),
        Figure::lower("memory of an idle API", "MiB", "idle mib"),
        Figure::higher("creates, 64 clients", "creates/s", "creates/s"),
        Figure::lower("p50 of a create, 64 clients", "ms", "create p50 ms"),
        Figure::lower("p99 of a create, 64 clients", "ms", "create p99 ms"),
        Figure::higher("updates, 64 clients", "updates/s", "updates/s"),
        Figure::lower("p50 of an update, 64 clients", "ms", "update p50 ms"),
        Figure::lower("p99 of an update, 64 clients", "ms", "update p99 ms"),
        Figure::lower("memory of an API with 10,000 resources", "MiB", "mib"),
    ];
    work(WRITES, Size { keys: WRITTEN, workers: WRITERS, millis: MILLIS }, figures)
}

fn reads() -> Work {
    let figures = vec![
        Figure::lower("list of 10,000 resources, API", "ms", "list ms"),
        Figure::lower("list of 100,000 resources, API", "ms", "long list ms"),
        Figure::lower("memory of an API after the list of 100,000", "MiB", "mib"),
        Figure::lower("write to the last of 1,000 watchers, API, p50", "ms", "watch p50 ms"),
        Figure::lower("write to the last of 1,000 watchers, API, p99", "ms", "watch p99 ms"),
    ];
    work(READS, Size { keys: LISTED, workers: WATCHERS, millis: 0 }, figures)
}

fn testenv() -> Work {
    let figures = vec![Figure::lower("time to ready, testenv", "ms", "ready ms")];
    work(TESTENV, Size { keys: STARTS, workers: 1, millis: 0 }, figures)
}

fn work(name: &'static str, size: Size, figures: Vec<Figure>) -> Work {
    let timeout = Duration::from_secs(600);
    Work { suite: Suite::Api, name, size, figures, peers: vec![KUBE_APISERVER], timeout, backend: None }
}
