//! Documents in OpenAPI v2 in the binary form that clients in Go read.
//!
//! Only the fields that [`document`] names are encoded; others are left out.
//!
//! Source: `openapiv2/OpenAPIv2.proto` in `github.com/google/gnostic-models`.

use serde_json::{Map, Value};

use super::wire::{put_bytes, put_double, put_number};

/// The keywords of a schema that are texts, by their field numbers.
const TEXTS: [(&str, u32); 5] = [("$ref", 1), ("format", 2), ("title", 3), ("description", 4), ("pattern", 13)];
/// The keywords of a schema that are doubles.
const DOUBLES: [(&str, u32); 3] = [("multipleOf", 6), ("maximum", 7), ("minimum", 9)];
/// The keywords of a schema that are counts.
const COUNTS: [(&str, u32); 6] = [
    ("maxLength", 11),
    ("minLength", 12),
    ("maxItems", 14),
    ("minItems", 15),
    ("maxProperties", 17),
    ("minProperties", 18),
];
/// The keywords of a schema that are booleans.
const BOOLEANS: [(&str, u32); 3] = [("exclusiveMaximum", 8), ("exclusiveMinimum", 10), ("uniqueItems", 16)];

/// The methods of a path.
const METHODS: [(&str, u32); 5] = [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)];

/// Encodes a document: its information, paths and definitions.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, 1, &document["swagger"]);
    put_message(&mut out, 2, |info| {
        put_text(info, 1, &document["info"]["title"]);
        put_text(info, 2, &document["info"]["version"]);
    });
    put_message(&mut out, 8, |paths| {
        for (name, path) in entries(&document["paths"]) {
            put_named(paths, 2, name, |out| path_item(path, out));
        }
    });
    put_message(&mut out, 9, |definitions| {
        for (name, definition) in entries(&document["definitions"]) {
            put_named(definitions, 1, name, |out| schema(definition, out));
        }
    });
    out
}

fn path_item(path: &Value, out: &mut Vec<u8>) {
    for (method, number) in METHODS {
        if let Some(found) = path.get(method) {
            put_message(out, number, |out| operation(found, out));
        }
    }
}

fn operation(operation: &Value, out: &mut Vec<u8>) {
    items(&operation["produces"]).for_each(|media| put_text(out, 6, media));
    items(&operation["consumes"]).for_each(|media| put_text(out, 7, media));
    for found in items(&operation["parameters"]) {
        // `ParametersItem`, whose first alternative is a `Parameter`.
        put_message(out, 8, |out| put_message(out, 1, |out| parameter(found, out)));
    }
    put_message(out, 9, |responses| {
        for (code, response) in entries(&operation["responses"]) {
            // `ResponseValue`, whose first alternative is a `Response`.
            put_named(responses, 1, code, |out| {
                put_message(out, 1, |out| {
                    put_text(out, 1, &response["description"]);
                    put_message(out, 2, |out| put_message(out, 1, |out| schema(&response["schema"], out)));
                });
            });
        }
    });
    put_extensions(out, 13, operation);
}

/// Encodes a parameter: the body, or one of the query.
fn parameter(parameter: &Value, out: &mut Vec<u8>) {
    if parameter["in"] == "body" {
        return put_message(out, 1, |body| {
            put_text(body, 2, &parameter["name"]);
            put_text(body, 3, &parameter["in"]);
            put_number(body, 4, u64::from(parameter["required"] == true));
            put_message(body, 5, |out| schema(&parameter["schema"], out));
        });
    }
    // `NonBodyParameter`, whose third alternative is a parameter of the query.
    put_message(out, 2, |other| {
        put_message(other, 3, |query| {
            put_text(query, 3, &parameter["in"]);
            put_text(query, 4, &parameter["name"]);
            put_text(query, 6, &parameter["type"]);
        });
    });
}

fn schema(schema_of: &Value, out: &mut Vec<u8>) {
    let field = |name: &str| schema_of.get(name);
    for (name, number) in TEXTS {
        field(name).into_iter().for_each(|text| put_text(out, number, text));
    }
    if let Some(default) = field("default") {
        put_message(out, 5, |any| put_any(any, default));
    }
    for (name, number) in DOUBLES {
        field(name).and_then(Value::as_f64).into_iter().for_each(|value| put_double(out, number, value));
    }
    for (name, number) in BOOLEANS {
        field(name).and_then(Value::as_bool).into_iter().for_each(|value| put_number(out, number, value.into()));
    }
    for (name, number) in COUNTS {
        field(name).and_then(Value::as_u64).into_iter().for_each(|value| put_number(out, number, value));
    }
    items(&schema_of["required"]).for_each(|name| put_text(out, 19, name));
    items(&schema_of["enum"]).for_each(|value| put_message(out, 20, |any| put_any(any, value)));
    if let Some(values) = field("additionalProperties") {
        put_message(out, 21, |out| put_message(out, 1, |out| schema(values, out)));
    }
    if let Some(name) = field("type") {
        put_message(out, 22, |out| put_text(out, 1, name));
    }
    if let Some(item) = field("items") {
        put_message(out, 23, |out| put_message(out, 1, |out| schema(item, out)));
    }
    if let Some(properties) = field("properties") {
        put_message(out, 25, |out| {
            for (name, property) in entries(properties) {
                put_named(out, 1, name, |out| schema(property, out));
            }
        });
    }
    put_extensions(out, 31, schema_of);
}

/// Appends the extensions of an object: the fields whose names begin with `x-`.
fn put_extensions(out: &mut Vec<u8>, number: u32, object: &Value) {
    for (name, value) in entries(object).filter(|(name, _)| name.starts_with("x-")) {
        put_named(out, number, name, |any| put_any(any, value));
    }
}

/// Appends the content of an `Any`: YAML, of which JSON is a part.
fn put_any(any: &mut Vec<u8>, value: &Value) {
    put_bytes(any, 2, value.to_string().as_bytes());
}

fn put_text(out: &mut Vec<u8>, number: u32, text: &Value) {
    put_bytes(out, number, text.as_str().unwrap_or_default().as_bytes());
}

fn put_message(out: &mut Vec<u8>, number: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut message = Vec::new();
    fill(&mut message);
    put_bytes(out, number, &message);
}

/// Appends a named value: a name as field 1, and a message as field 2.
fn put_named(out: &mut Vec<u8>, number: u32, name: &str, fill: impl FnOnce(&mut Vec<u8>)) {
    put_message(out, number, |named| {
        put_bytes(named, 1, name.as_bytes());
        put_message(named, 2, fill);
    });
}

fn entries(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flat_map(Map::iter)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
