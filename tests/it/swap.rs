//! Swaps: a controller gets a new component while its keys run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{Component, Digest, Engine, EngineOptions, Limits};
use homeostat_fixtures::{Fault, FaultyStore, On, demo, demo_key, memory_store};
use homeostat_runtime::events::EventFilter;
use homeostat_runtime::{Definition, Error, Feeder, FeederError, Intake, Overrides, Priority, Put};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest, renamed};
use serde_json::json;

async fn other(test: &TestHost, path: &Path, tag: &str) -> Component {
    let bytes = renamed(&std::fs::read(path).unwrap(), tag);
    test.host.load(bytes).await.unwrap()
}

/// C3: Swaps under load lose no key, and run no key on two generations at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_swap_loses_no_key_and_runs_none_on_two_generations_at_once() {
    let test = TestHost::start().await;
    test.add("it", &guest("guest-exclusive")).await;
    let keys = 40;
    for value in 0..20 {
        for number in 0..keys {
            test.apply(demo("Exclusive", &format!("k{number}"), json!({"value": value}))).await;
        }
        let component = other(&test, &guest("guest-exclusive"), &format!("v{value}")).await;
        let swapped = test.host.swap("it", component).await.unwrap();
        assert_eq!(swapped.generation, value + 2);
    }
    for number in 0..keys {
        let key = demo_key("Exclusive", &format!("k{number}"));
        test.until(&key, "has seen the last value", |document| document["status"]["value"] == 19).await;
    }
    let status = test.idle("it").await;
    let twice = test
        .host
        .events()
        .list(&EventFilter::default())
        .into_iter()
        .find(|event| event.message.contains("two at once"));
    assert!(twice.is_none(), "{twice:?}");
    assert_eq!(status.generation, 21);
    let answered = status.answered.map(|answered| (answered.digest, answered.generation));
    assert_eq!(answered, status.last_swap.map(|swap| (swap.to, 21)), "the last swap made all keys run again");
}

/// Adds these keys, once.
struct NameFeeder(Vec<&'static str>);

impl Feeder for NameFeeder {
    fn name(&self) -> &str {
        "once"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        for name in &self.0 {
            intake.add(demo_key("Item", name), Priority::NORMAL).unwrap();
        }
        Ok(())
    }
}

/// C3: Queued keys survive a swap. Keys of a keys-only kind cannot be listed again.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_cannot_be_listed_again_stay_queued_over_a_swap() {
    let test = TestHost::start().await;
    let definition = test.definition("it", &guest("guest-poller")).await;
    let config = [("items".to_owned(), String::new())].into();
    test.host.put(Definition { config, ..definition }).await.unwrap();
    test.host.suspend("it", true).unwrap();
    test.host.feed("it", Arc::new(NameFeeder(vec!["a", "b"]))).unwrap();
    eventually("both keys to be queued", async || (test.status("it").counts.ready == 2).then_some(())).await;

    let swapped = test.host.swap("it", other(&test, &guest("guest-poller"), "new").await).await.unwrap();
    assert_eq!((swapped.generation, swapped.keys), (2, 0), "the swap adds no key");
    assert_eq!(test.status("it").counts.ready, 2);
    test.host.suspend("it", false).unwrap();
    for name in ["a", "b"] {
        test.until(&demo_key("Tally", name), "is counted", |document| document["spec"]["count"] == 1).await;
    }
    assert_eq!(test.idle("it").await.reconciles, 2);
}

/// C3: A running reconcile finishes on the old generation, and its key runs again on the new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_reconcile_finishes_on_the_old_version_and_its_key_runs_again() {
    let test = TestHost::start().await;
    test.add("it", &guest("guest-hostile")).await;
    let definition = test.host.definition("it").unwrap();
    let limits = homeostat_component::Limits { deadline: Duration::from_millis(700), ..definition.limits.clone() };
    test.host.put(Definition { limits, ..definition }).await.unwrap();
    let (old, new) = (test.status("it").digest, other(&test, &guest("guest-hostile"), "new").await);
    test.apply(demo("Hostile", "slow", json!({}))).await;
    eventually("the key to run", async || (test.status("it").counts.running == 1).then_some(())).await;
    test.host.swap("it", new).await.unwrap();
    assert_eq!(test.status("it").counts.running, 1, "the swap neither waits for the reconcile nor stops it");
    let answered = eventually("the old one to end", async || {
        let status = test.status("it");
        (status.reconciles == 1).then_some(status.answered)
    });
    assert_eq!(answered.await.map(|answered| answered.digest), Some(old));
    eventually("the new one to answer", async || {
        let status = test.status("it");
        (status.answered.map(|answered| answered.digest) == Some(status.digest)).then_some(())
    })
    .await;
}

/// C3: Failures in a row and due times survive a swap.
#[tokio::test(flavor = "multi_thread")]
async fn failures_and_due_times_survive_a_swap() {
    let test = TestHost::start().await;
    test.add("it", &guest("guest-hostile")).await;
    for name in ["fail-after", "centuries"] {
        test.apply(demo("Hostile", name, json!({}))).await;
    }
    eventually("both keys to wait", async || (test.status("it").counts.waiting == 2).then_some(())).await;
    test.host.swap("it", other(&test, &guest("guest-hostile"), "new").await).await.unwrap();
    test.idle("it").await;
    let entries = test.host.queue("it", 10).unwrap();
    let entry = |name: &str| entries.iter().find(|entry| entry.key == demo_key("Hostile", name)).unwrap();
    assert_eq!((entry("fail-after").state.as_str(), entry("fail-after").failures), ("waiting", 1));
    assert!(entry("fail-after").due_in_ms.unwrap() > 3_000_000);
    assert_eq!((entry("centuries").state.as_str(), entry("centuries").failures), ("waiting", 0));
    assert_eq!(test.status("it").reconciles, 2, "no key ran before it was due");
}

/// C5: A swap to a component of another kind is refused, and the old component keeps running.
#[tokio::test(flavor = "multi_thread")]
async fn a_component_of_another_kind_is_refused_and_the_old_one_keeps_running() {
    let test = TestHost::start().await;
    test.add("it", &guest("greeter")).await;
    let component = other(&test, &guest("guest-hostile"), "other").await;
    let error = test.host.swap("it", component).await.unwrap_err();
    assert!(matches!(error, Error::ManagedKindChanged { .. }), "{error}");
    test.apply(demo("Greeting", "world", json!({"name": "World"}))).await;
    test.until(&demo_key("Greeting", "world"), "is greeted", |document| !document["status"].is_null()).await;
    assert_eq!(test.status("it").generation, 1);
}

/// C5: A swap to a component with a failing start hook is refused, and the old component keeps running.
#[tokio::test(flavor = "multi_thread")]
async fn a_component_with_a_failing_start_hook_is_refused_and_the_old_one_keeps_running() {
    let test = TestHost::start().await;
    test.add("it", &guest("guest-lifecycle")).await;
    test.apply(demo("Phase", "start", json!({"failures": 1000}))).await;
    let error = test.host.swap("it", other(&test, &guest("guest-lifecycle"), "new").await).await.unwrap_err();
    assert!(matches!(error, Error::StartHook(_)), "{error}");
    assert_eq!(test.status("it").generation, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_definition_again_changes_nothing_and_other_settings_keep_the_generation() {
    let test = TestHost::start().await;
    test.add("it", &guest("greeter")).await;
    let definition = test.host.definition("it").unwrap();
    assert_eq!(test.host.put(definition.clone()).await.unwrap(), Put::Unchanged);
    let overrides = Overrides { concurrency: Some(1), ..Overrides::default() };
    let changed = test.host.put(Definition { overrides, ..definition }).await.unwrap();
    assert!(matches!(changed, Put::Changed(swapped) if swapped.generation == 1));
    assert_eq!(test.status("it").concurrency, 1);
    test.apply(demo("Greeting", "world", json!({"name": "World"}))).await;
    test.until(&demo_key("Greeting", "world"), "is greeted", |document| !document["status"].is_null()).await;
}

/// C3: A worker takes the new component for its next key. In virtual time its quantum never ends, so it goes
/// from key to key without a pause.
#[tokio::test(start_paused = true)]
async fn a_worker_takes_the_swapped_component_for_its_next_key() {
    let engine = Engine::new(EngineOptions { preemption: false, ..EngineOptions::default() }).unwrap();
    let store = FaultyStore::over(memory_store());
    let test = TestHost::with(store.clone(), |options| homeostat_runtime::Options { engine, ..options }).await;
    let definition = test.definition("it", &guest("guest-versioned")).await;
    let overrides = Overrides { concurrency: Some(1), ..Overrides::default() };
    let version = |name: &str| {
        let config = [("version".to_owned(), name.to_owned())].into();
        Definition { overrides: overrides.clone(), config, ..definition.clone() }
    };
    test.host.put(version("one")).await.unwrap();
    test.host.suspend("it", true).unwrap();
    let keys = 5;
    for number in 0..keys {
        test.apply(demo("Versioned", &format!("k{number}"), json!({}))).await;
    }
    eventually("all keys to be queued", async || (test.status("it").counts.ready == keys).then_some(())).await;
    store.fault(On::Write, "Versioned", Fault::Wait);
    test.host.suspend("it", false).unwrap();
    eventually("one to run", async || (test.status("it").counts.running == 1).then_some(())).await;
    test.host.put(version("two")).await.unwrap();
    store.heal(On::Write, "Versioned");
    test.idle("it").await;
    let mut by_both = 0;
    for number in 0..keys {
        let resource = test.get(&demo_key("Versioned", &format!("k{number}"))).await.unwrap();
        let by = &resource.status()["by"];
        by_both += usize::from(*by == json!(["one", "two"]));
        assert!(*by == json!(["two"]) || *by == json!(["one", "two"]), "k{number}: {by}");
    }
    assert_eq!(by_both, 1, "only the running reconcile finishes on the old version");
}

/// Waits until the engine has released a component.
async fn wait_for_release(engine: &Engine, digest: &Digest) {
    eventually(&format!("{digest} to be gone"), async || {
        engine.load_known(digest, &Limits::default(), &BTreeMap::new()).await.is_none().then_some(())
    })
    .await;
}

/// A worker drops its cached component before it waits for a key.
#[tokio::test(flavor = "multi_thread")]
async fn a_component_is_released_after_a_swap_a_shadow_or_a_removal() {
    let engine = Engine::new(EngineOptions::default()).unwrap();
    let store = memory_store();
    let test = TestHost::with(store, |options| homeostat_runtime::Options { engine: engine.clone(), ..options }).await;
    test.add("it", &guest("greeter")).await;
    let digest = |test: &TestHost| test.host.definition("it").unwrap().component.digest().clone();
    for number in 0..8 {
        test.apply(demo("Greeting", &format!("k{number}"), json!({"name": "World"}))).await;
    }
    let first = digest(&test);
    test.idle("it").await;
    // During the suspension no key wakes a worker.
    test.host.suspend("it", true).unwrap();
    test.host.swap("it", other(&test, &guest("greeter"), "two").await).await.unwrap();
    wait_for_release(&engine, &first).await;
    test.host.suspend("it", false).unwrap();
    test.idle("it").await;

    let tried = other(&test, &guest("greeter"), "tried").await;
    let shadow = tried.digest().clone();
    test.host.begin_shadow(Definition { component: tried, ..test.host.definition("it").unwrap() }).await.unwrap();
    test.apply(demo("Greeting", "k0", json!({"name": "Moon"}))).await;
    let compared = async || {
        let report = test.host.shadow_report("it").unwrap()?;
        (report.equal > 0).then_some(())
    };
    eventually("a comparison", compared).await;
    test.host.end_shadow("it").unwrap();
    wait_for_release(&engine, &shadow).await;

    let second = digest(&test);
    test.idle("it").await;
    test.host.remove("it").await.unwrap();
    wait_for_release(&engine, &second).await;
}
