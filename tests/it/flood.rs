//! Guests that return more keys and errors than a host can keep, and guests that imitate the host's own
//! output.

use std::fs;

use homeostat_runtime::events::EVENTS_MAX;
use homeostat_runtime::logs::BYTES_MAX;
use homeostat_testing::eventually_blocking;
use homeostat_tests::{HostProcess, guest};
use tempfile::TempDir;

use crate::metrics::scrape::{Scrape, get};

/// The limits of the flooded controller: its keys, and the bytes of their errors.
const KEYS: u32 = 4000;
const ERROR_BYTES: u32 = 256 << 10;
/// Keys that the host has to refuse before the test measures. Without the limits the host takes 5.5 KiB for
/// each: 429 MiB.
const REFUSED: u32 = 20 * KEYS;
/// The most bytes by which the host may grow under these limits. The allocator keeps half as much again.
const GROWTH_BYTES_MAX: u64 = (OF_KEYS + OF_EVENTS + OF_LOGS + OF_CALLS) / 2 * 3;
/// A KiB for each key with its name, and two sets of errors, as a new error replaces an old one.
const OF_KEYS: u64 = KEYS as u64 * 1024 + 2 * ERROR_BYTES as u64;
/// The maximum of events, each with two copies of a message of 4 KiB and 512 bytes for its other fields.
const OF_EVENTS: u64 = EVENTS_MAX as u64 * 2 * (4096 + 512);
const OF_LOGS: u64 = 2 * BYTES_MAX;
/// The memory of five concurrent calls, one of them with the result of a `poll`.
const OF_CALLS: u64 = 5 * (4 << 20);
/// The smallest grants of a controller that watches only its own kind.
const GRANTS: &str = "grants: {resources: [{kinds: [demo.homeostat.dev/Flood], verbs: [watch], namespaces: [\"*\"]}]}";

/// The folders of a host with the flooding guest.
struct FloodHost {
    folder: TempDir,
    scratch: TempDir,
}

impl FloodHost {
    fn new() -> Self {
        let flood = Self { folder: tempfile::tempdir().unwrap(), scratch: tempfile::tempdir().unwrap() };
        fs::copy(guest("guest-flooder"), flood.folder.path().join("flooder.wasm")).unwrap();
        fs::copy(guest("guest-scripted"), flood.folder.path().join("scripted.wasm")).unwrap();
        flood
    }

    fn controller(&self, name: &str, component: &str, more: &str) {
        let manifest = format!(
            "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: {name}}}\nspec:\n  component: {{file: {component}.wasm}}\n  {more}\n"
        );
        fs::write(self.folder.path().join(format!("{name}.yaml")), manifest).unwrap();
    }

    fn start(&self) -> HostProcess {
        HostProcess::start("run", self.folder.path(), self.scratch.path(), &[])
    }

    fn scrape(&self) -> Scrape {
        Scrape::of(self.scratch.path())
    }
}

/// Waits until the host has refused many keys, and returns its resident memory in bytes.
fn flood_is_at_its_bound(flood: &FloodHost) -> f64 {
    let of = [("controller", "flooder")];
    eventually_blocking("the flood to be refused", || {
        let scrape = flood.scrape();
        let get = |name: &str| scrape.find(name, &of).unwrap_or_default();
        let keys = get("homeostat_parked_keys") + get("homeostat_waiting_keys");
        let error_bytes = get("homeostat_error_bytes");
        assert!(keys <= f64::from(KEYS) && error_bytes <= f64::from(ERROR_BYTES), "{}", scrape.text);
        let is_full = get("homeostat_refused_keys_total") > f64::from(REFUSED) && keys >= f64::from(KEYS - 8);
        (is_full && get("homeostat_errors_left_out_total") > 0.0)
            .then(|| scrape.get("process_resident_memory_bytes", &[]))
    })
}

fn apply(flood: &FloodHost, host: &HostProcess, name: &str) {
    let file = flood.scratch.path().join("scripted.yaml");
    let document = format!(
        "apiVersion: demo.homeostat.dev/v1\nkind: Scripted\nmetadata: {{name: {name}}}\nspec: {{action: settle}}\n"
    );
    fs::write(&file, document).unwrap();
    let applied = host.ask(&["apply", "-f", &file.display().to_string()]);
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
}

fn wait_for_settled(flood: &FloodHost, count: f64) {
    eventually_blocking("the other controller to settle", || {
        let settled = [("controller", "scripted"), ("result", "success")];
        (flood.scrape().get("controller_runtime_reconcile_total", &settled) >= count).then_some(())
    });
}

#[test]
fn endless_keys_are_refused_at_their_limit_and_the_host_stays_small() {
    let flood = FloodHost::new();
    flood.controller(
        "scripted",
        "scripted",
        "grants: {resources: [{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}]}",
    );
    let host = flood.start();
    eventually_blocking("the host to be ready", || {
        (get(flood.scratch.path(), "/readyz", "*/*").code == 200).then_some(())
    });
    apply(&flood, &host, "before");
    wait_for_settled(&flood, 1.0);
    let before = flood.scrape().get("process_resident_memory_bytes", &[]);

    let limits = format!("limits: {{keys: {KEYS}, errorBytes: {ERROR_BYTES}}}");
    flood.controller("flooder", "flooder", &format!("config: {{keys: \"3000\"}}\n  {limits}\n  {GRANTS}"));
    let after = flood_is_at_its_bound(&flood);
    assert!(after - before < GROWTH_BYTES_MAX as f64, "from {before} to {after} bytes");
    apply(&flood, &host, "behind");
    wait_for_settled(&flood, 2.0);
    let events = host.ask(&["events", "--controller", "flooder"]).stdout;
    assert!(events.contains("LimitExceeded") && events.contains("limit keys: "), "{events}");
    let status = host.ask(&["get", "controllers", "flooder", "-o", "yaml"]).stdout;
    assert!(status.contains("limit keys: "), "{status}");
    let queue = host.ask(&["queue", "flooder", "--limit", "4000"]).stdout;
    assert!(queue.contains("limit error-bytes: "), "no entry says that the error of its key was left out");
    assert_eq!(flood.scrape().get("homeostat_refused_keys_total", &[("controller", "scripted")]), 0.0);

    assert_eq!(host.terminate().code, Some(0));
    let host = flood.start();
    let again = flood_is_at_its_bound(&flood);
    assert!(again - before < GROWTH_BYTES_MAX as f64, "from {before} to {again} bytes after a restart");
    drop(host);
}

fn hidden(text: &str) -> Vec<char> {
    let is_hidden =
        |c: &char| (c.is_control() && *c != '\n') || ['\u{202e}', '\u{2066}', '\u{200b}', '\u{2028}'].contains(c);
    text.chars().filter(is_hidden).collect()
}

/// Asserts that no line begins with text of the guest, and that the text has no hidden character.
fn assert_harmless(text: &str) {
    assert!(hidden(text).is_empty(), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("warning: forged")), "{text}");
}

#[test]
fn a_guest_cannot_forge_a_line_or_an_advice_of_the_host() {
    let flood = FloodHost::new();
    flood.controller("flooder", "flooder", &format!("config: {{forge: \"yes\"}}\n  {GRANTS}"));
    let host = flood.start();
    let events = eventually_blocking("the denial and the event", || {
        let events = host.ask(&["events", "--controller", "flooder"]).stdout;
        (events.contains("Forged") && events.contains("Forbidden")).then_some(events)
    });
    assert_harmless(&events);
    assert!(events.contains("no manifest can grant it: the request contains an invalid name"), "{events}");
    for command in [
        &["events", "-o", "json"][..],
        &["events", "-o", "yaml"],
        &["logs", "flooder"],
        &["logs", "flooder", "-o", "json"],
        &["describe", "controller", "flooder"],
        &["grants", "learn", "flooder"],
        &["grants", "learn", "flooder", "--include-denied"],
    ] {
        let answer = host.ask(command);
        assert_eq!(answer.code, Some(0), "{command:?}: {}", answer.stderr);
        assert_harmless(&answer.stdout);
        assert_harmless(&answer.stderr);
        assert!(
            !answer.stdout.contains("verbs: [\"*\"]}") && !answer.stdout.contains("- '*'"),
            "{command:?}: {}",
            answer.stdout
        );
    }
    let json: serde_json::Value = serde_json::from_str(&host.ask(&["events", "-o", "json"]).stdout).unwrap();
    let told = json["items"].as_array().unwrap().iter().find(|event| event["reason"] == "Forged").unwrap();
    assert!(
        told["message"].as_str().unwrap().contains("\u{202e}\u{2066}\u{200b}\u{2028}\u{9b}"),
        "the JSON has the same characters: {told}"
    );
    drop(host);

    let dev = HostProcess::start("dev", flood.folder.path(), flood.scratch.path(), &[]);
    let said = eventually_blocking("dev to report the event", || {
        let said = dev.stderr();
        said.contains("Forged").then_some(said)
    });
    assert_harmless(&said);
    assert!(said.contains("  warning: forged \\u{202e}\\u{2066}\\u{200b}\\u{2028}\\u{9b}31m"), "{said}");
}
