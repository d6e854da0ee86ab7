//! Brings documents of built-in kinds into the form in which Kubernetes stores them.
//!
//! A null counts as absent, except in a map. Empty values are dropped where the type of Go omits them. Quantities and times have one
//! form each. Documents of other kinds stay unchanged.

use homeostat_cel::quantity;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde_json::Value;

use super::format::Format;
use super::{Schema, ValueType};

/// Normalises a value of a built-in kind.
pub(super) fn normalize(schema: &Schema, value: &mut Value, is_resource: bool) {
    if schema.typed.is_some() {
        walk(schema, value, is_resource);
    }
}

fn walk(schema: &Schema, value: &mut Value, is_resource: bool) {
    match value {
        Value::Object(_) if schema.open => {}
        Value::Object(fields) => {
            let belongs = |name: &str| is_resource && matches!(name, "apiVersion" | "kind" | "metadata");
            fields.retain(|name, field| {
                if belongs(name) {
                    return true;
                }
                if field.is_null() {
                    // An entry of a map becomes the empty value of its type.
                    let Some(empty) = schema.additional.as_deref().and_then(empty_entry) else { return false };
                    *field = empty;
                    return true;
                }
                let Some(schema) = schema.field(name) else { return true };
                walk(schema, field, false);
                !(schema.typed.as_ref().is_some_and(|typed| typed.omit_empty) && is_empty(field))
            });
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            items.iter_mut().for_each(|item| walk(schema, item, false));
        }
        Value::Number(_) | Value::String(_) if schema.value_type == Some(ValueType::Quantity) => {
            if let Some(canonical) = quantity::canonical(value) {
                *value = canonical.into();
            }
        }
        Value::String(text) => {
            if let Some(canonical) = schema.limits.as_ref().and_then(|limits| time(limits.format?, text)) {
                *text = canonical;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the value that Go decodes from a null in a map.
fn empty_entry(schema: &Schema) -> Option<Value> {
    match schema.value_type? {
        ValueType::Quantity => Some("0".into()),
        ValueType::String => Some("".into()),
        ValueType::Object => Some(Value::Object(serde_json::Map::new())),
        _ => None,
    }
}

/// Returns a time in UTC, in seconds or microseconds; `None` if it is none.
fn time(format: Format, text: &str) -> Option<String> {
    let digits = match format {
        Format::DateTime => 0,
        Format::MicroTime => 6,
        _ => return None,
    };
    let moment: Timestamp = text.parse().ok()?;
    let printer = DateTimePrinter::new().precision(Some(digits));
    Some(printer.timestamp_to_string(&moment))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
