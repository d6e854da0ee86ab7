//! Checks the numbers of replicas that the scale subresource of a kind reads and writes.
//!
//! Source: `pkg/registry/customresource/validator.go` of `k8s.io/apiextensions-apiserver`.

use serde_json::Value;

use super::{Reason, Violation};
use crate::json_pointer::unescape;

/// Where a resource has its desired and its actual number of replicas: JSON pointers.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaPointers {
    /// That of the desired number, as `/spec/replicas`.
    pub spec: String,
    /// That of the actual number, as `/status/replicas`.
    pub status: String,
}

/// Returns what is wrong with the number at a pointer below a value, which is at this path. The number may be missing.
pub(super) fn violation(value: &Value, at: &str, pointer: &str) -> Option<Violation> {
    let names: Vec<String> = pointer.split('/').skip(1).map(unescape).collect();
    let path = |count: usize| names[..count].iter().fold(at.to_owned(), |path, name| format!("{path}.{name}"));
    let detail = match number(value, &names) {
        Ok(None) => return None,
        Ok(Some(number)) if number < 0 => format!("{number}: should be a non-negative integer"),
        Ok(Some(number)) if number > i64::from(i32::MAX) => {
            format!("{number}: should be less than or equal to {}", i32::MAX)
        }
        Ok(Some(_)) => return None,
        Err((count, found)) => {
            let wanted = if count == names.len() { "int64" } else { "map[string]interface {}" };
            let (shown, of_type) = shown(found);
            format!("0: {} accessor error: {shown} is of the type {of_type}, expected {wanted}", path(count))
        }
    };
    Some(Violation { path: path(names.len()), reason: Reason::Invalid, detail })
}

/// Returns the number at the end of a path; `None` if it is missing. The error is a value of another type, and how many names
/// lead to it.
fn number<'v>(value: &'v Value, names: &[String]) -> Result<Option<i64>, (usize, &'v Value)> {
    let mut found = value;
    for (at, name) in names.iter().enumerate() {
        let Some(fields) = found.as_object() else { return Err((at, found)) };
        match fields.get(name) {
            Some(field) => found = field,
            None => return Ok(None),
        }
    }
    found.as_i64().map(Some).ok_or((names.len(), found))
}

/// Returns a value and its type as Go prints them.
fn shown(value: &Value) -> (String, &'static str) {
    let of_type = match value {
        Value::Null => return ("<nil>".to_owned(), "<nil>"),
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(text) => return (text.clone(), "string"),
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    (value.to_string(), of_type)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_of_replicas_fits_a_scale() {
        let found = |value: Value| violation(&value, "", "/spec/replicas").map(|found| (found.path, found.detail));
        for fitting in [json!({}), json!({ "spec": {} }), json!({ "spec": { "replicas": 3 } })] {
            assert_eq!(found(fitting), None);
        }
        for (spec, detail) in [
            (json!({ "replicas": -1 }), "-1: should be a non-negative integer"),
            (json!({ "replicas": 2_147_483_648_u64 }), "2147483648: should be less than or equal to 2147483647"),
            (json!({ "replicas": "x" }), "0: .spec.replicas accessor error: x is of the type string, expected int64"),
            (json!("x"), "0: .spec accessor error: x is of the type string, expected map[string]interface {}"),
        ] {
            assert_eq!(found(json!({ "spec": spec })), Some((".spec.replicas".to_owned(), detail.to_owned())));
        }
    }
}
