//! The description of all kinds in OpenAPI v2, made of the descriptions in v3. Pure.
//!
//! Source: `k8s.io/kube-openapi` and `ToStructuralOpenAPIV2` of Kubernetes, for what v2 leaves out.

use std::collections::BTreeSet;

use homeostat_runtime::KindInfo;
use serde_json::{Map, Value, json};

use super::{Description, group_version_path, information};

/// The keywords of a schema that v2 has, besides those that need a conversion and extensions.
const KEYWORDS: [&str; 20] = [
    "format",
    "title",
    "description",
    "default",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "required",
    "enum",
    "type",
];

/// The place of the schemas in a document of v3, and in one of v2.
const PLACES: (&str, &str) = ("#/components/schemas/", "#/definitions/");

/// Returns the document of all kinds.
pub(super) fn document(kinds: &[KindInfo]) -> Value {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    let served = kinds.iter().filter(|info| !info.keys_only);
    for path in served.map(group_version_path).collect::<BTreeSet<String>>() {
        let described = Description::of(kinds, &path);
        paths.extend(described.paths.into_iter().map(|(path, item)| (path, path_item(item))));
        definitions.extend(described.schemas.into_iter().map(|(name, schema)| (name, definition_of(schema))));
    }
    json!({ "swagger": "2.0", "info": information(), "paths": paths, "definitions": definitions })
}

fn path_item(item: Value) -> Value {
    let Value::Object(operations) = item else { return item };
    Value::Object(operations.into_iter().map(|(method, found)| (method, operation(found))).collect())
}

/// Converts an operation. The body is a parameter in v2.
fn operation(mut operation: Value) -> Value {
    let Some(fields) = operation.as_object_mut() else { return operation };
    let mut parameters = Vec::new();
    if let Some(body) = fields.remove("requestBody") {
        let content = body["content"].as_object().cloned().unwrap_or_default();
        fields.insert("consumes".to_owned(), content.keys().cloned().collect());
        let schema = content.into_values().next().map(|media| schema_of(media["schema"].clone()));
        parameters.push(json!({ "name": "body", "in": "body", "required": true, "schema": schema }));
    }
    if let Some(Value::Array(of_query)) = fields.remove("parameters") {
        parameters.extend(
            of_query.iter().map(
                |found| json!({ "name": found["name"], "in": found["in"], "type": "string", "uniqueItems": true }),
            ),
        );
    }
    if !parameters.is_empty() {
        fields.insert("parameters".to_owned(), parameters.into());
    }
    fields.insert("produces".to_owned(), json!(["application/json"]));
    let responses = fields.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten();
    for (_, response) in responses {
        let schema = schema_of(response["content"]["application/json"]["schema"].take());
        *response = json!({ "description": response["description"], "schema": schema });
    }
    operation
}

/// Converts the schema of a kind. Of one that takes unknown fields, only its type and its kinds are left, since clients
/// would refuse the fields that it does not name.
fn definition_of(schema: Value) -> Value {
    const KINDS: &str = "x-kubernetes-group-version-kind";
    if schema["x-kubernetes-preserve-unknown-fields"] != true {
        // A quantity, or a number or text: v2 has no words for several types.
        let has_several_types = schema.get("type").is_none() && schema.get("oneOf").is_some();
        let mut definition = schema_of(schema);
        if has_several_types {
            definition["type"] = "string".into();
        }
        return definition;
    }
    let mut definition = json!({ "type": "object" });
    if let Some(kinds) = schema.get(KINDS) {
        definition[KINDS] = kinds.clone();
    }
    definition
}

/// Converts a schema, and drops what v2 has no keyword for.
fn schema_of(schema: Value) -> Value {
    let Value::Object(fields) = schema else { return json!({}) };
    let is_set = |name: &str| fields.get(name).is_some_and(|value| *value == true);
    // Clients would refuse a null, or fields that the schema does not have.
    let has_any_value = is_set("nullable") || is_set("x-kubernetes-preserve-unknown-fields");
    let mut converted = Map::new();
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("type" | "properties" | "items" | "additionalProperties" | "required", _) if has_any_value => {}
            ("$ref", Value::String(target)) => drop(converted.insert(name, reference(&target))),
            // A description stands beside a reference in v2.
            ("allOf", Value::Array(parts)) => {
                if let [Value::Object(part)] = parts.as_slice()
                    && let Some(Value::String(target)) = part.get("$ref")
                {
                    converted.insert("$ref".to_owned(), reference(target));
                }
            }
            ("items" | "additionalProperties", value @ Value::Object(_)) => {
                converted.insert(name, schema_of(value));
            }
            ("properties", Value::Object(properties)) => {
                let properties = properties.into_iter().map(|(name, property)| (name, schema_of(property)));
                converted.insert(name, Value::Object(properties.collect()));
            }
            (keyword, value) if KEYWORDS.contains(&keyword) || keyword.starts_with("x-") => {
                converted.insert(name, value);
            }
            _ => {}
        }
    }
    // Clients expect the items of each array.
    if converted.get("type").is_some_and(|name| name == "array") {
        converted.entry("items").or_insert_with(|| json!({}));
    }
    Value::Object(converted)
}

fn reference(target: &str) -> Value {
    let (from, to) = PLACES;
    target.strip_prefix(from).map_or_else(|| target.to_owned(), |name| format!("{to}{name}")).into()
}
