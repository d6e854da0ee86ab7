use std::sync::Arc;

use homeostat_store::memory::MemoryStore;
use homeostat_store::{Options, Store, Write};
use serde_json::{Value, json};

use super::*;

fn managed() -> Kind {
    Kind::new("demo.dev", "v1", "App")
}

/// A resource is only ever made by a store.
async fn resource(metadata: Value, spec: Value) -> Arc<Resource> {
    let mut document = json!({"apiVersion": "v1", "kind": "Part", "metadata": metadata, "spec": spec});
    document["metadata"]["namespace"] = json!("shop");
    document["metadata"]["name"] = json!("part");
    MemoryStore::new(Options::default()).write(Write::Create { document }).await.unwrap().resource
}

fn names(keys: Vec<Key>) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

/// W3
#[tokio::test]
async fn an_owner_of_the_managed_kind_is_the_key_whatever_its_version() {
    let owner =
        |kind: &str, version: &str, name: &str| json!({"apiVersion": version, "kind": kind, "name": name, "uid": name});
    let owners =
        [owner("App", "demo.dev/v1beta1", "a"), owner("App", "other.dev/v1", "b"), owner("Else", "demo.dev/v1", "c")];
    let part = resource(json!({"ownerReferences": owners}), json!({})).await;
    assert_eq!(names(keys(&Mapping::Owner, &managed(), &part)), ["demo.dev/v1/App shop/a"]);
}

/// W3
#[tokio::test]
async fn the_same_name_and_the_value_of_a_label_are_keys_in_the_same_namespace() {
    let part = resource(json!({"labels": {"app": "a"}}), json!({})).await;
    assert_eq!(names(keys(&Mapping::SameName, &managed(), &part)), ["demo.dev/v1/App shop/part"]);
    assert_eq!(names(keys(&Mapping::Label("app".into()), &managed(), &part)), ["demo.dev/v1/App shop/a"]);
    assert!(keys(&Mapping::Label("other".into()), &managed(), &part).is_empty());
}

/// W3
#[tokio::test]
async fn a_field_leads_to_the_name_or_the_names_in_it() {
    let part = resource(json!({}), json!({"one": "a", "many": ["b", 3, "", "c"], "number": 3})).await;
    let field = |pointer: &str| names(keys(&Mapping::Field(pointer.into()), &managed(), &part));
    assert_eq!(field("/spec/one"), ["demo.dev/v1/App shop/a"]);
    assert_eq!(field("/spec/many"), ["demo.dev/v1/App shop/b", "demo.dev/v1/App shop/c"]);
    assert!(field("/spec/number").is_empty());
    assert!(field("/spec/absent").is_empty());
}
