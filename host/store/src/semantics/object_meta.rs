//! The fields of `metadata`, which all kinds share. Other fields are never stored, even if the schema of the
//! kind has them.
//!
//! Source: `ObjectMeta`, `OwnerReference` and `ManagedFieldsEntry` of Kubernetes' `meta/v1`.

use serde_json::{Map, Value};

use crate::path::Path;
use crate::schema::VIOLATIONS_MAX;

const FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

const FIELDS_OF_OWNERS: [&str; 6] = ["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"];

const FIELDS_OF_MANAGERS: [&str; 7] =
    ["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"];

/// The lists of objects in the metadata, and the fields of their items.
const LISTS: [(&str, &[&str]); 2] = [("ownerReferences", &FIELDS_OF_OWNERS), ("managedFields", &FIELDS_OF_MANAGERS)];

/// Drops unknown fields.
pub(super) fn prune(metadata: &mut Map<String, Value>) {
    metadata.retain(|name, _| FIELDS.contains(&name.as_str()));
    for (list, known) in LISTS {
        let items = metadata.get_mut(list).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten().filter_map(Value::as_object_mut) {
            item.retain(|name, _| known.contains(&name.as_str()));
        }
    }
}

/// Returns the paths of unknown fields, at most [`VIOLATIONS_MAX`].
pub(super) fn unknown(document: &Value) -> Vec<String> {
    let Some(Value::Object(metadata)) = document.get("metadata") else { return Vec::new() };
    let path = Path::ROOT.field("metadata");
    let mut found = strangers(metadata, &FIELDS, &path);
    for (list, known) in LISTS {
        let (items, path) = (metadata.get(list).and_then(Value::as_array), path.field(list));
        for (at, item) in items.into_iter().flatten().enumerate() {
            found.extend(item.as_object().map(|item| strangers(item, known, &path.item(at))).unwrap_or_default());
        }
    }
    found.truncate(VIOLATIONS_MAX);
    found
}

fn strangers(fields: &Map<String, Value>, known: &[&str], path: &Path<'_>) -> Vec<String> {
    let strangers = fields.keys().filter(|name| !known.contains(&name.as_str()));
    strangers.map(|name| path.field(name).to_string()).take(VIOLATIONS_MAX).collect()
}
