//! What the host reads and writes in a document that it has checked: its metadata and its version.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::{WriteContext, object_meta};
use crate::{Key, Resource};

/// Fields of the metadata that the host owns and nobody can write, but that an update or a patch can write `managedFields`.
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

/// Returns the document of a resource in the version that somebody calls it by, which is what they change.
pub(super) fn in_version_of(key: &Key, resource: &Resource) -> Value {
    let mut document = resource.document().clone();
    set(fields(&mut document), "apiVersion", Some(json!(key.kind().api_version())));
    document
}

/// Gives a document the version that documents of its kind are stored in.
pub(super) fn into_stored_version(document: &mut Value, context: &WriteContext) {
    let Some(version) = &context.version.stored else { return };
    let written = document["apiVersion"].as_str().unwrap_or_default();
    let stored = written.split_once('/').map_or_else(|| version.clone(), |(group, _)| format!("{group}/{version}"));
    set(fields(document), "apiVersion", Some(json!(stored)));
}

/// Takes out of a document what its writer cannot write.
pub(super) fn strip_host_owned(document: &mut Value) {
    set(fields(document), "status", None);
    let metadata = metadata(document);
    for field in HOST_OWNED {
        set(metadata, field, None);
    }
    normalize_metadata(metadata);
}

/// Returns what a document says in a text field of its metadata; empty when it says nothing.
pub(super) fn metadata_text<'a>(document: &'a Value, field: &str) -> &'a str {
    document.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or("")
}

/// Writes equal metadata in one way, so that equal documents are equal: what nobody knows is left out, and so is what is empty.
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

/// Writes a time of day as RFC 3339 with whole seconds, as `2026-01-02T03:04:05Z`.
pub(super) fn timestamp(now: SystemTime) -> String {
    // Out of the calendar's range is as good as the beginning of time: it is told to people only.
    let at = jiff::Timestamp::try_from(now).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{at:.0}")
}
