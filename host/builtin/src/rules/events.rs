//! Events.

use homeostat_store::schema::Violation;
use jiff::Timestamp;
use serde_json::Value;

use super::report::Report;

/// Most bytes of the instance, the action and the reason of an event, and of its message. Source: Kubernetes.
const NAME_BYTES_MAX: usize = 128;
const MESSAGE_BYTES_MAX: usize = 1024;

/// Checks an event in the fields of the core group.
pub(super) fn check(report: &mut Report<'_>) {
    let namespace = report.at("/metadata/namespace").as_str().unwrap_or_default();
    let named = report.at("/involvedObject/namespace").as_str().unwrap_or_default();
    let has_time = !report.at("/eventTime").is_null();
    let is_of_cluster = named.is_empty() && (namespace == "default" || (has_time && namespace == "kube-system"));
    let is_wrong = if has_time { named.is_empty() } else { named != namespace };
    if is_wrong && !is_of_cluster {
        report.invalid("involvedObject.namespace", &named.into(), "does not match event.namespace");
    }
    if !has_time {
        return;
    }
    let text = |name: &str| report.resource[name].as_str().unwrap_or_default().to_owned();
    let program = text("reportingComponent");
    if program.is_empty() {
        report.required("reportingComponent", "");
    }
    report.qualified("reportingComponent", &program.into());
    for name in ["reportingInstance", "action", "reason"] {
        let value = text(name);
        if value.is_empty() {
            report.required(name, "");
        }
        if value.len() > NAME_BYTES_MAX {
            report.invalid(name, &"".into(), &format!("can have at most {NAME_BYTES_MAX} characters"));
        }
    }
    if text("message").len() > MESSAGE_BYTES_MAX {
        report.invalid("message", &"".into(), &format!("can have at most {MESSAGE_BYTES_MAX} characters"));
    }
}

/// The fields that an event in the group `events.k8s.io` keeps, in the order of their causes.
const KEPT: [&str; 14] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    // A change of the reason is two causes.
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

/// Returns what forbids to create an event in the group `events.k8s.io`. The event has the fields of the core group, and the
/// paths are those of Kubernetes, which names but one field as this group does.
///
/// Source: `pkg/apis/core/validation/events.go` of Kubernetes.
pub fn check_new_event(event: &Value) -> Vec<Violation> {
    let mut report = Report::new(event, None, None);
    check(&mut report);
    check_series(&mut report);
    let is_named = |field: &str| event["metadata"][field].as_str().is_some_and(|name| !name.is_empty());
    if is_named("name") {
        report.subdomain("metadata.name".to_owned(), &event["metadata"]["name"]);
    } else if !is_named("generateName") {
        report.required("metadata.name", "name or generateName is required");
    }
    if event["eventTime"].is_null() {
        report.required("eventTime", "");
    }
    let kind = event["type"].as_str().unwrap_or_default();
    if !matches!(kind, "Normal" | "Warning") {
        report.invalid("type", &"".into(), &format!("has invalid value: {kind}"));
    }
    for name in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if !is_unset(&event[name]) {
            report.invalid(name, &"".into(), "needs to be unset");
        }
    }
    in_own_group(report.found)
}

/// Returns what forbids to change an event in the group `events.k8s.io`, where only its series and its metadata change. Both
/// events have the fields of the core group. The paths are as in [`check_new_event`].
///
/// Source: `pkg/apis/core/validation/events.go` of Kubernetes.
pub fn check_changed_event(event: &Value, old: &Value) -> Vec<Violation> {
    let mut report = Report::new(event, Some(old), None);
    check(&mut report);
    if event["series"] != old["series"] {
        check_series(&mut report);
    }
    for name in KEPT {
        let (now, before) = (&event[name], &old[name]);
        let is_kept = match name {
            // A reference to nothing is a reference.
            "related" if now.is_null() || before.is_null() => now.is_null() && before.is_null(),
            "eventTime" => time(now) == time(before),
            _ => is_equal(now, before),
        };
        if !is_kept {
            report.invalid(name, &event[name], "field is immutable");
        }
    }
    in_own_group(report.found)
}

/// Returns a time, to the microsecond; `None` for no time.
fn time(value: &Value) -> Option<i64> {
    Some(value.as_str()?.parse::<Timestamp>().ok()?.as_microsecond())
}

/// Returns whether two values are equal in Go, where a field that is absent has a value.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(fields), Value::Object(others)) => {
            fields.keys().chain(others.keys()).all(|name| is_equal(&one[name], &other[name]))
        }
        _ => one == other || (is_unset(one) && is_unset(other)),
    }
}

/// Returns whether a field has the value that it has in Go if it is absent.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Object(fields) => fields.values().all(is_unset),
        Value::Bool(_) | Value::Array(_) => false,
    }
}

/// Names the one field that the causes name as the group `events.k8s.io` does.
fn in_own_group(mut found: Vec<Violation>) -> Vec<Violation> {
    for violation in &mut found {
        if violation.path == "reportingComponent" {
            violation.path = "reportingController".to_owned();
        }
    }
    found
}

fn check_series(report: &mut Report<'_>) {
    let series = report.at("/series");
    if !series.is_object() {
        return;
    }
    if series["count"].as_i64().unwrap_or_default() < 2 {
        report.invalid("series.count", &"".into(), "should be at least 2");
    }
    if series["lastObservedTime"].is_null() {
        report.required("series.lastObservedTime", "");
    }
}

#[cfg(test)]
mod tests;
