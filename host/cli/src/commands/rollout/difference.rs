//! What differs between two documents, value by value. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

/// Returns a line for each value that only one of the two has: `-` for the first, `+` for the second, in the order of their paths.
pub(super) fn lines(from: &Value, to: &Value) -> Vec<String> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    values("", from, &mut before);
    values("", to, &mut after);
    let mut lines = Vec::new();
    let paths: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for path in paths {
        let (old, new) = (before.get(path), after.get(path));
        if old != new {
            lines.extend(old.map(|old| format!("- {path}: {old}")));
            lines.extend(new.map(|new| format!("+ {path}: {new}")));
        }
    }
    lines
}

/// Collects every value that is no object, under its path. A list of plain values is one value.
fn values(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let gap = if path.is_empty() { "" } else { "." };
                values(&format!("{path}{gap}{name}"), value, found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (at, item) in items.iter().enumerate() {
                values(&format!("{path}[{at}]"), item, found);
            }
        }
        Value::String(text) => drop(found.insert(path.to_owned(), text.clone())),
        other => drop(found.insert(path.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_value_that_differs_has_a_line_and_no_other_has() {
        let from = json!({ "a": 1, "grants": { "resources": [{ "kinds": ["Pod"], "verbs": ["get"] }] }, "limits": { "cpu": "1s" } });
        let to = json!({ "a": 1, "grants": { "resources": [{ "kinds": ["Pod"], "verbs": ["get", "list"] }] }, "config": { "b": "c" } });
        assert_eq!(
            lines(&from, &to),
            [
                "+ config.b: c",
                r#"- grants.resources[0].verbs: ["get"]"#,
                r#"+ grants.resources[0].verbs: ["get","list"]"#,
                "- limits.cpu: 1s",
            ]
        );
        assert!(lines(&from, &from).is_empty());
    }
}
