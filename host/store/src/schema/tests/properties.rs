use proptest::prelude::*;
use serde_json::{Value, json};

use super::{whole, widget};
use crate::patch::tests::json_value;
use crate::schema::{Schema, VIOLATIONS_MAX};

/// Names shared by documents and schemas, so that they match.
fn name() -> impl Strategy<Value = String> {
    "[a-d]"
}

/// A structural schema. A few contradict themselves and are refused.
fn schema() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        (any::<bool>(), any::<i8>()).prop_map(|(nullable, at)| {
            json!({"type": "integer", "nullable": nullable, "minimum": at, "enum": [1, 2, at], "multipleOf": 2})
        }),
        any::<i8>().prop_map(|default| json!({"type": "integer", "default": default, "format": "int32"})),
        "[a-d]{0,2}".prop_map(|default| json!({"type": "string", "default": default, "maxLength": 3})),
        Just(json!({"type": "string", "pattern": "^[a-z]", "format": "date-time", "minLength": 1})),
        Just(json!({"type": "boolean", "nullable": true, "default": null})),
        Just(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
    ];
    scalar.prop_recursive(4, 32, 4, |inner| {
        let entries = prop::collection::btree_map(name(), inner.clone(), 0..4);
        let flags = (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(name()));
        prop_oneof![
            (entries, flags).prop_map(|(properties, (open, embedded, defaulted, required))| {
                let mut schema = json!({"type": "object", "properties": properties, "minProperties": 1});
                schema["x-kubernetes-preserve-unknown-fields"] = json!(open);
                schema["x-kubernetes-embedded-resource"] = json!(embedded);
                if defaulted {
                    schema["default"] = json!({});
                    schema["minProperties"] = Value::Null;
                }
                if let Some(required) = required {
                    schema["oneOf"] = json!([{"required": [required]}, {"required": ["a"]}]);
                }
                schema
            }),
            inner
                .clone()
                .prop_map(|inner| json!({"type": "object", "additionalProperties": inner, "maxProperties": 2})),
            (inner, "atomic|set").prop_map(|(items, list)| {
                json!({"type": "array", "items": items, "x-kubernetes-list-type": list, "maxItems": 2})
            }),
        ]
    })
}

/// A value of a shape that schemas can have.
fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-d]{0,4}".prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 48, 4, |inner| {
        prop_oneof![
            prop::collection::btree_map(name(), inner.clone(), 0..4).prop_map(|fields| json!(fields)),
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_and_defaulting_again_change_nothing(schema in schema(), spec in value()) {
        let Ok(schema) = Schema::parse(&whole(schema)) else { return Ok(()) };
        let mut document = widget(spec);
        let before = document.clone();
        let dropped = schema.prune(&mut document);
        prop_assert_eq!(dropped.is_empty(), before == document);
        let pruned = document.clone();
        prop_assert_eq!(schema.prune(&mut document), Vec::<String>::new());
        prop_assert_eq!(&document, &pruned);
        schema.set_defaults(&mut document).expect("small");
        let filled = document.clone();
        schema.set_defaults(&mut document).expect("small");
        prop_assert_eq!(&document, &filled);
        // Defaults are fields that the schema knows.
        prop_assert_eq!(schema.prune(&mut document), Vec::<String>::new());
        prop_assert_eq!(schema.check(&document), schema.check(&filled));
    }

    #[test]
    fn no_document_makes_a_schema_fail(schema in schema(), spec in json_value()) {
        let Ok(schema) = Schema::parse(&whole(schema)) else { return Ok(()) };
        let mut document = widget(spec);
        for _ in 0..2 {
            prop_assert!(schema.check(&document).len() <= VIOLATIONS_MAX);
            prop_assert!(schema.check(&document["spec"]).len() <= VIOLATIONS_MAX);
            schema.prune(&mut document);
            schema.set_defaults(&mut document).expect("small");
        }
    }

    #[test]
    fn no_text_makes_reading_a_schema_fail(source in json_value(), text in "\\PC{0,20}", pattern in "[\\[\\]{}()^$&~\\\\dwsbB<>a1,:|*+?.-]{0,12}") {
        for source in [source.clone(), whole(source), whole(json!({"type": text, "pattern": text})), whole(json!({"type": "string", "pattern": pattern}))] {
            if let Ok(schema) = Schema::parse(&source) {
                schema.check(&widget(json!(text)));
            }
        }
    }
}
