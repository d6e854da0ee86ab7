//! A fast path for writes that leave the owner of every field unchanged: most writers update the fields that
//! they already own. Then only the time of the writer's entry in `managedFields` changes; the rest need not
//! be parsed and written again.

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::Writer;
use super::difference::FieldDiff;
use super::fields::{FieldSet, PathElement};
use crate::Subresource;

/// Updates the time of the writer's entry, if the write changes no owner; returns whether that is so.
///
/// The writer must not apply. The entries are those of a stored document, so they are in order and none of
/// them is empty.
pub(super) fn try_touch(document: &mut Value, difference: &FieldDiff, writer: Writer<'_>) -> bool {
    let FieldDiff { set, removed, gained } = difference;
    if !removed.is_empty() || gained.is_empty() {
        return false;
    }
    let version = super::version(document);
    let entries = document.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"));
    let Some(entries) = entries.and_then(Value::as_array_mut) else { return false };
    let mut own = None;
    for (at, entry) in entries.iter().enumerate() {
        if is_of(entry, writer, &version) {
            own = Some(at);
        } else if entry.get("fieldsV1").is_none_or(|fields| overlaps(fields, set)) {
            return false;
        }
    }
    let Some(entry) = own.and_then(|at| entries.get_mut(at)) else { return false };
    if !entry.get("fieldsV1").is_some_and(|fields| owns_exactly(fields, set, gained)) {
        return false;
    }
    match entry.get_mut("time") {
        Some(Value::String(time)) => writer.time.clone_into(time),
        _ => return false,
    }
    entries.sort_by(|one, other| order(one).cmp(&order(other)));
    true
}

/// Returns whether an entry belongs to a writer in this version.
fn is_of(entry: &Value, writer: Writer<'_>, version: &str) -> bool {
    let Writer { manager, operation, subresource, time: _, schema: _ } = writer;
    text(entry, "manager") == manager
        && text(entry, "operation") == operation.text()
        && text(entry, "subresource") == subresource.map_or("", Subresource::as_str)
        && text(entry, "apiVersion") == version
}

/// Returns the sort key of an entry.
fn order(entry: &Value) -> [&str; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"].map(|field| text(entry, field))
}

fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry.get(field).and_then(Value::as_str).unwrap_or("")
}

/// Returns whether `fieldsV1` has a path at or below a path of a set.
fn overlaps(json: &Value, set: &FieldSet) -> bool {
    set.parts().any(|(element, root)| part(json, element).is_some_and(|part| root.is_owned() || overlaps(part, root)))
}

/// Returns whether `fieldsV1`, at and below every path of a set, equals `gained`.
fn owns_exactly(json: &Value, set: &FieldSet, gained: &FieldSet) -> bool {
    set.parts().all(|(element, root)| match (part(json, element), gained.get(element)) {
        (Some(part), Some(gained)) if root.is_owned() => is_written_as(gained, part),
        (Some(part), Some(gained)) => owns_exactly(part, root, gained),
        _ => false,
    })
}

/// Returns whether `fieldsV1` encodes the same set.
fn is_written_as(fields: &FieldSet, json: &Value) -> bool {
    let Value::Object(parts) = json else { return false };
    let itself = usize::from(parts.contains_key("."));
    fields.is_owned() == (parts.is_empty() || itself > 0)
        && fields.parts().count() == parts.len() - itself
        && fields.parts().all(|(element, below)| part(json, element).is_some_and(|part| is_written_as(below, part)))
}

fn part<'a>(json: &'a Value, element: &PathElement) -> Option<&'a Value> {
    json.get(element.text())
}
