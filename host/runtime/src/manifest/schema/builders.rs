//! Schemas of single values, with the words that explain them.

use serde_json::{Map, Value, json};

/// How a length of time is written.
pub(super) const SPAN: &str = "as 250ms, 5s, 10m, 1h or 1h30m";

/// Returns the schema of an object with these fields.
pub(super) fn object<const N: usize>(words: &str, properties: [(&str, Value); N]) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({ "description": words, "type": "object", "properties": properties })
}

/// Returns the schema of an object with any fields.
pub(super) fn open(words: &str) -> Value {
    json!({ "description": words, "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Returns the schema of a map from names to texts.
pub(super) fn map(words: &str) -> Value {
    json!({ "description": words, "type": "object", "additionalProperties": { "type": "string" } })
}

/// Returns the schema of a list.
pub(super) fn list(words: &str, items: Value) -> Value {
    json!({ "description": words, "type": "array", "items": items })
}

/// Returns the schema of a list of texts.
pub(super) fn texts(words: &str) -> Value {
    list(words, json!({ "type": "string" }))
}

/// Returns the schema of a text.
pub(super) fn text(words: &str) -> Value {
    json!({ "description": words, "type": "string" })
}

/// Returns the schema of a length of time.
pub(super) fn span(words: &str) -> Value {
    text(&format!("{words}, {SPAN}"))
}

/// Returns the schema of a whole number.
pub(super) fn number(words: &str) -> Value {
    json!({ "description": words, "type": "integer" })
}

/// Returns the schema of a boolean.
pub(super) fn flag(words: &str) -> Value {
    json!({ "description": words, "type": "boolean" })
}
