//! The commands that show and change the queue of a controller, against a running host.

use std::path::Path;

use homeostat_testing::{eventually_blocking, eventually_equal};
use homeostat_tests::{HostProcess, Output, guest};
use serde_json::Value;

/// A host with the guest `scripted`.
struct Host {
    _folder: tempfile::TempDir,
    scratch: tempfile::TempDir,
    running: HostProcess,
}

impl Host {
    fn start() -> Self {
        let host = Self::with("");
        host.until_state("ready");
        host
    }

    /// Starts a host with more lines in the manifest.
    fn with(more: &str) -> Self {
        Self::with_arguments(more, &[])
    }

    fn with_arguments(more: &str, arguments: &[&str]) -> Self {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::copy(guest("guest-scripted"), folder.path().join("scripted.wasm")).unwrap();
        let manifest = format!(
            "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: scripted}}\nspec:\n  \
             component: {{file: scripted.wasm}}\n  grants:\n    resources:\n    \
             - {{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}}\n  \
             backoff: {{base: 10m, max: 10m}}\n  limits: {{deadline: 300s}}\n{more}"
        );
        std::fs::write(folder.path().join("scripted.yaml"), manifest).unwrap();
        let running = HostProcess::start("run", folder.path(), scratch.path(), arguments);
        Self { _folder: folder, scratch, running }
    }

    /// Starts a host whose controller has only these grants and limits.
    fn granted(resources: &str, limits: &str) -> Self {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::copy(guest("guest-scripted"), folder.path().join("scripted.wasm")).unwrap();
        let manifest = format!(
            "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: scripted}}\nspec:\n  \
             component: {{file: scripted.wasm}}\n  grants:\n    resources:\n    {resources}\n  \
             backoff: {{base: 10m, max: 10m}}\n  limits: {limits}\n"
        );
        std::fs::write(folder.path().join("scripted.yaml"), manifest).unwrap();
        let running = HostProcess::start("run", folder.path(), scratch.path(), &[]);
        let host = Self { _folder: folder, scratch, running };
        host.until_state("ready");
        host
    }

    fn apply_text(&self, manifests: &str) {
        let file = self.scratch.path().join("manifests.yaml");
        write(&file, manifests);
        self.ask(&["apply", "-f", &file.display().to_string()]);
    }

    fn until_state(&self, wanted: &str) {
        self.running.until("controller", "scripted", "/status/state", &wanted.into());
    }

    fn apply(&self, actions: &[(&str, &str)]) {
        let document = |(name, action): &(&str, &str)| {
            format!(
                "---\napiVersion: demo.homeostat.dev/v1\nkind: Scripted\nmetadata: {{name: {name}}}\nspec: {{action: {action}}}\n"
            )
        };
        let file = self.scratch.path().join("actions.yaml");
        write(&file, &actions.iter().map(document).collect::<String>());
        self.ask(&["apply", "-f", &file.display().to_string()]);
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let output = self.running.ask(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.stderr);
        output
    }

    /// Runs a command that the host refuses, and returns the error.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.running.ask(arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", output.stderr);
        output.stderr
    }

    fn reconciles(&self) -> u64 {
        self.running.json(&["get", "controllers", "scripted"])["status"]["reconciles"].as_u64().unwrap()
    }

    /// Returns the names of the keys in these states.
    fn names(&self, more: &[&str]) -> Vec<String> {
        let stdout = self.ask(&[&["queue", "scripted", "-o", "name"], more].concat()).stdout;
        let mut names: Vec<String> =
            stdout.lines().map(|line| line.trim_start_matches("default/").to_owned()).collect();
        names.sort_unstable();
        names
    }

    fn until_names(&self, more: &[&str], wanted: &[&str]) {
        let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
        eventually_equal(&format!("the names of `queue scripted {}`", more.join(" ")), &wanted, || self.names(more));
    }

    /// Returns the queue's entry of one key.
    fn entry(&self, name: &str) -> Option<Value> {
        let list = self.running.json(&["queue", "scripted"]);
        let items = list["items"][0]["items"].as_array().unwrap();
        items.iter().find(|item| item["key"]["name"] == name).cloned()
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn the_queue_shows_state_and_last_error_of_every_key() {
    let host = Host::start();
    host.apply(&[("fails", "fail"), ("never", "fail-never"), ("later", "later"), ("runs", "wait")]);
    host.until_names(&["--state", "parked"], &["never"]);
    host.until_names(&["--state", "waiting"], &["fails", "later"]);
    host.until_names(&["--state", "running"], &["runs"]);
    host.until_names(&["--state", "parked,running"], &["never", "runs"]);
    host.until_names(&["--state", "ready"], &[]);
    host.until_names(&[], &["fails", "later", "never", "runs"]);

    let fails = host.entry("fails").unwrap();
    assert_eq!((&fails["failures"], &fails["lastError"]), (&1.into(), &"failed on purpose".into()));
    assert!(fails["dueInMs"].as_u64().is_some_and(|due| due > 60_000), "{fails}");
    let never = host.entry("never").unwrap();
    assert_eq!((&never["failures"], &never["lastError"]), (&1.into(), &"given up on purpose".into()));
    assert!(host.entry("runs").unwrap()["runningForMs"].is_u64());
    // A change during the run makes the key dirty. A dirty key counts as running too.
    host.apply(&[("runs", "settle")]);
    host.until_names(&["--state", "dirty"], &["runs"]);
    assert_eq!(host.names(&["--state", "running"]), ["runs"]);

    let wide = host.ask(&["queue", "scripted", "-o", "wide"]).stdout;
    let header: Vec<&str> = wide.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["CONTROLLER", "KEY", "STATE", "FAILURES", "DUE", "PRIORITY", "SINCE", "LAST", "ERROR"]);
    let row = |name: &str| wide.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(row("default/never").ends_with("given up on purpose"), "{wide}");
    assert!(row("default/runs").contains(" normal "), "{wide}");
    let yaml = host.ask(&["queue", "scripted", "-o", "yaml", "--state", "parked"]).stdout;
    assert!(yaml.contains("state: parked") && !yaml.contains("state: waiting"), "{yaml}");
    let unknown = host.running.ask(&["queue", "scripted", "--state", "asleep"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.stderr);
}

#[test]
fn queue_counts_the_keys_beyond_its_limit() {
    let host = Host::start();
    host.apply(&[("a", "later"), ("b", "later"), ("c", "fail-never"), ("d", "fail-never"), ("e", "later")]);
    host.until_names(&[], &["a", "b", "c", "d", "e"]);
    for format in ["table", "json", "yaml", "name", "wide"] {
        let said = |more: &[&str]| host.ask(&[&["queue", "scripted", "-o", format], more].concat()).stderr;
        assert_eq!(said(&["--limit", "2"]), "scripted: 2 of 5 keys are shown; --limit shows more\n", "{format}");
        let parked = said(&["--limit", "1", "--state", "parked"]);
        assert_eq!(parked, "scripted: 1 of 2 keys are shown; --limit shows more\n", "{format}");
        assert_eq!(said(&["--limit", "5"]), "", "{format}");
    }
}

#[test]
fn a_suspended_controller_keeps_its_keys_and_a_resumed_one_runs_them() {
    let host = Host::start();
    assert_eq!(host.ask(&["suspend", "scripted"]).stdout, "controller.homeostat.dev/scripted suspended\n");
    host.until_state("suspended");
    host.apply(&[("one", "settle"), ("two", "later")]);
    host.until_names(&["--state", "ready"], &["one", "two"]);
    assert!(host.entry("one").unwrap()["readyForMs"].is_u64(), "the entry shows since when the key is ready");
    let before = host.running.json(&["get", "controllers", "scripted"])["status"]["reconciles"].clone();
    assert_eq!(before, 0, "no key was reconciled");
    assert_eq!(host.ask(&["resume", "scripted"]).stdout, "controller.homeostat.dev/scripted resumed\n");
    host.until_names(&[], &["two"]);
    host.until_names(&["--state", "waiting"], &["two"]);
}

/// C4: A controller with `suspend: exceptDeletes` runs only keys whose resource is deleted.
#[test]
fn a_controller_suspended_except_for_deletions_runs_only_deletions() {
    let host = Host::with("  suspend: exceptDeletes\n");
    host.until_state("suspended");
    host.apply(&[("one", "settle"), ("two", "settle")]);
    host.until_names(&["--state", "ready"], &["one", "two"]);
    let refused = host.refused(&["queue", "expedite", "scripted", "scripted", "one"]);
    assert!(refused.contains("suspended except for deletions"), "{refused}");
    let status = || host.running.json(&["get", "controllers", "scripted"])["status"].clone();
    assert_eq!(status()["reconciles"], 0);
    host.ask(&["delete", "scripted", "two"]);
    host.until_names(&[], &["one"]);
    eventually_blocking("the key to have run", || (status()["reconciles"] == 1).then_some(()));
    // A suspension by a person holds deletions back too.
    host.ask(&["suspend", "scripted"]);
    host.ask(&["delete", "scripted", "one"]);
    assert_eq!((status()["reconciles"].as_u64(), host.names(&[])), (Some(1), vec!["one".to_owned()]));
    host.ask(&["resume", "scripted"]);
    host.until_names(&[], &[]);
}

#[test]
fn a_parked_key_runs_again_after_a_retry() {
    let host = Host::start();
    host.apply(&[("never", "fail-never"), ("fails", "fail")]);
    host.until_names(&["--state", "parked"], &["never"]);
    host.until_names(&["--state", "waiting"], &["fails"]);
    let before = host.reconciles();
    let said = host.ask(&["retry", "scripted", "scripted", "never"]).stdout;
    assert_eq!(said, "scripted.demo.homeostat.dev/never retried by scripted\n");
    eventually_blocking("the key to have run", || (host.reconciles() == before + 1).then_some(()));
    host.until_names(&["--state", "parked"], &["never"]);
    host.ask(&["retry", "scripted", "scripted/fails"]);
    eventually_blocking("the other key to have run", || (host.reconciles() == before + 2).then_some(()));
    assert_eq!(host.entry("fails").unwrap()["failures"], 1, "the retry reset the failures");
    host.refused(&["retry", "nobody", "scripted", "never"]);
}

#[test]
fn a_key_that_is_not_queued_cannot_be_retried_but_enqueued() {
    let host = Host::start();
    host.apply(&[("one", "fail-never")]);
    host.until_names(&["--state", "parked"], &["one"]);
    host.ask(&["queue", "cancel", "scripted", "scripted", "one"]);
    host.until_names(&[], &[]);
    for verb in [&["retry"][..], &["queue", "cancel"], &["queue", "expedite"], &["queue", "postpone", "--after", "1s"]]
    {
        let refused = host.refused(&[verb, &["scripted", "scripted", "one"]].concat());
        assert!(
            refused.contains("scripted/one is not on the queue") || refused.contains("default/one is not"),
            "{refused}"
        );
        assert!(refused.contains("homeostat enqueue"), "{refused}");
    }
    let before = host.reconciles();
    assert_eq!(
        host.ask(&["enqueue", "scripted", "one"]).stdout,
        "scripted.demo.homeostat.dev/one enqueued by scripted\n"
    );
    eventually_blocking("the key to have run", || (host.reconciles() == before + 1).then_some(()));
    // With an impossible name, a guest would believe that the resource is gone.
    for impossible in [&["enqueue", "scripted", "BAD name"][..], &["enqueue", "scripted", "one", "-n", "Bad NS"]] {
        let refused = host.refused(impossible);
        assert!(refused.contains("no resource can have the name"), "{refused}");
    }
    // No controller manages the first kind, and another controller the second one.
    let refused = host.refused(&["enqueue", "controller", "scripted"]);
    assert!(refused.contains("no running controller manages controller.homeostat.dev"), "{refused}");
    let refused = host.refused(&["enqueue", "controller", "scripted", "--controller", "scripted"]);
    assert!(
        refused.contains("manages demo.homeostat.dev/v1/Scripted, not homeostat.dev/v1alpha1/Controller"),
        "{refused}"
    );
}

#[test]
fn a_waiting_key_is_postponed_expedited_and_cancelled() {
    let host = Host::start();
    let enqueue = ["enqueue", "scripted/one", "--after", "1h", "--priority", "high", "-n", "red"];
    let said = host.ask(&enqueue).stdout;
    assert!(said.starts_with("scripted.demo.homeostat.dev/one enqueued by scripted, due in "), "{said}");
    assert_eq!(host.names(&["--state", "waiting"]), ["red/one"]);
    let entry = host.entry("one").unwrap();
    assert!(entry["dueInMs"].as_u64().is_some_and(|due| (3_000_000..=3_600_000).contains(&due)), "{entry}");
    assert_eq!(entry["priority"], "high");

    let key = ["scripted", "scripted", "one", "-n", "red"];
    let later = host.running.json(&[&["queue", "postpone", "--after", "10h"], &key[..]].concat());
    assert_eq!((&later["kind"], &later["metadata"]["name"]), (&"Queue".into(), &"scripted".into()));
    assert!(later["items"][0]["dueInMs"].as_u64().is_some_and(|due| due > 30_000_000), "{later}");
    assert_eq!(
        host.ask(&[&["queue", "cancel", "-o", "name"], &key[..]].concat()).stdout,
        "scripted.demo.homeostat.dev/one\n"
    );
    assert_eq!(host.names(&[]), [""; 0]);

    let before = host.reconciles();
    host.ask(&enqueue);
    let said = host.ask(&[&["queue", "expedite"], &key[..]].concat()).stdout;
    assert_eq!(said, "scripted.demo.homeostat.dev/one expedited by scripted\n");
    eventually_blocking("the key to have run", || (host.reconciles() == before + 1).then_some(()));
    host.until_names(&[], &[]);
}

/// T5: with `hold`, no event cuts a requested delay short.
#[test]
fn a_key_enqueued_with_hold_waits_despite_changes_of_its_resource() {
    let host = Host::start();
    let said = host.ask(&["enqueue", "scripted/one", "--after", "1h", "--hold"]).stdout;
    assert!(said.ends_with(", no event makes it earlier\n"), "{said}");
    host.ask(&["enqueue", "scripted/two", "--after", "1h"]);
    // The changes reach the queue in this order.
    host.apply(&[("one", "settle"), ("two", "settle")]);
    eventually_blocking("the key without `hold` to have run", || (host.reconciles() == 1).then_some(()));
    host.until_names(&[], &["one"]);
    let entry = host.entry("one").unwrap();
    assert_eq!((&entry["state"], &entry["held"]), (&"waiting".into(), &true.into()));
    host.ask(&["enqueue", "scripted/one"]);
    assert_eq!(host.names(&["--state", "waiting"]), ["one"], "another enqueue is an event too");
    host.ask(&["retry", "scripted", "scripted", "one"]);
    host.until_names(&[], &[]);
    let refused = host.running.ask(&["enqueue", "scripted/one", "--hold"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
}

/// Returns a script that enqueues keys, as a manifest.
fn enqueues(name: &str, more: &str) -> String {
    format!(
        "apiVersion: demo.homeostat.dev/v1\nkind: Scripted\nmetadata: {{name: {name}}}\nspec: {{action: enqueue, {more}}}\n"
    )
}

#[test]
fn a_guest_enqueues_keys_of_its_own_kind() {
    let host = Host::start();
    host.apply_text(&enqueues("now", "keys: [one, two]"));
    eventually_blocking("the keys to have run", || (host.reconciles() == 3).then_some(()));
    host.apply_text(&enqueues("later", "keys: [one, two], afterMs: 3600000"));
    host.until_names(&["--state", "waiting"], &["one", "two"]);
    assert_eq!(host.entry("one").unwrap()["held"], true);
    host.apply(&[("one", "settle"), ("two", "settle"), ("three", "settle")]);
    eventually_blocking("the last change to have run", || (host.reconciles() == 5).then_some(()));
    assert_eq!(host.names(&["--state", "waiting"]), ["one", "two"]);
}

#[test]
fn a_guest_enqueues_nothing_without_the_grant_and_within_its_limits() {
    let verbs = |verbs: &str| format!("- {{kinds: [demo.homeostat.dev/Scripted], verbs: [{verbs}]}}");
    let failure = |host: &Host| {
        let error = || Some(host.entry("a")?["lastError"].as_str()?.to_owned());
        eventually_blocking("the failure", error)
    };
    let host = Host::granted(&verbs("get, list, watch"), "{}");
    host.apply_text(&enqueues("a", "keys: [one]"));
    let denied = failure(&host);
    assert!(denied.contains("no grant for enqueue of demo.homeostat.dev/Scripted"), "{denied}");
    assert_eq!(host.names(&[]), ["a"]);
    let learned = host.ask(&["grants", "learn", "scripted"]);
    assert!(
        format!("{}{}", learned.stdout, learned.stderr).contains("enqueue"),
        "{}{}",
        learned.stdout,
        learned.stderr
    );

    // The read of the script is an effect too. The failed key has a place in the queue.
    for (limits, says, queued) in [
        ("{effects: 3}", "limit effects", &["a", "b", "c"][..]),
        ("{keys: 2}", "limit keys: the queue is full", &["a", "b"]),
    ] {
        let host = Host::granted(&verbs("get, list, watch, enqueue"), limits);
        host.apply_text(&enqueues("a", "keys: [b, c, d], afterMs: 3600000"));
        let error = failure(&host);
        assert!(error.contains(says), "{error}");
        assert_eq!(host.names(&[]), queued, "{limits}");
    }
}

#[test]
fn a_key_of_a_kind_without_stored_resources_can_be_enqueued() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("guest-poller"), folder.path().join("poller.wasm")).unwrap();
    let manifest = "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {name: poller}\nspec:\n  \
                    component: {file: poller.wasm}\n  config: {items: polled}\n  grants:\n    resources:\n    \
                    - {kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}\n";
    std::fs::write(folder.path().join("poller.yaml"), manifest).unwrap();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.until("controller", "poller", "/status/state", &"ready".into());
    let enqueued = host.ask(&["enqueue", "item", "by-hand"]);
    assert_eq!(enqueued.stdout, "item.demo.homeostat.dev/by-hand enqueued by poller\n", "{}", enqueued.stderr);
    host.until("tally", "by-hand", "/spec/count", &1.into());
}

#[test]
fn commands_on_a_running_key_change_only_its_next_run() {
    let host = Host::start();
    host.apply(&[("runs", "wait"), ("never", "fail-never")]);
    host.until_names(&["--state", "running"], &["runs"]);
    let cancel = ["queue", "cancel", "scripted", "scripted", "runs"];
    assert!(host.refused(&cancel).contains("is running, and no further run of it is queued"));
    host.ask(&["enqueue", "scripted", "runs"]);
    assert_eq!(host.names(&["--state", "dirty"]), ["runs"]);
    host.ask(&cancel);
    assert_eq!(
        (host.names(&["--state", "dirty"]), host.names(&["--state", "running"])),
        (vec![], vec!["runs".to_owned()])
    );
    host.until_names(&["--state", "parked"], &["never"]);
    let refused = host.refused(&["queue", "postpone", "scripted", "scripted", "never", "--after", "1s"]);
    assert!(refused.contains("is parked"), "{refused}");
}

#[test]
fn a_failed_reconcile_is_logged_with_its_key_and_controller() {
    let host = Host::start();
    host.apply(&[("fails", "fail"), ("never", "fail-never")]);
    for (name, says) in [("fails", "failed on purpose"), ("never", "given up on purpose")] {
        let line = eventually_blocking("the line", || {
            let said = host.running.stderr();
            said.lines().find(|line| line.contains("reconcile failed") && line.contains(says)).map(str::to_owned)
        });
        assert!(line.contains("WARN") && line.contains("controller=scripted"), "{line}");
        assert!(line.contains(&format!("Scripted default/{name}")), "{line}");
    }
}

#[test]
fn lines_of_guests_are_in_the_log_of_the_host_with_their_key_and_controller() {
    let host = Host::start();
    host.apply(&[("says", "log")]);
    let line = eventually_blocking("the line", || {
        host.running.stderr().lines().find(|line| line.contains("homeostat_guest")).map(str::to_owned)
    });
    assert!(
        line.contains("INFO") && line.contains("controller=\"scripted\"") && line.contains("text=\"says\""),
        "{line}"
    );
    assert!(line.contains("Scripted default/says"), "{line}");

    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("guest-scripted"), folder.path().join("scripted.wasm")).unwrap();
    std::fs::copy(host._folder.path().join("scripted.yaml"), folder.path().join("scripted.yaml")).unwrap();
    let running = HostProcess::start("run", folder.path(), scratch.path(), &["--log-format", "json"]);
    let host = Host { _folder: folder, scratch, running };
    host.until_state("ready");
    host.apply(&[("says", "log")]);
    let record = eventually_blocking("the record", || {
        let records = host.running.stderr();
        let records = records.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.into_iter().find(|record| record["target"] == "homeostat_guest")
    });
    let fields = &record["fields"];
    assert_eq!((&fields["controller"], &fields["text"]), (&"scripted".into(), &"says".into()), "{record}");
    assert_eq!(fields["key"], "demo.homeostat.dev/v1/Scripted default/says");
}

#[test]
fn a_guest_that_logs_much_fills_its_log_and_not_that_of_the_host() {
    let host = Host::start();
    let names: Vec<String> = (0..400).map(|number| format!("n{number}")).collect();
    host.apply(&names.iter().map(|name| (name.as_str(), "log")).collect::<Vec<_>>());
    eventually_blocking("every key to have run", || (host.reconciles() == 400).then_some(()));
    let copied = || host.running.stderr().lines().filter(|line| line.contains("homeostat_guest")).count();
    assert!((100..400).contains(&copied()), "{} lines were copied", copied());
    let mut more = 0;
    eventually_blocking("the count of the lines that were left out", || {
        more += 1;
        host.apply(&[(&format!("more{more}"), "log")]);
        host.running.stderr().contains("left_out=").then_some(())
    });
}

#[test]
fn the_shutdown_timeout_bounds_how_long_a_reconcile_holds_up_the_end() {
    let host = Host::with_arguments("", &["--shutdown-timeout", "0s"]);
    host.until_state("ready");
    host.apply(&[("runs", "wait")]);
    host.until_names(&["--state", "running"], &["runs"]);
    let Host { running, .. } = host;
    let ended = running.terminate().stderr;
    assert!(ended.contains("1 reconciles did not finish within 0s and were stopped"), "{ended}");
}
