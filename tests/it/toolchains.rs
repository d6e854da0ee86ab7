//! What the toolchains of other languages build with their default flags loads and runs: it prints, reads its clock, settings and randomness, and
//! people see what it tries in vain.

use std::sync::Arc;

use homeostat_component::{Engine, EngineOptions};
use homeostat_runtime::events::{Event, EventFilter};
use homeostat_runtime::{Definition, Options};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Key, Kind};
use homeostat_tests::{TestHost, all_resources, c_guest, compiled_folder, eventually};
use serde_json::{Value, json};

/// 2020-01-01, in seconds: the clock is a real one.
const RECENT: f64 = 1_577_836_800.0;

/// Runs a guest that was built elsewhere for two resources, and returns the host and what it says of both.
async fn run(component: std::path::PathBuf) -> (TestHost, [Value; 2]) {
    let compiled = Some(compiled_folder());
    let engine = Engine::new(EngineOptions { compiled, ..EngineOptions::default() }).unwrap();
    let store = Arc::new(MemoryStore::new(homeostat_store::Options::default()));
    let test = TestHost::with(store, |options| Options { engine, ..options }).await;
    let component = test.load(&component, &all_resources()).await;
    let config = [("greeting".to_owned(), "hello".to_owned())].into();
    let definition = Definition { grants: all_resources(), config, ..Definition::new("foreign", component) };
    test.host.put(definition).await.unwrap();
    let mut statuses = [Value::Null, Value::Null];
    for (name, status) in ["one", "two"].into_iter().zip(&mut statuses) {
        apply(&test, name, name).await;
        let done = |document: &Value| !document["status"].is_null();
        *status = test.until(&key(name), "has a status", done).await.document()["status"].clone();
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

async fn event(test: &TestHost, reason: &str) -> Event {
    let filter = EventFilter { controller: Some("foreign".to_owned()), ..EventFilter::default() };
    let find = || test.host.events().list(&filter).into_iter().find(|event| event.reason == reason);
    eventually(&format!("an event {reason}"), async || find()).await
}

/// Checks what guests of every language do.
async fn is_at_home(test: &TestHost, [one, two]: &[Value; 2], language: &str) {
    assert_eq!((&one["by"], &two["by"]), (&json!(language), &json!(language)));
    assert_ne!(one["random"], two["random"], "each call draws its own randomness");
    assert!(one["time"].as_f64().unwrap() > RECENT, "{one}");
    apply(test, "three", "crash").await;
    let crash = eventually("the crash to be told", async || {
        let filter = EventFilter { controller: Some("foreign".to_owned()), ..EventFilter::default() };
        test.host.events().list(&filter).into_iter().find(|event| event.message.contains("crashed on purpose"))
    });
    assert_eq!(crash.await.key, Some(key("three")));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
async fn what_clang_builds_with_wasi_libc_by_default_runs() {
    let (test, statuses) = run(c_guest()).await;
    is_at_home(&test, &statuses, "C").await;
    assert_eq!(statuses[0]["file"], "No such file or directory");
    assert!(event(&test, "NoFiles").await.message.contains("no file \"/etc/hosts\""), "the path is told");
}
