//! Controllers whose manifest names the kinds of a component that serves any kind.

use homeostat_fixtures::{demo, demo_key};
use homeostat_runtime::controller_reconciler::SyncOutcome;
use homeostat_store::{Change, Key, Kind, Precondition, Propagation, Write};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest};
use serde_json::{Value, json};

use crate::rollout::{controller, host_with_code};

const NAME: &str = "any";

/// The definition of a kind that no component knows.
fn definition() -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "orders.demo.homeostat.dev" },
        "spec": {
            "group": "demo.homeostat.dev", "scope": "Namespaced",
            "names": { "kind": "Order", "plural": "orders" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

async fn delete(test: &TestHost, key: Key) {
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    test.host
        .write(Write::Delete { key: key.clone(), precondition, propagation, grace_seconds: None }.into())
        .await
        .unwrap();
    eventually("the resource to be gone", async || test.get(&key).await.is_none().then_some(())).await;
}

fn is_there(test: &TestHost) -> bool {
    test.host.controllers().iter().any(|status| status.name == NAME)
}

async fn has_reconciled(test: &TestHost, count: u64) {
    eventually("the key to be reconciled", async || {
        let statuses = test.host.controllers();
        statuses.iter().any(|status| status.name == NAME && status.reconciles >= count).then_some(())
    })
    .await;
}

/// W6: A controller waits for the kind that its manifest names, runs while the kind exists, and ends with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_starts_and_ends_with_the_kind_that_its_manifest_names() {
    let (test, code) = host_with_code().await;
    let digest = code.insert(std::fs::read(guest("guest-noop")).unwrap());
    let mut document = controller(NAME, &digest);
    document["spec"]["manages"] = json!({ "apiVersion": "demo.homeostat.dev/v1", "kind": "Order" });
    let written = test.host.write(Write::Create { document }.into()).await.unwrap();
    let result = test.host.sync_result(NAME, written.resource.revision()).await;
    let SyncOutcome::Waiting(reason) = &result.outcome else { panic!("{:?}", result.outcome) };
    assert!(reason.contains("Order"), "{reason}");
    let key = Key::new(Kind::new("homeostat.dev", "v1alpha1", "Controller"), "", NAME);
    test.until(&key, "says that it waits", |document| {
        let conditions = document["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == "Loaded" && condition["reason"] == "Waiting")
    })
    .await;
    for round in 0..2 {
        test.apply(definition()).await;
        eventually("the controller to run", async || is_there(&test).then_some(())).await;
        test.apply(demo("Order", &format!("o{round}"), json!({ "round": round }))).await;
        has_reconciled(&test, 1).await;
        for key in (0..=round).map(|round| demo_key("Order", &format!("o{round}"))) {
            if test.get(&key).await.is_some() {
                delete(&test, key).await;
            }
        }
        let kind = Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        delete(&test, Key::new(kind, "", "orders.demo.homeostat.dev")).await;
        eventually("the controller to end", async || (!is_there(&test)).then_some(())).await;
    }
}

/// A component runs as several controllers, each over a kind of its own, which the manifest declares.
#[tokio::test(flavor = "multi_thread")]
async fn one_component_runs_over_several_kinds_that_manifests_declare() {
    let (test, code) = host_with_code().await;
    let digest = code.insert(std::fs::read(guest("guest-noop")).unwrap());
    for (name, kind, plural) in [("apples", "Apple", "apples"), ("pears", "Pear", "pears")] {
        let mut document = controller(name, &digest);
        document["spec"]["manages"] =
            json!({ "apiVersion": "demo.homeostat.dev/v1", "kind": kind, "plural": plural, "namespaced": true });
        let written = test.host.write(Write::Create { document }.into()).await.unwrap();
        let result = test.host.sync_result(name, written.resource.revision()).await;
        assert!(matches!(result.outcome, SyncOutcome::Put(_)), "{:?}", result.outcome);
        test.apply(demo(kind, "one", json!({}))).await;
        eventually("the key to be reconciled", async || (test.status(name).reconciles == 1).then_some(())).await;
    }
    assert_eq!(test.idle("apples").await.reconciles, 1, "a pear is no key of the apples");
}

/// Writes a controller of the guest whose kinds its settings name, and returns what became of it.
async fn configured(test: &TestHost, name: &str, digest: &str, config: Value) -> SyncOutcome {
    let mut document = controller(name, digest);
    document["spec"]["config"] = config;
    let written = test.host.write(Write::Create { document }.into()).await.unwrap();
    test.host.sync_result(name, written.resource.revision()).await.outcome
}

/// Changes the settings of a controller, and returns what became of them.
async fn configure(test: &TestHost, name: &str, config: Value) -> SyncOutcome {
    let key = Key::new(Kind::new("homeostat.dev", "v1alpha1", "Controller"), "", name);
    let change = Change::Merge(json!({ "spec": { "config": config } }));
    let write = Write::Patch { key, change, precondition: Precondition::default() };
    let written = test.host.write(write.into()).await.unwrap();
    test.host.sync_result(name, written.resource.revision()).await.outcome
}

/// A component that reads its kinds from its settings runs as several controllers, each over a kind of its own.
#[tokio::test(flavor = "multi_thread")]
async fn one_component_manages_the_kinds_that_its_settings_name() {
    let (test, code) = host_with_code().await;
    let digest = code.insert(std::fs::read(guest("guest-configured")).unwrap());
    for (name, kind) in [("apples", "Apple"), ("pears", "Pear")] {
        let outcome = configured(&test, name, &digest, json!({ "kind": kind })).await;
        assert!(matches!(outcome, SyncOutcome::Put(_)), "{outcome:?}");
        test.apply(demo(kind, "one", json!({}))).await;
        eventually("the key to be reconciled", async || (test.status(name).reconciles == 1).then_some(())).await;
    }
    assert_eq!(test.idle("apples").await.reconciles, 1, "a pear is no key of the apples");
}

/// A changed setting is a new revision, whose component describes itself with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_setting_describes_the_component_again() {
    let (test, code) = host_with_code().await;
    let digest = code.insert(std::fs::read(guest("guest-configured")).unwrap());
    let outcome = configured(&test, "apples", &digest, json!({ "kind": "Apple" })).await;
    assert!(matches!(outcome, SyncOutcome::Put(_)), "{outcome:?}");
    test.apply(demo("Apple", "one", json!({}))).await;
    eventually("the key to be reconciled", async || (test.status("apples").reconciles >= 1).then_some(())).await;
    let outcome = configure(&test, "apples", json!({ "kind": "Apple", "parts": "Seed" })).await;
    assert!(matches!(outcome, SyncOutcome::Put(_)), "{outcome:?}");
    let revision = Key::new(Kind::new("homeostat.dev", "v1alpha1", "ControllerRevision"), "", "apples-2");
    assert!(test.get(&revision).await.is_some());
    let before = test.idle("apples").await.reconciles;
    test.apply(demo("Seed", "s", json!({ "for": { "kind": "Apple", "name": "one" } }))).await;
    eventually("a seed to queue its apple", async || (test.status("apples").reconciles > before).then_some(())).await;
    let outcome = configure(&test, "apples", json!({ "kind": "Pear" })).await;
    let SyncOutcome::Refused(reason) = &outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("Pear") && reason.contains("remove the controller"), "{reason}");
}

/// A component that cannot describe itself without a setting is refused, and the reason names the setting.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_setting_that_names_a_kind_refuses_the_component() {
    let (test, code) = host_with_code().await;
    let digest = code.insert(std::fs::read(guest("guest-configured")).unwrap());
    let outcome = configured(&test, "none", &digest, json!({ "other": "Apple" })).await;
    let SyncOutcome::Refused(reason) = &outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("the setting \"kind\" is missing"), "{reason}");
}
