//! Access to the metadata and the version of a validated document.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::{WriteContext, object_meta};
use crate::schema::VersionSchema;
use crate::{Key, Resource, Result};

/// Metadata fields that the host owns and clients cannot write. Exception: an update or a patch can write
/// `managedFields`.
pub const HOST_OWNED: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Returns the document of a resource in the version of `key`, which is the version that the client sees and
/// changes.
pub(super) fn in_version_of(key: &Key, resource: &Resource) -> Value {
    let mut document = resource.document().clone();
    set(fields(&mut document), "apiVersion", Some(json!(key.kind().api_version())));
    document
}

/// Returns the document as a client of this version sees and changes it: without the fields that the version does not know.
pub(super) fn shown_in_version(key: &Key, resource: &Resource, version: &VersionSchema) -> Value {
    let mut document = in_version_of(key, resource);
    if let (Some(_), Some(schema)) = (&version.stored_schema, &version.schema) {
        schema.drop_unknown(&mut document);
    }
    document
}

/// Sets the `apiVersion` of a document to the storage version of its kind, drops the fields that this version does not know,
/// and sets its defaults. A document of a kind with a conversion keeps its version.
///
/// # Errors
/// `TooLarge` when the defaults are too large.
pub(super) fn into_stored_version(document: &mut Value, context: &WriteContext) -> Result<()> {
    let Some(version) = context.version.stored.as_ref().filter(|_| !context.version.converts) else { return Ok(()) };
    let written = document["apiVersion"].as_str().unwrap_or_default();
    let stored = written.split_once('/').map_or_else(|| version.clone(), |(group, _)| format!("{group}/{version}"));
    set(fields(document), "apiVersion", Some(json!(stored)));
    let Some(schema) = &context.version.stored_schema else { return Ok(()) };
    schema.drop_unknown(document);
    schema.set_defaults(document)
}

/// Drops the fields that a client cannot write. Empty fields stay: a manager that applies them owns them.
pub(super) fn strip_host_owned(document: &mut Value) {
    set(fields(document), "status", None);
    let metadata = metadata(document);
    for field in HOST_OWNED {
        set(metadata, field, None);
    }
    object_meta::prune(metadata);
}

/// Returns a string field of the metadata; empty when it is absent.
pub(super) fn metadata_text<'a>(document: &'a Value, field: &str) -> &'a str {
    document.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or("")
}

/// Normalises the metadata, so that equal documents compare equal: drops unknown and empty fields.
pub(super) fn normalize_metadata(metadata: &mut Map<String, Value>) {
    object_meta::prune(metadata);
    for field in ["annotations", "finalizers", "generateName", "labels", "namespace", "ownerReferences"] {
        let empty = match metadata.get(field) {
            Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(entries)) => entries.is_empty(),
            _ => false,
        };
        if empty {
            metadata.remove(field);
        }
    }
}

pub(super) fn set(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => fields.insert(name.to_owned(), value),
        None => fields.remove(name),
    };
}

pub(super) fn fields(document: &mut Value) -> &mut Map<String, Value> {
    document.as_object_mut().expect("the document was validated")
}

pub(super) fn metadata(document: &mut Value) -> &mut Map<String, Value> {
    fields(document).get_mut("metadata").and_then(Value::as_object_mut).expect("the document was validated")
}

/// Formats a time as RFC 3339 with whole seconds, as `2026-01-02T03:04:05Z`.
pub(super) fn timestamp(now: SystemTime) -> String {
    // A time outside the calendar's range becomes the epoch: it is only for display.
    let at = jiff::Timestamp::try_from(now).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{at:.0}")
}
