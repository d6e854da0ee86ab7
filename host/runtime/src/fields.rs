//! Compares two documents field by field. Pure.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::Value;

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldDifference {
    /// The path, as `spec.containers[0].image`. Names with dots or brackets are quoted in brackets. Empty for
    /// the whole document.
    pub path: String,
    /// The value in the first document; `None` if missing.
    pub old: Option<Value>,
    /// The value in the second document; `None` if missing.
    pub new: Option<Value>,
}

/// Returns every field in which two documents differ, in the order of the names; empty for equal documents.
///
/// Objects are compared by name, and lists with objects by index. A list of plain values counts as one value,
/// and so does an empty object.
pub fn differences(old: &Value, new: &Value) -> Vec<FieldDifference> {
    let mut found = Vec::new();
    compare(&mut String::new(), Some(old), Some(new), &mut found);
    found
}

/// `path` has the same length before and after.
fn compare(path: &mut String, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<FieldDifference>) {
    if old == new {
        return;
    }
    let length = path.len();
    match (fields(old), fields(new), items(old), items(new)) {
        (Some(before), Some(after), ..) if !(before.is_empty() && after.is_empty()) => {
            for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
                push_name(path, name);
                compare(path, before.get(name), after.get(name), found);
                path.truncate(length);
            }
        }
        (.., Some(before), Some(after)) if before.iter().chain(after).any(Value::is_object) => {
            for at in 0..before.len().max(after.len()) {
                let _ = write!(path, "[{at}]");
                compare(path, before.get(at), after.get(at), found);
                path.truncate(length);
            }
        }
        _ => found.push(FieldDifference { path: path.clone(), old: old.cloned(), new: new.cloned() }),
    }
}

type Fields = serde_json::Map<String, Value>;

/// Returns the fields of an object; a missing value has none.
fn fields(value: Option<&Value>) -> Option<&Fields> {
    static NONE: LazyLock<Fields> = LazyLock::new(Fields::new);
    match value {
        None => Some(&NONE),
        Some(Value::Object(fields)) => Some(fields),
        Some(_) => None,
    }
}

/// Returns the items of a list; a missing value has none.
fn items(value: Option<&Value>) -> Option<&[Value]> {
    match value {
        None => Some(&[]),
        Some(Value::Array(items)) => Some(items),
        Some(_) => None,
    }
}

fn push_name(path: &mut String, name: &str) {
    if name.is_empty() || name.contains(['.', '[', ']', '"']) {
        let _ = write!(path, "[{name:?}]");
    } else {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
    }
}

#[cfg(test)]
mod tests;
