//! Formats the report of a shadow. Pure.

use serde_json::Value;

use crate::document::text;

/// Summarises the number of compared reconciles and their results.
pub(super) fn counts(report: &Value) -> String {
    let number = |field: &str| report[field].as_u64().unwrap_or_default();
    format!(
        "{} compared, {} equal, {} differ, {} of them fail in the new version alone; {} could not be compared, {} skipped",
        number("compared"),
        number("equal"),
        number("differing"),
        number("errors"),
        number("unfit"),
        number("skipped"),
    )
}

/// Returns the whole report: the counts, then each difference under its resource. `-` marks the stable
/// version, `+` the new one.
pub(super) fn lines(report: &Value) -> Vec<String> {
    let mut lines = vec![counts(report)];
    for (why, count) in report["unfitBecause"].as_object().into_iter().flatten() {
        lines.push(format!("  not compared: {why} ({count} times)"));
    }
    let mut last = String::new();
    for difference in report["differences"].as_array().into_iter().flatten() {
        let key = &difference["key"];
        let (kind, namespace) = (text(key, "/kind/name"), text(key, "/namespace"));
        let gap = if namespace.is_empty() { "" } else { "/" };
        let head = format!("{kind} {namespace}{gap}{}: {}", text(key, "/name"), text(difference, "/verb"));
        if head != last {
            lines.push(head.clone());
            last = head;
        }
        let field = text(difference, "/field");
        let gap = if field.is_empty() { "" } else { ": " };
        let mut sides = Vec::new();
        sides.extend(difference["old"].as_str().map(|old| format!("- {field}{gap}{old}")));
        sides.extend(difference["new"].as_str().map(|new| format!("+ {field}{gap}{new}")));
        if let Some(times) = difference["times"].as_u64().filter(|times| *times > 1)
            && let Some(last) = sides.last_mut()
        {
            last.push_str(&format!("  ({times} times)"));
        }
        lines.extend(sides.into_iter().map(|line| format!("  {line}")));
    }
    if let Some(more) = report["leftOut"].as_u64().filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_lists_both_values_resource_by_resource() {
        let key = json!({ "kind": { "group": "demo.dev", "version": "v1", "name": "App" }, "namespace": "default", "name": "a" });
        let report = json!({
            "compared": 5, "equal": 2, "differing": 3, "errors": 1, "unfit": 1, "skipped": 4, "leftOut": 7,
            "unfitBecause": { "tooLong": 1 },
            "differences": [
                { "key": key, "verb": "apply", "field": "spec.size", "old": "1", "new": "2", "times": 3 },
                { "key": key, "verb": "apply", "field": "spec.more", "new": "x", "times": 1 },
                { "key": key, "verb": "delete", "field": "", "old": "gone", "times": 1 },
            ],
        });
        assert_eq!(
            lines(&report),
            [
                "5 compared, 2 equal, 3 differ, 1 of them fail in the new version alone; 1 could not be compared, 4 skipped",
                "  not compared: tooLong (1 times)",
                "App default/a: apply",
                "  - spec.size: 1",
                "  + spec.size: 2  (3 times)",
                "  + spec.more: x",
                "App default/a: delete",
                "  - gone",
                "and 7 more",
            ]
        );
    }
}
