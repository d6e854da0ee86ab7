use serde_json::{Value, json};

use super::{finalizer_warnings, format_warnings};
use crate::Resource;

fn definition(formats: &[&str]) -> Value {
    let texts = formats.iter().map(|format| ((*format).to_owned(), json!({ "type": "string", "format": format })));
    let properties: serde_json::Map<String, Value> = texts.collect();
    let schema = json!({ "type": "object", "properties": { "spec": { "items": { "properties": properties } } } });
    json!({ "spec": { "versions": [{ "name": "v1" }, { "schema": { "openAPIV3Schema": schema } }] } })
}

#[test]
fn a_definition_warns_of_new_formats_that_validate_nothing() {
    let document = definition(&["date", "ip", "semver"]);
    let warnings = ["unrecognized format \"ip\"", "unrecognized format \"semver\""];
    assert_eq!(format_warnings(&document, None), warnings);
    assert_eq!(format_warnings(&document, Some(&definition(&["ip"]))), warnings[1..]);
    assert!(format_warnings(&json!({}), None).is_empty());
}

fn resource(finalizers: &Value) -> Resource {
    let metadata = json!({ "name": "a", "finalizers": finalizers });
    Resource::from_document(json!({ "apiVersion": "demo.dev/v1", "kind": "A", "metadata": metadata })).unwrap()
}

#[test]
fn a_resource_warns_of_added_finalizers_without_a_path() {
    let new = resource(&json!(["demo.dev/x", "plain", "orphan", "a.dev"]));
    let advice = |name: &str, path: &str| {
        format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )
    };
    let expected = [advice("a.dev", " including a path (/)"), advice("plain", "")];
    assert_eq!(finalizer_warnings(&new, None), expected);
    assert_eq!(finalizer_warnings(&new, Some(&resource(&json!(["plain"])))), expected[..1]);
    assert!(finalizer_warnings(&resource(&json!([])), None).is_empty());
}
