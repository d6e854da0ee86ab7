//! Guests from the toolchains of other languages, built with the default flags. They load and run, print, and
//! read clock, settings and randomness. The host reports their use of files, sockets and missing grants.

use homeostat_component::{Engine, EngineOptions, Severity, Tier, TierPolicy};
use homeostat_fixtures::memory_store;
use homeostat_runtime::events::{Event, EventFilter};
use homeostat_runtime::{CodeStatus, Definition, Options};
use homeostat_store::{Key, Kind};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, all_resources, c_guest, compiled_folder, go_guest, javascript_guest, python_guest};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

/// 2020-01-01 in seconds since 1970. The time that a guest reads is later.
const RECENT: f64 = 1_577_836_800.0;
/// The reasons of the events for the denied effects of these guests.
const DENIALS: [&str; 3] = ["NoFiles", "NoSockets", "Forbidden"];

/// Runs a guest for two resources, and returns the host and the two statuses.
async fn run(build: fn() -> Vec<u8>) -> (TestHost, [Value; 2]) {
    let component = spawn_blocking(build).await.unwrap();
    let compiled = Some(compiled_folder());
    let engine = Engine::new(EngineOptions { compiled, ..EngineOptions::default() }).unwrap();
    let store = memory_store();
    let test = TestHost::with(store, |options| Options { engine, ..options }).await;
    let component = test.host.load(component).await.unwrap();
    let config = [("greeting".to_owned(), "hello".to_owned())].into();
    let definition = Definition { grants: all_resources(), config, ..Definition::new("foreign", component) };
    test.host.put(definition).await.unwrap();
    let mut statuses = [Value::Null, Value::Null];
    for (name, status) in ["one", "two"].into_iter().zip(&mut statuses) {
        apply(&test, name, name).await;
        *status = eventually(&format!("{name} to have a status"), async || {
            let failed = events(&test).into_iter().find(|event| {
                event.severity == Severity::Warning
                    && event.key == Some(key(name))
                    && !DENIALS.contains(&event.reason.as_str())
            });
            assert!(failed.is_none(), "{failed:?}");
            test.get(&key(name))
                .await
                .map(|found| found.document()["status"].clone())
                .filter(|status| !status.is_null())
        })
        .await;
    }
    (test, statuses)
}

fn key(name: &str) -> Key {
    Key::new(Kind::new("lang.example.dev", "v1", "Note"), "default", name)
}

async fn apply(test: &TestHost, name: &str, text: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    let document =
        json!({"apiVersion": "lang.example.dev/v1", "kind": "Note", "metadata": metadata, "spec": {"text": text}});
    test.apply(document).await;
}

fn events(test: &TestHost) -> Vec<Event> {
    test.host.events().list(&EventFilter { controller: Some("foreign".to_owned()), ..EventFilter::default() })
}

async fn event(test: &TestHost, reason: &str) -> Event {
    let find = || events(test).into_iter().find(|event| event.reason == reason);
    eventually(&format!("an event {reason}"), async || find()).await
}

/// Checks the behaviour that the guests of all languages share.
async fn check_common_behaviour(test: &TestHost, [one, two]: &[Value; 2], language: &str) {
    assert_eq!((&one["by"], &two["by"]), (&json!(language), &json!(language)));
    assert_ne!(one["random"], two["random"], "each call has its own random numbers");
    assert!(one["time"].as_f64().unwrap() > RECENT, "{one}");
    apply(test, "three", "crash").await;
    let crash = eventually("the event of the crash", async || {
        events(test).into_iter().find(|event| event.message.contains("crashed on purpose"))
    });
    assert_eq!(crash.await.key, Some(key("three")));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
async fn a_guest_from_componentize_py_runs_with_default_flags() {
    let (test, statuses) = run(python_guest).await;
    check_common_behaviour(&test, &statuses, "Python").await;
    let [one, _] = &statuses;
    assert_eq!((&one["text"], &one["setting"]), (&json!("ONE"), &json!("hello")));
    assert_eq!((&one["file"], &one["address"]), (&json!("FileNotFoundError"), &json!("gaierror")));
    assert!(event(&test, "NoFiles").await.message.contains("no file \"/"), "the event names the path");
    assert!(
        event(&test, "NoSockets").await.message.contains("no host name \"example.com\""),
        "the event names the host"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_node, ignore = "Node 20 or newer with npm is not on PATH: https://nodejs.org")]
async fn a_guest_from_componentize_js_runs_with_default_flags() {
    let (test, statuses) = run(javascript_guest).await;
    check_common_behaviour(&test, &statuses, "JavaScript").await;
    let [one, _] = &statuses;
    assert_eq!((&one["text"], &one["setting"]), (&json!("ONE"), &json!("hello")));
    assert_eq!(one["request"], "TypeError", "the request is denied");
    assert!(event(&test, "Forbidden").await.message.contains("http://10.0.0.1/"), "the event names the missing grant");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
async fn a_guest_from_clang_and_wasi_libc_runs_with_default_flags() {
    let (test, statuses) = run(c_guest).await;
    check_common_behaviour(&test, &statuses, "C").await;
    assert_eq!(statuses[0]["file"], "No such file or directory");
    assert!(event(&test, "NoFiles").await.message.contains("no file \"/etc/hosts\""), "the event names the path");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_guest_from_go_runs_through_the_adapter() {
    let (test, statuses) = run(go_guest).await;
    check_common_behaviour(&test, &statuses, "Go").await;
    assert_eq!(statuses[0]["file"], "open /etc/hosts: No such file or directory");
    assert!(event(&test, "NoFiles").await.message.contains("no file \"/etc/hosts\""), "the event names the path");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_large_guest_answers_on_baseline_code_and_is_optimised_behind_its_keys() {
    let bytes = spawn_blocking(go_guest).await.unwrap();
    let engine = Engine::new(EngineOptions { tiers: TierPolicy::BaselineFirst, ..EngineOptions::default() }).unwrap();
    // No host runs yet which would optimise it.
    let component = engine.load(bytes).await.unwrap();
    assert_eq!(component.tier(), Tier::Baseline);
    let test = TestHost::with(memory_store(), |options| Options { engine, ..options }).await;
    let config = [("greeting".to_owned(), "hello".to_owned())].into();
    let definition = Definition { grants: all_resources(), config, ..Definition::new("foreign", component.clone()) };
    test.host.put(definition).await.unwrap();
    let settled = async |name: &str| {
        apply(&test, name, name).await;
        test.until(&key(name), "has a status", |document| document["status"]["by"] == "Go").await;
    };
    settled("one").await;
    eventually("optimised code", async || {
        let status = test.status("foreign");
        assert_eq!((status.code.error, status.generation, status.failures), (None, 1, 0));
        (status.code.tier == Tier::Optimised).then_some(())
    })
    .await;
    settled("two").await;
    let status = test.status("foreign");
    assert_eq!((status.code, status.digest), (CodeStatus::default(), component.digest().to_string()));
}
