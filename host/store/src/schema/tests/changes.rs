//! Changes of a document that its schema would refuse now.

use serde_json::{Value, json};

use super::{of_spec, widget};
use crate::Error;
use crate::path::Path;
use crate::schema::{Reason, Violation};

/// Returns the violations of a spec that replaces another one.
fn told(schema: &Value, old: &Value, new: Value) -> Vec<String> {
    let (schema, mut new) = (of_spec(schema.clone()), widget(new));
    let violations = schema.admit(&mut new, &Path::ROOT, true, Some(&widget(old.clone())), None).unwrap();
    violations.into_iter().map(|found| found.path).collect()
}

#[test]
fn a_part_that_stays_may_go_on_violating_its_schema() {
    let schema = json!({"type": "object", "properties": {
        "long": {"type": "string", "maxLength": 3},
        "free": {"type": "string"},
        "nested": {"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "integer", "maximum": 3},
        }},
        "either": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object", "properties": {
            "a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "integer"},
        }},
    }});
    let old = json!({"long": "abcdef", "nested": {"c": 9}, "either": {"c": 1}});
    let with = |name: &str, value: Value| {
        let mut new = old.clone();
        new[name] = value;
        told(&schema, &old, new)
    };
    assert_eq!(with("free", json!("a")), [""; 0]);
    assert_eq!(with("long", json!("abcdefg")), ["spec.long"]);
    // A part that lacks a required field is refused once the part changes.
    assert_eq!(with("nested", json!({"c": 9, "b": "x"})), ["spec.nested.a"]);
    assert_eq!(with("nested", json!({"c": 8, "a": "x"})), ["spec.nested.c"]);
    assert_eq!(with("nested", json!({"c": 9, "a": "x"})), [""; 0]);
    assert_eq!(with("either", json!({"c": 2})), ["<nil>", "spec.either.a"]);
    assert_eq!(told(&schema, &json!({}), old.clone()).len(), 5, "nothing stays");
}

#[test]
fn of_a_list_only_items_with_an_identity_stay() {
    let schema = json!({"type": "object", "properties": {
        "plain": {"type": "array", "items": {"type": "string", "maxLength": 1}},
        "named": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "size": {"type": "integer", "maximum": 3},
            }},
        },
    }});
    let item = |name: &str, size: u64| json!({"name": name, "size": size});
    let old = json!({"plain": ["long"], "named": [item("a", 9), item("b", 9)]});
    let told = |new: Value| told(&schema, &old, new);
    assert_eq!(told(json!({"plain": ["long"], "named": [item("b", 9), item("c", 1), item("a", 9)]})), [""; 0]);
    assert_eq!(told(json!({"plain": ["long", "b"]})), ["spec.plain[0]"]);
    assert_eq!(told(json!({"named": [item("b", 8), item("a", 9)]})), ["spec.named[0].size"]);
}

#[test]
fn lists_may_repeat_items_once_one_has_done_so() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {"a": set, "b": set}});
    let new = json!({"a": [], "b": ["x", "x"]});
    assert_eq!(told(&schema, &json!({"a": ["y", "y"]}), new.clone()), [""; 0]);
    assert_eq!(told(&schema, &json!({"a": ["y"]}), new), ["spec.b[1]"]);
}

/// An API server reads the former document with the present defaults.
#[test]
fn a_part_that_only_gets_a_default_stays() {
    let schema = json!({"type": "object", "properties": {"free": {"type": "string"}, "part": {
        "type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "c"}},
    }}});
    assert_eq!(told(&schema, &json!({"part": {}}), json!({"part": {}, "free": "x"})), [""; 0]);
}

/// Two resources of a quota can break the same rule.
#[test]
fn the_message_of_a_refusal_says_the_same_once() {
    let violation = |detail: &str| Violation { path: "spec".into(), reason: Reason::Invalid, detail: detail.into() };
    let message = |details: &[&str]| {
        Error::invalid_fields("a".to_owned(), details.iter().map(|text| violation(text)).collect()).to_string()
    };
    assert_eq!(message(&["x", "x"]), message(&["x"]));
    assert_eq!(message(&["x", "y", "x"]), message(&["x", "y"]));
    assert!(
        message(&["x", "y"]).contains("[spec: Invalid value: x, spec: Invalid value: y]"),
        "{}",
        message(&["x", "y"])
    );
}
