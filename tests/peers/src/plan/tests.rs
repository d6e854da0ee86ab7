//! Tests of the plan.

use std::collections::BTreeSet;

use super::*;

const SUITES: [Suite; 9] = [
    Suite::Queue,
    Suite::Loop,
    Suite::Tax,
    Suite::Store,
    Suite::Stores,
    Suite::Density,
    Suite::Swap,
    Suite::Fleet,
    Suite::Api,
];

#[test]
fn no_two_figures_of_a_suite_share_a_name() {
    for suite in SUITES {
        let names: Vec<String> =
            works(suite).into_iter().flat_map(|work| work.figures).map(|figure| figure.name).collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
}

#[test]
fn published_figures_keep_their_names() {
    let all: Vec<String> =
        SUITES.into_iter().flat_map(works).flat_map(|work| work.figures).map(|figure| figure.name).collect();
    for name in [
        "add+get+done",
        "bytes per waiting key",
        "no-op loop, 2 workers",
        "host tax, no-op",
        "no-op reconcile, two cores beside one",
        "durable writes, 64 writers",
        "status loop, kubernetes",
        "requests per key",
        "memory per cached resource",
        "durable writes, nats",
        "idle controller, one component",
        "idle controller, distinct components",
        "100 idle controllers",
        "keys lost",
        "keys run twice at once",
        "swap pause p99",
        "bystander p99",
        "memory of 10,000 controllers and 1,000,000 keys",
    ] {
        assert!(all.iter().any(|other| other == name), "{name} is not in {all:?}");
    }
}

#[test]
fn thousands_are_set_apart() {
    assert_eq!(with_commas(7), "7");
    assert_eq!(with_commas(1000), "1,000");
    assert_eq!(with_commas(1_000_000), "1,000,000");
}

#[test]
fn a_tiny_work_has_only_the_peers_in_this_binary() {
    for work in SUITES.into_iter().flat_map(works) {
        let tiny = work.clone().tiny();
        assert_eq!((tiny.name, &tiny.figures), (work.name, &work.figures));
        assert!(tiny.size.keys <= 200 && tiny.size.millis <= 1000, "{tiny:?}");
        assert!(tiny.peers.iter().all(|peer| peer.program == Program::This), "{tiny:?}");
    }
}
