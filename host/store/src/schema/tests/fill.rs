use serde_json::{Value, json};

use super::{of_spec, widget};
use crate::Error;
use crate::schema::{Schema, VIOLATIONS_MAX};

fn filled(schema: &Value, spec: Value) -> Value {
    let mut document = widget(spec);
    of_spec(schema.clone()).set_defaults(&mut document).expect("small");
    document["spec"].take()
}

fn pruned(schema: Value, spec: Value) -> (Value, Vec<String>) {
    let mut document = widget(spec);
    let dropped = of_spec(schema).prune(&mut document);
    assert_eq!(document["metadata"], widget(json!({}))["metadata"]);
    (document["spec"].take(), dropped)
}

#[test]
fn a_missing_field_gets_its_default_where_the_object_around_it_is_there() {
    let schema = json!({"type": "object", "properties": {
        "size": {"type": "integer", "default": 1},
        "image": {"type": "object", "properties": {"tag": {"type": "string", "default": "latest"}}},
        "probe": {"type": "object", "default": {}, "properties": {"period": {"type": "integer", "default": 10}}},
        "ports": {"type": "array", "items": {
            "type": "object", "properties": {"protocol": {"type": "string", "default": "TCP"}},
        }},
        "limits": {"type": "object", "additionalProperties": {
            "type": "object", "properties": {"unit": {"type": "string", "default": "m"}},
        }},
    }});
    assert_eq!(filled(&schema, json!({})), json!({"size": 1, "probe": {"period": 10}}));
    assert_eq!(
        filled(
            &schema,
            json!({"size": 2, "image": {}, "probe": {"period": 5}, "ports": [{}, {"protocol": "UDP"}], "limits": {"a": {}}})
        ),
        json!({
            "size": 2, "image": {"tag": "latest"}, "probe": {"period": 5}, "ports": [{"protocol": "TCP"}, {"protocol": "UDP"}],
            "limits": {"a": {"unit": "m"}},
        })
    );
    assert_eq!(filled(&schema, json!("of another type")), json!("of another type"));
}

#[test]
fn a_null_that_is_not_allowed_is_missing() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "x"},
        "b": {"type": "string", "nullable": true, "default": "x"},
        "c": {"type": "string"},
        "d": {"type": "string", "nullable": true},
        "e": {"type": "string", "nullable": true, "default": null},
        "f": {"type": "array", "items": {"type": "string", "default": "y"}},
        "g": {"type": "array", "items": {"type": "string"}},
        "h": {"type": "object", "additionalProperties": {"type": "string"}},
        "i": {"type": "object", "additionalProperties": {"type": "string", "default": "z"}},
        "j": {"type": "object", "additionalProperties": true},
    }});
    let nulls = json!({
        "a": null, "b": null, "c": null, "d": null, "f": [null], "g": [null], "h": {"k": null}, "i": {"k": null}, "j": {"k": null},
    });
    assert_eq!(
        filled(&schema, nulls),
        json!({"a": "x", "b": null, "d": null, "f": ["y"], "g": [null], "h": {}, "i": {"k": "z"}, "j": {"k": null}})
    );
}

#[test]
fn defaults_that_make_a_document_too_large_are_refused() {
    let schema = of_spec(json!({"type": "array", "items": {"type": "object", "properties": {
        "text": {"type": "string", "default": "x".repeat(10_000)},
    }}}));
    let refused = schema.set_defaults(&mut widget(json!(vec![json!({}); 10_000])));
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let schema = json!({"type": "object", "properties": {
        "known": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        "free": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        "any": {"type": "object", "additionalProperties": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "known": {"type": "object", "properties": {"a": {"type": "integer"}}},
        }},
        "closed": {"type": "object", "additionalProperties": false},
        "shapeless": {"x-kubernetes-preserve-unknown-fields": true},
    }});
    let both = json!({"a": 1, "b": 2});
    let (spec, dropped) = pruned(
        schema,
        json!({
            "known": both, "list": [both, both], "free": {"x/y": both}, "any": {"b": both}, "open": {"known": both, "other": both},
            "closed": both, "shapeless": both, "unknown": both,
        }),
    );
    let one = json!({"a": 1});
    assert_eq!(
        spec,
        json!({
            "known": one, "list": [one, one], "free": {"x/y": one}, "any": {"b": both}, "open": {"known": one, "other": both},
            "closed": {}, "shapeless": both,
        })
    );
    assert_eq!(
        dropped,
        [
            "spec.closed.a",
            "spec.closed.b",
            "spec.free.x/y.b",
            "spec.known.b",
            "spec.list[0].b",
            "spec.list[1].b",
            "spec.open.known.b",
            "spec.unknown",
        ]
    );
}

#[test]
fn a_resource_in_a_resource_keeps_its_head() {
    let schema = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "integer"}}},
    }});
    let (spec, dropped) = pruned(
        schema,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"any": 1}, "spec": {"a": 1, "b": 2}, "status": {}}),
    );
    assert_eq!(spec, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"any": 1}, "spec": {"a": 1}}));
    assert_eq!(dropped, ["spec.spec.b", "spec.status"]);
}

#[test]
fn the_first_of_many_dropped_fields_are_named() {
    let many: serde_json::Map<String, Value> = (0..1000).map(|at| (at.to_string(), json!(at))).collect();
    let (spec, dropped) = pruned(json!({"type": "object"}), Value::Object(many));
    assert_eq!((spec, dropped.len()), (json!({}), VIOLATIONS_MAX));
}

#[test]
fn without_a_schema_a_document_stays_unchanged() {
    let mut document = widget(json!({"a": null}));
    let empty = Schema { value_type: None, ..of_spec(json!({"type": "object"})) };
    let before = document.clone();
    assert_eq!(Schema { properties: Default::default(), ..empty }.prune(&mut document), [""; 0]);
    assert_eq!(document, before);
}
