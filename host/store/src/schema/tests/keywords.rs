use serde_json::{Value, json};

use super::{of_spec, widget};
use crate::schema::{Reason, VIOLATIONS_MAX};

/// The part of a schema for the spec.
fn told(schema: Value, spec: Value) -> Vec<String> {
    of_spec(schema).check(&widget(spec)).iter().map(ToString::to_string).collect()
}

/// Checks one keyword: valid values, and invalid values each with its violations, one a line.
#[track_caller]
fn keyword(schema: Value, good: &[Value], bad: &[(Value, &str)]) {
    for value in good {
        assert_eq!(told(schema.clone(), value.clone()), [""; 0], "{value}");
    }
    for (value, wanted) in bad {
        assert_eq!(told(schema.clone(), value.clone()).join("\n"), *wanted, "{value}");
    }
}

#[test]
fn a_type_is_checked_by_its_json_name() {
    let wrong = |wanted: &str, found: &str| {
        format!("spec: Invalid value: {found:?}: spec in body must be of type {wanted}: {found:?}")
    };
    let fraction = "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec";
    let samples = [json!(null), json!(true), json!(1), json!(1.5), json!("a"), json!([]), json!({})];
    let names = ["null", "boolean", "integer", "number", "string", "array", "object"];
    for wanted in ["boolean", "integer", "number", "string", "array", "object"] {
        let mut schema = json!({"type": wanted});
        if wanted == "array" {
            schema["items"] = json!({"type": "string"});
        }
        for (value, name) in samples.iter().zip(names) {
            let fits = name == wanted || (wanted, name) == ("number", "integer");
            let mut expected = if fits { Vec::new() } else { vec![wrong(wanted, name)] };
            expected.extend((wanted, name).eq(&("integer", "number")).then(|| fraction.to_owned()));
            assert_eq!(told(schema.clone(), value.clone()), expected, "{value}");
        }
    }
    keyword(
        json!({"type": "integer"}),
        &[json!(3.0), json!(i64::MAX)],
        &[(json!(1e19), &[wrong("integer", "number").as_str(), fraction].join("\n"))],
    );
    keyword(json!({"type": "string", "nullable": true, "minLength": 3}), &[json!(null)], &[]);
    keyword(
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        &[json!(1), json!("1")],
        &[(
            json!(true),
            &[
                wrong("integer,string", "boolean"),
                "<nil>: Invalid value: \"\": \"spec\" must validate at least one schema (anyOf)".to_owned(),
                wrong("integer", "boolean"),
            ]
            .join("\n"),
        )],
    );
}

#[test]
fn numbers_are_within_their_bounds() {
    keyword(
        json!({"type": "integer", "minimum": 0, "maximum": 9}),
        &[json!(0), json!(9)],
        &[
            (json!(-1), "spec: Invalid value: -1: spec in body should be greater than or equal to 0"),
            (json!(10), "spec: Invalid value: 10: spec in body should be less than or equal to 9"),
        ],
    );
    keyword(
        json!({"type": "number", "minimum": 0, "maximum": 1, "exclusiveMinimum": true, "exclusiveMaximum": true}),
        &[json!(0.5)],
        &[
            (json!(0), "spec: Invalid value: 0: spec in body should be greater than 0"),
            (json!(1.0), "spec: Invalid value: 1.0: spec in body should be less than 1"),
        ],
    );
    keyword(
        json!({"type": "integer", "multipleOf": 64}),
        &[json!(0), json!(128), json!(128.0), json!(-64)],
        &[(json!(65), "spec: Invalid value: 65: spec in body should be a multiple of 64")],
    );
    keyword(json!({"type": "number", "multipleOf": 0.1}), &[json!(0.3)], &[]);
    keyword(
        json!({"type": "integer", "multipleOf": 0}),
        &[],
        &[(json!(3), "spec: Invalid value: 0: factor MultipleOf declared for spec must be positive: 0")],
    );
    keyword(json!({"type": "integer", "multipleOf": 1}), &[json!(i64::MIN), json!(i64::MAX)], &[]);
}

#[test]
fn texts_are_within_their_bounds() {
    keyword(
        json!({"type": "string", "minLength": 2, "maxLength": 3}),
        &[json!("ää"), json!("äöü")],
        &[
            (json!("ä"), "spec: Invalid value: \"ä\": spec in body should be at least 2 chars long"),
            (json!("abcd"), "spec: Too long: may not be more than 3 bytes"),
        ],
    );
    keyword(
        json!({"type": "string", "pattern": "^[a-z]+$"}),
        &[json!("abc")],
        &[(json!("A"), "spec: Invalid value: \"A\": spec in body should match '^[a-z]+$'")],
    );
    keyword(
        json!({"type": "string", "enum": ["a", "b"]}),
        &[json!("a")],
        &[(json!("x"), "spec: Unsupported value: \"x\": supported values: \"a\", \"b\"")],
    );
    keyword(json!({"type": "number", "enum": [1, 2.5]}), &[json!(1.0), json!(2.5)], &[]);
    keyword(
        json!({"type": "string", "format": "date"}),
        &[json!("2026-02-28")],
        &[(
            json!("2026-02-30"),
            "spec: Invalid value: \"2026-02-30\": spec in body must be of type date: \"2026-02-30\"",
        )],
    );
    keyword(json!({"type": "string", "format": "of-our-own"}), &[json!("anything")], &[]);
}

#[test]
fn a_password_is_never_shown() {
    let schema = json!({"type": "string", "format": "password", "enum": ["x"], "minLength": 6, "pattern": "^x"});
    // The pattern of a text that is too short is not matched.
    for (password, faults) in [("secret", 2), ("short", 2)] {
        let told = told(schema.clone(), json!(password));
        assert_eq!(told.len(), faults);
        assert!(told.iter().all(|text| !text.contains(password)), "{told:?}");
    }
}

#[test]
fn lists_are_within_their_bounds() {
    keyword(
        json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}),
        &[json!([1]), json!([1, 1])],
        &[
            (json!([]), "spec: Invalid value: 0: spec in body should have at least 1 items"),
            (json!([1, 2, 3]), "spec: Too many: 3: must have at most 2 items"),
            (
                json!([1, "a"]),
                "spec[1]: Invalid value: \"string\": spec[1] in body must be of type integer: \"string\"",
            ),
        ],
    );
    keyword(
        json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true}),
        &[json!([1, 2])],
        &[(json!([1, 2, 1]), "spec[2]: Duplicate value: 1")],
    );
}

#[test]
fn items_with_an_identity_are_unique() {
    keyword(
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        &[json!(["a", "b"])],
        &[(json!(["a", "b", "a"]), "spec[2]: Duplicate value: \"a\"")],
    );
    let port = json!({"type": "object", "properties": {
        "port": {"type": "integer"}, "protocol": {"type": "string"}, "name": {"type": "string"},
    }});
    keyword(
        json!({
            "type": "array", "items": port,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        }),
        &[json!([{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}, {"port": 1}])],
        &[(
            json!([{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "TCP", "name": "other"}]),
            "spec[1]: Duplicate value: {\"port\":1,\"protocol\":\"TCP\"}",
        )],
    );
}

#[test]
fn objects_are_within_their_bounds() {
    keyword(
        json!({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1, "maxProperties": 2}),
        &[json!({"a": "b"})],
        &[
            (json!({}), "spec: Invalid value: 0: spec in body should have at least 1 properties"),
            (json!({"a": "", "b": "", "c": ""}), "spec: Too many: 3: must have at most 2 items"),
            (
                json!({"a/b": 1}),
                "spec.a/b: Invalid value: \"integer\": spec.a/b in body must be of type string: \"integer\"",
            ),
        ],
    );
    keyword(
        json!({"type": "object", "required": ["image"], "properties": {"image": {"type": "string"}}}),
        &[json!({"image": ""})],
        &[(json!({}), "spec.image: Required value")],
    );
}

#[test]
fn schemas_are_combined() {
    let one = |combination: Value| {
        let mut schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
        schema.as_object_mut().expect("an object").extend(combination.as_object().expect("an object").clone());
        schema
    };
    keyword(
        one(json!({"allOf": [{"required": ["a"]}, {"properties": {"b": {"minimum": 2}}}]})),
        &[json!({"a": 1}), json!({"a": 1, "b": 2})],
        &[
            (
                json!({}),
                "spec.a: Required value\n<nil>: Invalid value: \"\": \"spec\" must validate all the schemas (allOf)",
            ),
            (
                json!({"b": 1}),
                "spec.a: Required value\nspec.b: Invalid value: 1: spec.b in body should be greater than or equal to 2\n\
                 <nil>: Invalid value: \"\": \"spec\" must validate all the schemas (allOf). None validated",
            ),
        ],
    );
    let start = "<nil>: Invalid value: \"\": \"spec\" must";
    keyword(
        one(json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]})),
        &[json!({"a": 1}), json!({"a": 1, "b": 1})],
        &[(json!({}), &format!("{start} validate at least one schema (anyOf)\nspec.a: Required value"))],
    );
    keyword(
        one(json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]})),
        &[json!({"a": 1}), json!({"b": 1})],
        &[
            (
                json!({}),
                &format!("{start} validate one and only one schema (oneOf). Found none valid\nspec.a: Required value"),
            ),
            (
                json!({"a": 1, "b": 1}),
                &format!("{start} validate one and only one schema (oneOf). Found 2 valid alternatives"),
            ),
        ],
    );
    keyword(
        one(json!({"not": {"required": ["a", "b"]}})),
        &[json!({"a": 1})],
        &[(json!({"a": 1, "b": 1}), &format!("{start} not validate the schema (not)"))],
    );
    keyword(
        json!({"type": "array", "items": {"type": "integer"}, "not": {"items": {"minimum": 5}}}),
        &[json!([1])],
        &[(json!([5]), &format!("{start} not validate the schema (not)"))],
    );
}

#[test]
fn an_embedded_resource_names_its_kind() {
    keyword(
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        &[json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": 1})],
        &[
            (json!({"apiVersion": "v1"}), "spec.kind: Required value"),
            (
                json!({"apiVersion": "v1", "kind": 1}),
                "spec.kind: Invalid value: \"integer\": spec.kind in body must be of type string: \"integer\"",
            ),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": "a"}),
                "spec.metadata: Invalid value: \"string\": spec.metadata in body must be of type object: \"string\"",
            ),
        ],
    );
}

#[test]
fn a_name_can_be_restricted() {
    let mut source = super::whole(json!({"type": "object"}));
    source["properties"]["metadata"]["properties"] = json!({"name": {"type": "string", "pattern": "^b"}});
    let told = crate::schema::Schema::parse(&source).expect("well formed").check(&widget(json!({})));
    assert_eq!(told[0].path, "metadata.name");
    assert_eq!((told.len(), told[0].reason), (1, Reason::Invalid));
}

#[test]
fn the_first_of_many_violations_are_reported() {
    let told = told(json!({"type": "array", "items": {"type": "integer"}}), json!(vec!["a"; 1000]));
    assert_eq!(told.len(), VIOLATIONS_MAX);
}

#[test]
fn reasons_have_the_names_that_clients_know() {
    let schema = of_spec(json!({"type": "object", "required": ["a"]}));
    let violation = &schema.check(&widget(json!({})))[0];
    assert_eq!((violation.reason.cause(), violation.message()), ("FieldValueRequired", "Required value".to_owned()));
}
