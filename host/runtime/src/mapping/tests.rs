use std::sync::Arc;

use homeostat_fixtures::{create, demo_kind, memory_store};
use serde_json::{Value, json};

use super::*;

fn managed() -> ManagedKind {
    ManagedKind { kind: demo_kind("App"), namespaced: true }
}

/// The same kind, cluster-scoped.
fn cluster_scoped() -> ManagedKind {
    ManagedKind { namespaced: false, ..managed() }
}

/// Only a store creates resources.
async fn resource(metadata: Value, spec: Value) -> Arc<Resource> {
    resource_in("shop", metadata, spec).await
}

async fn resource_in(namespace: &str, metadata: Value, spec: Value) -> Arc<Resource> {
    let mut document = json!({"apiVersion": "v1", "kind": "Part", "metadata": metadata, "spec": spec});
    if !namespace.is_empty() {
        document["metadata"]["namespace"] = json!(namespace);
    }
    document["metadata"]["name"] = json!("part");
    create(&*memory_store(), document).await
}

fn names(keys: Vec<Key>) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

/// A part that every mapping maps to the managed resource `a`, except by name, which maps it to `part`.
async fn part_of_a(namespace: &str) -> Arc<Resource> {
    let owner = json!({"apiVersion": "demo.homeostat.dev/v1", "kind": "App", "name": "a", "uid": "u"});
    let metadata = json!({"ownerReferences": [owner], "labels": {"app": "a"}});
    resource_in(namespace, metadata, json!({"one": "a", "many": ["a", "b"]})).await
}

/// Every mapping of the host, and the names that it yields for the part of `a`.
fn mappings() -> [(Mapping, &'static [&'static str]); 5] {
    [
        (Mapping::Owner, &["a"]),
        (Mapping::SameName, &["part"]),
        (Mapping::Label("app".into()), &["a"]),
        (Mapping::Field("/spec/one".into()), &["a"]),
        (Mapping::Field("/spec/many".into()), &["a", "b"]),
    ]
}

/// W3: owner, label, same name and field map to keys.
#[tokio::test]
async fn an_owner_of_the_managed_kind_is_the_key_whatever_its_version() {
    let owner =
        |kind: &str, version: &str, name: &str| json!({"apiVersion": version, "kind": kind, "name": name, "uid": name});
    let owners = [
        owner("App", "demo.homeostat.dev/v1beta1", "a"),
        owner("App", "other.dev/v1", "b"),
        owner("Else", "demo.homeostat.dev/v1", "c"),
    ];
    let part = resource(json!({"ownerReferences": owners}), json!({})).await;
    assert_eq!(names(keys(&Mapping::Owner, &managed(), &part)), ["demo.homeostat.dev/v1/App shop/a"]);
}

#[tokio::test]
async fn an_owner_in_another_namespace_is_mapped() {
    let owner = |namespace: Value| {
        let mut note = json!({
            "store": "bus", "apiVersion": "demo.homeostat.dev/v1", "kind": "App", "name": "a", "uid": "u",
        });
        note["namespace"] = namespace;
        json!({"annotations": {"homeostat.dev/owner": note.to_string()}})
    };
    for (home, namespace, wanted) in [
        ("shop", Value::Null, "demo.homeostat.dev/v1/App shop/a"),
        ("shop", json!("other"), "demo.homeostat.dev/v1/App other/a"),
        ("", json!("other"), "demo.homeostat.dev/v1/App other/a"),
    ] {
        let part = resource_in(home, owner(namespace), json!({})).await;
        assert_eq!(names(keys(&Mapping::Owner, &managed(), &part)), [wanted]);
        assert_eq!(names(keys(&Mapping::Owner, &cluster_scoped(), &part)), ["demo.homeostat.dev/v1/App a"]);
    }
    let part = resource_in("", owner(Value::Null), json!({})).await;
    assert!(keys(&Mapping::Owner, &managed(), &part).is_empty());
}

/// W3: owner, label, same name and field map to keys.
#[tokio::test]
async fn the_same_name_and_the_value_of_a_label_are_keys_in_the_same_namespace() {
    let part = resource(json!({"labels": {"app": "a"}}), json!({})).await;
    assert_eq!(names(keys(&Mapping::SameName, &managed(), &part)), ["demo.homeostat.dev/v1/App shop/part"]);
    assert_eq!(names(keys(&Mapping::Label("app".into()), &managed(), &part)), ["demo.homeostat.dev/v1/App shop/a"]);
    assert!(keys(&Mapping::Label("other".into()), &managed(), &part).is_empty());
}

/// W3: owner, label, same name and field map to keys.
#[tokio::test]
async fn a_field_maps_to_the_names_in_it() {
    let part = resource(json!({}), json!({"one": "a", "many": ["b", 3, "", "c"], "number": 3})).await;
    let field = |pointer: &str| names(keys(&Mapping::Field(pointer.into()), &managed(), &part));
    assert_eq!(field("/spec/one"), ["demo.homeostat.dev/v1/App shop/a"]);
    assert_eq!(field("/spec/many"), ["demo.homeostat.dev/v1/App shop/b", "demo.homeostat.dev/v1/App shop/c"]);
    assert!(field("/spec/number").is_empty());
    assert!(field("/spec/absent").is_empty());
}

/// W3: the child's namespace is none of the parent's.
#[tokio::test]
async fn a_cluster_scoped_parent_of_namespaced_children_has_a_key_without_namespace() {
    let part = part_of_a("shop").await;
    for (mapping, wanted) in mappings() {
        let wanted: Vec<String> = wanted.iter().map(|name| format!("demo.homeostat.dev/v1/App {name}")).collect();
        assert_eq!(names(keys(&mapping, &cluster_scoped(), &part)), wanted, "{mapping:?}");
    }
}

/// W3: owner, label, same name and field map to keys.
#[tokio::test]
async fn a_cluster_scoped_parent_of_cluster_scoped_children_has_a_key_without_namespace() {
    let part = part_of_a("").await;
    for (mapping, wanted) in mappings() {
        let wanted: Vec<String> = wanted.iter().map(|name| format!("demo.homeostat.dev/v1/App {name}")).collect();
        assert_eq!(names(keys(&mapping, &cluster_scoped(), &part)), wanted, "{mapping:?}");
    }
}

/// W3: such a component is refused when it is loaded. If it were not, it would yield no key that no resource
/// can have.
#[tokio::test]
async fn a_cluster_scoped_child_names_no_parent_in_a_namespace() {
    let part = part_of_a("").await;
    for (mapping, _) in mappings() {
        assert!(keys(&mapping, &managed(), &part).is_empty(), "{mapping:?}");
    }
}
