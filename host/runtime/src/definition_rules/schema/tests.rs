use serde_json::json;

use super::*;

const ROOT: &str = "spec.validation.openAPIV3Schema";

/// Returns the violations of a schema, as lines of `path reason`, whose paths begin below `of`.
fn found(schema: &Value, of: &str, has_status: bool) -> Vec<String> {
    let mut lines: Vec<_> = violations(schema, ROOT, has_status)
        .iter()
        .map(|found| {
            let path = found.path.strip_prefix(ROOT).expect("every path begins with that of the schema");
            format!(
                "{} {}",
                path.strip_prefix(of).unwrap_or(path),
                found.reason.cause().trim_start_matches("FieldValue")
            )
        })
        .collect();
    lines.sort();
    lines
}

/// Checks the violations of parts of a schema, sorted, and without the paths of the parts.
#[track_caller]
fn parts(cases: &[(Value, &[&str])]) {
    for (part, wanted) in cases {
        let schema = json!({ "type": "object", "properties": { "a": part } });
        assert_eq!(found(&schema, ".properties[a]", false), *wanted, "{part}");
    }
}

/// Checks the violations of whole schemas, sorted.
#[track_caller]
fn roots(cases: &[(Value, &[&str])]) {
    for (schema, wanted) in cases {
        assert_eq!(found(schema, "", false), *wanted, "{schema}");
    }
}

#[test]
fn a_schema_has_a_type_at_every_level() {
    parts(&[
        (json!({}), &[".type Required"]),
        (json!(null), &[".type Required"]),
        (json!({ "type": "text" }), &[".type NotSupported"]),
        (json!({ "type": "null" }), &[".type Forbidden", ".type NotSupported"]),
        (json!({ "type": "array" }), &[".items Required"]),
        (json!({ "type": "array", "items": [{ "type": "string" }] }), &[".items Forbidden"]),
        (json!({ "type": "array", "items": {} }), &[".items.type Required"]),
        (json!({ "type": "object", "additionalProperties": {} }), &[".additionalProperties.type Required"]),
        (json!({ "x-kubernetes-preserve-unknown-fields": true }), &[]),
        (json!({ "type": "string", "properties": { "b": { "type": "string" } }, "items": { "type": "string" } }), &[]),
    ]);
    roots(&[
        (json!({ "properties": {} }), &[".type Required"]),
        (json!({ "type": "array", "items": { "type": "string" } }), &[".type Invalid"]),
        (json!({ "type": "object", "additionalProperties": false }), &[".additionalProperties Forbidden"]),
        (json!({ "type": "object", "nullable": true }), &[".nullable Forbidden"]),
    ]);
}

#[test]
fn a_condition_defines_no_shape() {
    let all = json!({
        "type": "string", "default": 1, "title": "t", "description": "d", "nullable": true, "additionalProperties": {},
        "x-kubernetes-int-or-string": true, "x-kubernetes-list-map-keys": ["a"], "x-kubernetes-list-type": "set",
        "x-kubernetes-map-type": "atomic", "x-kubernetes-validations": [{ "rule": "true" }],
    });
    let names = [
        "additionalProperties",
        "default",
        "description",
        "nullable",
        "title",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    ];
    let schema = json!({ "type": "object", "properties": { "a": { "type": "object", "not": all } } });
    let forbidden = names.map(|name| format!("{name} Forbidden"));
    let by_shape: Vec<_> = found(&schema, ".properties[a].not.", false);
    assert!(forbidden.iter().all(|line| by_shape.contains(line)), "{by_shape:?}");
    parts(&[
        (
            json!({ "type": "object", "allOf": [{ "nullable": false, "title": "", "additionalProperties": false }] }),
            &[],
        ),
        (
            json!({ "type": "object", "oneOf": [{ "properties": { "metadata": {} } }] }),
            &[".oneOf[0].properties[metadata] Forbidden"],
        ),
        (json!({ "type": "object", "anyOf": [{ "items": { "pattern": "(" } }] }), &[".anyOf[0].items.pattern Invalid"]),
    ]);
}

#[test]
fn only_conditions_of_the_root_are_about_defined_fields() {
    let undefined = json!([{ "properties": { "b": { "properties": { "c": {} } } }, "items": {} }]);
    parts(&[(json!({ "type": "object", "anyOf": undefined }), &[])]);
    roots(&[
        (json!({ "type": "object", "anyOf": undefined }), &[".items Required", ".properties[b] Required"]),
        (
            json!({ "type": "object", "properties": { "b": { "type": "object", "additionalProperties": true } }, "not": undefined[0] }),
            &[".items Required", ".properties[b].properties[c] Required"],
        ),
    ]);
}

#[test]
fn types_of_conditions_are_those_of_an_integer_or_a_string() {
    let both = json!([{ "type": "integer" }, { "type": "string" }]);
    let other = json!([{ "type": "string" }, { "type": "integer" }]);
    let flag = "x-kubernetes-int-or-string";
    parts(&[
        (json!({ flag: true, "anyOf": both }), &[]),
        (json!({ "type": "string", "anyOf": both }), &[]),
        (json!({ flag: true, "type": "object", "allOf": [{ "anyOf": both }, { "pattern": "a" }] }), &[]),
        (json!({ flag: true, "anyOf": other }), &[".anyOf[0].type Forbidden", ".anyOf[1].type Forbidden"]),
        (
            json!({ flag: true, "allOf": [{}, { "anyOf": both }] }),
            &[".allOf[1].anyOf[0].type Forbidden", ".allOf[1].anyOf[1].type Forbidden"],
        ),
        (
            json!({ flag: true, "x-kubernetes-preserve-unknown-fields": true }),
            &[".x-kubernetes-preserve-unknown-fields Invalid"],
        ),
    ]);
}

#[test]
fn keywords_that_kubernetes_does_not_have_are_refused() {
    parts(&[
        (json!({ "type": "string", "id": "a", "$ref": "" }), &[".$ref Forbidden", ".id Forbidden"]),
        (
            json!({ "type": "string", "definitions": {}, "patternProperties": {}, "dependencies": {} }),
            &[".dependencies Forbidden"],
        ),
        (
            json!({ "type": "string", "definitions": { "b": { "id": "a" } }, "additionalItems": false }),
            &[".additionalItems Forbidden", ".definitions Forbidden", ".definitions[b].id Forbidden"],
        ),
        (
            json!({ "type": "array", "items": { "type": "string", "uniqueItems": true } }),
            &[".items.uniqueItems Forbidden"],
        ),
        (
            json!({ "type": "string", "x-kubernetes-preserve-unknown-fields": false }),
            &[".x-kubernetes-preserve-unknown-fields Invalid"],
        ),
    ]);
    roots(&[(json!({ "type": "object", "$schema": "a" }), &[" Invalid"])]);
}

#[test]
fn a_fault_of_the_conversion_hides_what_needs_the_structural_form() {
    roots(&[(
        json!({ "properties": { "a": { "type": "string", "default": 1, "id": "a" }, "b": {} } }),
        &[".properties[a].id Forbidden"],
    )]);
}

#[test]
fn properties_are_named_or_free() {
    let both = |additional: Value| json!({ "type": "object", "properties": { "b": { "type": "string" } }, "additionalProperties": additional });
    parts(&[
        (both(json!({ "type": "string" })), &[".additionalProperties Forbidden"]),
        (both(json!(false)), &[".additionalProperties Forbidden"]),
        (both(json!(true)), &[]),
    ]);
}

#[test]
fn lists_and_maps_have_known_types() {
    let map = |keys: Value, items: Value| json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items });
    let item = json!({ "type": "object", "required": ["k"], "properties": { "k": { "type": "string" } } });
    let set = |items: Value| json!({ "type": "array", "x-kubernetes-list-type": "set", "items": items });
    parts(&[
        (
            json!({ "type": "array", "x-kubernetes-list-type": "bag", "items": { "type": "string" } }),
            &[".x-kubernetes-list-type NotSupported"],
        ),
        (json!({ "type": "object", "x-kubernetes-map-type": "loose" }), &[".x-kubernetes-map-type NotSupported"]),
        (json!({ "type": "string", "x-kubernetes-list-type": "atomic" }), &[".type Invalid"]),
        (
            json!({ "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-map-type": "atomic" }),
            &[".type Required"],
        ),
        (map(json!(["k"]), item.clone()), &[]),
        (map(json!([]), item.clone()), &[".x-kubernetes-list-map-keys Required"]),
        (map(json!(["k", "k"]), item.clone()), &[".x-kubernetes-list-map-keys Invalid"]),
        (map(json!(["k"]), json!({ "type": "string" })), &[".items.type Invalid"]),
        (
            map(
                json!(["k", "q"]),
                json!({ "type": "object", "nullable": true, "properties": { "k": { "type": "object", "nullable": true } } }),
            ),
            &[
                ".items.nullable Forbidden",
                ".items.properties[k].default Required",
                ".items.properties[k].nullable Forbidden",
                ".items.properties[k].type Invalid",
                ".x-kubernetes-list-map-keys Invalid",
            ],
        ),
        (
            json!({ "type": "array", "items": { "type": "string" }, "x-kubernetes-list-map-keys": ["k"] }),
            &[".x-kubernetes-list-type Required"],
        ),
        (set(json!({ "type": "object" })), &[".items.x-kubernetes-map-type Invalid"]),
        (set(json!({ "type": "object", "x-kubernetes-map-type": "atomic" })), &[]),
        (set(set(json!({ "type": "string" }))), &[".items.x-kubernetes-list-type Invalid"]),
    ]);
}

#[test]
fn resources_have_their_own_metadata() {
    let resource = |of: Value| {
        let mut of = of;
        of["x-kubernetes-embedded-resource"] = true.into();
        of
    };
    let labels = json!({ "type": "object", "properties": { "labels": { "type": "object" } } });
    parts(&[
        (resource(json!({ "type": "object" })), &[".properties Required"]),
        (resource(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })), &[]),
        (resource(json!({ "x-kubernetes-preserve-unknown-fields": true })), &[".type Required"]),
        (
            resource(json!({ "type": "object", "properties": { "kind": { "type": "integer" }, "metadata": labels } })),
            &[".properties[kind].type Invalid"],
        ),
        (
            resource(json!({ "type": "object", "properties": { "metadata": resource(labels.clone()) } })),
            &[".properties[metadata].x-kubernetes-embedded-resource Forbidden"],
        ),
    ]);
    let of_metadata = |metadata: Value| json!({ "type": "object", "properties": { "metadata": metadata } });
    roots(&[
        (of_metadata(labels.clone()), &[".properties[metadata] Forbidden"]),
        (of_metadata(json!({ "type": "object", "description": "d" })), &[".properties[metadata] Forbidden"]),
        (of_metadata(json!({ "type": "string" })), &[".properties[metadata].type Invalid"]),
        (
            of_metadata(json!({ "type": "object", "properties": { "name": { "type": "string", "pattern": "^a" } } })),
            &[],
        ),
        (
            of_metadata(json!({ "type": "object", "properties": { "name": { "type": "string", "default": "a/b" } } })),
            &[
                ".properties[metadata].properties[name].default Forbidden",
                ".properties[metadata].properties[name].default Invalid",
            ],
        ),
    ]);
}

#[test]
fn the_root_of_a_schema_with_a_status_has_few_keywords() {
    for (schema, wanted) in [
        (json!({ "type": "object", "anyOf": [] }), &[" Invalid"][..]),
        (json!({ "type": "object", "nullable": true }), &[" Invalid", ".nullable Forbidden"]),
        (json!({ "type": "object", "required": [], "description": "d", "x-kubernetes-validations": [] }), &[]),
        (json!({ "type": "string", "anyOf": [] }), &[".type Invalid", ".type Invalid"]),
    ] {
        assert_eq!(found(&schema, "", true), wanted, "{schema}");
    }
}

#[test]
fn defaults_are_valid() {
    let object =
        |default: Value| json!({ "type": "object", "default": default, "properties": { "y": { "type": "string" } } });
    parts(&[
        (json!({ "type": "string", "default": 3 }), &[".default TypeInvalid"]),
        (json!({ "type": "string", "default": null }), &[]),
        (json!({ "type": "string", "enum": ["x"], "default": "y" }), &[".default NotSupported"]),
        (json!({ "type": "integer", "maximum": 1, "default": 7 }), &[".default Invalid"]),
        (object(json!({ "x": 1 })), &[".default Invalid"]),
        (object(json!({ "x": 1, "y": 1 })), &[".default Invalid", ".default.y TypeInvalid"]),
        (
            json!({ "type": "object", "required": ["y"], "default": {}, "properties": { "y": { "type": "string", "default": "a" } } }),
            &[".default.y Required"],
        ),
        (json!({ "type": "integer", "not": { "minimum": 1 }, "default": 7 }), &[".default Invalid"]),
        (
            json!({ "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" }, "default": ["a", "a"] }),
            &[],
        ),
        (json!({ "type": "object", "additionalProperties": { "type": "string", "default": 3 } }), &[]),
        (
            json!({ "type": "object", "additionalProperties": true, "default": { "b": { "c": 1 } } }),
            &[".default Invalid"],
        ),
    ]);
}

#[test]
fn invalid_defaults_hide_rules_and_show_keywords() {
    let rules = json!([{ "rule": "self.nope" }]);
    roots(&[(
        json!({ "type": "object", "x-kubernetes-validations": rules, "properties": {
            "a": { "type": "string", "default": 3 }, "b": { "type": "text" },
        } }),
        &[".properties[a].default TypeInvalid", ".properties[b].type NotSupported"],
    )]);
}

#[test]
fn a_default_follows_the_rules_of_its_part() {
    let of = |rule: &str| json!({ "type": "integer", "default": 7, "x-kubernetes-validations": [{ "rule": rule }] });
    parts(&[
        (of("self < 8"), &[]),
        (of("self < 7"), &[".default Invalid"]),
        (of("self < oldSelf"), &[".default Invalid"]),
        (of("self.size()"), &[".default Invalid"]),
    ]);
}

#[test]
fn a_resource_in_a_default_is_well_formed() {
    let of = |default: Value| json!({ "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true, "default": default });
    parts(&[
        (of(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "labels": { "a": "b" } } })), &[]),
        (of(json!({})), &[".default.apiVersion Required", ".default.kind Required"]),
        (
            of(json!({ "apiVersion": "", "kind": "a.b", "metadata": { "labels": { "a": " " }, "name": ".." } })),
            &[
                ".default.apiVersion Invalid",
                ".default.kind Invalid",
                ".default.metadata.labels Invalid",
                ".default.metadata.name Invalid",
            ],
        ),
        (of(json!({ "kind": 1, "metadata": { "labels": [] } })), &[".default.kind Invalid"]),
    ]);
}

#[test]
fn the_keywords_of_rules_are_checked_before_their_expressions() {
    let of = |rules: Value| json!({ "type": "object", "properties": { "b": { "type": "string" } }, "x-kubernetes-validations": rules });
    let at = ".x-kubernetes-validations";
    let lines = |names: &[&str]| names.iter().map(|name| format!("{at}[0].{name}")).collect::<Vec<_>>();
    for (rule, wanted) in [
        (json!({ "rule": " " }), lines(&["rule Required"])),
        (
            json!({ "rule": "true", "message": " ", "reason": "Whim" }),
            lines(&["message Invalid", "reason NotSupported"]),
        ),
        (
            json!({ "rule": "true", "message": "a\nb", "fieldPath": ".c" }),
            lines(&["fieldPath Invalid", "message Invalid"]),
        ),
        (
            json!({ "rule": "true ||\ntrue", "messageExpression": " " }),
            lines(&["message Required", "messageExpression Required"]),
        ),
        (json!({ "rule": "self.c", "messageExpression": "1", "fieldPath": "b" }), lines(&["fieldPath Invalid"])),
        (
            json!({ "rule": "self.c", "messageExpression": "1", "optionalOldSelf": true }),
            lines(&["optionalOldSelf Invalid", "rule Invalid"]),
        ),
        (json!({ "rule": "self.b", "fieldPath": "['b']" }), lines(&["rule Invalid"])),
        (json!({ "rule": "true", "messageExpression": "1" }), lines(&["messageExpression Invalid"])),
        (json!({ "rule": "has(self.b)", "fieldPath": ".b", "reason": "FieldValueRequired" }), lines(&[])),
    ] {
        let schema = json!({ "type": "object", "properties": { "a": of(json!([rule])) } });
        assert_eq!(found(&schema, ".properties[a]", false), wanted, "{rule}");
    }
    let inner = json!({ "type": "string", "x-kubernetes-validations": [{ "rule": "" }, { "rule": "self +" }] });
    roots(&[(
        json!({ "type": "object", "properties": { "a": inner }, "x-kubernetes-validations": [{ "rule": "self.nope" }] }),
        &[".properties[a].x-kubernetes-validations[0].rule Required"],
    )]);
}

#[test]
fn all_rules_are_checked() {
    parts(&[(
        json!({ "type": "string", "maxLength": 9, "x-kubernetes-validations": [
            { "rule": "self.size() > " }, { "rule": "self + 1" }, { "rule": "self != ''" },
        ] }),
        &[".x-kubernetes-validations[0].rule Invalid", ".x-kubernetes-validations[1].rule Invalid"],
    )]);
}

#[test]
fn the_cost_of_rules_is_bounded_for_each_and_for_all() {
    let expensive = json!({ "type": "array", "items": { "type": "string" }, "x-kubernetes-validations": [
        { "rule": "self.all(p, self.all(q, self.all(s, p + q != s)))" },
    ] });
    let rule = ".properties[a].x-kubernetes-validations[0].rule Forbidden";
    let schema = |part: &Value| json!({ "type": "object", "properties": { "a": part } });
    roots(&[
        (schema(&expensive), &[" Forbidden", rule, rule]),
        (
            schema(
                &json!({ "type": "array", "items": { "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf" }] } }),
            ),
            &[
                " Forbidden",
                ".properties[a].items.x-kubernetes-validations[0].rule Forbidden",
                ".properties[a].items.x-kubernetes-validations[0].rule Forbidden",
                ".properties[a].items.x-kubernetes-validations[0].rule Invalid",
            ],
        ),
    ]);
}

#[test]
fn a_rule_needs_a_value_with_a_known_type() {
    let rules = json!([{ "rule": "true" }]);
    let open = "x-kubernetes-preserve-unknown-fields";
    parts(&[
        (json!({ open: true, "x-kubernetes-validations": rules }), &[".x-kubernetes-validations InternalError"]),
        (json!({ "type": "object", open: true, "x-kubernetes-validations": rules }), &[]),
        (json!({ "type": "object", "additionalProperties": true, "x-kubernetes-validations": rules }), &[]),
    ]);
}

#[test]
fn a_violation_shows_its_value() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "text" }, "b": { "type": "integer", "maximum": 1, "default": 7 } } });
    let texts: Vec<_> = violations(&schema, "s", false).iter().map(Violation::to_string).collect();
    assert_eq!(
        texts,
        [
            "s.properties[b].default: Invalid value: 7:  in body should be less than or equal to 1",
            "s.properties[a].type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \"integer\", \
         \"number\", \"object\", \"string\"",
        ]
    );
}

#[test]
fn the_number_of_violations_is_bounded() {
    let properties: Map<_, _> = (0..100).map(|at| (at.to_string(), json!({}))).collect();
    let schema = json!({ "type": "object", "properties": properties });
    assert_eq!(violations(&schema, ROOT, true).len(), VIOLATIONS_MAX);
}
