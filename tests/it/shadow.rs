//! Shadows: a new version runs for the same keys with the same answers, and none of its effects is applied.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_component::{Digest, Grants, Limits};
use homeostat_fixtures::{demo, demo_key, memory_store};
use homeostat_nats::settings::{BucketSettings, Create};
use homeostat_runtime::events::EventFilter;
use homeostat_runtime::manifest::ComponentSource;
use homeostat_runtime::shadow::ShadowReport;
use homeostat_runtime::{CodeSource, Definition, Error, Options};
use homeostat_store::schema::Schemas;
use homeostat_store::{Key, Kind, Query, Scope, Store, cached};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest, routed_stores, shared_nats};
use serde_json::{Value, json};

const KEYS: u64 = 5;

fn grants() -> Grants {
    serde_json::from_value(json!({
        "resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}],
        "http": [{"urls": ["https://example.com/*"], "methods": ["GET"]}],
    }))
    .unwrap()
}

/// Returns a version of the guest with this face.
async fn version(test: &TestHost, face: &str) -> Definition {
    let component = test.load(&guest("guest-shadowed")).await;
    let config = [("face".to_owned(), face.to_owned())].into();
    let limits = Limits { cpu: Duration::from_millis(200), ..Limits::default() };
    Definition { grants: grants(), config, limits, ..Definition::new("it", component) }
}

/// Starts a host that runs a version with this face.
async fn running(face: &str) -> TestHost {
    running_on(TestHost::start().await, face).await
}

async fn running_on(test: TestHost, face: &str) -> TestHost {
    test.host.put(version(&test, face).await).await.unwrap();
    test.host.ready("it").await.unwrap();
    test
}

fn report(test: &TestHost) -> ShadowReport {
    test.host.shadow_report("it").unwrap().expect("a shadow was begun")
}

/// Starts a shadow of `new`, and writes one resource after the other, each after both versions have
/// reconciled the previous one. Returns the report.
async fn try_on_keys(test: &TestHost, new: Definition) -> ShadowReport {
    test.host.begin_shadow(new).await.unwrap();
    for number in 0..KEYS {
        test.apply(demo("Shadowed", &format!("t{number}"), json!({"size": number}))).await;
        eventually("both versions to have run", async || {
            let ShadowReport { compared, unfit, .. } = report(test);
            (compared + unfit > number).then_some(())
        })
        .await;
    }
    test.idle("it").await;
    report(test)
}

/// Returns the first difference of each kind for `t0`, as `kind key verb field`.
fn first_differences(report: &ShadowReport) -> Vec<String> {
    let differences = report.differences.iter().map(|counted| &counted.first);
    let mut told: Vec<_> = differences
        .filter(|first| first.key.name().starts_with("t0"))
        .map(|first| format!("{} {} {}", first.key, first.verb, first.field).replace("demo.homeostat.dev/v1/", ""))
        .collect();
    told.sort();
    told
}

/// The guest writes times and random numbers, and the shadow gets the same ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_of_the_same_version_has_no_difference() {
    for face in ["", "look"] {
        let test = running(face).await;
        let report = try_on_keys(&test, version(&test, face).await).await;
        assert_eq!((report.equal, report.differing, report.unfit), (KEYS, 0, 0), "{report:?}");
        assert_eq!(report.differences, []);
    }
}

/// The additional reads of the shadow return the state that the stable version found.
#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_with_more_reads_and_the_same_writes_has_no_difference() {
    let test = running("").await;
    let report = try_on_keys(&test, version(&test, "look").await).await;
    assert_eq!((report.equal, report.unfit), (KEYS, 0), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn differences_of_a_shadow_are_reported_by_resource_and_field() {
    let cases: [(&str, &[&str]); 7] = [
        ("field", &["Part default/t0 apply spec.size"]),
        ("key", &["Part default/t0-second apply "]),
        ("less", &["Part default/t0 apply "]),
        ("more", &["Shadowed default/t0 update-status "]),
        ("again", &["Shadowed default/t0 reconcile "]),
        ("ask", &["Shadowed default/t0 http GET https://example.com/thing"]),
        ("tell", &["Shadowed default/t0 emit Counted", "Shadowed default/t0 emit Told"]),
    ];
    let test = running("").await;
    for (face, wanted) in cases {
        let report = try_on_keys(&test, version(&test, face).await).await;
        assert_eq!(report.differing, KEYS, "{face}: {report:?}");
        assert_eq!(report.errors, 0, "{face}");
        assert_eq!(first_differences(&report), wanted, "{face}: {report:?}");
        for number in 0..KEYS {
            test.host.write(delete(&format!("t{number}")).into()).await.unwrap();
        }
        test.idle("it").await;
    }
}

/// The kinds live in a bucket of NATS. The shadow reads them, and none of its effects reaches the server.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn effects_of_a_shadow_do_not_reach_a_far_store() {
    let create = Some(Create { memory: true, ..Create::default() });
    let settings = BucketSettings { create, ..BucketSettings::new(shared_nats().url(), "shadow") };
    let far = Arc::new(homeostat_nats::open(settings, Schemas::default(), cached::Options::default()).unwrap());
    let home = memory_store();
    let stores = routed_stores(home.clone(), far.clone(), &["demo.homeostat.dev/*"]);
    let test = running_on(TestHost::with(home, |options| Options { stores, ..options }).await, "").await;
    let report = try_on_keys(&test, version(&test, "key").await).await;
    assert_eq!(report.differing, KEYS, "{report:?}");
    assert_eq!(first_differences(&report), ["Part default/t0-second apply "], "{report:?}");
    let parts = Query { live: true, ..Query::all(Kind::new("demo.homeostat.dev", "v1", "Part")) };
    let parts = far.list(&parts).await.unwrap();
    let names: Vec<_> = parts.items.iter().map(|part| part.key().name().to_owned()).collect();
    assert_eq!(names, (0..KEYS).map(|number| format!("t{number}")).collect::<Vec<_>>());
}

fn delete(name: &str) -> homeostat_store::Write {
    let (precondition, propagation) = Default::default();
    homeostat_store::Write::Delete { key: demo_key("Shadowed", name), precondition, propagation, grace_seconds: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_that_fails_traps_or_loops_is_reported_and_harms_no_reconcile() {
    for face in ["fail", "trap", "loop"] {
        let test = running("").await;
        let report = try_on_keys(&test, version(&test, face).await).await;
        assert_eq!((report.differing, report.errors), (KEYS, KEYS), "{face}: {report:?}");
        let end = report.differences.iter().find(|counted| counted.first.verb == "reconcile").unwrap();
        let word = match face {
            "fail" => "failed: failed on purpose",
            "trap" => "trap: ",
            _ => "limit cpu: ",
        };
        assert!(end.first.new.as_ref().unwrap().starts_with(word), "{end:?}");
        assert_eq!(test.status("it").failures, 0, "{face}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn effects_of_a_shadow_are_neither_applied_nor_counted_for_its_controller() {
    let mut ends = Vec::new();
    for shadow in [None, Some("key")] {
        let test = running("").await;
        if let Some(face) = shadow {
            assert_eq!(try_on_keys(&test, version(&test, face).await).await.differing, KEYS);
        } else {
            for number in 0..KEYS {
                test.apply(demo("Shadowed", &format!("t{number}"), json!({"size": number}))).await;
            }
            test.idle("it").await;
        }
        let told = test.host.events().list(&EventFilter::default());
        let measures = test.host.measure();
        let effects = measures.controllers[0].spent.effects;
        ends.push((
            test.host.store().revision(&Scope::Everything).await.unwrap(),
            test.status("it").reconciles,
            told.len(),
            format!("{effects:?}"),
        ));
        assert!(test.get(&demo_key("Part", "t0-second")).await.is_none());
    }
    assert_eq!(ends[0], ends[1], "store, events and costs are those of the stable version alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_the_shadow_lacks_is_a_difference_and_not_a_denial() {
    let test = running("").await;
    let mut new = version(&test, "").await;
    new.grants.resources = serde_json::from_value(json!([
        {"kinds": ["demo.homeostat.dev/Shadowed"], "verbs": ["get", "list", "watch", "update-status"], "namespaces": ["*"]},
        {"kinds": ["demo.homeostat.dev/Part"], "verbs": ["get", "watch"], "namespaces": ["*"]},
    ]))
    .unwrap();
    let report = try_on_keys(&test, new).await;
    assert_eq!(report.errors, KEYS, "{report:?}");
    let denied = report.differences.iter().find(|counted| counted.first.verb == "grants").unwrap();
    assert!(denied.first.field.contains("apply of demo.homeostat.dev/Part"), "{denied:?}");
    let measures = test.host.measure();
    assert!(measures.controllers[0].denials.iter().all(|count| *count == 0));
    assert!(test.host.events().list(&EventFilter::default()).iter().all(|event| event.reason != "Forbidden"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_of_a_shadow_stays_after_its_end() {
    let test = running("").await;
    assert!(test.host.shadow_report("it").unwrap().is_none());
    let compared = try_on_keys(&test, version(&test, "field").await).await;
    test.host.swap("it", test.load(&guest("guest-shadowed")).await).await.unwrap();
    test.apply(demo("Shadowed", "later", json!({"size": 1}))).await;
    test.until(&demo_key("Shadowed", "later"), "is counted", |document| document["status"]["count"] == 1).await;
    test.idle("it").await;
    assert_eq!(report(&test), compared, "a swap ends the shadow");

    test.host.begin_shadow(version(&test, "").await).await.unwrap();
    assert_eq!(report(&test), ShadowReport::default(), "a new shadow has a new report");
    test.host.suspend("it", true).unwrap();
    test.host.suspend("it", false).unwrap();
    test.apply(demo("Shadowed", "last", json!({"size": 1}))).await;
    test.until(&demo_key("Shadowed", "last"), "is counted", |document| document["status"]["count"] == 1).await;
    test.idle("it").await;
    assert_eq!(report(&test), ShadowReport::default(), "a suspension ends the shadow");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_of_another_kind_cannot_be_a_shadow() {
    let test = running("").await;
    let other = Definition { name: "it".to_owned(), ..test.definition("it", &guest("guest-noop")).await };
    assert!(matches!(test.host.begin_shadow(other).await, Err(Error::ManagedKindChanged { .. })));
}

/// Returns the component `shadowed` for every version.
struct ShadowedCode;

fn bytes() -> Vec<u8> {
    std::fs::read(guest("guest-shadowed")).unwrap()
}

#[async_trait]
impl CodeSource for ShadowedCode {
    async fn fetch(&self, _: &ComponentSource) -> Result<Vec<u8>, String> {
        Ok(bytes())
    }

    async fn sweep(&self, _: &BTreeSet<Digest>) {}
}

/// Starts a host that runs the controllers of its store, with the version without a face.
async fn host_with_code() -> TestHost {
    let store = memory_store();
    let test = TestHost::over(store).await;
    test.host.run_controllers(Arc::new(ShadowedCode)).await.unwrap();
    apply_version(&test, "", json!({})).await;
    eventually("the controller to be ready", async || test.host.ready("it").await.ok()).await;
    test
}

/// Applies a version with this `spec.rollout`.
async fn apply_version(test: &TestHost, face: &str, rollout: Value) {
    let document = json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": { "name": "it" },
        "spec": {
            "component": { "digest": Digest::of(&bytes()) }, "config": { "face": face }, "grants": grants(), "rollout": rollout,
        },
    });
    test.apply(document).await;
}

/// Waits for a phase of the rollout, and returns the status.
async fn phase(test: &TestHost, phase: &str) -> Value {
    let key = Key::new(Kind::new("homeostat.dev", "v1alpha1", "Controller"), "", "it");
    let is_there = |document: &Value| document["status"]["rollout"]["phase"] == phase;
    test.until(&key, phase, is_there).await.status().clone()
}

/// Returns a `spec.rollout.shadow` that ends after two comparisons.
fn short() -> Value {
    json!({ "for": "100ms", "reconciles": 2 })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_without_differences_is_promoted() {
    for (strategy, steps) in [("shadow", json!(null)), ("canary", json!(["50%"]))] {
        let test = host_with_code().await;
        for number in 0..KEYS {
            test.apply(demo("Shadowed", &format!("t{number}"), json!({"size": number}))).await;
        }
        test.idle("it").await;
        let gate = json!({ "for": "100ms", "reconciles": 1, "duration": "100x", "writes": "100x" });
        let mut rollout = json!({ "strategy": strategy, "shadow": short() });
        if !steps.is_null() {
            (rollout["steps"], rollout["gate"]) = (steps, gate);
        }
        apply_version(&test, "look", rollout).await;
        let status = phase(&test, "complete").await;
        let shadow = &status["rollout"]["shadow"];
        assert!(shadow["compared"].as_u64() >= Some(2), "{status}");
        assert_eq!(shadow["compared"], shadow["equal"], "{status}");
        let told = test.host.events().list(&EventFilter::default());
        let told: Vec<_> = told.iter().map(|event| &*event.reason).collect();
        assert_eq!(told.contains(&"Canary"), strategy == "canary", "{told:?}");
        assert!(told.contains(&"Shadow") && told.contains(&"Promoted"), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_with_differences_is_rolled_back_with_the_reason_and_without_a_trace() {
    let test = host_with_code().await;
    test.apply(demo("Shadowed", "t0", json!({"size": 1}))).await;
    let made = test.until(&demo_key("Part", "t0"), "is there", |_| true).await;
    let rollout = json!({ "strategy": "shadow", "shadow": { "for": "1h", "differences": 0 } });
    apply_version(&test, "field", rollout).await;
    let status = phase(&test, "rolledBack").await;
    let reason = status["rollout"]["reason"].as_str().unwrap();
    assert!(reason.contains("Part default/t0: apply spec.size: 2 instead of 1"), "{reason}");
    let first = &status["rollout"]["shadow"]["differences"][0];
    assert_eq!((&first["field"], &first["old"], &first["new"]), (&json!("spec.size"), &json!("1"), &json!("2")));
    let now = test.get(&demo_key("Part", "t0")).await.unwrap();
    assert_eq!(now.document()["spec"]["size"], made.document()["spec"]["size"]);
    assert_eq!(test.host.definition("it").unwrap().config["face"], "", "the stable version keeps running");
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_differences_do_not_stop_a_promotion() {
    let test = host_with_code().await;
    test.apply(demo("Shadowed", "t0", json!({"size": 1}))).await;
    test.until(&demo_key("Part", "t0"), "is there", |_| true).await;
    apply_version(&test, "field", json!({ "strategy": "shadow", "shadow": { "for": "1h" } })).await;
    phase(&test, "rolledBack").await;
    let any = json!({ "for": "100ms", "reconciles": 1, "differences": "any" });
    apply_version(&test, "field", json!({ "strategy": "shadow", "shadow": any })).await;
    let status = phase(&test, "complete").await;
    assert!(status["rollout"]["shadow"]["differing"].as_u64() >= Some(1), "{status}");
    test.until(&demo_key("Part", "t0"), "has the other size", |document| document["spec"]["size"] == 2).await;
}
