use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Widget {
    size: u32,
    colour: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct WidgetStatus {
    seen: u32,
    #[serde(default)]
    note: Option<String>,
}

impl Kind for Widget {
    const API_VERSION: &str = "demo.homeostat.dev/v1";
    const NAME: &str = "Widget";
    const PLURAL: &str = "widgets";
    type Status = WidgetStatus;
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct ConfigMap(BTreeMap<String, String>);

impl Kind for ConfigMap {
    const API_VERSION: &str = "v1";
    const NAME: &str = "ConfigMap";
    const PLURAL: &str = "configmaps";
    const FIELD: &str = "data";
    type Status = ();
}

fn read(document: &Value) -> Resource<Widget> {
    Resource::from_value(&Widget::key("default", "a"), document.clone()).unwrap()
}

fn stored() -> Value {
    json!({
        "apiVersion": "demo.homeostat.dev/v1", "kind": "Widget",
        "metadata": {
            "name": "a", "namespace": "default", "uid": "u1", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "x"}], "labels": null,
        },
        "spec": {"size": 3, "theirs": true},
        "status": {"seen": 1, "theirs": [1]},
    })
}

#[test]
fn a_document_is_read_with_its_types_and_what_they_do_not_name_is_kept() {
    let widget = read(&stored());
    assert_eq!((widget.spec.size, widget.metadata.generation), (3, 2));
    assert_eq!(widget.metadata.other["managedFields"], json!([{"manager": "x"}]));
    assert_eq!(widget.stored().pointer("/spec/theirs"), Some(&json!(true)));
    assert_eq!(widget.key().to_string(), "demo.homeostat.dev/v1/Widget default/a");
}

#[test]
fn a_status_that_says_the_same_is_not_written() {
    let mut widget = read(&stored());
    assert_eq!(widget.changed_status().unwrap(), None);
    widget.status = Some(WidgetStatus { seen: 1, note: None });
    assert_eq!(widget.changed_status().unwrap(), None);
}

#[test]
fn a_status_that_differs_keeps_what_others_wrote() {
    let mut widget = read(&stored());
    widget.status = Some(WidgetStatus { seen: 2, note: None });
    assert_eq!(widget.changed_status().unwrap(), Some(json!({"seen": 2, "theirs": [1]})));
}

#[test]
fn a_first_status_is_written_without_what_is_not_set() {
    let mut document = stored();
    document.as_object_mut().unwrap().remove("status");
    let mut widget = read(&document);
    assert_eq!(widget.status, None);
    widget.status = Some(WidgetStatus { seen: 0, note: None });
    assert_eq!(widget.changed_status().unwrap(), Some(json!({"seen": 0})));
}

#[test]
fn a_status_of_another_shape_can_be_overwritten() {
    let mut document = stored();
    document["status"] = json!({"seen": "often"});
    let mut widget = read(&document);
    assert_eq!(widget.status, None);
    widget.status = Some(WidgetStatus { seen: 1, note: None });
    assert_eq!(widget.changed_status().unwrap(), Some(json!({"seen": 1})));
}

#[test]
fn a_spec_that_does_not_fit_is_named() {
    let mut document = stored();
    document["spec"] = json!({"size": "large"});
    let error = Resource::<Widget>::from_value(&Widget::key("default", "a"), document).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("demo.homeostat.dev/v1/Widget default/a does not fit its type: spec: invalid type"),
        "{message}"
    );
}

#[test]
fn an_applied_document_names_only_the_set_fields() {
    let parent = read(&stored());
    let child = Resource::new("default", "a-1", Widget { size: 1, colour: None }).label("app", "a").owned_by(&parent);
    let applied = child.document(&child.metadata.to_apply()).unwrap();
    assert_eq!(
        applied,
        json!({
            "apiVersion": "demo.homeostat.dev/v1", "kind": "Widget",
            "metadata": {
                "name": "a-1", "namespace": "default", "labels": {"app": "a"},
                "ownerReferences": [{
                    "apiVersion": "demo.homeostat.dev/v1", "kind": "Widget", "name": "a", "uid": "u1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {"size": 1},
        })
    );
    assert!(child.metadata.is_controlled_by(&parent));
}

#[test]
fn a_part_in_another_namespace_says_where_its_parent_is() {
    let parent = read(&stored());
    let part = |namespace: &str| Resource::new(namespace, "part", Widget { size: 1, colour: None }).owned_by(&parent);
    let reference = |part: &Resource<Widget>| part.metadata.owner_references[0].namespace.clone();
    assert_eq!(reference(&part("default")), None);
    assert_eq!(reference(&part("other")).as_deref(), Some("default"));
    assert_eq!(reference(&part("")).as_deref(), Some("default"));
}

#[test]
fn applying_what_was_read_claims_nothing_of_the_stores() {
    let widget = read(&stored());
    let applied = widget.document(&widget.metadata.to_apply()).unwrap();
    assert_eq!(applied["metadata"], json!({"name": "a", "namespace": "default"}));
}

#[test]
fn a_kind_may_stand_for_another_field_than_spec() {
    let document = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}});
    let map: Resource<ConfigMap> = Resource::from_value(&ConfigMap::key("", "c"), document).unwrap();
    assert_eq!(map.spec.0["a"], "b");
    assert_eq!(map.document(&map.metadata).unwrap()["data"], json!({"a": "b"}));
    assert_eq!(map.key().to_string(), "v1/ConfigMap c");
}
