//! Finds the unknown fields of a write. They are dropped, and a client may want a warning.

use serde_json::{Value, json};

use super::{object_meta, shown_in_version};
use crate::schema::{Schema, VIOLATIONS_MAX, VersionSchema};
use crate::{Key, Resource, Write, patch};

/// Returns the paths of the fields that a write would set and that neither the metadata nor the schema knows;
/// at most [`VIOLATIONS_MAX`].
///
/// Returns none for a patch that does not apply: the write itself fails.
pub fn unknown_fields(key: &Key, current: Option<&Resource>, write: &Write, version: &VersionSchema) -> Vec<String> {
    let schema = version.schema.as_deref();
    match write {
        Write::Create { document } | Write::Update { document, .. } | Write::Apply { document, .. } => {
            unknown_fields_of(document, schema)
        }
        Write::ApplyStatus { document, .. } => of_status(document, schema),
        Write::UpdateStatus { status, .. } => of_status(&json!({ "status": status }), schema),
        Write::Patch { change, .. } | Write::PatchStatus { change, .. } => {
            let Some(current) = current else { return Vec::new() };
            let mut changed =
                patch::change(&shown_in_version(key, current, version), change, schema).unwrap_or_default();
            if matches!(write, Write::PatchStatus { .. }) {
                // A stored resource of a built-in kind has no unknown fields.
                let is_typed = schema.is_some_and(Schema::is_typed);
                return if is_typed { unknown_fields_of(&changed, schema) } else { of_status(&changed, schema) };
            }
            // The patch does not change the status.
            if let Some(fields) = changed.as_object_mut() {
                fields.remove("status");
            }
            unknown_fields_of(&changed, schema)
        }
        Write::Delete { .. } => Vec::new(),
    }
}

/// Returns the paths of the fields of a document that neither the metadata nor the schema knows; at most [`VIOLATIONS_MAX`].
pub fn unknown_fields_of(document: &Value, schema: Option<&Schema>) -> Vec<String> {
    let mut found = schema.map(|schema| schema.prune(&mut document.clone())).unwrap_or_default();
    // The fields are in the order of the document.
    let is_before = |path: &String| path.split(['.', '[']).next().is_some_and(|first| first < "metadata");
    let at = found.iter().take_while(|path| is_before(path)).count();
    found.splice(at..at, object_meta::unknown(document));
    found.truncate(VIOLATIONS_MAX);
    found
}

fn of_status(document: &Value, schema: Option<&Schema>) -> Vec<String> {
    unknown_fields_of(&json!({ "status": document.get("status") }), schema)
}
