//! Costs, denials and needed grants of controllers, as the commands show them.

use std::path::Path;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{HostProcess, guest};
use serde_json::{Value, json};

use crate::metrics::scrape::Scrape;

/// Writes the manifest of the hostile guest, with these lines in its `spec`.
fn write_manifest(folder: &Path, grants: &str) {
    let indented: String = grants.lines().map(|line| format!("  {line}\n")).collect();
    let manifest = format!(
        "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: web}}\nspec:\n  component: {{file: guest.wasm}}\n  \
         backoff: {{base: 10ms, max: 100ms}}\n{indented}"
    );
    std::fs::write(folder.join("controller.yaml"), manifest).unwrap();
}

struct Host {
    running: HostProcess,
    served: tempfile::TempDir,
    scratch: tempfile::TempDir,
}

impl Host {
    /// Starts a host with the hostile guest and resources of these names. The guest has every verb on its own
    /// kinds, and no other grant.
    fn start(names: &[&str]) -> Self {
        Self::granted("\"*\"", names)
    }

    /// The same, with only these verbs granted.
    fn granted(verbs: &str, names: &[&str]) -> Self {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::copy(guest("guest-hostile"), folder.path().join("guest.wasm")).unwrap();
        let grants = format!("grants: {{resources: [{{kinds: [demo.homeostat.dev/*], verbs: [{verbs}]}}]}}\n");
        write_manifest(folder.path(), &grants);
        let running = HostProcess::start("run", folder.path(), scratch.path(), &[]);
        let host = Self { running, served: folder, scratch };
        host.running.until("controller", "web", "/status/state", &json!("ready"));
        host.apply(names);
        host
    }

    fn apply(&self, names: &[&str]) {
        let file = self.scratch.path().join("resources.yaml");
        let one = |name: &&str| {
            format!("---\napiVersion: demo.homeostat.dev/v1\nkind: Hostile\nmetadata: {{name: {name}}}\nspec: {{}}\n")
        };
        std::fs::write(&file, names.iter().map(one).collect::<String>()).unwrap();
        self.ask(&["apply", "-f", &file.display().to_string()]);
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let output = self.running.ask(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.stderr);
        output.stdout
    }

    /// Repeats a command until its answer is as wanted, and returns the answer.
    fn until(&self, arguments: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        eventually_blocking(&format!("{arguments:?}"), || {
            let answer: Value = serde_json::from_str(&self.ask(arguments)).unwrap();
            wanted(&answer).then_some(answer)
        })
    }

    fn folder(&self) -> &Path {
        self.scratch.path()
    }
}

#[test]
fn a_denial_is_counted_and_reported_with_the_missing_grant() {
    let host = Host::start(&["foreign"]);
    let denials = |capability: &str| {
        let labels = [("controller", "web"), ("capability", capability)];
        Scrape::of(host.folder()).get("homeostat_denials_total", &labels)
    };
    eventually_blocking("denials to be counted", || (denials("get") >= 2.0).then_some(()));
    assert_eq!((denials("delete"), denials("http")), (0.0, 0.0), "every capability has a series");
    let about = |arguments: &[&str]| {
        let events = host.until(arguments, |events| {
            let mut items = events["items"].as_array().unwrap().iter();
            items.any(|event| event["reason"] == "Forbidden" && event["count"].as_u64() >= Some(2))
        });
        let of = events["items"].as_array().unwrap().iter().filter(|event| event["reason"] == "Forbidden").cloned();
        of.collect::<Vec<Value>>()
    };
    for arguments in [["--for", "hostile/foreign"], ["--controller", "web"]] {
        let events = about(&["events", arguments[0], arguments[1], "-o", "json"]);
        assert_eq!(events.len(), 1, "equal denials are one event: {events:?}");
        let message = events[0]["message"].as_str().unwrap();
        assert!(message.contains("{kinds: [Secret], verbs: [get], namespaces: [\"default\"]}"), "{message}");
    }
    let described = host.ask(&["describe", "controller", "web"]);
    assert!(described.contains("Forbidden"), "{described}");
}

#[test]
fn missing_grants_are_all_reported_before_the_first_call() {
    let missing = |host: &Host| {
        let events: Value = serde_json::from_str(&host.ask(&["events", "--controller", "web", "-o", "json"])).unwrap();
        let missing =
            events["items"].as_array().unwrap().iter().find(|event| event["reason"] == "GrantsMissing").cloned();
        missing.map(|event| event["message"].as_str().unwrap().to_owned())
    };
    let message = missing(&Host::granted("get, watch", &["good"])).expect("the guest needs verbs that are not granted");
    let verbs = message.split_once("verbs: [").unwrap().1.split_once(']').unwrap().0;
    assert!(verbs.contains("create") && verbs.contains("update-status") && !verbs.contains("delete"), "{message}");
    assert!(message.contains("kinds: [demo.homeostat.dev/Hostile]"), "{message}");
    assert_eq!(missing(&Host::start(&["good"])), None);
}

#[test]
fn a_manifest_without_a_grant_for_a_watch_is_refused_with_the_missing_line() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("guest-hostile"), folder.path().join("guest.wasm")).unwrap();
    write_manifest(folder.path(), "grants: {resources: [{kinds: [demo.homeostat.dev/*], verbs: [get]}]}");
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    let line = "- {kinds: [demo.homeostat.dev/Hostile], verbs: [watch], namespaces: [\"*\"]}";
    host.wait_for_stderr(line);
    // The line from the message suffices.
    write_manifest(folder.path(), &format!("grants:\n  resources:\n    {line}\n"));
    host.until("controller", "web", "/status/state", &json!("ready"));
}

#[test]
fn learn_proposes_the_smallest_grants_for_the_observed_effects() {
    let host = Host::start(&["foreign", "good"]);
    let line = |answer: &Value, verb: &str| {
        let lines = answer["learned"]["grants"]["resources"].as_array()?;
        lines.iter().find(|line| line["verbs"].as_array().unwrap().contains(&json!(verb))).cloned()
    };
    // Waits for a write of `good` and the denial of `foreign`, in either order.
    let learned = host.until(&["grants", "learn", "web", "-o", "json"], |answer| {
        let denied = answer["learned"]["denied"]["resources"].as_array().map_or(0, Vec::len);
        line(answer, "update-status").is_some() && denied > 0
    });
    let writes = line(&learned, "update-status").unwrap();
    assert_eq!(writes["kinds"], json!(["demo.homeostat.dev/Hostile"]));
    assert_eq!(writes["names"], json!(["good"]), "the denied resource is not written");
    assert_eq!(learned["learned"]["denied"]["resources"][0]["kinds"], json!(["Secret"]));

    let text = host.ask(&["grants", "learn", "web"]);
    let (lines, comments): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| !line.starts_with('#'));
    assert!(lines[0] == "grants:" && !lines.iter().any(|line| line.contains("Secret")), "{text}");
    assert!(comments.iter().any(|line| line.contains("Secret")), "{text}");
    assert!(comments.iter().any(|line| line.contains("resources[0]: demo.homeostat.dev/*, every verb but")), "{text}");
    let widened = host.ask(&["grants", "learn", "web", "--include-denied", "--reset"]);
    assert!(widened.lines().any(|line| !line.starts_with('#') && line.contains("Secret")), "{widened}");

    host.apply(&["good"]);
    let unknown = host.running.ask(&["grants", "learn", "nobody"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("nobody"), "{}", unknown.stderr);
}

#[test]
fn learned_grants_in_the_manifest_keep_the_controller_running() {
    let host = Host::start(&["good"]);
    host.until(&["get", "hostile", "good", "-o", "json"], |document| !document["status"].is_null());
    host.until(&["queue", "web", "-o", "json"], |queues| queues["items"][0]["items"].as_array().unwrap().is_empty());
    let proposed = host.ask(&["grants", "learn", "web"]);
    write_manifest(host.served.path(), &proposed);
    let taken = host.until(&["get", "controller", "web", "-o", "json"], |controller| {
        controller["status"]["observedGeneration"] == 2
    });
    let lines = taken["spec"]["grants"]["resources"].as_array().unwrap();
    let line = |verb: &str| lines.iter().find(|line| line["verbs"].as_array().unwrap().contains(&json!(verb))).unwrap();
    assert_eq!(line("update-status")["names"], json!(["good"]), "{taken:#}");
    assert_eq!(line("watch")["names"], Value::Null, "a watch of new resources has no names: {taken:#}");
    host.until(&["get", "controller", "web", "-o", "json"], |controller| {
        let conditions = controller["status"]["conditions"].as_array().unwrap();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    });
    // With the proposed grants the controller watches, lists and reconciles as before.
    host.ask(&["delete", "hostile", "good"]);
    host.apply(&["good"]);
    host.until(&["get", "hostile", "good", "-o", "json"], |document| !document["status"].is_null());
    let events = host.ask(&["events", "--controller", "web", "-o", "json"]);
    assert!(!events.contains("Forbidden") && !events.contains("Refused"), "{events}");
}

#[test]
fn learned_grants_of_a_component_without_requests_so_far_are_accepted() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("uptime"), folder.path().join("guest.wasm")).unwrap();
    let manifest = |generation: u32, grants: &str| {
        let indented: String = grants.lines().map(|line| format!("  {line}\n")).collect();
        let text = format!(
            "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: uptime}}\nspec:\n  component: {{file: guest.wasm}}\n  \
             concurrency: {generation}\n{indented}"
        );
        std::fs::write(folder.path().join("uptime.yaml"), text).unwrap();
    };
    manifest(
        1,
        "grants:\n  http: [{urls: [\"http://127.0.0.1:*/*\"], methods: [GET], addresses: [loopback]}]\n  \
         resources: [{kinds: [demo.homeostat.dev/Monitor], verbs: [\"*\"]}]",
    );
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    let until_taken = |generation: u32| {
        eventually_blocking("the definition to be loaded", || {
            let output = host.ask(&["get", "controller", "uptime", "-o", "json"]);
            let controller: Value = serde_json::from_str(&output.stdout).ok()?;
            let taken = &controller["status"]["conditions"];
            let is_loaded = |condition: &Value| condition["type"] == "Loaded" && condition["status"] == "True";
            let is_new = controller["status"]["observedGeneration"] == generation;
            (is_new && taken.as_array()?.iter().any(is_loaded)).then_some(())
        });
    };
    until_taken(1);
    let proposed = host.ask(&["grants", "learn", "uptime"]);
    assert_eq!(proposed.code, Some(0), "{}", proposed.stderr);
    let mut granted = proposed.stdout.lines().filter(|line| !line.starts_with('#'));
    assert!(granted.all(|line| !line.contains("http:")), "{}", proposed.stdout);
    manifest(2, &proposed.stdout);
    until_taken(2);
    let events = host.ask(&["events", "--controller", "uptime", "-o", "json"]);
    assert!(!events.stdout.contains("Refused"), "{}", events.stdout);
}

#[test]
fn learn_after_a_reset_proposes_nothing_from_before() {
    let host = Host::start(&["good"]);
    let is_seen = |answer: &Value| !answer["seen"]["resources"].as_array().unwrap().is_empty();
    host.until(&["grants", "learn", "web", "-o", "json"], is_seen);
    host.until(&["get", "hostile", "good", "-o", "json"], |document| !document["status"].is_null());
    host.until(&["queue", "web", "-o", "json"], |queues| queues["items"][0]["items"].as_array().unwrap().is_empty());
    host.ask(&["grants", "learn", "web", "--reset"]);
    host.until(&["grants", "learn", "web", "-o", "json"], |answer| !is_seen(answer));
    let said = host.running.ask(&["grants", "learn", "web", "--for", "100ms"]);
    assert!(said.stderr.contains("was not observed to need any grant"), "{}", said.stderr);
}

#[test]
fn top_shows_the_most_expensive_controllers_and_keys() {
    let host = Host::start(&["good", "random-flood", "foreign"]);
    let costs = host.until(&["top", "web", "-o", "json"], |costs| {
        costs["items"][0]["keys"].as_array().is_some_and(|keys| keys.len() == 3)
            && costs["items"][0]["spent"]["failures"].as_u64() >= Some(3)
    });
    let item = &costs["items"][0];
    let (spent, keys) = (&item["spent"], item["keys"].as_array().unwrap());
    assert_eq!(keys[0]["key"]["name"], "random-flood", "the key that runs until its limit costs most: {costs:#}");
    assert_eq!(keys[0]["spent"]["failures"], keys[0]["spent"]["runs"]);
    for measure in ["runs", "failures", "cpuUs", "bytesOut", "bytesIn"] {
        let of_keys: u64 = keys.iter().map(|key| key["spent"][measure].as_u64().unwrap()).sum();
        // The host rounds each value separately.
        assert!(of_keys.abs_diff(spent[measure].as_u64().unwrap()) <= 3, "{measure}: {costs:#}");
    }
    assert!(spent["memoryBytesMax"].as_u64().unwrap() >= 64 << 10);
    assert!(keys[0]["spent"]["effects"]["random"].as_u64().unwrap() > 100);
    assert!(item["lately"]["runs"].as_u64() > Some(0) && item["lately"]["seconds"].as_f64() > Some(0.0));

    let table = host.ask(&["top"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows.len(), rows[0][0], rows[1][0]), (2, "CONTROLLER", "web"), "{table}");
    let by_runs = host.ask(&["top", "--keys", "--sort", "runs", "-o", "wide"]);
    assert_eq!(by_runs.lines().count(), 4, "{by_runs}");
    assert!(host.ask(&["top", "web"]).contains("default/random-flood"));
    let limited = host.running.ask(&["top", "web", "--limit", "1"]);
    assert!(limited.stderr.contains("2 more keys are not shown"), "{}", limited.stderr);
    let unknown = host.running.ask(&["top", "nobody"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("nobody"), "{}", unknown.stderr);
}

#[test]
fn top_reports_a_host_without_controllers() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let running = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    let top = eventually_blocking("an answer", || Some(running.ask(&["top"])).filter(|output| output.code == Some(0)));
    assert_eq!((top.stdout.as_str(), top.stderr.as_str()), ("", "No controllers run.\n"));
}
