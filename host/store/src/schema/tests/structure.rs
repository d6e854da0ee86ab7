use serde_json::{Value, json};

use super::{of_spec, whole};
use crate::schema::{ListType, Schema};
use crate::{DOCUMENT_DEPTH_MAX, Error};

fn path_of(source: &Value) -> String {
    match Schema::parse(source) {
        Err(Error::Invalid { path, .. }) => path,
        other => panic!("{source}: {other:?}"),
    }
}

#[test]
fn a_schema_that_is_not_structural_is_refused_where_it_is_not() {
    let map = json!("map");
    for (spec, wanted) in [
        (json!({}), ".type"),
        (json!("object"), ""),
        (json!({"type": "text"}), ".type"),
        (json!({"type": ["string", "null"]}), ".type"),
        (json!({"type": "array"}), ".items"),
        (json!({"type": "array", "items": [{"type": "string"}]}), ".items"),
        (json!({"type": "array", "items": {}}), ".items.type"),
        (json!({"type": "object", "properties": {"a": {}}}), ".properties[a].type"),
        (json!({"type": "object", "properties": []}), ".properties"),
        (json!({"type": "object", "additionalProperties": {}}), ".additionalProperties.type"),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            ".additionalProperties",
        ),
        (json!({"type": "object", "$ref": "#/a"}), ".$ref"),
        (json!({"type": "object", "patternProperties": {"a": {}}}), ".patternProperties"),
        (json!({"type": "string", "x-kubernetes-embedded-resource": true}), ".type"),
        (json!({"type": "string", "x-kubernetes-list-type": "set"}), ".type"),
        (json!({"type": "string", "x-kubernetes-map-type": "atomic"}), ".type"),
        (json!({"type": "object", "x-kubernetes-map-type": "list"}), ".x-kubernetes-map-type"),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}),
            ".x-kubernetes-list-type",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": map}),
            ".x-kubernetes-list-map-keys",
        ),
        (
            json!({
                "type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": map, "x-kubernetes-list-map-keys": ["name"],
            }),
            ".x-kubernetes-list-map-keys",
        ),
        (json!({"type": "integer", "minimum": "0"}), ".minimum"),
        (json!({"type": "string", "minLength": "1"}), ".minLength"),
        (json!({"type": "string", "nullable": "yes"}), ".nullable"),
        (json!({"type": "string", "pattern": "("}), ".pattern"),
        (json!({"type": "string", "pattern": "((a{1000}){1000}){1000}"}), ".pattern"),
        (json!({"type": "string", "pattern": "a".repeat(5000)}), ".pattern"),
        (json!({"type": "object", "required": "a"}), ".required"),
        (json!({"type": "object", "required": [1]}), ".required[0]"),
        (json!({"type": "string", "anyOf": [{}, {"type": "string"}]}), ".anyOf[1].type"),
        (json!({"type": "string", "not": {"default": "a"}}), ".not.default"),
        (json!({"type": "string", "default": 1}), ".default"),
        (json!({"type": "object", "default": {"a": 1}}), ".default.a"),
        (
            json!({"type": "object", "default": {"a": 1}, "properties": {"a": {"type": "integer", "minimum": 2}}}),
            ".default.a",
        ),
    ] {
        assert_eq!(path_of(&whole(spec)), format!("openAPIV3Schema.properties[spec]{wanted}"));
    }
    for (root, wanted) in [
        (json!({}), ".type"),
        (json!({"type": "string"}), ".type"),
        (json!({"type": "object", "additionalProperties": true}), ".additionalProperties"),
        (json!({"type": "object", "oneOf": [{"properties": {"a": {}}}]}), ".oneOf[0].properties[a]"),
        (json!({"type": "object", "allOf": [{"items": {}}]}), ".allOf[0].items"),
        (json!({"type": "object", "properties": {"metadata": {"type": "string"}}}), ".properties[metadata].type"),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "string"}}}}}),
            ".properties[metadata].properties[labels]",
        ),
    ] {
        assert_eq!(path_of(&root), format!("openAPIV3Schema{wanted}"));
    }
}

#[test]
fn a_schema_may_say_what_kubernetes_accepts() {
    for spec in [
        json!({"type": "string", "properties": {}, "items": {"type": "string"}}),
        json!({"type": "object", "patternProperties": {}, "definitions": {}}),
        json!({"type": "object", "x-kubernetes-int-or-string": true}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true}),
        json!({"type": "integer", "multipleOf": 0}),
        json!({"type": "string", "minLength": -1, "default": null}),
        json!({"type": "object", "oneOf": [{"properties": {"a": {}}, "items": {}, "nullable": false}]}),
        json!({"type": "string", "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
            "metadata": {"type": "object", "properties": {"labels": {"type": "object"}}},
        }}),
        json!({"type": "object", "additionalProperties": {"type": "string", "default": 1}}),
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "default": ["a", "a"]}),
    ] {
        assert!(Schema::parse(&whole(spec.clone())).is_ok(), "{spec}");
    }
}

#[test]
fn a_schema_is_bounded() {
    let deep =
        (0..DOCUMENT_DEPTH_MAX).fold(json!({"type": "string"}), |items, _| json!({"type": "array", "items": items}));
    assert_eq!(path_of(&whole(deep)), "openAPIV3Schema");
    let patterns = |count: usize| {
        let properties: serde_json::Map<String, Value> = (0..count)
            .map(|at| (format!("{at:03}"), json!({"type": "string", "pattern": format!("^{at}$")})))
            .collect();
        whole(json!({"type": "object", "properties": properties}))
    };
    assert!(Schema::parse(&patterns(256)).is_ok());
    assert_eq!(path_of(&patterns(257)), "openAPIV3Schema.properties[spec].properties[256].pattern");
    // Ten items, each with ten items, and so on.
    let many = |levels: usize| {
        (0..levels).fold(json!({"type": "boolean"}), |inner, _| {
            let item = json!({"type": "object", "properties": {"a": inner}});
            json!({"type": "array", "items": item, "default": vec![json!({}); 10]})
        })
    };
    let properties = |count: usize, levels: usize| {
        let properties: serde_json::Map<String, Value> = (0..count).map(|at| (at.to_string(), many(levels))).collect();
        Schema::parse(&whole(json!({"type": "object", "properties": properties})))
    };
    assert!(properties(1, 4).is_ok());
    assert!(matches!(properties(1, 6), Err(Error::TooLarge { .. })));
    assert!(matches!(properties(200, 4), Err(Error::TooLarge { .. })));
    let large = json!({"type": "object", "description": "x".repeat(2 << 20)});
    assert!(matches!(Schema::parse(&large), Err(Error::TooLarge { .. })));
}

#[test]
fn unknown_keywords_of_a_schema_are_ignored() {
    let schema = of_spec(json!({
        "type": "object", "title": "A", "description": "b", "example": {"c": 1}, "externalDocs": {"url": "d"}, "x-own": [1],
        "format": "of-our-own", "default": null, "nullable": true,
    }));
    assert!(schema.check(&super::widget(json!({}))).is_empty());
}

#[test]
fn schemas_with_rules_at_any_depth_are_detected() {
    let rule = json!([{"rule": "self != oldSelf"}]);
    let parts = [
        json!({"type": "object", "x-kubernetes-validations": rule}),
        json!({"type": "object", "properties": {"a": {"type": "integer", "x-kubernetes-validations": rule}}}),
        json!({"type": "object", "additionalProperties": {"type": "boolean", "x-kubernetes-validations": rule}}),
    ];
    assert!(parts.into_iter().all(|part| of_spec(part).has_rules()));
    assert!(!of_spec(json!({"type": "object"})).has_rules());
    let inside = whole(json!({"type": "object", "anyOf": [{"x-kubernetes-validations": rule}]}));
    let error = Schema::parse(&inside).expect_err("rules define no alternatives").to_string();
    assert!(error.contains("must not be used inside of allOf, anyOf, oneOf and not"), "{error}");
}

#[test]
fn a_schema_has_its_merge_types_and_its_source() {
    let source = whole(json!({"type": "object", "properties": {
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
        "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
    }}));
    let schema = Schema::parse(&source).expect("well formed");
    assert_eq!(schema.source(), Some(&source));
    let spec = schema.field("spec").expect("known");
    assert_eq!(spec.source(), None);
    assert_eq!(spec.field("tags").map(Schema::list_type), Some(&ListType::Set));
    assert_eq!(spec.field("ports").map(Schema::list_type), Some(&ListType::Map(vec!["name".to_owned()])));
    assert!(spec.field("ports").and_then(Schema::items).and_then(|item| item.field("name")).is_some());
    let selector = spec.field("selector").expect("known");
    assert!(selector.is_atomic_map() && selector.field("anything").is_some() && !spec.is_atomic_map());
    assert!(spec.field("other").is_none());
}
