//! Events in the group `events.k8s.io`: the resources of the core group with other names of their fields. Pure.
//!
//! Source: `pkg/apis/core/v1/conversion.go` and `pkg/apis/events/v1/conversion.go` of Kubernetes.

use homeostat_store::{Error, Kind};
use serde_json::{Map, Value};

/// The group.
pub(crate) const GROUP: &str = "events.k8s.io";

/// The fields with other names: in the core group, and in this one.
const FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Returns the kind of events in this group.
pub(crate) fn kind() -> Kind {
    Kind::new(GROUP, "v1", "Event")
}

/// Returns the kind of events in the core group, which is stored.
pub(crate) fn stored_kind() -> Kind {
    Kind::new("", "v1", "Event")
}

/// Renames the fields of an event, or of a merge patch of one, to those of the core group. The operations of a JSON patch
/// get the paths of that group.
pub(crate) fn to_core(document: Value) -> Value {
    match document {
        Value::Array(operations) => operations.into_iter().map(operation_to_core).collect(),
        document => renamed(document, &stored_kind()),
    }
}

/// Renames the fields of a stored event to those of this group.
pub(crate) fn from_core(document: Value) -> Value {
    renamed(document, &kind())
}

/// Returns the JSON pointer of a field in the core group. As in Kubernetes, text before the first slash does not count.
pub(crate) fn pointer_to_core(pointer: &str) -> String {
    let Some((_, rest)) = pointer.split_once('/') else { return pointer.to_owned() };
    let mut names: Vec<&str> = rest.split('/').collect();
    let owned = match names.as_slice() {
        ["metadata", "managedFields", _, "fieldsV1", field, ..] => field.strip_prefix("f:").map(other_name),
        _ => None,
    };
    let owned = owned.map(|field| format!("f:{field}"));
    match &owned {
        Some(field) => names[4] = field,
        None => names[0] = other_name(names[0]),
    }
    format!("/{}", names.join("/"))
}

/// Returns the path of a field of a stored event, as this group has it.
pub(crate) fn path_from_core(path: &str) -> String {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (first, below) = path.split_at(end);
    format!("{}{below}", other_name(first))
}

/// Returns the name of a field in the other group. A name that one group alone knows belongs to an unknown field in the other:
/// it gets the name that is unknown there, and none gets the name of another field.
fn other_name(name: &str) -> &str {
    let other = |(core, other): &(&'static str, &'static str)| match name {
        name if name == *core => Some(*other),
        name if name == *other => Some(*core),
        _ => None,
    };
    FIELDS.iter().find_map(other).unwrap_or(name)
}

fn renamed(document: Value, kind: &Kind) -> Value {
    let Value::Object(fields) = document else { return document };
    let rename = |(name, value): (String, Value)| {
        let value = match name.as_str() {
            "apiVersion" => kind.api_version().into(),
            "metadata" => with_owners(value, kind),
            _ => value,
        };
        (other_name(&name).to_owned(), value)
    };
    Value::Object(fields.into_iter().map(rename).collect::<Map<_, _>>())
}

/// Renames the fields in `managedFields`.
fn with_owners(mut metadata: Value, kind: &Kind) -> Value {
    let owners = metadata.get_mut("managedFields").and_then(Value::as_array_mut);
    owners.into_iter().flatten().for_each(|owner| rename_owner(owner, kind));
    metadata
}

/// Renames the fields in one entry of `managedFields`.
fn rename_owner(owner: &mut Value, kind: &Kind) {
    let Some(owner) = owner.as_object_mut() else { return };
    if let Some(version) = owner.get_mut("apiVersion") {
        *version = kind.api_version().into();
    }
    if let Some(fields) = owner.get_mut("fieldsV1") {
        rename_owned(fields);
    }
}

fn rename_owned(fields: &mut Value) {
    let Some(fields) = fields.as_object_mut() else { return };
    let rename = |(name, value): (String, Value)| match name.strip_prefix("f:") {
        Some(field) => (format!("f:{}", other_name(field)), value),
        None => (name, value),
    };
    *fields = std::mem::take(fields).into_iter().map(rename).collect();
}

/// Names unknown fields and those of a conflict as this group does, and the version that their managers wrote.
pub(crate) fn error_from_core(error: Error) -> Error {
    let (key, mut conflicts) = match error {
        Error::UnknownFields { fields } => {
            return Error::UnknownFields { fields: fields.iter().map(|path| path_from_core(path)).collect() };
        }
        Error::ApplyConflict { key, conflicts } => (key, conflicts),
        error => return error,
    };
    for conflict in &mut conflicts {
        conflict.field = format!(".{}", path_from_core(conflict.field.trim_start_matches('.')));
        conflict.version = conflict.version.take().map(|_| kind().api_version());
    }
    // The fields of one manager are in the order of their names.
    for owned in conflicts.chunk_by_mut(|one, next| one.owner() == next.owner()) {
        owned.sort_by(|one, other| one.field.cmp(&other.field));
    }
    Error::ApplyConflict { key, conflicts }
}

fn operation_to_core(operation: Value) -> Value {
    let Value::Object(mut operation) = operation else { return operation };
    let path = operation.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
    let names: Vec<&str> = path.split('/').skip(1).collect();
    if let Some(value) = operation.get_mut("value") {
        match names.as_slice() {
            [] => *value = to_core(std::mem::take(value)),
            ["apiVersion"] | ["metadata", "managedFields", _, "apiVersion"] if *value == kind().api_version() => {
                *value = stored_kind().api_version().into();
            }
            ["metadata"] => *value = with_owners(std::mem::take(value), &stored_kind()),
            ["metadata", "managedFields"] => {
                let owners = value.as_array_mut().into_iter().flatten();
                owners.for_each(|owner| rename_owner(owner, &stored_kind()));
            }
            ["metadata", "managedFields", _] => rename_owner(value, &stored_kind()),
            ["metadata", "managedFields", _, "fieldsV1"] => rename_owned(value),
            _ => {}
        }
    }
    for name in ["path", "from"] {
        if let Some(Value::String(pointer)) = operation.get_mut(name) {
            *pointer = pointer_to_core(pointer);
        }
    }
    operation.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{from_core, path_from_core, pointer_to_core, to_core};

    #[test]
    fn fields_have_other_names_in_each_group() {
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "e" },
            "regarding": { "name": "p" }, "note": "it started", "reportingController": "c", "reason": "Started",
        });
        let core = to_core(event.clone());
        assert_eq!((&core["apiVersion"], &core["involvedObject"]["name"]), (&json!("v1"), &json!("p")));
        assert_eq!((&core["message"], &core["reason"]), (&json!("it started"), &json!("Started")));
        assert_eq!(from_core(core), event);
        assert_eq!(pointer_to_core("/regarding/name"), "/involvedObject/name");
        assert_eq!(pointer_to_core("/metadata/name"), "/metadata/name");
    }

    #[test]
    fn a_field_of_the_other_group_is_unknown_and_not_another_field() {
        let core = to_core(json!({ "note": "a", "message": "b" }));
        assert_eq!(core, json!({ "message": "a", "note": "b" }));
        assert_eq!((path_from_core("note"), path_from_core("message.x")), ("message".to_owned(), "note.x".to_owned()));
    }

    #[test]
    fn a_json_patch_has_the_paths_of_the_core_group() {
        let patch = json!([
            { "op": "test", "path": "/apiVersion", "value": "events.k8s.io/v1" },
            { "op": "replace", "path": "/regarding/name", "value": "q" },
            { "op": "copy", "from": "/note", "path": "/metadata/annotations/note" },
            { "op": "replace", "path": "", "value": { "note": "n" } },
            { "op": "test", "path": "x/note", "value": "n" },
            { "op": "remove", "path": "/metadata/managedFields/0/fieldsV1/f:note" },
            { "op": "add", "path": "/metadata/managedFields/-", "value": { "apiVersion": "events.k8s.io/v1", "fieldsV1": { "f:note": {} } } },
            { "op": "replace", "path": "/metadata/managedFields", "value": [{ "fieldsV1": { "f:regarding": {} } }] },
            "no operation",
        ]);
        let core = json!([
            { "op": "test", "path": "/apiVersion", "value": "v1" },
            { "op": "replace", "path": "/involvedObject/name", "value": "q" },
            { "op": "copy", "from": "/message", "path": "/metadata/annotations/note" },
            { "op": "replace", "path": "", "value": { "message": "n" } },
            { "op": "test", "path": "/message", "value": "n" },
            { "op": "remove", "path": "/metadata/managedFields/0/fieldsV1/f:message" },
            { "op": "add", "path": "/metadata/managedFields/-", "value": { "apiVersion": "v1", "fieldsV1": { "f:message": {} } } },
            { "op": "replace", "path": "/metadata/managedFields", "value": [{ "fieldsV1": { "f:involvedObject": {} } }] },
            "no operation",
        ]);
        assert_eq!(to_core(patch), core);
    }

    #[test]
    fn the_owners_of_fields_have_the_names_of_the_group() {
        let owners = |version: &str, field: &str| {
            let fields = json!({ "f:metadata": {}, field: {} });
            json!({ "metadata": { "managedFields": [{ "apiVersion": version, "manager": "m", "fieldsV1": fields }] } })
        };
        assert_eq!(from_core(owners("v1", "f:message")), owners("events.k8s.io/v1", "f:note"));
        assert_eq!(to_core(owners("events.k8s.io/v1", "f:note")), owners("v1", "f:message"));
    }
}
