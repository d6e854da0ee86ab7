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

/// Returns the keys, of which none was dropped.
fn names(mapped: MappedKeys) -> Vec<String> {
    assert_eq!(mapped.refusal, None);
    mapped.keys.iter().map(ToString::to_string).collect()
}

/// A part that every mapping maps to the managed resource `a`, except by name, which maps it to `part`.
async fn part_of_a(namespace: &str) -> Arc<Resource> {
    let owner = json!({"apiVersion": "demo.homeostat.dev/v1", "kind": "App", "name": "a", "uid": "u"});
    let metadata = json!({"ownerReferences": [owner], "labels": {"app": "a"}, "annotations": {"app": "a"}});
    resource_in(namespace, metadata, json!({"one": "a", "many": ["a", "b"]})).await
}

/// Every mapping of the host, and the names that it yields for the part of `a`.
fn mappings() -> [(Mapping, &'static [&'static str]); 6] {
    [
        (Mapping::Owner, &["a"]),
        (Mapping::SameName, &["part"]),
        (Mapping::Label("app".into()), &["a"]),
        (Mapping::Annotation("app".into()), &["a"]),
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
    assert_eq!(keys(&Mapping::Owner, &managed(), &part), MappedKeys::default());
}

/// W3: owner, label, same name and field map to keys.
#[tokio::test]
async fn the_same_name_and_the_value_of_a_label_are_keys_in_the_same_namespace() {
    let part = resource(json!({"labels": {"app": "a"}}), json!({})).await;
    assert_eq!(names(keys(&Mapping::SameName, &managed(), &part)), ["demo.homeostat.dev/v1/App shop/part"]);
    assert_eq!(names(keys(&Mapping::Label("app".into()), &managed(), &part)), ["demo.homeostat.dev/v1/App shop/a"]);
    assert_eq!(keys(&Mapping::Label("other".into()), &managed(), &part), MappedKeys::default());
}

/// W3: owner, label, same name and field map to keys.
#[tokio::test]
async fn a_field_maps_to_the_names_in_it() {
    let part = resource(json!({}), json!({"one": "a", "many": ["b", "", null, "c"], "empty": "", "none": null})).await;
    let field = |pointer: &str| names(keys(&Mapping::Field(pointer.into()), &managed(), &part));
    assert_eq!(field("/spec/one"), ["demo.homeostat.dev/v1/App shop/a"]);
    assert_eq!(field("/spec/many"), ["demo.homeostat.dev/v1/App shop/b", "demo.homeostat.dev/v1/App shop/c"]);
    for pointer in ["/spec/empty", "/spec/none", "/spec/absent"] {
        assert!(field(pointer).is_empty(), "{pointer}");
    }
}

/// W3: a reference has a namespace of its own.
#[tokio::test]
async fn a_reference_with_a_namespace_leads_there_from_every_scope() {
    let object = json!({"apiVersion": "demo.homeostat.dev/v1beta1", "kind": "App", "namespace": "other", "name": "b"});
    let list = json!(["other/a", object]);
    let wanted = ["demo.homeostat.dev/v1/App other/a", "demo.homeostat.dev/v1/App other/b"];
    let annotations = json!({"one": "other/a", "list": list.to_string(), "object": object.to_string(), "empty": ""});
    for home in ["shop", ""] {
        let spec = json!({"one": "other/a", "list": list, "object": object});
        let part = resource_in(home, json!({"annotations": annotations}), spec).await;
        for (name, wanted) in [("one", &wanted[..1]), ("object", &wanted[1..]), ("list", &wanted[..]), ("empty", &[])] {
            let annotation = Mapping::Annotation(name.into());
            assert_eq!(names(keys(&annotation, &managed(), &part)), wanted, "annotation {name} in {home:?}");
            let field = Mapping::Field(format!("/spec/{name}"));
            assert_eq!(names(keys(&field, &managed(), &part)), wanted, "field {name} in {home:?}");
        }
    }
}

/// W3: a list may have references to several kinds.
#[tokio::test]
async fn a_reference_to_another_kind_yields_no_key_and_no_report() {
    let references = json!([
        {"kind": "Node", "name": "a"},
        {"apiVersion": "v1", "kind": "App", "name": "a"},
        {"group": "demo.homeostat.dev", "kind": "App", "name": "b"},
    ]);
    let part = resource(json!({"annotations": {"to": references.to_string()}}), json!({"to": references})).await;
    for mapping in [Mapping::Annotation("to".into()), Mapping::Field("/spec/to".into())] {
        assert_eq!(names(keys(&mapping, &managed(), &part)), ["demo.homeostat.dev/v1/App shop/b"], "{mapping:?}");
    }
}

/// W3: a dropped reference is reported, and the other references of a list lead to their keys.
#[tokio::test]
async fn a_reference_that_no_managed_resource_can_have_is_dropped_with_its_reason() {
    let spec = json!({"to": ["a", "other/b"]});
    let outside = resource_in("", json!({}), spec.clone()).await;
    let inside = resource_in("shop", json!({}), spec).await;
    let mapping = Mapping::Field("/spec/to".into());
    let MappedKeys { keys: found, refusal } = keys(&mapping, &managed(), &outside);
    assert_eq!(found, [Key::new(managed().kind, "other", "b")]);
    assert!(refusal.is_some_and(|refusal| refusal.contains("without a namespace")));
    let MappedKeys { keys: found, refusal } = keys(&mapping, &cluster_scoped(), &inside);
    assert_eq!(found, [Key::new(managed().kind, "", "a")]);
    assert!(refusal.is_some_and(|refusal| refusal.contains("with a namespace")));
}

#[tokio::test]
async fn a_value_that_is_no_reference_is_dropped_and_not_quoted() {
    let (long, upper) = ("a".repeat(254), "Upper");
    let far = format!("{}/a", "n".repeat(64));
    for value in [json!(3), json!({"name": 3}), json!("a/b/c"), json!("/a"), json!(upper), json!(long), json!(far)] {
        let part = resource(json!({}), json!({"to": [value, "a"]})).await;
        let MappedKeys { keys: found, refusal } = keys(&Mapping::Field("/spec/to".into()), &managed(), &part);
        assert_eq!((found.len(), refusal.as_deref()), (1, Some(NO_REFERENCE)), "{value}");
    }
    let longest = format!("{}/{}", "n".repeat(63), "a".repeat(253));
    let part = resource(json!({}), json!({"to": longest})).await;
    assert_eq!(names(keys(&Mapping::Field("/spec/to".into()), &managed(), &part)).len(), 1);
    let part = resource(json!({"annotations": {"to": "{\"name\": "}}), json!({})).await;
    let broken = keys(&Mapping::Annotation("to".into()), &managed(), &part);
    assert_eq!(broken, MappedKeys { keys: Vec::new(), refusal: Some(NO_REFERENCE.to_owned()) });
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

/// W3: a component with a mapping by name alone is refused when it is loaded. If it were not, it would yield no key
/// that no resource can have.
#[tokio::test]
async fn a_cluster_scoped_child_names_no_parent_in_a_namespace() {
    let part = part_of_a("").await;
    for (mapping, _) in mappings() {
        assert!(keys(&mapping, &managed(), &part).keys.is_empty(), "{mapping:?}");
    }
}
