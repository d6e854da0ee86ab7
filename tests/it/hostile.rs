//! Guests that attack their host: each is stopped under the name of its limit, and a controller beside it goes on.
//!
//! Guests that no compiler makes, and components that are refused, are in `host/component/src/component/tests/hostile.rs`; crashes and the plain
//! floods in `journey.rs`.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

use homeostat_component::{Component, Engine, EngineOptions, Grants, LimitName, Limits};
use homeostat_runtime::events::{Event, EventFilter};
use homeostat_runtime::{ControllerState, Definition, Options, Overrides};
use homeostat_store::memory::MemoryStore;
use homeostat_tests::{HostProcess, TestHost, all_resources, demo, demo_key, eventually, eventually_blocking, guest};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::metrics::scrape::{Scrape, get};

/// One engine and the guests of this file, compiled once: a compilation takes longer than an attack.
struct Arena {
    engine: Engine,
    hostile: Component,
    spiteful: Component,
    greeter: Component,
}

async fn arena() -> &'static Arena {
    static ARENA: OnceCell<Arena> = OnceCell::const_new();
    let built = ARENA.get_or_init(async || {
        let engine = Engine::new(EngineOptions::default()).unwrap();
        let load = async |name: &str| engine.load(std::fs::read(guest(name)).unwrap(), &all_resources()).await.unwrap();
        let (hostile, spiteful) = (load("guest-hostile").await, load("guest-spiteful").await);
        let greeter = load("greeter").await;
        Arena { engine, hostile, spiteful, greeter }
    });
    built.await
}

/// A host with a controller that behaves.
async fn host() -> TestHost {
    let arena = arena().await;
    let store = std::sync::Arc::new(MemoryStore::new(homeostat_store::Options::default()));
    let test = TestHost::with(store, |options| Options { engine: arena.engine.clone(), ..options }).await;
    let greeter = Definition { grants: all_resources(), ..Definition::new("greeter", arena.greeter.clone()) };
    test.host.put(greeter).await.unwrap();
    test
}

/// Sees to it that the controller that behaves still does its work.
async fn goes_on(test: &TestHost) {
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

/// Lets the hostile guest reconcile the key of this name, and returns what is told of it. The controller beside it goes on meanwhile.
async fn attack(name: &str, limits: Limits, reason: &str) -> String {
    let test = host().await;
    let definition = Definition::new("hostile", arena().await.hostile.clone());
    test.host.put(Definition { grants: all_resources(), limits, ..definition }).await.unwrap();
    test.apply(demo("Hostile", name, json!({}))).await;
    let told = event(&test, "hostile", reason).await;
    assert_eq!(told.key, Some(demo_key("Hostile", name)));
    goes_on(&test).await;
    told.message
}

/// The same for an attack that ends at a limit.
async fn is_stopped(name: &str, limits: Limits, limit: LimitName) {
    let told = attack(name, limits, "LimitExceeded").await;
    assert!(told.contains(&format!("limit {limit}: ")), "{name}: {told}");
}

/// Far apart, so that a machine with much else to do does not take the one for the other.
fn limits() -> Limits {
    Limits { cpu: Duration::from_millis(300), deadline: Duration::from_secs(30), ..Limits::default() }
}

/// The same with so much time on a processor that another limit is hit before.
fn patient() -> Limits {
    Limits { cpu: Duration::from_secs(20), ..limits() }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_without_end_are_stopped() {
    is_stopped("write-flood", Limits { writes_max: 20, ..patient() }, LimitName::Writes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_controller_has_is_told_once_however_often_it_is_tried() {
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
    goes_on(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_without_end_is_stopped() {
    is_stopped("print-flood", patient(), LimitName::LogBytes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_end_are_stopped() {
    is_stopped("random-flood", Limits { effect_bytes_max: 4 << 20, ..patient() }, LimitName::EffectBytes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_without_end_are_stopped() {
    is_stopped("handles", patient(), LimitName::Handles).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_cost_nothing_are_stopped_by_the_time_they_take() {
    is_stopped("free-calls", limits(), LimitName::Cpu).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_text_is_not_taken_over() {
    is_stopped("huge-text", patient(), LimitName::Transfer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_list_is_not_taken_over() {
    is_stopped("huge-list", patient(), LimitName::Transfer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_answer_is_not_made() {
    let told = attack("huge-random", patient(), "Trapped").await;
    assert!(told.contains("18446744073709551615 random bytes asked for"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_is_too_deep_is_an_error_of_the_guest() {
    let told = attack("deep-json", patient(), "ReconcileFailed").await;
    assert!(told.contains("recursion limit exceeded"), "{told}");
}

/// Puts the guest that misbehaves outside of `reconcile` too, and returns what is told of it.
async fn spite(test: &TestHost, attack: &str, reason: &str) -> String {
    let definition = Definition::new("spiteful", arena().await.spiteful.clone());
    let config = BTreeMap::from([("attack".to_owned(), attack.to_owned())]);
    let cpu = if attack.ends_with("loop") { limits().cpu } else { patient().cpu };
    let limits = Limits { cpu, ..limits() };
    test.host.put(Definition { grants: all_resources(), limits, config, ..definition }).await.unwrap();
    test.apply(demo("Bait", "bait", json!({}))).await;
    test.apply(demo("Spiteful", "it", json!({}))).await;
    let told = match attack.strip_prefix("stop ") {
        Some(_) => {
            eventually("it to start", async || (test.status("spiteful").state == ControllerState::Ready).then_some(()))
                .await;
            test.host.remove("spiteful").await.unwrap();
            event(test, "spiteful", reason).await
        }
        None => event(test, "spiteful", reason).await,
    };
    goes_on(test).await;
    told.message
}

/// Every export, in every way.
#[tokio::test(flavor = "multi_thread")]
async fn every_export_may_loop_crash_or_flood_and_costs_that_one_call() {
    for (export, reason) in [
        ("reconcile", ["Trapped", "LimitExceeded"]),
        ("map", ["MapFailed"; 2]),
        ("poll", ["PollFailed"; 2]),
        ("start", ["StartFailed"; 2]),
        ("stop", ["StopFailed"; 2]),
    ] {
        let [of_trap, of_limit] = reason;
        let told = spite(&host().await, &format!("{export} trap"), of_trap).await;
        assert!(told.contains("unreachable"), "{export}: {told}");
        let told = spite(&host().await, &format!("{export} loop"), of_limit).await;
        assert!(told.contains("limit cpu: "), "{export}: {told}");
        if ["map", "poll"].contains(&export) {
            let told = spite(&host().await, &format!("{export} flood"), of_limit).await;
            assert!(told.contains("limit result: "), "{export}: {told}");
        }
    }
}

/// A server that takes connections and says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_waited_for_until_the_deadline() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let grants: Grants = serde_json::from_value(json!({
        "resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}],
        "http": [{"urls": [format!("{url}*")], "methods": ["GET"], "addresses": ["loopback"]}],
    }))
    .unwrap();
    let test = host().await;
    let component = test.load(&guest("guest-needy"), &grants).await;
    let limits = Limits { deadline: Duration::from_millis(500), ..patient() };
    let limits = Limits { cpu: limits.deadline, ..limits };
    // More keys than may run at once: all of them wait for that server.
    let overrides = Overrides { concurrency: Some(4), ..Overrides::default() };
    test.host.put(Definition { grants, limits, overrides, ..Definition::new("needy", component) }).await.unwrap();
    for number in 0..8 {
        test.apply(demo("Needy", &format!("it{number}"), json!({"url": url}))).await;
    }
    let told = event(&test, "needy", "LimitExceeded").await;
    assert!(told.message.contains("limit deadline: "), "{}", told.message);
    goes_on(&test).await;
}

/// What the host may grow by while four calls at once attack its memory. Each may have its linear memory and what it hands over in one call;
/// the rest is what the host keeps anyway: events, logs, warm slots of the pool, compiled code that is read for the first time.
const GROWTH_BYTES_MAX: f64 = (4 * (32 + 4) + 48) as f64 * 1_048_576.0;

/// In a process of its own, where nothing else takes memory.
#[test]
fn attacks_on_memory_leave_the_host_as_small_as_its_limits_say_and_each_is_counted_by_its_name() {
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
    // Each is tried again and again: what grows with every try is seen.
    eventually_blocking("ten tries of each", || {
        let scrape = Scrape::of(scratch.path());
        most = most.max(scrape.get("process_resident_memory_bytes", &[]));
        let hits = |limit: &str| scrape.get("homeostat_limit_hits_total", &[("limit", limit)]);
        attacks.iter().all(|(_, limit)| hits(limit) >= 10.0).then_some(())
    });
    assert!(most - before < GROWTH_BYTES_MAX, "from {before} to {most} bytes");
}
