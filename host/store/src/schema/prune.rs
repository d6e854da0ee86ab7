//! Prunes unknown fields.

use serde_json::Value;

use super::{Schema, VIOLATIONS_MAX};
use crate::path::Path;

/// Removes unknown fields at and below a value, and returns the paths of the first of them.
pub(super) fn prune(schema: &Schema, value: &mut Value, path: &Path<'_>, is_resource: bool) -> Vec<String> {
    let mut dropped = Vec::new();
    walk(schema, value, path, is_resource, &mut dropped);
    dropped
}

fn walk(schema: &Schema, value: &mut Value, path: &Path<'_>, is_resource: bool, dropped: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for (at, item) in items.iter_mut().enumerate() {
                walk(schema, item, &path.item(at), schema.embedded, dropped);
            }
        }
        Value::Object(fields) => {
            let belongs = |name: &str| is_resource && matches!(name, "apiVersion" | "kind" | "metadata");
            fields.retain(|name, value| {
                let path = path.field(name);
                let known = schema.properties.get(name).or(schema.additional.as_deref());
                if belongs(name) {
                    return true;
                }
                if let Some(known) = known {
                    walk(known, value, &path, known.embedded, dropped);
                }
                let stays = schema.keeps_unknown() || known.is_some();
                if !stays && dropped.len() < VIOLATIONS_MAX {
                    dropped.push(path.to_string());
                }
                stays
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
