//! Guests that attack their host: the host stops each under the name of a limit, and another controller keeps
//! running.
//!
//! `host/component/src/component/tests/hostile.rs` has guests that no compiler produces, and refused
//! components. `journey.rs` has crashes and the simple floods.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{Component, Engine, EngineOptions, Grants, LimitName, Limits};
use homeostat_fixtures::{demo, demo_key, memory_store};
use homeostat_runtime::events::{Event, EventFilter};
use homeostat_runtime::{ControllerState, Definition, Options, Overrides};
use homeostat_testing::{eventually, eventually_blocking};
use homeostat_tests::{HostProcess, TestHost, all_resources, guest};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::OnceCell;

use crate::metrics::scrape::{Scrape, get};

/// One engine and the guests of this file, compiled once, because a compilation takes longer than an attack.
struct Arena {
    engine: Engine,
    hostile: Component,
    hostile_exports: Component,
    greeter: Component,
}

async fn arena() -> &'static Arena {
    static ARENA: OnceCell<Arena> = OnceCell::const_new();
    let built = ARENA.get_or_init(async || {
        let engine = Engine::new(EngineOptions::default()).unwrap();
        let load = async |name: &str| engine.load(std::fs::read(guest(name)).unwrap()).await.unwrap();
        let (hostile, hostile_exports) = (load("guest-hostile").await, load("guest-hostile-exports").await);
        let greeter = load("greeter").await;
        Arena { engine, hostile, hostile_exports, greeter }
    });
    built.await
}

/// Starts a host with the controller `greeter`, which behaves well.
async fn host() -> TestHost {
    let arena = arena().await;
    let store = memory_store();
    let test = TestHost::with(store, |options| Options { engine: arena.engine.clone(), ..options }).await;
    let greeter = Definition { grants: all_resources(), ..Definition::new("greeter", arena.greeter.clone()) };
    test.host.put(greeter).await.unwrap();
    test
}

/// Asserts that the greeter still reconciles.
async fn assert_greeter_reconciles(test: &TestHost) {
    for name in ["before", "behind"] {
        test.apply(demo("Greeting", name, json!({"name": name}))).await;
        let wanted = format!("Hello, {name}!");
        let greeted = |document: &serde_json::Value| document["status"]["message"] == wanted.as_str();
        test.until(&demo_key("Greeting", name), "is greeted", greeted).await;
    }
    assert_eq!(test.status("greeter").failures, 0);
}

async fn event(test: &TestHost, controller: &str, reason: &str) -> Event {
    let filter = EventFilter { controller: Some(controller.to_owned()), ..EventFilter::default() };
    eventually(&format!("{reason} of {controller}"), async || {
        test.host.events().list(&filter).into_iter().find(|event| event.reason == reason)
    })
    .await
}

/// Runs the hostile guest for the key of this name, and returns the message of the event with this reason.
/// Asserts that the greeter still reconciles.
async fn attack(name: &str, limits: Limits, reason: &str) -> String {
    let test = host().await;
    let definition = Definition::new("hostile", arena().await.hostile.clone());
    test.host.put(Definition { grants: all_resources(), limits, ..definition }).await.unwrap();
    test.apply(demo("Hostile", name, json!({}))).await;
    let told = event(&test, "hostile", reason).await;
    assert_eq!(told.key, Some(demo_key("Hostile", name)));
    assert_greeter_reconciles(&test).await;
    told.message
}

/// Asserts that an attack ends at a limit.
async fn assert_stopped(name: &str, limits: Limits, limit: LimitName) {
    let told = attack(name, limits, "LimitExceeded").await;
    assert!(told.contains(&format!("limit {limit}: ")), "{name}: {told}");
}

/// The processor limit and the deadline are far apart, so that a busy machine never hits the wrong one.
fn limits() -> Limits {
    Limits { cpu: Duration::from_millis(300), deadline: Duration::from_secs(30), ..Limits::default() }
}

/// The same with so much processor time that the guest hits another limit first.
fn patient() -> Limits {
    Limits { cpu: Duration::from_secs(20), ..limits() }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_writes_are_stopped() {
    assert_stopped("write-flood", Limits { writes_max: 20, ..patient() }, LimitName::Writes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn use_of_files_and_sockets_is_reported_once_despite_many_tries() {
    let test = host().await;
    let definition = Definition::new("hostile", arena().await.hostile.clone());
    test.host.put(Definition { grants: all_resources(), ..definition }).await.unwrap();
    for round in 0..3 {
        test.apply(demo("Hostile", "reach", json!({"round": round}))).await;
        let done = |document: &serde_json::Value| document["status"]["message"] == "nothing was there";
        test.until(&demo_key("Hostile", "reach"), "has tried everything", done).await;
        test.idle("hostile").await;
    }
    assert!(test.status("hostile").reconciles >= 3);
    for (reason, wanted) in [("NoFiles", "no file \"/etc/passwd\""), ("NoSockets", "no address \"tcp 10.0.0.1:80\"")] {
        let filter = EventFilter { controller: Some("hostile".to_owned()), ..EventFilter::default() };
        let told: Vec<Event> =
            test.host.events().list(&filter).into_iter().filter(|event| event.reason == reason).collect();
        assert_eq!((told.len(), told[0].count), (1, 1), "{told:?}");
        assert!(told[0].message.contains(wanted), "{}", told[0].message);
    }
    assert_greeter_reconciles(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_log_line_is_stopped() {
    assert_stopped("print-flood", patient(), LimitName::LogBytes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_random_bytes_are_stopped() {
    assert_stopped("random-flood", Limits { effect_bytes_max: 4 << 20, ..patient() }, LimitName::EffectBytes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_handles_are_stopped() {
    assert_stopped("handles", patient(), LimitName::Handles).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_calls_without_effects_are_stopped_by_their_processor_time() {
    assert_stopped("free-calls", limits(), LimitName::Cpu).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_text_is_not_copied() {
    assert_stopped("huge-text", patient(), LimitName::Transfer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_list_is_not_copied() {
    assert_stopped("huge-list", patient(), LimitName::Transfer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_answer_is_not_allocated() {
    let told = attack("huge-random", patient(), "Trapped").await;
    assert!(told.contains("18446744073709551615 random bytes asked for"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deeply_nested_document_is_an_error_of_the_guest() {
    let told = attack("deep-json", patient(), "ReconcileFailed").await;
    assert!(told.contains("recursion limit exceeded"), "{told}");
}

/// Runs the guest that misbehaves in any export, and returns the message of the event with this reason.
async fn misbehave(test: &TestHost, attack: &str, reason: &str) -> String {
    let definition = Definition::new("hostile-exports", arena().await.hostile_exports.clone());
    let config = BTreeMap::from([("attack".to_owned(), attack.to_owned())]);
    let cpu = if attack.ends_with("loop") { limits().cpu } else { patient().cpu };
    let limits = Limits { cpu, ..limits() };
    test.host.put(Definition { grants: all_resources(), limits, config, ..definition }).await.unwrap();
    test.apply(demo("Bait", "bait", json!({}))).await;
    test.apply(demo("HostileExports", "it", json!({}))).await;
    let told = match attack.strip_prefix("stop ") {
        Some(_) => {
            eventually("the controller to start", async || {
                (test.status("hostile-exports").state == ControllerState::Ready).then_some(())
            })
            .await;
            test.host.remove("hostile-exports").await.unwrap();
            event(test, "hostile-exports", reason).await
        }
        None => event(test, "hostile-exports", reason).await,
    };
    assert_greeter_reconciles(test).await;
    told.message
}

/// Tests each export with a trap and an endless loop, and `map` and `poll` with a flood of keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_loop_a_crash_or_a_flood_in_any_export_fails_only_that_call() {
    for (export, reason) in [
        ("reconcile", ["Trapped", "LimitExceeded"]),
        ("map", ["MapFailed"; 2]),
        ("poll", ["PollFailed"; 2]),
        ("start", ["StartFailed"; 2]),
        ("stop", ["StopFailed"; 2]),
    ] {
        let [of_trap, of_limit] = reason;
        let told = misbehave(&host().await, &format!("{export} trap"), of_trap).await;
        assert!(told.contains("unreachable"), "{export}: {told}");
        let told = misbehave(&host().await, &format!("{export} loop"), of_limit).await;
        assert!(told.contains("limit cpu: "), "{export}: {told}");
        if ["map", "poll"].contains(&export) {
            let told = misbehave(&host().await, &format!("{export} flood"), of_limit).await;
            assert!(told.contains("limit result: "), "{export}: {told}");
        }
    }
}

/// The server accepts connections, and never sends a byte.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_a_silent_server_ends_at_the_deadline() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let grants: Grants = serde_json::from_value(json!({
        "resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}],
        "http": [{"urls": [format!("{url}*")], "methods": ["GET"], "addresses": ["loopback"]}],
    }))
    .unwrap();
    let test = host().await;
    let component = test.load(&guest("guest-fetcher")).await;
    let limits = Limits { deadline: Duration::from_millis(500), ..patient() };
    let limits = Limits { cpu: limits.deadline, ..limits };
    // There are more keys than workers, so all workers wait for the server.
    let overrides = Overrides { concurrency: Some(4), ..Overrides::default() };
    test.host.put(Definition { grants, limits, overrides, ..Definition::new("fetcher", component) }).await.unwrap();
    for number in 0..8 {
        test.apply(demo("Fetcher", &format!("it{number}"), json!({"url": url}))).await;
    }
    let told = event(&test, "fetcher", "LimitExceeded").await;
    assert!(told.message.contains("limit deadline: "), "{}", told.message);
    assert_greeter_reconciles(&test).await;
}

/// Servers and clients read `..` in a path differently.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_covers_the_address_that_is_sent() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    std::thread::spawn(move || {
        for mut connection in server.incoming().map_while(Result::ok) {
            let mut line = String::new();
            drop(BufReader::new(&connection).read_line(&mut line));
            seen.lock().push(line.trim().to_owned());
            drop(connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
        }
    });
    let grants: Grants = serde_json::from_value(json!({
        "resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}],
        "http": [{"urls": [format!("{url}/v1/*")], "methods": ["GET"], "addresses": ["loopback"]}],
    }))
    .unwrap();
    let test = host().await;
    let component = test.load(&guest("guest-fetcher")).await;
    test.host.put(Definition { grants, limits: patient(), ..Definition::new("fetcher", component) }).await.unwrap();
    for (name, path, is_sent) in
        [("up", "v1/../admin", false), ("escaped", "v1/%2e%2e/admin", false), ("in", "v1/a/../b", true)]
    {
        test.apply(demo("Fetcher", name, json!({"url": format!("{url}/{path}")}))).await;
        let field = if is_sent { "code" } else { "error" };
        test.until(&demo_key("Fetcher", name), field, |fetcher| !fetcher["status"][field].is_null()).await;
    }
    let lines = lines.lock();
    assert!(!lines.is_empty() && lines.iter().all(|line| line == "GET /v1/b HTTP/1.1"), "{lines:?}");
}

/// The most bytes by which the host may grow while four concurrent calls attack its memory. Each call may
/// have its linear memory and one transfer. 48 MiB are for events, logs, warm slots of the pool, and code
/// that is read for the first time.
const GROWTH_BYTES_MAX: f64 = (4 * (32 + 4) + 48) as f64 * 1_048_576.0;

/// The host is a process of its own, so that its resident memory is the measure.
#[test]
fn attacks_on_memory_stay_within_the_limits_and_are_counted_by_limit() {
    let attacks = [
        ("memory", "memory"),
        ("huge-text", "transfer"),
        ("huge-list", "transfer"),
        ("log-flood", "log-lines"),
        ("print-flood", "log-bytes"),
        ("event-flood", "events"),
        ("random-flood", "effects"),
        ("handles", "handles"),
        ("calls", "effects"),
    ];
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("guest-hostile"), folder.path().join("hostile.wasm")).unwrap();
    let limits = "limits: {cpu: 20s, memory: 32Mi, transfer: 4Mi, effects: 500, events: 400}";
    let manifest = format!(
        "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: hostile}}\nspec: {{component: {{file: hostile.wasm}}, \
         grants: {{resources: [{{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}}]}}, concurrency: 4, \
         backoff: {{base: 50ms, max: 100ms}}, {limits}}}\n"
    );
    std::fs::write(folder.path().join("hostile.yaml"), manifest).unwrap();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    let resident = || Scrape::of(scratch.path()).get("process_resident_memory_bytes", &[]);
    let document = |name: &str| {
        format!("---\napiVersion: demo.homeostat.dev/v1\nkind: Hostile\nmetadata: {{name: {name}}}\nspec: {{}}\n")
    };
    let apply = |text: String| {
        let file = scratch.path().join("attacks.yaml");
        std::fs::write(&file, text).unwrap();
        let applied = host.ask(&["apply", "-f", &file.display().to_string()]);
        assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    };
    let ready = || (get(scratch.path(), "/readyz", "*/*").code == 200).then_some(());
    eventually_blocking("the host to be ready", ready);
    apply(document("well"));
    eventually_blocking("the first reconcile", || {
        (Scrape::of(scratch.path()).get("controller_runtime_reconcile_total", &[("result", "success")]) >= 1.0)
            .then_some(())
    });
    let before = resident();
    let mut most = before;
    apply(attacks.iter().map(|(name, _)| document(name)).collect());
    // Each attack is retried, so that growth per try shows.
    eventually_blocking("ten tries of each", || {
        let scrape = Scrape::of(scratch.path());
        most = most.max(scrape.get("process_resident_memory_bytes", &[]));
        let hits = |limit: &str| scrape.get("homeostat_limit_hits_total", &[("limit", limit)]);
        attacks.iter().all(|(_, limit)| hits(limit) >= 10.0).then_some(())
    });
    assert!(most - before < GROWTH_BYTES_MAX, "from {before} to {most} bytes");
}
