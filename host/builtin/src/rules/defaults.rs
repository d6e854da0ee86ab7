//! Helpers for defaults.

use serde_json::{Map, Value};

/// Returns the fields of an object at a pointer.
pub(super) fn object_at<'d>(document: &'d mut Value, pointer: &str) -> Option<&'d mut Map<String, Value>> {
    document.pointer_mut(pointer)?.as_object_mut()
}

/// Sets a text that is absent or empty. Go does not tell these apart, unless the field is a pointer.
pub(super) fn default_text(fields: &mut Map<String, Value>, name: &str, value: &str) {
    if fields.get(name).is_none_or(|known| known == "") {
        fields.insert(name.to_owned(), value.into());
    }
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

/// Returns which of these fields a document lacks: the pointer of each, or of the outermost object above it that is absent.
/// The paths are those of fields of objects.
pub(super) fn absent(document: &Value, paths: &[&[&str]]) -> Vec<String> {
    let pointers = paths.iter().filter_map(|path| {
        let (mut place, mut pointer) = (document, String::new());
        for name in *path {
            pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            match place.get(name) {
                Some(inner) if !inner.is_null() => place = inner,
                _ => return Some(pointer),
            }
        }
        None
    });
    let mut pointers: Vec<String> = pointers.collect();
    pointers.dedup();
    pointers
}
