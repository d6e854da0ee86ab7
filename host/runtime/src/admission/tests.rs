use homeostat_fixtures::memory_store;
use serde_json::json;

use homeostat_store::{Key, Kind, Store};

use super::*;
use crate::context::tests::context;
use crate::events::EventFilter;

fn definition(group: &str, scope: serde_json::Value) -> Value {
    let names = json!({"kind": "Cron", "plural": "crons"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("crons.{group}")},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [{"name": "v1", "served": true, "storage": true}]}
    })
}

#[tokio::test]
async fn an_invalid_stored_definition_is_reported_and_delays_no_start() {
    let store = memory_store();
    for document in [definition("bad.dev", json!(3)), definition("good.dev", json!("Namespaced"))] {
        store.write(Write::Create { document }).await.unwrap();
    }
    let context = context(store);
    context.declare_stored().await.unwrap();
    assert!(context.kinds.stores(&Kind::new("good.dev", "v1", "Cron")));
    let told = context.events.list(&EventFilter::default());
    assert_eq!(told.len(), 1);
    assert!(told[0].message.contains("spec.scope"), "{}", told[0].message);
}

#[tokio::test]
async fn resources_in_an_old_version_are_migrated_when_a_host_starts() {
    let store = memory_store();
    let mut old = definition("demo.dev", json!("Cluster"));
    old["spec"]["versions"] =
        json!([{"name": "v1beta1", "served": true, "storage": false}, {"name": "v1", "served": true, "storage": true}]);
    let definition = store.write(Write::Create { document: old }).await.unwrap().resource;
    let status = json!({"storedVersions": ["v1beta1"]});
    let key = definition.key().clone();
    store.write(Write::UpdateStatus { key, status, precondition: Default::default() }).await.unwrap();
    let cron = |name: &str| json!({"apiVersion": "demo.dev/v1beta1", "kind": "Cron", "metadata": {"name": name}});
    for name in ["one", "two"] {
        store.write(Write::Create { document: cron(name) }).await.unwrap();
    }
    let context = context(store.clone());
    context.declare_stored().await.unwrap();
    let kind = Kind::new("demo.dev", "v1", "Cron");
    let mut versions = Vec::new();
    for_each_listed(&*store, &kind, |resource| versions.push(resource.key().kind().version.clone())).await.unwrap();
    assert_eq!(versions, ["v1", "v1"]);
    assert!(context.kinds.stores(&kind));
    assert!(context.apply(cron("three"), "me", true).await.is_ok(), "the older version is served still");
    assert_eq!(store.get(&Key::new(kind.clone(), "", "three")).await.unwrap().key().kind(), &kind);
}
