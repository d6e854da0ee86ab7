//! Events in the group `events.k8s.io`: the resources of the core group with other names of their fields. Pure.
//!
//! Source: `pkg/apis/core/v1/conversion.go` and `pkg/apis/events/v1/conversion.go` of Kubernetes.

use homeostat_store::Kind;
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

/// Renames the fields of an event, or of a merge patch of one, to those of the core group.
pub(crate) fn to_core(document: Value) -> Value {
    renamed(document, &stored_kind(), |(core, other)| (other, core))
}

/// Renames the fields of a stored event to those of this group.
pub(crate) fn from_core(document: Value) -> Value {
    renamed(document, &kind(), |(core, other)| (core, other))
}

/// Returns the JSON pointer of a selected field in the core group.
pub(crate) fn pointer_to_core(pointer: &str) -> String {
    let rest = pointer.strip_prefix('/').unwrap_or(pointer);
    let (first, below) = rest.split_once('/').map_or((rest, None), |(first, below)| (first, Some(below)));
    let core = FIELDS.iter().find(|(_, other)| *other == first).map_or(first, |(core, _)| core);
    below.map_or_else(|| format!("/{core}"), |below| format!("/{core}/{below}"))
}

/// Returns the path of a field of a stored event, as this group has it.
pub(crate) fn path_from_core(path: &str) -> String {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (first, below) = path.split_at(end);
    let other = FIELDS.iter().find(|(core, _)| *core == first).map_or(first, |(_, other)| other);
    format!("{other}{below}")
}

fn renamed(
    document: Value,
    kind: &Kind,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let Value::Object(fields) = document else { return document };
    let rename = |(name, value): (String, Value)| {
        let known = FIELDS.iter().map(|pair| direction(*pair)).find(|(from, _)| *from == name);
        let value = if name == "apiVersion" { kind.api_version().into() } else { value };
        (known.map_or(name, |(_, to)| to.to_owned()), value)
    };
    Value::Object(fields.into_iter().map(rename).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{from_core, pointer_to_core, to_core};

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
}
