use serde_json::json;

use super::*;

fn kind() -> Kind {
    Kind::new("demo.dev", "v1", "Widget")
}

/// `spec.size` has a default, `spec.parts` is a list by name, `spec.words` a set, and `spec.colors` and `spec.rest` have one
/// owner.
fn schemas() -> Schemas {
    let text = json!({ "type": "string" });
    let part = json!({
        "type": "object", "required": ["name"],
        "properties": { "name": text, "hue": { "type": "string", "default": "red" }, "words": { "type": "array", "items": text } },
    });
    let spec = json!({ "type": "object", "properties": {
        "size": { "type": "integer", "default": 5 },
        "parts": {
            "type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        },
        "words": { "type": "array", "items": text, "x-kubernetes-list-type": "set" },
        "colors": { "type": "array", "items": text },
        "rest": { "type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text },
    } });
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    let schemas = Schemas::default();
    schemas.set(&kind(), [("v1".to_owned(), Some(Schema::parse(&schema).expect("well formed")))]);
    schemas
}

fn widget() -> Value {
    json!({
        "apiVersion": "demo.dev/v1", "kind": "Widget", "metadata": { "name": "a", "labels": { "a": "b" } },
        "spec": { "size": 5, "parts": [{ "name": "x", "hue": "red" }], "words": ["one"], "colors": ["red"] },
    })
}

/// Returns the specification or the error after a mutation.
fn after(mutation: &Mutation) -> Result<Value, String> {
    let changed = mutated(&schemas(), &kind(), &widget(), None, None, mutation);
    changed.map(|changed| changed["spec"].clone()).map_err(|error| error.to_string())
}

fn applied_spec(spec: Value) -> Result<Value, String> {
    after(&Mutation::ApplyConfiguration(json!({ "spec": spec })))
}

#[test]
fn a_configuration_is_merged_and_defaulted() {
    let changed = applied_spec(
        json!({ "size": 7, "parts": [{ "name": "y" }, { "name": "x", "hue": "blue" }], "words": ["two"] }),
    );
    let expected = json!({
        "size": 7, "parts": [{ "name": "y", "hue": "red" }, { "name": "x", "hue": "blue" }], "words": ["one", "two"],
        "colors": ["red"],
    });
    assert_eq!(
        changed.map(|mut spec| {
            spec["words"].as_array_mut().unwrap().sort_by_key(Value::to_string);
            spec
        }),
        Ok(expected)
    );
    let configuration = json!({ "metadata": { "labels": { "c": "d" }, "finalizers": ["demo.dev/f"] } });
    let changed = mutated(&schemas(), &kind(), &widget(), None, None, &Mutation::ApplyConfiguration(configuration));
    let metadata = json!({ "name": "a", "labels": { "a": "b", "c": "d" }, "finalizers": ["demo.dev/f"] });
    assert_eq!(changed.map(|changed| changed["metadata"].clone()), Ok(metadata));
}

#[test]
fn a_configuration_that_does_not_fit_is_refused() {
    let convert = "error applying patch: failed to convert patch object to typed object";
    let atomic = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs";
    let cases = [
        (json!({ "sizes": 1 }), format!("{convert}: .spec.sizes: field not declared in schema")),
        (json!({ "size": "7" }), format!("{convert}: .spec.size: expected numeric (int or float), got string")),
        (
            json!({ "a": 1, "b": 2 }),
            format!(
                "{convert}: errors:\n  .spec.a: field not declared in schema\n  .spec.b: field not declared in schema"
            ),
        ),
        (json!({ "colors": ["blue"], "rest": { "x": "y" } }), format!("{atomic}: .spec.colors, .spec.rest")),
        (json!({ "parts": [{ "name": "x", "words": ["w"] }] }), format!("{atomic}: .spec.parts[0].words")),
    ];
    for (spec, reason) in cases {
        assert_eq!(applied_spec(spec.clone()), Err(reason), "{spec}");
    }
    assert!(applied_spec(json!({ "parts": [{ "hue": "blue" }] })).is_err());
}

#[test]
fn a_json_patch_is_applied_as_a_whole() {
    let patch = |operations: Value| after(&Mutation::JsonPatch(operations));
    let changed = patch(json!([
        { "op": "remove", "path": "/spec/size" }, { "op": "add", "path": "/spec/parts/-", "value": { "name": "y" } },
    ]));
    let changed = changed.expect("it fits");
    assert_eq!((&changed["size"], &changed["parts"][1]["hue"]), (&json!(5), &json!("red")));
    let failed = json!([
        { "op": "replace", "path": "/spec/size", "value": 9 }, { "op": "test", "path": "/spec/size", "value": 8 },
    ]);
    assert_eq!(patch(failed), Ok(widget()["spec"].clone()));
    let unfit = patch(json!([{ "op": "replace", "path": "/spec/parts/7/hue", "value": 1 }])).unwrap_err();
    assert!(unfit.starts_with("JSON Patch: patch[0]: does not fit"), "{unfit}");
    assert!(patch(json!([{ "op": "replace", "path": "", "value": 1 }])).is_err());
}

#[test]
fn mutations_nest_a_document_only_as_deep_as_a_write() {
    let schemas = Schemas::default();
    let mut document = widget();
    let refused = (0..300).find_map(|_| {
        let nested = (0..20).fold(document["spec"].clone(), |inner, _| json!([inner]));
        let mutation = Mutation::JsonPatch(json!([{ "op": "add", "path": "/spec", "value": nested }]));
        let configuration = Mutation::ApplyConfiguration(json!({ "spec": { "in": { "in": document["spec"] } } }));
        for mutation in [mutation, configuration] {
            match mutated(&schemas, &kind(), &document, None, None, &mutation) {
                Ok(changed) => document = changed,
                Err(error) => return Some(error.to_string()),
            }
        }
        None
    });
    assert!(refused.unwrap().contains("nest"));
}

#[test]
fn a_list_is_no_configuration() {
    let refused = after(&Mutation::ApplyConfiguration(json!([]))).unwrap_err();
    assert_eq!(refused, "error applying patch: the expression returned a list");
}
