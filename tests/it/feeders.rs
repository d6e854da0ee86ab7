//! Feeders of real guests over stores that fail: what is watched once, what is retried, what is told, and what waits for nobody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_component::Limits;
use homeostat_runtime::events::{Event, EventFilter};
use homeostat_runtime::{ControllerState, Definition, Overrides};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Options, Precondition, Propagation, Resource, Store, Write};
use homeostat_tests::{Fault, FaultyStore, On, TestHost, demo, demo_key, eventually, guest};
use serde_json::{Value, json};

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Options::default()))
}

/// The first event of this reason that has happened so often.
async fn told(test: &TestHost, reason: &str, count: u64) -> Event {
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

/// W6, W13: it is tried again by itself, says what is wrong, and keeps nobody waiting who has no need of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_cannot_be_listed_delays_only_those_who_need_it() {
    cannot_be_watched(On::List, Fault::Fail).await;
}

/// W6: a store of somebody else answers that it has no such kind. As soon as it has, the controller goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_not_installed_in_its_store_delays_only_those_who_need_it() {
    cannot_be_watched(On::List, Fault::NotInstalled).await;
}

async fn cannot_be_watched(on: On, fault: Fault) {
    let store = FaultyStore::over(memory());
    store.fault(on, "Note", fault);
    let test = TestHost::over(store.clone()).await;
    put(&test, "follower", "guest-follower", &[]).await;
    test.add("greeter", &guest("greeter")).await;
    test.apply(demo("Greeting", "world", json!({"name": "World"}))).await;
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    test.until(&demo_key("Greeting", "world"), "is greeted", |document| !document["status"].is_null()).await;
    let failed = told(&test, "FeederFailed", 2).await;
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

/// A definition of the notes that the follower watches.
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

/// W6: what a component watches is declared by the component, so that nobody waits for its definition.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_whose_definition_comes_later_delays_nobody() {
    let test = TestHost::start().await;
    test.add("follower", &guest("guest-follower")).await;
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    reads(&test, "nothing").await;
    test.apply(definition_of_notes("Namespaced")).await;
    test.apply(demo("Note", "one", json!({"text": "first"}))).await;
    reads(&test, "first").await;
    assert_eq!(test.idle("follower").await.failures, 0);
}

/// W6: a definition says of a kind what a component does not mean. That one is refused with the reason, everybody else goes on, and it is
/// taken as soon as the definition is put right.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_defined_otherwise_refuses_only_those_who_need_it() {
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
    test.host.write(Write::Delete { key: key.clone(), precondition, propagation }.into()).await.unwrap();
    eventually("the definition to be gone", async || test.get(&key).await.is_none().then_some(())).await;
    eventually("the controller to be taken", async || test.host.put(definition.clone()).await.ok()).await;
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    reads(&test, "nothing").await;
}

/// W6: a component is refused whose watch no grant covers, with the line that would grant it. Everybody else goes on, and it is taken as
/// soon as it is granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_may_not_be_watched_refuses_only_those_who_need_it() {
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

/// W6, W13: it reconciles on, and whoever asks how it is sees what is wrong for as long as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_ready_tells_of_a_feeder_that_fails() {
    let store = FaultyStore::over(memory());
    let test = TestHost::over(store.clone()).await;
    put(&test, "follower", "guest-follower", &[]).await;
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    reads(&test, "nothing").await;
    for on in [On::Next, On::List] {
        store.fault(on, "Note", Fault::Fail);
    }
    let status =
        eventually("it to tell", async || Some(test.status("follower")).filter(|status| status.message.is_some()))
            .await;
    assert_eq!(status.state, ControllerState::Ready);
    let message = status.message.unwrap();
    assert!(message.contains("watch notes failed") && message.contains("on purpose"), "{message}");
    for on in [On::Next, On::List] {
        store.heal(on, "Note");
    }
    eventually("it to be well", async || test.status("follower").message.is_none().then_some(())).await;
}

/// W7: what a reconcile follows is watched by somebody else. The watch of that kind hangs, and the reconcile ends all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_never_waits_for_the_watch_that_it_asks_for() {
    let store = FaultyStore::over(memory());
    store.fault(On::Watch, "Note", Fault::Wait);
    let test = TestHost::over(store.clone()).await;
    put(&test, "follower", "guest-follower", &[]).await;
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    reads(&test, "nothing").await;
    assert_eq!(test.idle("follower").await.counts.running, 0);
    // It is followed for all that: what has changed meanwhile is found as soon as there is a watch.
    test.apply(demo("Note", "one", json!({"text": "first"}))).await;
    store.heal(On::Watch, "Note");
    reads(&test, "first").await;
}

/// W5: several controllers, four watches of one kind in one of them, and those who follow it have one watch of the store. The last one
/// who goes takes it along.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_has_one_watch_of_a_kind_however_many_controllers_ask_for_it() {
    let store = FaultyStore::over(memory());
    let test = TestHost::over(store.clone()).await;
    for _ in 0..3 {
        test.add("mapped", &guest("guest-mapped")).await;
        for name in ["follower", "second", "third"] {
            test.add(name, &guest("guest-follower")).await;
        }
        // One that is held back reads on like the others, and keeps none of them waiting.
        test.host.suspend("third", true).unwrap();
        test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
        reads(&test, "nothing").await;
        test.apply(demo("Note", "other", json!({"now": store.revision().to_string()}))).await;
        for name in ["mapped", "follower", "second"] {
            test.idle(name).await;
        }
        // The host itself follows definitions.
        let kinds = ["Mapped", "Source", "Follower", "Note", "CustomResourceDefinition"].len();
        eventually("one of each kind", async || (store.open() == kinds).then_some(())).await;
        for name in ["second", "third"] {
            test.host.remove(name).await.unwrap();
        }
        test.idle("follower").await;
        assert_eq!(store.open(), kinds, "somebody still needs each of them");
        for name in ["mapped", "follower"] {
            test.host.remove(name).await.unwrap();
        }
        assert_eq!(store.open(), 1);
    }
}

/// W4: nothing changes but what the mapper itself needs; until then it is asked again, and holds back no other change.
#[tokio::test(flavor = "multi_thread")]
async fn a_map_that_fails_is_asked_again_by_itself() {
    let test = TestHost::start().await;
    test.add("mapped", &guest("guest-mapped")).await;
    test.apply(demo("Mapped", "one", json!({}))).await;
    test.apply(demo("Source", "fails", json!({"through": "one later"}))).await;
    let failed = told(&test, "MapFailed", 4).await;
    assert!(failed.message.contains("fails") && failed.message.contains("not yet"), "{}", failed.message);
    test.apply(demo("Source", "sound", json!({"through": "one"}))).await;
    let one = demo_key("Mapped", "one");
    test.until(&one, "sees both", |document| document["status"]["sources"] == json!(["fails", "sound"])).await;
    test.apply(demo("Mapped", "later", json!({}))).await;
    let later = demo_key("Mapped", "later");
    test.until(&later, "sees it", |document| document["status"]["sources"] == json!(["fails"])).await;
}

/// W4
#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_kind_is_refused_and_counted() {
    let test = TestHost::start().await;
    test.add("mapped", &guest("guest-mapped")).await;
    test.apply(demo("Mapped", "one", json!({}))).await;
    for name in ["a", "b", "c"] {
        test.apply(demo("Source", name, json!({"through": "foreign one"}))).await;
    }
    let refused = told(&test, "KeyRefused", 3).await;
    assert!(refused.message.contains("demo.homeostat.dev/v1/Source"), "{}", refused.message);
    let one = demo_key("Mapped", "one");
    test.until(&one, "sees all", |document| document["status"]["sources"] == json!(["a", "b", "c"])).await;
    assert_eq!(test.idle("mapped").await.failures, 0);
}

/// B11: it is a limit like any other, and the change is asked about again.
#[tokio::test(flavor = "multi_thread")]
async fn a_map_that_answers_too_many_keys_fails_under_the_name_of_the_limit() {
    let test = TestHost::start().await;
    test.add("mapped", &guest("guest-mapped")).await;
    test.apply(demo("Mapped", "one", json!({}))).await;
    test.apply(demo("Source", "many", json!({"through": "x ".repeat(10_001)}))).await;
    let failed = told(&test, "MapFailed", 1).await;
    assert!(failed.message.contains("limit result"), "{}", failed.message);
    test.apply(demo("Source", "many", json!({"through": "one"}))).await;
    let one = demo_key("Mapped", "one");
    test.until(&one, "sees it", |document| document["status"]["sources"] == json!(["many"])).await;
}

/// W9: its deadline ends it, and the next one comes in its time.
#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_does_not_end_is_cut_at_its_deadline_and_the_next_one_comes() {
    let test = TestHost::start().await;
    let definition = test.definition("poller", &guest("guest-poller")).await;
    let limits = Limits { deadline: Duration::from_millis(300), ..Limits::default() };
    let config = [("items".to_owned(), "endless".to_owned())].into();
    let endless = Definition { limits, config, ..definition };
    test.host.put(endless.clone()).await.unwrap();
    let cut = told(&test, "PollFailed", 3).await;
    assert!(cut.message.contains("deadline"), "{}", cut.message);
    let config = [("items".to_owned(), "a".to_owned())].into();
    test.host.put(Definition { config, ..endless }).await.unwrap();
    test.until(&demo_key("Tally", "a"), "is counted", |document| document["spec"]["count"].is_u64()).await;
}

/// W12: each reconcile reads what the one before it wrote, and counts on. One that read an older count would lose some.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_sees_what_it_wrote_itself_over_every_store() {
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

/// W14: one deletion is seen by the host, the other one happened before there was any.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_owner_leaves_behind_is_collected_also_when_nobody_saw_it_go() {
    let store = memory();
    for name in ["before", "during"] {
        let owner = owned(&*store, name, None).await;
        let part = owned(&*store, &format!("{name}-part"), Some(&owner)).await;
        owned(&*store, &format!("{name}-part-of-part"), Some(&part)).await;
    }
    let delete = async |name: &str| {
        let (precondition, propagation) = (Precondition::default(), Propagation::Background);
        store.write(Write::Delete { key: demo_key("Note", name), precondition, propagation }).await.unwrap();
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
