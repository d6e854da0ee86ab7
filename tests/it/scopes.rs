//! Controllers of namespaced and cluster-scoped kinds.

use homeostat_component::Grants;
use homeostat_fixtures::demo_kind;
use homeostat_runtime::controller_reconciler::SyncOutcome;
use homeostat_runtime::events::{Event, EventFilter};
use homeostat_runtime::manifest::Manifest;
use homeostat_runtime::{ControllerState, Definition};
use homeostat_store::{Change, Key, Precondition, Propagation, Write};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest, repository};
use serde_json::{Value, json};

use crate::rollout::{controller, host_with_code};

fn key(kind: &str, namespace: &str, name: &str) -> Key {
    Key::new(demo_kind(kind), namespace, name)
}

/// Returns a document of `demo.homeostat.dev/v1`, cluster-scoped if the namespace is empty.
fn document(kind: &str, namespace: &str, name: &str, labels: Value, spec: Value) -> Value {
    let mut metadata = json!({"name": name, "labels": labels});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    json!({"apiVersion": "demo.homeostat.dev/v1", "kind": kind, "metadata": metadata, "spec": spec})
}

/// Starts a host with the example, with exactly the grants of its manifest.
async fn tenants() -> TestHost {
    let test = TestHost::start().await;
    let text = std::fs::read_to_string(repository().join("examples/tenants/controllers.yaml")).unwrap();
    let manifest: Manifest = serde_saphyr::from_str(&text).unwrap();
    let grants: Grants = manifest.spec.check().unwrap().grants;
    let component = test.load(&guest("tenants")).await;
    test.host.put(Definition { grants, ..Definition::new("tenants", component) }).await.unwrap();
    eventually("tenants", async || (test.status("tenants").state == ControllerState::Ready).then_some(())).await;
    test
}

async fn apply_example(test: &TestHost) {
    let text = std::fs::read_to_string(repository().join("examples/tenants/tenants.yaml")).unwrap();
    test.apply(serde_saphyr::from_str(&text).unwrap()).await;
    for namespace in ["blue-test", "blue-live"] {
        test.until(&key("Quota", namespace, "blue"), "is there", |quota| quota["spec"]["pods"] == 20).await;
    }
    let tenant = key("Tenant", "", "blue");
    test.until(&tenant, "counts them", |tenant| tenant["status"]["quotas"] == 2).await;
}

async fn delete(test: &TestHost, key: &Key) {
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    let write = Write::Delete { key: key.clone(), precondition, propagation, grace_seconds: None };
    test.host.store().write(write).await.unwrap();
}

async fn wait_until_gone(test: &TestHost, key: &Key) {
    eventually(&format!("{key} to be gone"), async || test.get(key).await.is_none().then_some(())).await;
}

/// W3: A change or deletion of a namespaced part queues the key of its cluster-scoped owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_scoped_tenant_repairs_its_parts_in_namespaces() {
    let test = tenants().await;
    apply_example(&test).await;
    let quota = key("Quota", "blue-live", "blue");
    delete(&test, &quota).await;
    test.until(&quota, "is back", |quota| quota["spec"]["pods"] == 20).await;
    let change = Change::Merge(json!({"spec": {"pods": 10_000}}));
    let precondition = Precondition::default();
    test.host.store().write(Write::Patch { key: quota.clone(), change, precondition }).await.unwrap();
    test.until(&quota, "is put right", |quota| quota["spec"]["pods"] == 20).await;
}

/// W14: The namespaced parts of a deleted cluster-scoped owner are collected.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_tenant_has_its_parts_in_namespaces_collected() {
    let test = tenants().await;
    apply_example(&test).await;
    test.apply(document("Tenant", "", "blue", json!({}), json!({"namespaces": ["blue-live"], "pods": 20}))).await;
    wait_until_gone(&test, &key("Quota", "blue-test", "blue")).await;
    // A reconcile that has read the tenant fails when it writes the status of what is gone by then.
    test.idle("tenants").await;
    delete(&test, &key("Tenant", "", "blue")).await;
    wait_until_gone(&test, &key("Quota", "blue-live", "blue")).await;
    assert_eq!(test.idle("tenants").await.failures, 0);
}

async fn wait_for_status(test: &TestHost, plots: Value, rivers: Value) {
    let status = json!({"plots": plots, "rivers": rivers});
    test.until(&key("Realm", "", "r"), &format!("has {status}"), |realm| realm["status"] == status).await;
}

/// W3: Each mapping from namespaced and cluster-scoped resources queues the key of the cluster-scoped realm.
#[tokio::test(flavor = "multi_thread")]
async fn every_mapping_leads_to_a_cluster_scoped_key() {
    let test = TestHost::start().await;
    test.add("scoped", &guest("guest-scoped")).await;
    let realm = test.apply(document("Realm", "", "r", json!({}), json!({}))).await;
    wait_for_status(&test, json!([]), json!([])).await;

    test.apply(document("Plot", "a", "by-label", json!({"realm": "r"}), json!({}))).await;
    wait_for_status(&test, json!(["a/by-label"]), json!([])).await;
    test.apply(document("Plot", "b", "r", json!({}), json!({}))).await;
    wait_for_status(&test, json!(["a/by-label", "b/r"]), json!([])).await;
    test.apply(document("Plot", "b", "z-field", json!({}), json!({"realm": "r"}))).await;
    wait_for_status(&test, json!(["a/by-label", "b/r", "b/z-field"]), json!([])).await;
    let owner = json!({"apiVersion": "demo.homeostat.dev/v1", "kind": "Realm", "name": "r", "uid": realm.uid(), "controller": true});
    let mut owned = document("Plot", "c", "owned", json!({}), json!({}));
    owned["metadata"]["ownerReferences"] = json!([owner]);
    test.apply(owned).await;
    wait_for_status(&test, json!(["a/by-label", "b/r", "b/z-field", "c/owned"]), json!([])).await;
    test.apply(document("River", "", "rhine", json!({"realm": "r"}), json!({}))).await;
    wait_for_status(&test, json!(["a/by-label", "b/r", "b/z-field", "c/owned"]), json!(["rhine"])).await;

    delete(&test, &key("Plot", "b", "r")).await;
    wait_for_status(&test, json!(["a/by-label", "b/z-field", "c/owned"]), json!(["rhine"])).await;
    delete(&test, &key("River", "", "rhine")).await;
    wait_for_status(&test, json!(["a/by-label", "b/z-field", "c/owned"]), json!([])).await;
    let status = test.idle("scoped").await;
    assert_eq!((status.failures, refused_keys(&test).len()), (0, 0));
}

fn refused_keys(test: &TestHost) -> Vec<Event> {
    let events = test.host.events().list(&EventFilter::default());
    events.into_iter().filter(|event| event.reason == "KeyRefused").collect()
}

/// Returns how often the controller `tally` has run a key.
fn runs_of(test: &TestHost, namespace: &str, name: &str) -> usize {
    let key = key("Tally", namespace, name);
    let lines = test.host.logs().tail(Some("tally"), 0, 10_000);
    lines.iter().filter(|line| line.key.as_ref() == Some(&key)).count()
}

/// Starts a controller of tallies in the namespace `a`. Its watches map trucks, which are cluster-scoped, by
/// references.
async fn tallies_of_trucks() -> TestHost {
    let (test, code) = host_with_code().await;
    let mut document = controller("tally", &code.insert(std::fs::read(guest("guest-tally")).unwrap()));
    let of = json!({
        "apiVersion": "demo.homeostat.dev/v1", "kind": "Truck", "plural": "trucks", "namespaced": false,
    });
    document["spec"]["watches"] = json!([
        {"name": "noted", "of": of, "mapping": {"annotation": "demo.homeostat.dev/for"}},
        {"name": "loaded", "of": of, "mapping": {"field": "/spec/for"}},
    ]);
    document["spec"]["grants"] = json!({"resources": [
        {"kinds": ["demo.homeostat.dev/Tally"], "verbs": ["*"], "namespaces": ["a"]},
        {"kinds": ["demo.homeostat.dev/Truck"], "verbs": ["get", "watch"], "namespaces": ["*"]},
    ]});
    let written = test.host.write(Write::Create { document }.into()).await.unwrap();
    let result = test.host.sync_result("tally", written.resource.revision()).await;
    assert!(matches!(result.outcome, SyncOutcome::Put(_)), "{:?}", result.outcome);
    for (namespace, name) in [("a", "one"), ("a", "two"), ("b", "one")] {
        test.apply(document_of_tally(namespace, name)).await;
    }
    test.idle("tally").await;
    assert_eq!((runs_of(&test, "a", "one"), runs_of(&test, "a", "two"), runs_of(&test, "b", "one")), (1, 1, 0));
    test
}

fn document_of_tally(namespace: &str, name: &str) -> Value {
    document("Tally", namespace, name, json!({}), json!({"action": "settle"}))
}

/// W3: A cluster-scoped resource queues the namespaced keys to which its annotation and its field refer, before and
/// after a change, as far as the grants cover them.
#[tokio::test(flavor = "multi_thread")]
async fn references_lead_from_a_cluster_scoped_resource_into_granted_namespaces() {
    let test = tallies_of_trucks().await;
    let has_run = async |name: &str, runs: usize| {
        eventually(&format!("a/{name} to run"), async || (runs_of(&test, "a", name) == runs).then_some(())).await;
    };
    let mut truck = document("Truck", "", "t", json!({}), json!({}));
    truck["metadata"]["annotations"] = json!({"demo.homeostat.dev/for": "a/one"});
    test.apply(truck).await;
    has_run("one", 2).await;
    let two = json!({"apiVersion": "demo.homeostat.dev/v1", "kind": "Tally", "namespace": "a", "name": "two"});
    let other = json!({"kind": "Site", "namespace": "a", "name": "one"});
    test.apply(document("Truck", "", "t", json!({}), json!({"for": [two, other, "b/one"]}))).await;
    has_run("one", 3).await;
    has_run("two", 2).await;
    delete(&test, &key("Truck", "", "t")).await;
    has_run("two", 3).await;
    test.idle("tally").await;
    assert_eq!((runs_of(&test, "a", "one"), runs_of(&test, "b", "one")), (3, 0));
    assert_eq!(refused_keys(&test).len(), 0, "keys without a grant are dropped silently, as those of every mapping");
}

/// W3: A reference without a namespace from a cluster-scoped resource is counted in an event.
#[tokio::test(flavor = "multi_thread")]
async fn a_reference_without_the_namespace_that_it_needs_is_counted_in_an_event() {
    let test = tallies_of_trucks().await;
    for name in ["t", "u"] {
        test.apply(document("Truck", "", name, json!({}), json!({"for": ["two", "a/one"]}))).await;
    }
    let event = eventually("the event", async || refused_keys(&test).pop().filter(|event| event.count == 2)).await;
    assert_eq!((&*event.controller, event.key), ("tally", None));
    let reason = "the mapping of the watch loaded found a key of demo.homeostat.dev/v1/Tally without a namespace";
    assert!(event.message.starts_with(reason), "{}", event.message);
    test.idle("tally").await;
    assert!(runs_of(&test, "a", "one") >= 2);
    assert_eq!(runs_of(&test, "a", "two"), 1);
}

/// The grants cover everything, but the component declares its watch of rivers as read-only.
#[tokio::test(flavor = "multi_thread")]
async fn a_tertiary_kind_cannot_be_written_under_any_grant() {
    let test = TestHost::start().await;
    test.add("scoped", &guest("guest-scoped")).await;
    test.apply(document("Realm", "", "r", json!({}), json!({"digs": "rhine"}))).await;
    let forbidden = eventually("the refusal", async || {
        let events = test.host.events().list(&EventFilter::default());
        events.into_iter().find(|event| event.reason == "Forbidden")
    })
    .await;
    assert!(forbidden.message.contains("`tertiary`") && forbidden.message.contains("River"), "{}", forbidden.message);
    assert!(!forbidden.message.contains("grants:"), "no grant can allow it: {}", forbidden.message);
    assert_eq!(forbidden.key, Some(key("Realm", "", "r")));
    test.idle("scoped").await;
    assert!(test.get(&key("River", "", "rhine")).await.is_none());
    test.apply(document("Realm", "", "other", json!({}), json!({}))).await;
    let other = key("Realm", "", "other");
    test.until(&other, "is reconciled", |realm| realm["status"]["rivers"] == json!([])).await;
}
