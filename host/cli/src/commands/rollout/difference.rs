//! Compares two documents value by value. Pure.

use homeostat_runtime::fields::{FieldDifference, differences};
use serde_json::Value;

/// Returns a line for each value that only one document has: `-` for the first, `+` for the second. Lines are
/// sorted by path; paths begin with `under`.
pub(super) fn lines(under: &str, from: &Value, to: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for FieldDifference { path, old, new } in differences(from, to) {
        let gap = if under.is_empty() || path.is_empty() { "" } else { "." };
        lines.extend(old.map(|old| format!("- {under}{gap}{path}: {}", plain(&old))));
        lines.extend(new.map(|new| format!("+ {under}{gap}{path}: {}", plain(&new))));
    }
    lines
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_differing_value_has_a_line_and_no_other() {
        let from = json!({ "a": 1, "grants": { "resources": [{ "kinds": ["Pod"], "verbs": ["get"] }] }, "limits": { "cpu": "1s" } });
        let to = json!({ "a": 1, "grants": { "resources": [{ "kinds": ["Pod"], "verbs": ["get", "list"] }] }, "config": { "b": "c" } });
        assert_eq!(
            lines("", &from, &to),
            [
                "+ config.b: c",
                r#"- grants.resources[0].verbs: ["get"]"#,
                r#"+ grants.resources[0].verbs: ["get","list"]"#,
                "- limits.cpu: 1s",
            ]
        );
        assert!(lines("", &from, &from).is_empty());
        assert_eq!(lines("code", &json!({ "a": 1 }), &json!({ "a": 2 })), ["- code.a: 1", "+ code.a: 2"]);
    }
}
