//! Metrics, dashboard and health of a real host with the guest `scripted`.

mod dashboard;
pub(crate) mod scrape;

use std::path::Path;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{HostProcess, guest, renamed};
use scrape::{Scrape, get};

/// Gauges that are 0 when the host is idle.
const AT_REST: [&str; 8] = [
    "workqueue_depth",
    "workqueue_unfinished_work_seconds",
    "workqueue_longest_running_processor_seconds",
    "controller_runtime_active_workers",
    "homeostat_waiting_keys",
    "homeostat_parked_keys",
    "homeostat_oldest_ready_seconds",
    "homeostat_instances_running",
];

/// A host with one controller, its served folder, and the folder that it writes to.
struct Host {
    folder: tempfile::TempDir,
    scratch: tempfile::TempDir,
    running: HostProcess,
}

impl Host {
    /// Starts a host with the guest `scripted` and a deadline of a second.
    fn start() -> Self {
        Self::with(
            "scripted",
            "guest-scripted",
            "limits: {deadline: 1s}, backoff: {base: 5ms, max: 50ms}, feeders: [{name: yearly, interval: {every: 365d}, keys: all}]",
        )
    }

    fn with(name: &str, package: &str, more: &str) -> Self {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::copy(guest(package), folder.path().join("guest.wasm")).unwrap();
        std::fs::write(folder.path().join("guest.yaml"), manifest(name, more)).unwrap();
        let running = HostProcess::start("run", folder.path(), scratch.path(), &[]);
        let host = Self { folder, scratch, running };
        host.until_ready();
        host
    }

    fn until_ready(&self) {
        eventually_blocking("the host to be ready", || (self.get("/readyz").0 == 200).then_some(()));
    }

    fn get(&self, path: &str) -> (u16, String) {
        let answer = get(self.scratch.path(), path, "*/*");
        (answer.code, answer.body)
    }

    fn scrape(&self) -> Scrape {
        Scrape::of(self.scratch.path())
    }

    /// Scrapes until the result is as wanted, and returns it.
    fn until(&self, what: &str, wanted: impl Fn(&Scrape) -> bool) -> Scrape {
        eventually_blocking(what, || Some(self.scrape()).filter(&wanted))
    }

    /// Applies resources with these names and actions.
    fn apply(&self, actions: &[(&str, &str)]) {
        let document = |(name, action): &(&str, &str)| {
            format!(
                "---\napiVersion: demo.homeostat.dev/v1\nkind: Scripted\nmetadata: {{name: {name}}}\nspec: {{action: {action}}}\n"
            )
        };
        let file = self.scratch.path().join("actions.yaml");
        std::fs::write(&file, actions.iter().map(document).collect::<String>()).unwrap();
        self.ask(&["apply", "-f", &file.display().to_string()]);
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let output = self.running.ask(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.stderr);
        output.stdout
    }
}

fn manifest(name: &str, more: &str) -> String {
    format!(
        "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: {name}}}\nspec: {{component: {{file: guest.wasm}}, \
         grants: {{resources: [{{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}}]}}, {more}}}\n"
    )
}

fn result(scrape: &Scrape, word: &str) -> f64 {
    scrape.get("controller_runtime_reconcile_total", &[("controller", "scripted"), ("result", word)])
}

/// Returns whether all gauges of activity are 0.
fn is_idle(scrape: &Scrape) -> bool {
    AT_REST.iter().all(|name| scrape.get(name, &[]) == 0.0)
}

const ACTIONS: [(&str, &str); 8] = [
    ("hidden-settle", "settle"),
    ("hidden-again", "again"),
    ("hidden-at-once", "at-once"),
    ("hidden-later", "later"),
    ("hidden-fail", "fail"),
    ("hidden-never", "fail-never"),
    ("hidden-panic", "panic"),
    ("hidden-wait", "wait"),
];

/// B13: Metrics count each result of a reconcile once and measure its durations. Every gauge returns to 0.
#[test]
fn metrics_count_every_result_of_a_reconcile_and_gauges_return_to_zero() {
    let host = Host::start();
    host.ask(&["suspend", "scripted"]);
    host.apply(&ACTIONS);
    let held = host.until("all keys to be ready", |scrape| scrape.get("workqueue_depth", &[]) == ACTIONS.len() as f64);
    assert_eq!(held.get("workqueue_depth", &[("priority", "normal")]), ACTIONS.len() as f64);
    assert!(held.get("homeostat_oldest_ready_seconds", &[]) > 0.0);
    assert_eq!(
        held.get("workqueue_adds_total", &[("name", "scripted"), ("controller", "scripted")]),
        ACTIONS.len() as f64
    );
    assert_eq!(held.get("homeostat_controllers", &[("state", "suspended")]), 1.0);
    host.ask(&["resume", "scripted"]);

    let running = host.until("a key to run for a while", |scrape| {
        scrape.get("workqueue_longest_running_processor_seconds", &[]) > 0.1
    });
    assert!(running.get("workqueue_unfinished_work_seconds", &[]) > 0.1);
    assert!(running.get("controller_runtime_active_workers", &[]) >= 1.0);
    assert!(running.get("homeostat_instances_running", &[]) >= 1.0);
    let busy = host.until("every result to be counted", |scrape| {
        let results = ["success", "requeue", "requeue_after", "error", "terminal_error"];
        let controller = [("controller", "scripted")];
        results.iter().all(|word| result(scrape, word) >= 1.0)
            && scrape.get("controller_runtime_reconcile_panics_total", &controller) >= 2.0
            && scrape.get("controller_runtime_reconcile_timeouts_total", &controller) >= 1.0
            && scrape.get("workqueue_retries_total", &controller) >= 4.0
    });
    assert_eq!(busy.get("homeostat_parked_keys", &[]), 1.0);
    assert!(busy.get("homeostat_waiting_keys", &[]) >= 1.0);

    host.apply(&ACTIONS.map(|(name, _)| (name, "settle")));
    let rested = host.until("the host to be idle", is_idle);
    assert_consistent(&rested);
    assert!(!rested.text.contains("hidden") && !busy.text.contains("hidden"), "a key is a label");
}

/// Asserts that the metrics of an idle host agree with each other.
fn assert_consistent(scrape: &Scrape) {
    let of = |name: &str| scrape.get(name, &[("controller", "scripted")]);
    let limit = |name: &str| scrape.get("homeostat_limit_hits_total", &[("controller", "scripted"), ("limit", name)]);
    let all = of("controller_runtime_reconcile_total");
    for histogram in [
        "workqueue_queue_duration_seconds",
        "workqueue_work_duration_seconds",
        "controller_runtime_reconcile_time_seconds",
    ] {
        assert_eq!(of(&format!("{histogram}_count")), all, "{histogram}");
        let above = scrape.get(&format!("{histogram}_bucket"), &[("controller", "scripted"), ("le", "+Inf")]);
        assert_eq!(above, all, "{histogram}");
    }
    assert_eq!(of("workqueue_retries_total"), result(scrape, "error"));
    assert_eq!(of("controller_runtime_reconcile_errors_total"), result(scrape, "error") + 1.0);
    assert_eq!((result(scrape, "terminal_error"), result(scrape, "dropped")), (1.0, 0.0));
    assert_eq!(of("controller_runtime_terminal_reconcile_errors_total"), 1.0);
    assert_eq!(of("controller_runtime_reconcile_timeouts_total"), limit("deadline"));
    assert_eq!(of("homeostat_limit_hits_total"), limit("deadline"), "no other limit was hit");
    assert_eq!(of("workqueue_adds_total"), all, "each run was queued once");
    let (worked, called) =
        (of("workqueue_work_duration_seconds_sum"), of("controller_runtime_reconcile_time_seconds_sum"));
    assert!(worked >= called && called >= 1.0, "the call of one second is within the work: {called} of {worked}");
    assert!(of("workqueue_queue_duration_seconds_sum") > 0.0);
    assert!(of("homeostat_guest_cpu_seconds_total") > 0.0);
    assert!(of("homeostat_guest_effects_total") >= all, "each reconcile reads its resource");
    assert!(of("homeostat_guest_memory_max_bytes") >= 65_536.0, "a guest has a page at least");
}

#[test]
fn series_start_at_zero_with_their_controller_and_end_with_it() {
    let host = Host::start();
    let begun = host.scrape();
    for (name, labels) in [
        ("workqueue_depth", &["name", "controller", "priority"][..]),
        ("workqueue_adds_total", &["name", "controller"]),
        ("workqueue_queue_duration_seconds_count", &["name", "controller"]),
        ("controller_runtime_reconcile_total", &["controller", "result"]),
        ("controller_runtime_reconcile_panics_total", &["controller"]),
        ("homeostat_limit_hits_total", &["controller", "limit"]),
        ("homeostat_swaps_total", &["controller", "result"]),
        ("homeostat_rollouts_total", &["controller", "result"]),
        ("homeostat_feeder_keys_total", &["controller", "feeder", "source"]),
        ("homeostat_feeder_refusals_total", &["controller", "feeder", "reason", "source"]),
        ("homeostat_feeder_failures_total", &["controller", "feeder", "source"]),
        ("homeostat_feeder_inbox_keys", &["controller", "feeder", "source"]),
        ("homeostat_feeder_lost_messages_total", &["controller", "feeder", "source"]),
        ("homeostat_feeder_missed_runs_total", &["controller", "feeder", "source"]),
        ("homeostat_feeder_last_run_timestamp_seconds", &["controller", "feeder", "source"]),
    ] {
        assert_eq!(begun.get(name, &[("controller", "scripted")]), 0.0, "{name}");
        assert_eq!(begun.labels(name), labels.iter().copied().collect(), "{name}");
    }
    for word in ["success", "requeue", "requeue_after", "error", "terminal_error", "dropped"] {
        assert_eq!(result(&begun, word), 0.0, "{word}");
    }
    assert_eq!(begun.get("controller_runtime_max_concurrent_reconciles", &[("controller", "scripted")]), 4.0);
    host.apply(&[("one", "fail")]);
    host.until("failures to be counted", |scrape| result(scrape, "error") >= 2.0);
    host.apply(&[("one", "settle")]);
    host.until("the key to settle", |scrape| result(scrape, "success") >= 1.0 && is_idle(scrape));

    let file = host.folder.path().join("guest.yaml");
    let kept = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let gone = host.until("the series to end", |scrape| scrape.get("homeostat_controllers", &[]) == 0.0);
    assert!(!gone.text.contains("scripted"), "{}", gone.text);

    std::fs::write(&file, kept).unwrap();
    let reconciles = |scrape: &Scrape| scrape.find("controller_runtime_reconcile_total", &[("controller", "scripted")]);
    let again = host.until("the name to be used again", |scrape| reconciles(scrape) == Some(1.0) && is_idle(scrape));
    assert_eq!(again.get("homeostat_controller_generation", &[("controller", "scripted")]), 1.0);
    assert_eq!((result(&again, "success"), result(&again, "error")), (1.0, 0.0), "the series restart at 0");
    assert_eq!(again.get("workqueue_adds_total", &[("name", "scripted")]), 1.0);
}

#[test]
fn swaps_are_counted_and_the_digest_is_that_of_the_running_component() {
    let host = Host::start();
    let file = host.folder.path().join("guest.wasm");
    let component = std::fs::read(&file).unwrap();
    let digest = |scrape: &Scrape| {
        let infos = scrape.samples.iter().filter(|sample| sample.name == "homeostat_controller_info");
        let digests: Vec<String> = infos.map(|info| info.labels["digest"].clone()).collect();
        assert_eq!(digests.len(), 1, "{digests:?}");
        digests[0].clone()
    };
    let swaps =
        |scrape: &Scrape, word| scrape.get("homeostat_swaps_total", &[("controller", "scripted"), ("result", word)]);
    let first = host.scrape();
    std::fs::write(&file, renamed(&component, "new")).unwrap();
    let swapped = host.until("the swap to be counted", |scrape| swaps(scrape, "swapped") == 1.0);
    assert_ne!(digest(&first), digest(&swapped));
    assert_eq!(swapped.get("homeostat_controller_generation", &[]), 2.0);
    std::fs::write(&file, b"no component").unwrap();
    let refused = host.until("the refusal to be counted", |scrape| swaps(scrape, "refused") == 1.0);
    assert_eq!((swaps(&refused, "swapped"), digest(&refused)), (1.0, digest(&swapped)));
    assert!(refused.get("homeostat_events_total", &[]) >= 2.0, "the swap and the refusal are events");
}

#[test]
fn openmetrics_and_the_text_format_have_the_same_series() {
    let host = Host::start();
    host.apply(&[("one", "settle")]);
    host.until("the key to settle", |scrape| result(scrape, "success") >= 1.0 && is_idle(scrape));
    let accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    let answer = get(host.scratch.path(), "/metrics", accept);
    assert!(answer.head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(answer.body.ends_with("\n# EOF\n"));
    assert!(!host.scrape().text.contains("# EOF"));
    let series = |scrape: &Scrape| -> Vec<(String, Vec<(String, String)>)> {
        let plain = |value: &str| value.strip_suffix(".0").unwrap_or(value).to_owned();
        let labels = |sample: &scrape::Sample| sample.labels.iter().map(|(n, v)| (n.clone(), plain(v))).collect();
        scrape.samples.iter().map(|sample| (sample.name.clone(), labels(sample))).collect()
    };
    let open = Scrape::read(answer.body);
    assert_eq!(series(&open), series(&host.scrape()));
    assert_eq!(open.families["workqueue_adds"].0, "counter", "OpenMetrics names a counter without its suffix");
    assert!(open.text.contains("# UNIT workqueue_work_duration_seconds seconds\n"));
    assert!(open.text.contains("le=\"1.0\"") && !host.scrape().text.contains("le=\"1.0\""));
}

#[test]
fn readyz_names_the_controller_that_is_not_ready() {
    let host = Host::with("phases", "guest-lifecycle", "suspend: false");
    assert_eq!(host.get("/livez"), (200, "ok".to_owned()));
    assert_eq!(host.get("/livez?verbose").1, "[+]ping ok\nlivez check passed\n");
    let all = "[+]ping ok\n[+]store ok\n[+]folder ok\n[+]controller/phases ok\nreadyz check passed\n";
    assert_eq!(host.get("/readyz?verbose"), (200, all.to_owned()));
    for (path, code) in
        [("/livez/ping", 200), ("/readyz/store", 200), ("/healthz/controller/phases", 200), ("/readyz/nothing", 404)]
    {
        assert_eq!(host.get(path).0, code, "{path}");
    }
    // The start hook fails from the next start on.
    let document =
        "apiVersion: demo.homeostat.dev/v1\nkind: Phase\nmetadata: {name: start}\nspec: {failures: 1000000}\n";
    let file = host.scratch.path().join("start.yaml");
    std::fs::write(&file, document).unwrap();
    host.ask(&["apply", "-f", &file.display().to_string()]);
    let Host { folder, scratch, running } = host;
    assert_eq!(running.terminate().code, Some(0));

    let running = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    let host = Host { folder, scratch, running };
    let failing = eventually_blocking("the folder to be read", || {
        let (code, body) = host.get("/readyz");
        (code == 503 && body.contains("[+]folder ok")).then_some(body)
    });
    assert!(failing.contains("[-]controller/phases failed: the start hook has not succeeded yet\n"), "{failing}");
    assert!(failing.ends_with("readyz check failed\n"), "{failing}");
    assert_eq!(host.get("/readyz?exclude=controller/phases"), (200, "ok".to_owned()));
    assert_eq!(host.get("/livez").0, 200);
    assert_eq!(host.scrape().get("homeostat_controllers", &[("state", "starting")]), 1.0);
}

/// Returns the text of a file in `dashboards`.
fn beside_the_dashboard(name: &str) -> String {
    let path: &Path = &homeostat_tests::repository().join("dashboards").join(name);
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
