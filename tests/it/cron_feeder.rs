//! The feeder `cron` of a real host: it runs at its moments, and a restart tells which of them were missed. The tests in
//! `host/runtime/src/feeders/cron/tests.rs` have every rule in virtual time.

use std::fs;

use homeostat_testing::eventually_built;
use homeostat_tests::{HostProcess, guest};
use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns the status of a feeder; `None` before the controller runs.
fn feeder(host: &HostProcess, name: &str) -> Option<Value> {
    let output = host.ask(&["get", "controller", "noop", "-o", "json"]);
    let document: Value = serde_json::from_str(&output.stdout).ok()?;
    document.pointer("/status/feeders")?.as_array()?.iter().find(|feeder| feeder["name"] == name).cloned()
}

/// Returns the recorded run of a feeder.
fn record(host: &HostProcess, name: &str) -> Option<String> {
    let output = host.ask(&["get", "controller", "noop", "-o", "json"]);
    let document: Value = serde_json::from_str(&output.stdout).ok()?;
    Some(document["status"]["schedules"][name]["lastRun"].as_str()?.to_owned())
}

/// The record of the hourly feeder is set back by three hours while the host runs, and the host is killed at once: so it
/// was away for three hours. The feeder `minutely` has the shortest schedule, and runs within a minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_runs_at_its_moments_and_reports_those_that_a_killed_host_missed() {
    let (manifests, scratch) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let cron = |name: &str, schedule: &str| {
        let keys = json!([{"namespace": "default", "name": name}]);
        json!({"name": name, "cron": {"schedule": schedule}, "keys": keys})
    };
    let controller = json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": {"name": "noop"},
        "spec": {
            "component": {"file": guest("guest-noop")},
            "grants": {"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]},
            "feeders": [cron("hourly", "@hourly"), cron("minutely", "* * * * *")],
        },
    });
    fs::write(manifests.path().join("noop.json"), controller.to_string()).unwrap();
    let start = || HostProcess::start_on_port("http", manifests.path(), scratch.path(), &[], &[]);
    let host = start();
    eventually_built("the first record", || record(&host, "hourly"));
    let past = (Timestamp::now() - 3.hours()).to_string();
    let patch = json!({"status": {"schedules": {"hourly": {"lastRun": past}}}}).to_string();
    let url = format!("{}/apis/homeostat.dev/v1alpha1/controllers/noop/status", host.server());
    let request = reqwest::Client::new().patch(url).header("content-type", "application/merge-patch+json");
    let answer = request.body(patch).send().await.unwrap();
    assert!(answer.status().is_success(), "{:?}", answer.text().await);
    host.kill();
    let host = start();
    let missed = eventually_built("the missed runs", || {
        feeder(&host, "hourly").filter(|feeder| feeder["missed"].as_u64() > Some(0) && feeder["keys"] == 1)
    });
    // The fourth hour may have begun meanwhile.
    assert!(matches!(missed["missed"].as_u64(), Some(3 | 4)), "{missed}");
    eventually_built("the event of the missed runs", || {
        let events = host.ask(&["get", "events", "-A", "-o", "json"]).stdout;
        (events.contains("RunsMissed") && events.contains("one run starts now")).then_some(())
    });
    let first = eventually_built("the next minute", || {
        feeder(&host, "minutely").filter(|feeder| feeder["keys"].as_u64() > Some(0))
    });
    assert_eq!((&first["state"], &first["source"]), (&json!("running"), &json!("cron")), "{first}");
    let done =
        eventually_built("the record of the run that made up", || record(&host, "hourly").filter(|last| *last > past));
    host.kill();
    let host = start();
    let again = eventually_built("the feeder to wait", || {
        feeder(&host, "hourly").filter(|feeder| feeder["nextRun"].is_string())
    });
    if record(&host, "hourly") == Some(done) {
        assert_eq!((again["missed"].as_u64(), again["keys"].as_u64()), (Some(0), Some(0)), "{again}");
    }
}
