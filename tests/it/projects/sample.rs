//! Generates a value that a schema mostly accepts.

use homeostat_testing::Dice;
use serde_json::{Map, Value, json};

const TEXTS: [&str; 9] = ["a", "name", "10s", "1Gi", "http", "https://a.b/c", "example.com", "v1", "10.0.0.1"];

/// Generates a value by its schema. Deeper parts are rarer; `depth` is that of the value.
pub(super) fn sample(schema: &Value, depth: u64, dice: &mut Dice) -> Value {
    if let Some(value) = schema["enum"].as_array().and_then(|values| dice.one(values)) {
        return value.clone();
    }
    if let Some(default) = schema.get("default").filter(|_| dice.below(2) == 0) {
        return default.clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if dice.below(2) == 0 { json!(1) } else { json!("10%") };
    }
    match schema["type"].as_str().unwrap_or_default() {
        "array" => {
            let least = schema["minItems"].as_u64().unwrap_or(0);
            let count = least.max(dice.below(2)).min(3);
            (0..count).map(|_| sample(&schema["items"], depth + 1, dice)).collect()
        }
        "string" => text(schema, dice),
        "integer" => {
            let bound = |name: &str, other: i64| schema[name].as_i64().unwrap_or(other);
            let drawn = dice.one(&[0, 1, 3, 80]).copied().unwrap_or_default();
            json!(drawn.min(bound("maximum", i64::MAX)).max(bound("minimum", 0)))
        }
        "number" => json!(1.5),
        "boolean" => json!(dice.below(2) == 0),
        _ => object(schema, depth, dice),
    }
}

fn object(schema: &Value, depth: u64, dice: &mut Dice) -> Value {
    let mut fields = Map::new();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let chance = 30_u64.saturating_sub(8 * depth).max(3);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if dice.percent(chance) || required.contains(&json!(name)) {
            fields.insert(name.clone(), sample(property, depth + 1, dice));
        }
    }
    if schema["additionalProperties"].is_object() && dice.below(2) == 0 {
        fields.insert("key".to_owned(), sample(&schema["additionalProperties"], depth + 1, dice));
    }
    Value::Object(fields)
}

fn text(schema: &Value, dice: &mut Dice) -> Value {
    match schema["format"].as_str().unwrap_or_default() {
        "date-time" => json!("2026-01-01T00:00:00Z"),
        "duration" => json!("5s"),
        _ => json!(dice.one(&TEXTS)),
    }
}
