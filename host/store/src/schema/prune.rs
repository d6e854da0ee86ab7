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
            fields.retain(|name, _| {
                let stays = schema.keeps_unknown() || schema.properties.contains_key(name) || belongs(name);
                if !stays && dropped.len() < VIOLATIONS_MAX {
                    dropped.push(path.field(name).to_string());
                }
                stays
            });
            for (name, value) in fields.iter_mut().filter(|(name, _)| !belongs(name)) {
                if let Some(property) = schema.properties.get(name) {
                    walk(property, value, &path.field(name), property.embedded, dropped);
                } else if let Some(additional) = &schema.additional {
                    walk(additional, value, &path.key(name), additional.embedded, dropped);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
