//! Watches, follows, canaries and shadows deliver to a controller only the keys and documents that its grants
//! cover.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::{Digest, Grants};
use homeostat_fixtures::demo;
use homeostat_runtime::events::EventFilter;
use homeostat_runtime::manifest::ComponentSource;
use homeostat_runtime::{CodeSource, Definition, Error};
use homeostat_store::Scope;
use homeostat_store::embedded::EmbeddedStore;
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest};
use serde_json::{Value, json};

const NAME: &str = "logging";

fn grants(resources: Value) -> Grants {
    serde_json::from_value(json!({ "resources": resources })).unwrap()
}

/// Returns grants for all watches of the guest, in these namespaces.
fn within(namespaces: &[&str]) -> Value {
    json!([
        { "kinds": ["demo.homeostat.dev/Logging"], "verbs": ["watch", "get"], "namespaces": namespaces },
        { "kinds": ["demo.homeostat.dev/Note"], "verbs": ["watch"], "namespaces": namespaces },
        { "kinds": ["demo.homeostat.dev/Vault"], "verbs": ["watch", "get"], "namespaces": namespaces },
    ])
}

async fn definition(test: &TestHost, resources: Value) -> Definition {
    let grants = grants(resources);
    let component = test.load(&guest("guest-logging")).await;
    Definition { grants, ..Definition::new(NAME, component) }
}

async fn put(test: &TestHost, resources: Value) {
    test.host.put(definition(test, resources).await).await.unwrap();
    test.host.ready(NAME).await.unwrap();
}

/// Starts a host on which another controller has declared the kinds of the guest.
async fn host() -> TestHost {
    declared(TestHost::start().await).await
}

async fn declared(test: TestHost) -> TestHost {
    let definition = definition(&test, within(&["elsewhere"])).await;
    test.host.put(Definition { name: "other".into(), ..definition }).await.unwrap();
    test.host.remove("other").await.unwrap();
    test
}

async fn apply(test: &TestHost, kind: &str, place: &str, spec: Value) {
    let (namespace, name) = place.split_once('/').unwrap();
    let mut document = demo(kind, name, spec);
    document["metadata"]["namespace"] = json!(namespace);
    test.apply(document).await;
}

async fn delete(test: &TestHost, kind: &str, place: &str) {
    use homeostat_store::{Key, Kind, Precondition, Propagation, Write};
    let (namespace, name) = place.split_once('/').unwrap();
    let key = Key::new(Kind::new("demo.homeostat.dev", "v1", kind), namespace, name);
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    test.host.store().write(Write::Delete { key, precondition, propagation, grace_seconds: None }).await.unwrap();
}

/// Waits until the controller is idle, and returns all keys and documents that the guest has logged.
async fn deliveries(test: &TestHost) -> BTreeSet<String> {
    test.idle(NAME).await;
    test.host.logs().tail(Some(NAME), 0, 10_000).into_iter().map(|line| line.message).collect()
}

/// Returns the keys and documents that the guest logs because of `act`.
async fn deliveries_of(test: &TestHost, act: impl AsyncFnOnce(&TestHost)) -> BTreeSet<String> {
    test.idle(NAME).await;
    let last = test.host.logs().tail(Some(NAME), 0, 10_000).last().map_or(0, |line| line.sequence);
    act(test).await;
    // Every watch has delivered its events of `act` once it delivers this last one.
    for kind in ["Note", "Vault", "Logging"] {
        let now = test.host.store().revision(&Scope::Everything).await.unwrap().to_string();
        apply(test, kind, "blue/last", json!({ "now": now, "password": "last" })).await;
    }
    test.idle(NAME).await;
    let lines = test.host.logs().tail(Some(NAME), last, 10_000).into_iter();
    lines.map(|line| line.message).filter(|line| !line.contains("blue/last")).collect()
}

fn texts<const N: usize>(texts: [&str; N]) -> BTreeSet<String> {
    texts.map(str::to_owned).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_without_a_grant_refuses_the_component_and_names_the_missing_line() {
    let test = TestHost::start().await;
    let refused = |resources: Value| async {
        let definition = definition(&test, resources).await;
        let Err(error @ Error::Refused(_)) = test.host.put(definition).await else { panic!("it is not refused") };
        error.to_string()
    };
    let told = refused(json!([])).await;
    for line in ["Logging], verbs: [watch]", "Note], verbs: [watch]", "Vault], verbs: [watch, get]"] {
        assert!(told.contains(&format!("{{kinds: [demo.homeostat.dev/{line}, namespaces: [\"*\"]}}")), "{told}");
    }
    let mut unread = within(&["*"]);
    unread[2]["verbs"] = json!(["watch"]);
    let told = refused(unread).await;
    assert!(told.contains("\"vaults\"") && !told.contains("\"notes\""), "{told}");
    assert!(test.host.controllers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_granted_for_a_namespace_delivers_no_other_namespace() {
    let test = host().await;
    for place in ["blue/a", "green/a"] {
        apply(&test, "Logging", place, json!({})).await;
        apply(&test, "Note", &place.replace("/a", "/n"), json!({})).await;
        apply(&test, "Vault", &place.replace("/a", "/v"), json!({ "password": format!("of {place}") })).await;
    }
    put(&test, within(&["blue"])).await;
    let listed = ["reconcile blue/a", "reconcile blue/n", "reconcile blue/v", "map blue/v of blue/a"];
    assert_eq!(deliveries(&test).await, texts(listed), "the first list");

    let changed = deliveries_of(&test, async |test| {
        for place in ["green", "blue"] {
            apply(test, "Note", &format!("{place}/n"), json!({ "changed": true })).await;
            apply(test, "Vault", &format!("{place}/v"), json!({ "password": "new" })).await;
            delete(test, "Vault", &format!("{place}/v")).await;
            delete(test, "Logging", &format!("{place}/a")).await;
        }
    });
    let changed = changed.await;
    assert!(changed.contains("map blue/v new") && changed.contains("reconcile blue/a"), "{changed:?}");
    assert!(changed.iter().all(|line| !line.contains("green")), "{changed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_granted_for_names_delivers_no_other_names() {
    let test = host().await;
    let mut resources = within(&["*"]);
    resources[1]["names"] = json!(["open-*"]);
    put(&test, resources).await;
    let told = deliveries_of(&test, async |test| {
        apply(test, "Note", "blue/secret", json!({})).await;
        apply(test, "Note", "blue/open-one", json!({})).await;
    });
    assert_eq!(told.await, texts(["reconcile blue/open-one"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn narrowed_grants_stop_events_at_once_and_widened_ones_list_new_resources() {
    let test = host().await;
    put(&test, within(&["*"])).await;
    for place in ["blue", "green"] {
        apply(&test, "Note", &format!("{place}/n"), json!({})).await;
        apply(&test, "Vault", &format!("{place}/v"), json!({ "password": "one" })).await;
    }
    assert!(deliveries(&test).await.contains("map green/v one"));

    let narrowed = deliveries_of(&test, async |test| {
        // A key that was queued under the old grants is dropped too.
        test.host.suspend(NAME, true).unwrap();
        apply(test, "Note", "green/n", json!({ "queued": true })).await;
        eventually("the key to be queued", async || (test.status(NAME).counts.ready > 0).then_some(())).await;
        put(test, within(&["blue"])).await;
        test.host.suspend(NAME, false).unwrap();
        apply(test, "Vault", "green/v", json!({ "password": "two" })).await;
        apply(test, "Note", "green/n", json!({ "now": "narrow" })).await;
        delete(test, "Vault", "green/v").await;
        apply(test, "Vault", "green/w", json!({ "password": "three" })).await;
    });
    let narrowed = narrowed.await;
    assert!(narrowed.iter().all(|line| !line.contains("green")), "{narrowed:?}");

    let widened = deliveries_of(&test, async |test| put(test, within(&["*"])).await).await;
    for line in ["reconcile green/n", "map green/w three"] {
        assert!(widened.contains(line), "{line} is not in {widened:?}");
    }
    assert!(!widened.contains("map green/v two"), "{widened:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_delivers_only_resources_that_its_grant_covers() {
    let test = host().await;
    put(&test, within(&["blue"])).await;
    apply(&test, "Logging", "blue/f", json!({ "follows": "all" })).await;
    deliveries(&test).await;
    let changed = async |place: &str| {
        let note = format!("{place}/followed");
        let told = deliveries_of(&test, async |test| {
            let now = test.host.store().revision(&Scope::Everything).await.unwrap().to_string();
            apply(test, "Note", &note, json!({ "now": now })).await;
        });
        told.await.into_iter().filter(|line| !line.contains("/followed")).collect::<BTreeSet<_>>()
    };
    // The guest follows all notes, `blue/last` of `deliveries_of` among them. So the grant names only the
    // note `followed`.
    let mut resources = within(&["blue"]);
    resources[1]["names"] = json!(["followed"]);
    put(&test, resources.clone()).await;
    deliveries(&test).await;
    assert_eq!(changed("green").await, texts([]));
    assert_eq!(changed("blue").await, texts(["reconcile blue/f"]));
    resources[1]["namespaces"] = json!(["green"]);
    put(&test, resources).await;
    deliveries(&test).await;
    assert_eq!(changed("blue").await, texts([]), "the follow lost its grant");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_by_content_without_a_grant_to_read_the_kind_is_denied() {
    let test = host().await;
    put(&test, within(&["blue"])).await;
    apply(&test, "Logging", "blue/f", json!({ "follows": "color" })).await;
    let denied = eventually("the denial", async || {
        let events = test.host.events().list(&EventFilter::default());
        events.into_iter().find(|event| event.reason == "Forbidden")
    });
    let denied = denied.await.message;
    assert!(denied.contains("no grant for list of demo.homeostat.dev/Note"), "{denied}");
}

/// Returns the guest `logging` for every source.
struct LoggingCode;

#[async_trait]
impl CodeSource for LoggingCode {
    async fn fetch(&self, _: &ComponentSource) -> Result<Vec<u8>, String> {
        std::fs::read(guest("guest-logging")).map_err(|error| error.to_string())
    }

    async fn sweep(&self, _: &BTreeSet<Digest>) {}
}

fn version(version: &str, resources: &Value, rollout: &Value) -> Value {
    let digest = Digest::of(&std::fs::read(guest("guest-logging")).unwrap()).to_string();
    json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": { "name": NAME },
        "spec": {
            "component": { "digest": digest }, "config": { "version": version }, "rollout": rollout,
            "grants": { "resources": resources }, "limits": { "deadline": "10s", "cpu": "1s" },
        },
    })
}

/// Applies a definition, and waits until the host has refused it, swapped it in or started its rollout.
async fn apply_version(test: &TestHost, version: Value) {
    let written = test.host.apply_resource(version, "me", true).await.unwrap();
    test.host.sync_result(NAME, written.resource.revision()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_grants_end_at_once_even_if_the_new_definition_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = || EmbeddedStore::open(folder.path().join("store"), homeostat_store::Options::default()).unwrap();
    let test = declared(TestHost::over(Arc::new(store())).await).await;
    test.host.run_controllers(Arc::new(LoggingCode)).await.unwrap();
    apply_version(&test, version("-one", &within(&["*"]), &json!({}))).await;
    test.host.ready(NAME).await.unwrap();
    apply(&test, "Logging", "blue/a", json!({})).await;
    apply(&test, "Vault", "blue/v", json!({ "password": "seen" })).await;
    assert!(deliveries(&test).await.contains("map blue/v seen"));

    // The guest's watch of vaults requires `get`, so this definition is refused.
    let mut unread = within(&["*"]);
    unread[2]["verbs"] = json!(["watch"]);
    apply_version(&test, version("-one", &unread, &json!({}))).await;
    let change = async |test: &TestHost| {
        apply(test, "Vault", "blue/v", json!({ "password": "unseen" })).await;
        apply(test, "Logging", "blue/b", json!({})).await;
    };
    let known = deliveries_of(&test, change).await;
    assert!(known.contains("reconcile-one blue/b") && !known.iter().any(|line| line.contains("map")), "{known:?}");

    // Without any grant the controller receives nothing.
    apply_version(&test, version("-one", &json!([]), &json!({}))).await;
    let nothing = deliveries_of(&test, async |test| apply(test, "Logging", "blue/c", json!({})).await).await;
    assert_eq!(nothing, texts([]));
    let events = test.host.events().list(&EventFilter { controller: Some(NAME.into()), ..EventFilter::default() });
    assert!(events.iter().any(|event| event.reason == "GrantsReduced"));

    // The same holds after a restart.
    test.host.shutdown(std::time::Duration::from_secs(10)).await;
    drop(test);
    let again = TestHost::over(Arc::new(store())).await;
    again.host.run_controllers(Arc::new(LoggingCode)).await.unwrap();
    eventually("the controller to run again", async || again.host.ready(NAME).await.ok()).await;
    assert_eq!(deliveries(&again).await, texts([]));

    // A grant that is back lets its keys through again.
    apply_version(&again, version("-one", &within(&["blue"]), &json!({}))).await;
    eventually("the key to be delivered", async || {
        deliveries(&again).await.contains("map blue/v unseen").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_grants_end_before_a_canary_has_all_keys() {
    let test = host().await;
    test.host.run_controllers(Arc::new(LoggingCode)).await.unwrap();
    apply_version(&test, version("-one", &within(&["*"]), &json!({}))).await;
    test.host.ready(NAME).await.unwrap();
    let rollout = json!({ "strategy": "canary", "share": "10%", "gate": { "for": "1h", "reconciles": 1 } });
    apply_version(&test, version("-one", &within(&["blue"]), &rollout)).await;
    let changed = deliveries_of(&test, async |test| {
        for number in 0..16 {
            apply(test, "Logging", &format!("blue/n{number}"), json!({})).await;
            apply(test, "Logging", &format!("green/n{number}"), json!({})).await;
        }
    });
    let changed = changed.await;
    assert_eq!(changed.iter().filter(|line| line.contains("reconcile-one blue/")).count(), 16, "{changed:?}");
    assert!(!changed.iter().any(|line| line.contains("green/")), "{changed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_gets_no_key_outside_its_own_grants() {
    let test = host().await;
    test.host.run_controllers(Arc::new(LoggingCode)).await.unwrap();
    test.apply(version("-one", &within(&["*"]), &json!({}))).await;
    eventually("the controller to be ready", async || test.host.ready(NAME).await.ok()).await;
    let gate = json!({ "for": "1h", "reconciles": 1 });
    let rollout = json!({ "strategy": "canary", "share": "50%", "gate": gate });
    test.apply(version("-two", &within(&["blue"]), &rollout)).await;
    let told = eventually("both versions to have run", async || {
        for place in ["blue", "green"] {
            for number in 0..16 {
                let now = test.host.store().revision(&Scope::Everything).await.unwrap().to_string();
                apply(&test, "Note", &format!("{place}/n{number}"), json!({ "now": now })).await;
            }
        }
        let told = deliveries(&test).await;
        let has = |text: &str| told.iter().any(|line| line.contains(text));
        (has("reconcile-one green/") && has("reconcile-two blue/")).then_some(told)
    });
    let told = told.await;
    assert!(told.iter().all(|line| !line.contains("reconcile-two green/")), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_runs_for_no_key_outside_its_own_grants() {
    let test = host().await;
    put(&test, within(&["*"])).await;
    test.host.begin_shadow(definition(&test, within(&["blue"])).await).await.unwrap();
    let report = async |wanted: u64| {
        eventually("the shadow to have looked", async || {
            let report = test.host.shadow_report(NAME).unwrap().unwrap();
            (report.compared + report.unfit >= wanted).then_some(report)
        })
        .await
    };
    apply(&test, "Note", "green/n", json!({})).await;
    let refused = report(1).await;
    assert_eq!((refused.compared, refused.unfit), (0, 1));
    let because = serde_json::to_value(&refused.unfit_because).unwrap();
    assert_eq!(because, json!({ "notGranted": 1 }));
    apply(&test, "Note", "blue/n", json!({})).await;
    assert_eq!(report(2).await.compared, 1);
}
