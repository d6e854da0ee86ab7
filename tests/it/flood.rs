//! Guests that say more than a host can keep, and what it keeps of it; and guests that say it in the host's own words.

use std::fs;

use homeostat_runtime::events::EVENTS_MAX;
use homeostat_runtime::logs::BYTES_MAX;
use homeostat_tests::{HostProcess, eventually_blocking, guest};
use tempfile::TempDir;

use crate::metrics::scrape::{Scrape, get};

/// Keys that the flooded controller may have, and bytes of their errors.
const KEYS: u32 = 4000;
const ERROR_BYTES: u32 = 256 << 10;
/// Keys that the guest finds beyond them before anything is measured. Without the bounds the host takes 5.5 KiB for each: 429 MiB.
const REFUSED: u32 = 20 * KEYS;
/// What the host may grow by at these bounds, and what the allocator keeps of it: once more the half.
const GROWTH_BYTES_MAX: u64 = (OF_KEYS + OF_EVENTS + OF_LOGS + OF_CALLS) / 2 * 3;
/// A KiB for each key with its name, and the errors while one replaces the other.
const OF_KEYS: u64 = KEYS as u64 * 1024 + 2 * ERROR_BYTES as u64;
/// Every event there may be, with a message of 4 KiB that is kept twice, and as much as a message can be short of for the rest.
const OF_EVENTS: u64 = EVENTS_MAX as u64 * 2 * (4096 + 512);
const OF_LOGS: u64 = 2 * BYTES_MAX;
/// What the sandboxes of five calls keep, one of them with the answer of a `poll`.
const OF_CALLS: u64 = 5 * (4 << 20);
/// The least that a controller needs which is told of nothing but its own keys.
const GRANTS: &str = "grants: {resources: [{kinds: [demo.homeostat.dev/Flood], verbs: [watch], namespaces: [\"*\"]}]}";

struct Flooded {
    folder: TempDir,
    scratch: TempDir,
}

impl Flooded {
    fn new() -> Self {
        let flooded = Self { folder: tempfile::tempdir().unwrap(), scratch: tempfile::tempdir().unwrap() };
        fs::copy(guest("guest-flooder"), flooded.folder.path().join("flooder.wasm")).unwrap();
        fs::copy(guest("guest-moody"), flooded.folder.path().join("moody.wasm")).unwrap();
        flooded
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

/// Waits until the flood was refused for long, and returns the resident memory of the host.
fn flood_is_at_its_bound(flooded: &Flooded) -> f64 {
    let of = [("controller", "flooder")];
    eventually_blocking("the flood to be refused", || {
        let scrape = flooded.scrape();
        let get = |name: &str| scrape.find(name, &of).unwrap_or_default();
        let keys = get("homeostat_parked_keys") + get("homeostat_waiting_keys");
        let error_bytes = get("homeostat_error_bytes");
        assert!(keys <= f64::from(KEYS) && error_bytes <= f64::from(ERROR_BYTES), "{}", scrape.text);
        let is_full = get("homeostat_refused_keys_total") > f64::from(REFUSED) && keys >= f64::from(KEYS - 8);
        (is_full && get("homeostat_errors_left_out_total") > 0.0)
            .then(|| scrape.get("process_resident_memory_bytes", &[]))
    })
}

fn apply(flooded: &Flooded, host: &HostProcess, name: &str) {
    let file = flooded.scratch.path().join("moody.yaml");
    let document =
        format!("apiVersion: demo.homeostat.dev/v1\nkind: Moody\nmetadata: {{name: {name}}}\nspec: {{mood: settle}}\n");
    fs::write(&file, document).unwrap();
    let applied = host.ask(&["apply", "-f", &file.display().to_string()]);
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
}

fn settled(flooded: &Flooded, count: f64) {
    eventually_blocking("the controller beside it to settle", || {
        let settled = [("controller", "moody"), ("result", "success")];
        (flooded.scrape().get("controller_runtime_reconcile_total", &settled) >= count).then_some(())
    });
}

#[test]
fn keys_without_end_are_refused_at_their_bound_and_the_host_stays_small() {
    let flooded = Flooded::new();
    flooded.controller(
        "moody",
        "moody",
        "grants: {resources: [{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}]}",
    );
    let host = flooded.start();
    eventually_blocking("the host to be ready", || {
        (get(flooded.scratch.path(), "/readyz", "*/*").code == 200).then_some(())
    });
    apply(&flooded, &host, "before");
    settled(&flooded, 1.0);
    let before = flooded.scrape().get("process_resident_memory_bytes", &[]);

    let limits = format!("limits: {{keys: {KEYS}, errorBytes: {ERROR_BYTES}}}");
    flooded.controller("flooder", "flooder", &format!("config: {{keys: \"3000\"}}\n  {limits}\n  {GRANTS}"));
    let after = flood_is_at_its_bound(&flooded);
    assert!(after - before < GROWTH_BYTES_MAX as f64, "from {before} to {after} bytes");
    apply(&flooded, &host, "behind");
    settled(&flooded, 2.0);
    let events = host.ask(&["events", "--controller", "flooder"]).stdout;
    assert!(events.contains("LimitExceeded") && events.contains("limit keys: "), "{events}");
    let status = host.ask(&["get", "controllers", "flooder", "-o", "yaml"]).stdout;
    assert!(status.contains("limit keys: "), "{status}");
    let queue = host.ask(&["queue", "flooder", "--limit", "4000"]).stdout;
    assert!(queue.contains("limit error-bytes: "), "no key says that its error was left out");
    assert_eq!(flooded.scrape().get("homeostat_refused_keys_total", &[("controller", "moody")]), 0.0);

    assert_eq!(host.terminate().code, Some(0));
    let host = flooded.start();
    let again = flood_is_at_its_bound(&flooded);
    assert!(again - before < GROWTH_BYTES_MAX as f64, "from {before} to {again} bytes after a restart");
    drop(host);
}

fn hidden(text: &str) -> Vec<char> {
    let is_hidden =
        |c: &char| (c.is_control() && *c != '\n') || ['\u{202e}', '\u{2066}', '\u{200b}', '\u{2028}'].contains(c);
    text.chars().filter(is_hidden).collect()
}

/// No line that somebody reads begins with what a guest wrote, and nothing in it is hidden.
fn is_harmless(text: &str) {
    assert!(hidden(text).is_empty(), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("warning: forged")), "{text}");
}

#[test]
fn a_guest_can_forge_no_line_and_no_advice_of_the_host() {
    let flooded = Flooded::new();
    flooded.controller("flooder", "flooder", &format!("config: {{forge: \"yes\"}}\n  {GRANTS}"));
    let host = flooded.start();
    let events = eventually_blocking("the denial and the event", || {
        let events = host.ask(&["events", "--controller", "flooder"]).stdout;
        (events.contains("Forged") && events.contains("Forbidden")).then_some(events)
    });
    is_harmless(&events);
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
        is_harmless(&answer.stdout);
        is_harmless(&answer.stderr);
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
        "it means the same: {told}"
    );
    drop(host);

    let dev = HostProcess::start("dev", flooded.folder.path(), flooded.scratch.path(), &[]);
    let said = eventually_blocking("dev to tell of it", || {
        let said = dev.stderr();
        said.contains("Forged").then_some(said)
    });
    is_harmless(&said);
    assert!(said.contains("  warning: forged \\u{202e}\\u{2066}\\u{200b}\\u{2028}\\u{9b}31m"), "{said}");
}
