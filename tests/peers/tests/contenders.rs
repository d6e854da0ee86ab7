//! Checks that every contender in this binary still runs and gives plausible figures.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs a suite in tiny sizes, and returns its results.
fn results(suite: &str) -> Vec<Value> {
    let guests = homeostat_tests::guest("guest-noop");
    results_with(suite, guests.parent().expect("the guest lies in a folder"))
}

/// The same with the guests of a folder.
fn results_with(suite: &str, guests: &Path) -> Vec<Value> {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("peers-{suite}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat-peers"));
    command.args([suite, "--tiny", "--rounds", "1"]).arg("--out").arg(&out);
    command.arg("--guests").arg(guests).arg("--host").arg(homeostat_tests::homeostat());
    let output = command.output().expect("the driver starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("failed at"), "{said}");
    let rows = std::fs::read(out.join(format!("{suite}.json"))).expect("the results were written");
    serde_json::from_slice(&rows).expect("the results are a list")
}

/// Asserts that `figure` was measured beside each of these peers, and that both sides are positive.
fn assert_measured(rows: &[Value], figure: &str, peers: &[&str]) {
    let of_figure: Vec<&Value> = rows.iter().filter(|row| row["figure"] == figure).collect();
    let named: Vec<&str> = of_figure.iter().filter_map(|row| row["peer_name"].as_str()).collect();
    assert_eq!(named, peers, "{figure}");
    assert!(!of_figure.is_empty(), "{figure} was not measured");
    for row in of_figure {
        let positive = |value: &Value| value.as_f64().is_some_and(|value| value > 0.0);
        assert!(positive(&row["ours"]) && (peers.is_empty() || positive(&row["peer"])), "{row}");
    }
}

#[test]
fn the_queue_does_every_work() {
    let rows = results("queue");
    for figure in ["add+get+done", "add of a key that is ready", "get+done+add among 1,000 ready keys"] {
        assert_measured(&rows, figure, &[]);
    }
    assert_measured(&rows, "add of a waiting key, 1,000,000 of them", &[]);
    for figure in ["add beside 1,000 workers and 1,000,000 keys", "50 producers x 10 workers"] {
        assert_measured(&rows, figure, &[]);
    }
    assert_measured(&rows, "p99 add to start, sleeping worker", &[]);
}

#[test]
fn the_loop_runs_every_guest() {
    let rows = results("loop");
    assert_measured(&rows, "no-op loop, 2 workers", &[]);
    assert_measured(&rows, "status loop, 2 workers", &[]);
    for whom in ["alone", "beside 100,000 ready keys", "beside code that only computes"] {
        assert_measured(&rows, &format!("p99 add to start, {whom}"), &[]);
    }
}

#[test]
fn the_tax_is_measured_above_the_bare_call_and_the_sandbox() {
    let rows = results("tax");
    let peers = ["bare wasmtime call", "the sandbox alone"];
    assert_measured(&rows, "reconcile, no-op", &peers);
    assert_measured(&rows, "no-op reconcile, two cores beside one", &peers);
}

#[test]
fn the_store_is_written_watched_and_listed() {
    let rows = results("store");
    for figure in
        ["durable writes, 1 writer", "durable writes over loopback, 64 writers", "p99 of a durable write, 64 writers"]
    {
        assert_measured(&rows, figure, &[]);
    }
    for place in ["", " over loopback"] {
        assert_measured(&rows, &format!("write to the last of 1,000 watchers{place}, p50"), &[]);
    }
    assert_measured(&rows, "memory that a list of 100,000 resources takes", &[]);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_guest_controls_a_cluster_and_both_stores_of_nats_are_written() {
    let rows = results("stores");
    for figure in ["status loop, kubernetes", "requests per key", "p99 event to status, kubernetes"] {
        assert_measured(&rows, figure, &[]);
    }
    assert_measured(&rows, "status loop, embedded store", &[]);
    for figure in ["durable writes, nats", "p99 of a write, nats with its default flush"] {
        assert_measured(&rows, figure, &["bare async-nats"]);
    }
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_host_and_an_api_server_take_the_same_requests() {
    let rows = results("api");
    let peers = ["kube-apiserver with etcd"];
    for figure in ["time to ready, API", "memory of an idle API", "creates, 64 clients", "p99 of an update, 64 clients"]
    {
        assert_measured(&rows, figure, &peers);
    }
    for figure in
        ["list of 100,000 resources, API", "write to the last of 1,000 watchers, API, p99", "time to ready, testenv"]
    {
        assert_measured(&rows, figure, &peers);
    }
}

#[test]
fn controllers_are_counted_idle_in_flight_and_beside_every_neighbour() {
    let rows = results("density");
    for figure in ["100 idle controllers", "10,000 idle controllers, one component, Pss"] {
        assert_measured(&rows, figure, &[]);
    }
    assert_measured(&rows, "answer of a component at rest, p50", &[]);
    for figure in ["start-up of 10,000 controllers", "p99 event to start, 10,000 controllers and 1,000,000 keys"] {
        assert_measured(&rows, figure, &[]);
    }
    assert_measured(&rows, "memory of 250 in flight, 100 controllers", &[]);
    for whom in ["alone", "beside ten controllers per core that loop", "beside one that is stuck in a host call"] {
        assert_measured(&rows, &format!("p99 event to answer of 50 controllers, {whom}"), &[]);
    }
}

#[test]
fn swaps_lose_no_key_and_run_none_twice_at_once() {
    let rows = results("swap");
    for figure in ["keys lost", "keys run twice at once"] {
        let row = rows.iter().find(|row| row["figure"] == figure).expect("the figure was measured");
        assert_eq!(row["ours"], 0.0, "{figure}");
    }
    for figure in ["swap pause p99", "bystander p99", "bystander p99, nothing beside it"] {
        assert_measured(&rows, figure, &[]);
    }
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn the_hosts_of_a_fleet_do_every_loop() {
    let rows = results("fleet");
    for figure in ["no-op loop, 1 host", "status loop, 1 host", "no-op loop, 4 hosts", "status loop, 4 hosts"] {
        assert_measured(&rows, figure, &[]);
        assert_measured(&rows, &format!("processor time per key, {figure}"), &[]);
    }
}

/// One guest stands for the projects of all languages, which their toolchains build.
#[test]
fn a_controller_of_each_language_is_measured_from_its_first_answer() {
    let guests = tempfile::tempdir().expect("folders can be made");
    let languages = ["rust", "c", "go", "js", "python"];
    for language in languages {
        let copy = guests.path().join(format!("guest_{language}.wasm"));
        std::fs::copy(homeostat_tests::guest("greeter"), copy).expect("files can be copied");
    }
    let rows = results_with("languages", guests.path());
    for language in languages {
        for figure in ["first answer without a cache", "processor time of a reconcile", "memory of an instance"] {
            assert_measured(&rows, &format!("{figure}, {language}"), &[]);
        }
    }
}
