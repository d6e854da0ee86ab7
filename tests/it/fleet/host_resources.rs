//! Hosts of a fleet as resources of each of them.

use std::time::{Duration, Instant};

use homeostat_testing::eventually_built;
use serde_json::{Value, json};

use super::{Fleet, HOSTS, Member};
use crate::stores::hosts::in_nats;

/// The length of the leases, and how much later than that a killed host is shown as gone at most: a tick of the balance,
/// the wait before a look, and the time of the machine.
const LEASE: (&str, Duration) = ("3s", Duration::from_secs(3));
const SHOWN_WITHIN: Duration = Duration::from_secs(10);

impl Member {
    /// Waits until this host has resources of exactly these hosts, each with the status and the reason of `Ready`.
    fn has_hosts(&self, expected: &[(&str, &str, &str)]) {
        let expected = json!(expected);
        eventually_built(&format!("host {} to have {expected}: {}", self.name, self.process.stderr()), || {
            let output = self.process.ask(&["get", "hosts", "-o", "json"]);
            let list: Value = serde_json::from_str(&output.stdout).ok()?;
            let row = |item: &Value| {
                let ready = &item["status"]["conditions"][0];
                json!([item["metadata"]["name"], ready["status"], ready["reason"]])
            };
            (list["items"].as_array()?.iter().map(row).collect::<Value>() == expected).then_some(())
        });
    }
}

/// C7: Three hosts show each other as resources, and a killed one is not ready after its lease.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn hosts_are_resources_of_each_other_and_a_killed_one_is_not_ready() {
    let fleet = Fleet::over(&in_nats("fleet-resources"), "default", LEASE.0);
    fleet.service.release_all();
    let mut members = Vec::from(HOSTS.map(|(name, _)| fleet.start(name)));
    let active = |name| (name, "True", "Active");
    for member in &members {
        member.has_hosts(&["a", "b", "c"].map(active));
    }
    let shown = members[0].process.json(&["get", "host", "b"]);
    let status = &shown["status"];
    assert!(status["address"].as_str().unwrap().starts_with("unix:"), "{shown}");
    assert_eq!((&status["version"], &status["isThis"]), (&json!(env!("CARGO_PKG_VERSION")), &json!(false)), "{shown}");
    assert!(status["processors"].is_u64() && status["heartbeat"].is_string(), "{shown}");
    // Both tables have the same columns.
    let header = |arguments: &[&str]| members[0].process.ask(arguments).stdout.lines().next().unwrap().to_owned();
    let words = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(header(&["hosts", "-o", "wide"])), words(header(&["get", "hosts", "-o", "wide"])));

    let killed = members.pop().unwrap();
    killed.process.kill();
    let since = Instant::now();
    for member in &members {
        member.has_hosts(&[active("a"), active("b"), ("c", "False", "LeaseExpired")]);
    }
    assert!(since.elapsed() < LEASE.1 + SHOWN_WITHIN, "{:?}", since.elapsed());
    // It comes back as the same resource, and leaves in order.
    let again = fleet.start("c");
    members[0].has_hosts(&["a", "b", "c"].map(active));
    drop(again.stop());
    members[0].has_hosts(&[active("a"), active("b"), ("c", "False", "LeaseReleased")]);
}
