//! A new version beside the one that runs: the same keys, the same answers, and nothing of it is applied.

use std::time::Duration;

use homeostat_component::{Grants, Limits};
use homeostat_runtime::events::EventFilter;
use homeostat_runtime::shadow::ShadowReport;
use homeostat_runtime::{Definition, Error};
use homeostat_tests::{TestHost, demo, demo_key, eventually, guest};
use serde_json::json;

const KEYS: u64 = 5;

fn grants() -> Grants {
    serde_json::from_value(json!({
        "resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}],
        "http": [{"urls": ["https://example.com/*"], "methods": ["GET"]}],
    }))
    .unwrap()
}

/// A version of the guest with this face.
async fn version(test: &TestHost, face: &str) -> Definition {
    let component = test.load(&guest("guest-twin"), &grants()).await;
    let config = [("face".to_owned(), face.to_owned())].into();
    let limits = Limits { cpu: Duration::from_millis(200), ..Limits::default() };
    Definition { grants: grants(), config, limits, ..Definition::new("it", component) }
}

/// A host that runs a version with this face.
async fn running(face: &str) -> TestHost {
    let test = TestHost::start().await;
    test.host.put(version(&test, face).await).await.unwrap();
    test.host.ready("it").await.unwrap();
    test
}

fn report(test: &TestHost) -> ShadowReport {
    test.host.shadow_report("it").unwrap().expect("a shadow was begun")
}

/// Writes one resource after the other, each when the one before was looked at by both versions. Returns the report, and the revision that
/// the store then has.
async fn try_on_keys(test: &TestHost, new: Definition) -> ShadowReport {
    test.host.begin_shadow(new).unwrap();
    for number in 0..KEYS {
        test.apply(demo("Twin", &format!("t{number}"), json!({"size": number}))).await;
        eventually("both to have run", async || {
            let ShadowReport { compared, unfit, .. } = report(test);
            (compared + unfit > number).then_some(())
        })
        .await;
    }
    test.idle("it").await;
    report(test)
}

/// What differs, as `name verb field`.
fn told(report: &ShadowReport) -> Vec<String> {
    let differences = report.differences.iter().map(|counted| &counted.first);
    let mut told: Vec<_> = differences
        .filter(|first| first.key.name().starts_with("t0"))
        .map(|first| format!("{} {} {}", first.key, first.verb, first.field).replace("demo.homeostat.dev/v1/", ""))
        .collect();
    told.sort();
    told
}

/// Times and random numbers are in what it writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_equal_to_itself() {
    for face in ["", "look"] {
        let test = running(face).await;
        let report = try_on_keys(&test, version(&test, face).await).await;
        assert_eq!((report.equal, report.differing, report.unfit), (KEYS, 0, 0), "{report:?}");
        assert_eq!(report.differences, []);
    }
}

/// What it reads besides is as the old one found it.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_looks_more_often_and_writes_the_same_is_equal() {
    let test = running("").await;
    let report = try_on_keys(&test, version(&test, "look").await).await;
    assert_eq!((report.equal, report.unfit), (KEYS, 0), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_version_does_otherwise_is_told_by_resource_and_field() {
    let cases: [(&str, &[&str]); 7] = [
        ("field", &["Part default/t0 apply spec.size"]),
        ("key", &["Part default/t0-second apply "]),
        ("less", &["Part default/t0 apply "]),
        ("more", &["Twin default/t0 update-status "]),
        ("again", &["Twin default/t0 reconcile "]),
        ("ask", &["Twin default/t0 http GET https://example.com/thing"]),
        ("tell", &["Twin default/t0 emit Counted", "Twin default/t0 emit Told"]),
    ];
    let test = running("").await;
    for (face, wanted) in cases {
        let report = try_on_keys(&test, version(&test, face).await).await;
        assert_eq!(report.differing, KEYS, "{face}: {report:?}");
        assert_eq!(report.errors, 0, "{face}");
        assert_eq!(told(&report), wanted, "{face}: {report:?}");
        for number in 0..KEYS {
            test.host.write(delete(&format!("t{number}")).into()).await.unwrap();
        }
        test.idle("it").await;
    }
}

fn delete(name: &str) -> homeostat_store::Write {
    let (precondition, propagation) = Default::default();
    homeostat_store::Write::Delete { key: demo_key("Twin", name), precondition, propagation }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_fails_traps_or_loops_is_told_and_the_old_one_goes_on() {
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
async fn nothing_that_a_shadow_does_is_applied_or_counted_as_its_controllers() {
    let mut ends = Vec::new();
    for shadow in [None, Some("key")] {
        let test = running("").await;
        if let Some(face) = shadow {
            assert_eq!(try_on_keys(&test, version(&test, face).await).await.differing, KEYS);
        } else {
            for number in 0..KEYS {
                test.apply(demo("Twin", &format!("t{number}"), json!({"size": number}))).await;
            }
            test.idle("it").await;
        }
        let told = test.host.events().list(&EventFilter::default());
        let measures = test.host.measure();
        let effects = measures.controllers[0].spent.effects;
        ends.push((test.host.store().revision(), test.status("it").reconciles, told.len(), format!("{effects:?}")));
        assert!(test.get(&demo_key("Part", "t0-second")).await.is_none());
    }
    assert_eq!(ends[0], ends[1], "the store, the events and the account are those of the old version alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_the_new_version_lacks_is_a_difference_and_a_denial_of_nobody() {
    let test = running("").await;
    let mut new = version(&test, "").await;
    new.grants.resources = serde_json::from_value(json!([
        {"kinds": ["demo.homeostat.dev/Twin"], "verbs": ["get", "list", "watch", "update-status"], "namespaces": ["*"]}
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
async fn a_shadow_has_an_end_and_what_it_came_to_stays() {
    let test = running("").await;
    assert!(test.host.shadow_report("it").unwrap().is_none());
    let compared = try_on_keys(&test, version(&test, "field").await).await;
    test.host.swap("it", test.load(&guest("guest-twin"), &grants()).await).await.unwrap();
    test.apply(demo("Twin", "later", json!({"size": 1}))).await;
    test.until(&demo_key("Twin", "later"), "is counted", |document| document["status"]["count"] == 1).await;
    test.idle("it").await;
    assert_eq!(report(&test), compared, "a swap ends it");

    test.host.begin_shadow(version(&test, "").await).unwrap();
    assert_eq!(report(&test), ShadowReport::default(), "another one begins anew");
    test.host.suspend("it", true).unwrap();
    test.host.suspend("it", false).unwrap();
    test.apply(demo("Twin", "last", json!({"size": 1}))).await;
    test.until(&demo_key("Twin", "last"), "is counted", |document| document["status"]["count"] == 1).await;
    test.idle("it").await;
    assert_eq!(report(&test), ShadowReport::default(), "being suspended ends it");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_manages_another_kind_is_no_shadow() {
    let test = running("").await;
    let other = Definition { name: "it".to_owned(), ..test.definition("it", &guest("guest-noop")).await };
    assert!(matches!(test.host.begin_shadow(other), Err(Error::ManagesAnother { .. })));
}
