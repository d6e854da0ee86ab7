//! Decodes a patched document into the types of its kind, as Kubernetes does with its built-in kinds.

use serde_json::{Value, json};

use super::document::metadata_text;
use crate::schema::Schema;
use crate::{Error, Key, Resource, Result};

/// Replaces nulls in the metadata of a document as the types of Kubernetes do.
pub fn empty_nulls(document: &mut Value) {
    let Some(metadata) = document.get_mut("metadata") else { return };
    if metadata.is_null() {
        *metadata = json!({});
    }
    for list in ["labels", "annotations"] {
        let entries = metadata.get_mut(list).and_then(Value::as_object_mut).into_iter().flatten();
        entries.filter(|(_, value)| value.is_null()).for_each(|(_, value)| *value = "".into());
    }
}

/// Returns a patched document. One of a built-in kind is decoded into the types of its kind, which give it its version and
/// kind, and then has the uid of the resource.
///
/// # Errors
/// `Mistyped`, and `Invalid` for another uid.
pub(super) fn decoded(key: &Key, current: &Resource, mut changed: Value, schema: Option<&Schema>) -> Result<Value> {
    let Some(schema) = schema.filter(|schema| schema.is_typed()) else { return Ok(changed) };
    if changed.is_null() {
        // A patch can delete the whole document.
        changed = json!({});
    }
    if let Some(fields) = changed.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| key.kind().api_version().into());
        fields.entry("kind").or_insert_with(|| key.kind().name.clone().into());
    }
    empty_nulls(&mut changed);
    schema.check_types(key.kind(), &changed)?;
    let uid = metadata_text(&changed, "uid");
    if !uid.is_empty() && uid != current.uid() {
        return Err(Error::invalid("metadata.uid", format!("Invalid value: {uid:?}: field is immutable")));
    }
    Ok(changed)
}
