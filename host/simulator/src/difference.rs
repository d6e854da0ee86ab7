//! Compares a document with the part of it that a test names.

use serde_json::Value;

/// Lines of a comparison at most.
const LINES_MAX: usize = 50;

/// Returns a line for each field of `expected` that `actual` lacks or has with another value, as
/// `spec.replicas: expected 3, got 2`. Empty when `actual` has everything that `expected` names.
///
/// Objects may have more fields than named. Lists have the named length, and are compared item by item. A
/// `null` says that the field is absent.
pub fn differences(expected: &Value, actual: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", expected, Some(actual), &mut lines);
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("and {more} more differences"));
    }
    lines
}

fn compare(path: &str, expected: &Value, actual: Option<&Value>, lines: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Null, None | Some(Value::Null)) => {}
        (Value::Object(expected), Some(Value::Object(actual))) => {
            for (name, value) in expected {
                let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(&at, value, actual.get(name), lines);
            }
        }
        (Value::Array(expected), Some(Value::Array(actual))) => {
            if expected.len() != actual.len() {
                lines.push(format!("{path}: expected {} items, got {}", expected.len(), actual.len()));
            }
            for (at, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                compare(&format!("{path}[{at}]"), expected, Some(actual), lines);
            }
        }
        (Value::Number(expected), Some(Value::Number(actual))) if expected.as_f64() == actual.as_f64() => {}
        (expected, Some(actual)) if expected == actual => {}
        (Value::Null, Some(actual)) => lines.push(format!("{path}: expected no such field, got {actual}")),
        (expected, Some(actual)) => lines.push(format!("{path}: expected {expected}, got {actual}")),
        (expected, None) => lines.push(format!("{path}: expected {expected}, got no such field")),
    }
}

#[cfg(test)]
mod tests;
