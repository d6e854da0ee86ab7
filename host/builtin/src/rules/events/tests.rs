//! Tests of the rules of events.

use serde_json::{Value, json};

use super::{check_changed_event, check_new_event};
use crate::rules::tests::support::check;

fn event() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e", "namespace": "n" },
        "involvedObject": { "kind": "Pod", "name": "p", "namespace": "n" },
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "a.b/c", "reportingInstance": "i",
        "action": "A", "reason": "R", "type": "Normal",
    })
}

#[test]
fn an_event_with_a_time_says_who_reports_what() {
    check(
        event,
        &[
            ("/action", json!(""), &["action FieldValueRequired"]),
            ("/reason", json!("a".repeat(129)), &["reason FieldValueInvalid"]),
            ("/reportingComponent", json!("a b"), &["reportingComponent FieldValueInvalid"]),
            ("/involvedObject/namespace", json!(""), &["involvedObject.namespace FieldValueInvalid"]),
            ("/message", json!("a".repeat(1025)), &["message FieldValueInvalid"]),
        ],
    );
}

#[test]
fn a_new_event_of_its_own_group_has_no_fields_of_the_core_group() {
    let found = |pointer: &str, value: Value| {
        let mut event = event();
        event[pointer] = value;
        check_new_event(&event).iter().map(|found| found.path.clone()).collect::<Vec<_>>()
    };
    assert!(found("note", json!("")).is_empty());
    assert_eq!(found("eventTime", json!(null)), ["eventTime"]);
    assert_eq!(found("type", json!("Odd")), ["type"]);
    assert_eq!(found("count", json!(1)), ["count"]);
    assert_eq!(found("source", json!({ "component": "c" })), ["source"]);
    assert!(found("source", json!({})).is_empty());
    assert_eq!(
        found("reportingComponent", json!("")),
        ["reportingController", "reportingController", "reportingController"]
    );
    assert_eq!(found("series", json!({ "count": 1 })), ["series.count", "series.lastObservedTime"]);
}

#[test]
fn an_event_of_its_own_group_changes_only_its_series() {
    let found = |pointer: &str, value: Value| {
        let mut event = event();
        event[pointer] = value;
        let found = check_changed_event(&event, &self::event());
        found.iter().map(|found| format!("{}: {}", found.path, found.detail)).collect::<Vec<_>>()
    };
    assert!(found("series", json!({ "count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z" })).is_empty());
    assert_eq!(
        found("series", json!({ "count": 1, "lastObservedTime": "2026-01-01T00:00:00.000000Z" })),
        ["series.count: \"\": should be at least 2"]
    );
    assert!(found("source", json!({ "component": "" })).is_empty() && found("count", json!(0)).is_empty());
    assert_eq!(found("reason", json!("S")), ["reason: \"S\": field is immutable"; 2]);
    assert_eq!(found("reportingComponent", json!("d")), ["reportingController: \"d\": field is immutable"]);
    assert_eq!(found("related", json!({})), ["related: {}: field is immutable"]);
    assert!(found("eventTime", json!("2026-01-01T01:00:00+01:00")).is_empty());
    let regarding = json!({ "kind": "Pod", "name": "p", "namespace": "n", "uid": "" });
    assert!(found("involvedObject", regarding).is_empty());
    assert_eq!(found("action", json!("")), ["action: ", "action: \"\": field is immutable"]);
}
