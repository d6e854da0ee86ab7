//! Feeders of real guests over failing stores: shared watches, retries, reports, and independence of each
//! other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Limits;
use homeostat_fixtures::{Fault, FaultyStore, On, demo, demo_key, memory_store};
use homeostat_runtime::events::{Event, EventFilter};
use homeostat_runtime::{ControllerState, Definition, Delay, KeyVerb, Overrides, Priority};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Key, Options, Precondition, Propagation, Resource, Scope, Store, Write};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest};
use serde_json::{Value, json};

fn memory() -> Arc<dyn Store> {
    memory_store()
}

/// Waits for an event with this reason and at least this count, and returns it.
async fn repeated_event(test: &TestHost, reason: &str, count: u64) -> Event {
    eventually(reason, async || {
        let events = test.host.events().list(&EventFilter::default());
        events.into_iter().find(|event| event.reason == reason && event.count >= count)
    })
    .await
}

async fn put(test: &TestHost, name: &str, path: &str, config: &[(&str, &str)]) {
    let definition = test.definition(name, &guest(path)).await;
    let config: BTreeMap<String, String> =
        config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    test.host.put(Definition { config, ..definition }).await.unwrap();
}

async fn reads(test: &TestHost, text: &str) {
    let key = demo_key("Follower", "a");
    test.until(&key, &format!("reads {text}"), |document| document["status"]["text"] == text).await;
}

/// W6, W13: A watch that fails is retried without help, reports its error, and delays no controller without a
/// need for its kind.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_cannot_be_listed_delays_only_the_controllers_that_watch_it() {
    check_failing_watch(On::List, Fault::Fail).await;
}

/// W6: A kind that the store does not have yet delays only the controllers that watch it, until it is
/// installed.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_not_installed_delays_only_the_controllers_that_watch_it() {
    check_failing_watch(On::List, Fault::NotInstalled).await;
}

async fn check_failing_watch(on: On, fault: Fault) {
    let store = FaultyStore::over(memory());
    store.fault(on, "Note", fault);
    let test = TestHost::over(store.clone()).await;
    put(&test, "follower", "guest-follower", &[]).await;
    test.add("greeter", &guest("greeter")).await;
    test.apply(demo("Greeting", "world", json!({"name": "World"}))).await;
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    test.until(&demo_key("Greeting", "world"), "is greeted", |document| !document["status"].is_null()).await;
    let failed = repeated_event(&test, "FeederFailed", 2).await;
    assert_eq!((&*failed.controller, failed.message.contains("on purpose")), ("follower", true), "{failed:?}");
    let status = test.status("follower");
    assert_eq!((status.state, status.reconciles), (ControllerState::Syncing, 0));
    let message = status.message.unwrap();
    assert!(message.contains("watch notes") && message.contains("on purpose"), "{message}");
    store.heal(on, "Note");
    reads(&test, "nothing").await;
    let status = test.status("follower");
    assert_eq!((status.state, status.message), (ControllerState::Ready, None));
}

/// Returns a definition of the kind `Note`, which the follower watches.
fn definition_of_notes(scope: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "notes.demo.homeostat.dev"},
        "spec": {
            "group": "demo.homeostat.dev", "scope": scope, "names": {"kind": "Note", "plural": "notes"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// W6: No controller waits for the definition of a kind that it watches, because its component declares the
/// kind.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_whose_definition_comes_later_delays_no_controller() {
    let test = TestHost::start().await;
    test.add("follower", &guest("guest-follower")).await;
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    reads(&test, "nothing").await;
    test.apply(definition_of_notes("Namespaced")).await;
    test.apply(demo("Note", "one", json!({"text": "first"}))).await;
    reads(&test, "first").await;
    assert_eq!(test.idle("follower").await.failures, 0);
}

/// W6: A component is refused with the reason if a definition contradicts its declaration of a kind. Other
/// controllers keep running, and the component is accepted once the definition is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_contradicting_definition_refuses_only_the_components_that_watch_its_kind() {
    let test = TestHost::start().await;
    test.apply(definition_of_notes("Cluster")).await;
    let definition = test.definition("follower", &guest("guest-follower")).await;
    let refused = test.host.put(definition.clone()).await.unwrap_err().to_string();
    assert!(refused.contains("Note"), "{refused}");
    test.add("greeter", &guest("greeter")).await;
    test.apply(demo("Greeting", "world", json!({"name": "World"}))).await;
    test.until(&demo_key("Greeting", "world"), "is greeted", |document| !document["status"].is_null()).await;
    let kind = homeostat_store::Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let key = homeostat_store::Key::new(kind, "", "notes.demo.homeostat.dev");
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    test.host
        .write(Write::Delete { key: key.clone(), precondition, propagation, grace_seconds: None }.into())
        .await
        .unwrap();
    eventually("the definition to be gone", async || test.get(&key).await.is_none().then_some(())).await;
    eventually("the controller to be accepted", async || test.host.put(definition.clone()).await.ok()).await;
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    reads(&test, "nothing").await;
}

/// W6: A component is refused if no grant covers its watch, and the error names the missing grant. Other
/// controllers keep running, and the component is accepted once the watch is granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_without_a_grant_refuses_only_its_own_component() {
    let test = TestHost::start().await;
    let definition = test.definition("follower", &guest("guest-follower")).await;
    let own = json!({"resources": [{"kinds": ["demo.homeostat.dev/Follower"], "verbs": ["*"], "namespaces": ["*"]}]});
    let grants = serde_json::from_value(own).unwrap();
    let refused = test.host.put(Definition { grants, ..definition.clone() }).await.unwrap_err().to_string();
    assert!(refused.contains("demo.homeostat.dev/Note") && refused.contains("watch"), "{refused}");
    test.add("greeter", &guest("greeter")).await;
    test.apply(demo("Greeting", "world", json!({"name": "World"}))).await;
    test.until(&demo_key("Greeting", "world"), "is greeted", |document| !document["status"].is_null()).await;
    test.host.put(definition).await.unwrap();
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    reads(&test, "nothing").await;
}

/// W6, W13: A ready controller keeps reconciling when a feeder fails. Its status shows the error until it is
/// over.
#[tokio::test(flavor = "multi_thread")]
async fn a_ready_controller_reports_a_failing_feeder() {
    let store = FaultyStore::over(memory());
    let test = TestHost::over(store.clone()).await;
    put(&test, "follower", "guest-follower", &[]).await;
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    reads(&test, "nothing").await;
    for on in [On::Next, On::List] {
        store.fault(on, "Note", Fault::Fail);
    }
    let status = eventually("the status to show the error", async || {
        Some(test.status("follower")).filter(|status| status.message.is_some())
    })
    .await;
    assert_eq!(status.state, ControllerState::Ready);
    let message = status.message.unwrap();
    assert!(message.contains("watch notes failed") && message.contains("on purpose"), "{message}");
    for on in [On::Next, On::List] {
        store.heal(on, "Note");
    }
    eventually("the error to be over", async || test.status("follower").message.is_none().then_some(())).await;
}

/// W7: A reconcile ends although the watch hangs that its follow requests. A feeder opens that watch, not the
/// worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_never_waits_for_a_watch_that_it_requests() {
    let store = FaultyStore::over(memory());
    store.fault(On::Watch, "Note", Fault::Wait);
    let test = TestHost::over(store.clone()).await;
    put(&test, "follower", "guest-follower", &[]).await;
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    reads(&test, "nothing").await;
    assert_eq!(test.idle("follower").await.counts.running, 0);
    // The follow still counts: once the watch opens, it finds the change in the meantime.
    test.apply(demo("Note", "one", json!({"text": "first"}))).await;
    store.heal(On::Watch, "Note");
    reads(&test, "first").await;
}

/// W5: All watches and follows of a kind share one watch of the store, across controllers and within one.
/// Removing the last user closes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_has_one_watch_of_a_kind_for_any_number_of_controllers() {
    let store = FaultyStore::over(memory());
    let test = TestHost::over(store.clone()).await;
    for _ in 0..3 {
        test.add("mapped", &guest("guest-mapped")).await;
        for name in ["follower", "second", "third"] {
            test.add(name, &guest("guest-follower")).await;
        }
        // A suspended controller keeps reading its share of the watch, and delays no other reader.
        test.host.suspend("third", true).unwrap();
        test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
        reads(&test, "nothing").await;
        test.apply(demo(
            "Note",
            "other",
            json!({"now": store.revision(&Scope::Everything).await.unwrap().to_string()}),
        ))
        .await;
        for name in ["mapped", "follower", "second"] {
            test.idle(name).await;
        }
        // The host itself watches definitions.
        let kinds = ["Mapped", "Source", "Follower", "Note", "CustomResourceDefinition"].len();
        eventually("one of each kind", async || (store.open() == kinds).then_some(())).await;
        for name in ["second", "third"] {
            test.host.remove(name).await.unwrap();
        }
        test.idle("follower").await;
        assert_eq!(store.open(), kinds, "each kind still has a user");
        for name in ["mapped", "follower"] {
            test.host.remove(name).await.unwrap();
        }
        assert_eq!(store.open(), 1);
    }
}

/// W4: A failing `map` is retried without a change of its source, until it succeeds. It delays no other
/// change.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_map_is_retried_without_a_change() {
    let test = TestHost::start().await;
    test.add("mapped", &guest("guest-mapped")).await;
    test.apply(demo("Mapped", "one", json!({}))).await;
    test.apply(demo("Source", "fails", json!({"through": "one later"}))).await;
    let failed = repeated_event(&test, "MapFailed", 4).await;
    assert!(failed.message.contains("fails") && failed.message.contains("not yet"), "{}", failed.message);
    test.apply(demo("Source", "sound", json!({"through": "one"}))).await;
    let one = demo_key("Mapped", "one");
    test.until(&one, "sees both", |document| document["status"]["sources"] == json!(["fails", "sound"])).await;
    test.apply(demo("Mapped", "later", json!({}))).await;
    let later = demo_key("Mapped", "later");
    test.until(&later, "sees it", |document| document["status"]["sources"] == json!(["fails"])).await;
}

/// W4: A key of another kind that `map` returns is refused and counted. The other keys are queued.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_kind_is_refused_and_counted() {
    let test = TestHost::start().await;
    test.add("mapped", &guest("guest-mapped")).await;
    test.apply(demo("Mapped", "one", json!({}))).await;
    for name in ["a", "b", "c"] {
        test.apply(demo("Source", name, json!({"through": "foreign one"}))).await;
    }
    let refused = repeated_event(&test, "KeyRefused", 3).await;
    assert!(refused.message.contains("demo.homeostat.dev/v1/Source"), "{}", refused.message);
    let one = demo_key("Mapped", "one");
    test.until(&one, "sees all", |document| document["status"]["sources"] == json!(["a", "b", "c"])).await;
    assert_eq!(test.idle("mapped").await.failures, 0);
}

/// B11: A `map` that returns too many keys fails under the name of the limit, and is called again after a
/// change.
#[tokio::test(flavor = "multi_thread")]
async fn a_map_with_too_many_keys_fails_under_the_name_of_the_limit() {
    let test = TestHost::start().await;
    test.add("mapped", &guest("guest-mapped")).await;
    test.apply(demo("Mapped", "one", json!({}))).await;
    test.apply(demo("Source", "many", json!({"through": "x ".repeat(10_001)}))).await;
    let failed = repeated_event(&test, "MapFailed", 1).await;
    assert!(failed.message.contains("limit result"), "{}", failed.message);
    test.apply(demo("Source", "many", json!({"through": "one"}))).await;
    let one = demo_key("Mapped", "one");
    test.until(&one, "sees it", |document| document["status"]["sources"] == json!(["many"])).await;
}

/// W9: A poll that does not end is cut off at its deadline, and the next one keeps the rate.
#[tokio::test(flavor = "multi_thread")]
async fn an_endless_poll_is_cut_off_at_its_deadline_and_polling_continues() {
    let test = TestHost::start().await;
    let definition = test.definition("poller", &guest("guest-poller")).await;
    let limits = Limits { deadline: Duration::from_millis(300), ..Limits::default() };
    let config = [("items".to_owned(), "endless".to_owned())].into();
    let endless = Definition { limits, config, ..definition };
    test.host.put(endless.clone()).await.unwrap();
    let cut = repeated_event(&test, "PollFailed", 3).await;
    assert!(cut.message.contains("deadline"), "{}", cut.message);
    let config = [("items".to_owned(), "a".to_owned())].into();
    test.host.put(Definition { config, ..endless }).await.unwrap();
    test.until(&demo_key("Tally", "a"), "is counted", |document| document["spec"]["count"].is_u64()).await;
}

/// W12: A reconcile reads at least what the one before it wrote. Each increments a count, so an old read
/// would lose increments.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_reads_its_own_writes_over_every_store() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Arc::new(EmbeddedStore::open(folder.path().join("store"), Options::default()).unwrap());
    for store in [memory(), embedded] {
        let test = TestHost::over(store).await;
        let definition = test.definition("poller", &guest("guest-poller")).await;
        let config = [("items".to_owned(), "a b c".to_owned())].into();
        let overrides = Overrides { poll: Some(Duration::from_millis(100)), ..Overrides::default() };
        test.host.put(Definition { config, overrides, ..definition }).await.unwrap();
        eventually("many reconciles", async || (test.status("poller").reconciles >= 30).then_some(())).await;
        test.host.suspend("poller", true).unwrap();
        eventually("the last ones to end", async || (test.status("poller").counts.running == 0).then_some(())).await;
        let mut count = 0;
        for name in ["a", "b", "c"] {
            let tally = test.get(&demo_key("Tally", name)).await.unwrap();
            count += tally.document()["spec"]["count"].as_u64().unwrap();
        }
        let status = eventually("as many counts as reconciles", async || {
            let status = test.status("poller");
            (status.reconciles == count).then_some(status)
        })
        .await;
        assert_eq!(status.failures, 0);
        test.host.shutdown(Duration::from_secs(10)).await;
    }
}

async fn owned(store: &dyn Store, name: &str, owner: Option<&Resource>) -> Arc<Resource> {
    let mut document = demo("Note", name, json!({}));
    if let Some(owner) = owner {
        let owner: Value = json!([{"apiVersion": "demo.homeostat.dev/v1", "kind": "Note",
            "name": owner.key().name(), "uid": owner.uid()}]);
        document["metadata"]["ownerReferences"] = owner;
    }
    store.write(Write::Create { document }).await.unwrap().resource
}

/// W14: The parts of a deleted owner are collected, whether it was deleted under a running host or before its
/// start.
#[tokio::test(flavor = "multi_thread")]
async fn parts_of_a_deleted_owner_are_collected_even_if_no_host_saw_the_deletion() {
    let store = memory();
    for name in ["before", "during"] {
        let owner = owned(&*store, name, None).await;
        let part = owned(&*store, &format!("{name}-part"), Some(&owner)).await;
        owned(&*store, &format!("{name}-part-of-part"), Some(&part)).await;
    }
    let delete = async |name: &str| {
        let (precondition, propagation) = (Precondition::default(), Propagation::Background);
        store
            .write(Write::Delete { key: demo_key("Note", name), precondition, propagation, grace_seconds: None })
            .await
            .unwrap();
    };
    let gone = async |test: &TestHost, name: &str| {
        for part in ["part", "part-of-part"] {
            let key = demo_key("Note", &format!("{name}-{part}"));
            eventually(&format!("{key} to be collected"), async || test.get(&key).await.is_none().then_some(())).await;
        }
    };
    delete("before").await;
    let test = TestHost::over(store.clone()).await;
    gone(&test, "before").await;
    assert!(test.get(&demo_key("Note", "during-part")).await.is_some());
    delete("during").await;
    gone(&test, "during").await;
}

/// A person's keys, and those of programs, enter the queue by the same bound as those of feeders.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_100_000_enqueued_keys_is_bounded_and_runs_after_repeats() {
    const KEYS: u64 = 100_000;
    let test = TestHost::start().await;
    let definition = test.definition("noop", &guest("guest-noop")).await;
    let limits = Limits { keys_max: 1000, ..definition.limits.clone() };
    test.host.put(Definition { limits, ..definition }).await.unwrap();
    eventually("the controller to be ready", async || {
        (test.status("noop").state == ControllerState::Ready).then_some(())
    })
    .await;
    let kind = test.host.definition("noop").unwrap().component.describe().manages.kind.clone();
    let enqueue = |name: &str| {
        let verb = KeyVerb::Enqueue { delay: Delay { after: Duration::ZERO, hold: false }, priority: Priority::NORMAL };
        test.host.act_on("noop", &Key::new(kind.clone(), "default", name), verb)
    };
    let mut refused = 0;
    for number in 0..KEYS {
        while let Err(error) = enqueue(&format!("n{number}")) {
            assert!(error.to_string().contains("limit keys"), "{error}");
            refused += 1;
            eventually("room", async || (test.status("noop").counts.ready < 500).then_some(())).await;
        }
    }
    assert!(refused > 0, "the queue was never full");
    eventually("all keys to be reconciled", async || (test.status("noop").reconciles >= KEYS).then_some(())).await;
    let other = Key::new(homeostat_store::Kind::new("demo.homeostat.dev", "v1", "Other"), "default", "a");
    assert!(test.host.act_on("noop", &other, KeyVerb::Retry).is_err(), "a key of another kind");
    assert_eq!(test.idle("noop").await.reconciles, KEYS, "no key ran twice");
}
