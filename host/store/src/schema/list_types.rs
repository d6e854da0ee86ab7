//! Checks that lists whose items have identities repeat none. Source: `x-kubernetes-list-type`.

use std::collections::HashMap;

use serde_json::Value;

use super::correlation::identity;
use super::{ListType, Reason, Schema, Violation};
use crate::path::{Path, shortened};
use crate::violation::{VALUE_CHARS_MAX, VIOLATIONS_MAX, shown};

/// Returns the violations of the lists at or below a value. The rules of built-in kinds find their own.
pub(super) fn check(schema: &Schema, value: &Value, path: &Path<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    if !schema.is_typed() {
        check_value(schema, value, path, &mut found);
    }
    found
}

fn check_value(schema: &Schema, value: &Value, path: &Path<'_>, found: &mut Vec<Violation>) {
    if found.len() >= VIOLATIONS_MAX {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(schema) = schema.field(name) {
                    check_value(schema, value, &path.field(name), found);
                }
            }
        }
        Value::Array(items) => {
            check_list(&schema.list, items, path, found);
            let Some(schema) = schema.items() else { return };
            for (at, item) in items.iter().enumerate() {
                check_value(schema, item, &path.item(at), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_list(list: &ListType, items: &[Value], path: &Path<'_>, found: &mut Vec<Violation>) {
    let room = VIOLATIONS_MAX - found.len();
    match list {
        ListType::Atomic => {}
        ListType::Set => found.extend(duplicates(items, path, Value::to_string, shown).take(room)),
        ListType::Map(keys) => match items.iter().position(|item| !item.is_object() && !item.is_null()) {
            Some(at) => {
                let shown = match &items[at] {
                    Value::Array(_) => shortened(&items[at].to_string(), VALUE_CHARS_MAX),
                    other => shown(other),
                };
                let detail = format!("{shown}: must be an object for an array of list-type map");
                found.push(Violation { path: path.item(at).to_string(), reason: Reason::Invalid, detail });
            }
            None => {
                let identity = |item: &Value| identity(keys, item);
                found.extend(duplicates(items, path, identity, identity).take(room));
            }
        },
    }
}

/// Returns a violation for each item that repeats another one. Of several repetitions only the first counts.
pub(super) fn duplicates(
    items: &[Value],
    path: &Path<'_>,
    identity: impl Fn(&Value) -> String,
    shown: impl Fn(&Value) -> String,
) -> impl Iterator<Item = Violation> {
    let mut counts = HashMap::with_capacity(items.len());
    items.iter().enumerate().filter_map(move |(at, item)| {
        let count: &mut usize = counts.entry(identity(item)).or_default();
        *count += 1;
        let violation = |detail| Violation { path: path.item(at).to_string(), reason: Reason::Duplicate, detail };
        (*count == 2).then(|| violation(shortened(&shown(item), VALUE_CHARS_MAX)))
    })
}
