//! Sets the defaults of missing fields.
//!
//! A field gets its default only if the object around it exists. A null that the schema does not allow counts
//! as missing: it is replaced by the default, or removed.

use serde_json::{Map, Value};

use super::Schema;
use crate::{DOCUMENT_BYTES_MAX, Error, Result, validate};

/// Sets the defaults at and below a value.
///
/// # Errors
/// `TooLarge` when the defaults exceed the size of a document: a list of many small items can have large
/// defaults.
pub(super) fn set(schema: &Schema, value: &mut Value, is_resource: bool) -> Result<()> {
    walk(schema, value, is_resource, &mut 0)
}

fn walk(schema: &Schema, value: &mut Value, is_resource: bool, added_bytes: &mut u64) -> Result<()> {
    match value {
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return Ok(()) };
            for item in items {
                replace_null(schema, item, added_bytes)?;
                walk(schema, item, schema.embedded, added_bytes)?;
            }
            Ok(())
        }
        Value::Object(fields) => walk_fields(schema, fields, is_resource, added_bytes),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn walk_fields(
    schema: &Schema,
    fields: &mut Map<String, Value>,
    is_resource: bool,
    added_bytes: &mut u64,
) -> Result<()> {
    let belongs = |name: &str| is_resource && name == "metadata";
    for (name, property) in &schema.properties {
        if let Some(default) = &property.default
            && !fields.contains_key(name)
            && !belongs(name)
        {
            fields.insert(name.clone(), counted(default, added_bytes)?);
        }
    }
    for (name, value) in fields.iter_mut().filter(|(name, _)| !belongs(name)) {
        let Some(schema) = schema.field(name) else { continue };
        replace_null(schema, value, added_bytes)?;
        walk(schema, value, schema.embedded, added_bytes)?;
    }
    fields.retain(|name, value| {
        !value.is_null() || belongs(name) || schema.field(name).is_none_or(|schema| schema.nullable)
    });
    Ok(())
}

fn replace_null(schema: &Schema, value: &mut Value, added_bytes: &mut u64) -> Result<()> {
    if let Some(default) = &schema.default
        && value.is_null()
        && !schema.nullable
    {
        *value = counted(default, added_bytes)?;
    }
    Ok(())
}

/// Returns a copy of a default, and bounds the total size of all copies.
fn counted(default: &Value, added_bytes: &mut u64) -> Result<Value> {
    *added_bytes += validate::bytes(default);
    if *added_bytes > DOCUMENT_BYTES_MAX {
        let what = "the set of defaults in the schema".to_owned();
        return Err(Error::TooLarge { what, bytes: *added_bytes, bytes_max: DOCUMENT_BYTES_MAX });
    }
    Ok(default.clone())
}
