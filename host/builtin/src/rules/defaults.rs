//! Helpers for defaults.

use serde_json::{Map, Value};

/// Returns the fields of an object at a pointer.
pub(super) fn object_at<'d>(document: &'d mut Value, pointer: &str) -> Option<&'d mut Map<String, Value>> {
    document.pointer_mut(pointer)?.as_object_mut()
}

/// Sets a field that is absent.
pub(super) fn default(fields: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if !fields.contains_key(name) {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Gives a resource the labels of its template, if it has none.
pub(super) fn labels_of_template(resource: &mut Value) {
    let Some(labels) = resource.pointer("/spec/template/metadata/labels").cloned() else { return };
    let has_labels = |labels: &Value| labels.as_object().is_some_and(|labels| !labels.is_empty());
    if !has_labels(&labels) || resource.pointer("/metadata/labels").is_some_and(has_labels) {
        return;
    }
    if let Some(metadata) = object_at(resource, "/metadata") {
        metadata.insert("labels".to_owned(), labels);
    }
}
