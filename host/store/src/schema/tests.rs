mod changes;
mod fill;
mod keywords;
mod properties;
mod rules;
mod structure;

use serde_json::{Value, json};

use super::Schema;

/// A schema with this `spec`.
fn of_spec(spec: Value) -> Schema {
    Schema::parse(&whole(spec)).expect("well formed")
}

fn whole(spec: Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}, "spec": spec,
        },
    })
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "demo.dev/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"x": "y"}}, "spec": spec})
}
