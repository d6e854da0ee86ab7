//! The status of a request for a certificate.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::rules::report::{Report, items, text};

/// The conditions that are true, if they are there.
const VERDICTS: [&str; 3] = ["Approved", "Denied", "Failed"];

pub(in crate::rules) fn check_certificate_request(report: &mut Report<'_>) {
    let old = report.old.map_or(&Value::Null, |old| &old["status"]);
    let now = items(report.at("/status/conditions"));
    let before = items(&old["conditions"]);
    check_conditions(report, now, before);
    for name in VERDICTS {
        let count = |conditions: &[Value]| conditions.iter().filter(|condition| condition["type"] == name).count();
        if count(now) < count(before) {
            report.forbidden("status.conditions", &format!("updates may not remove a condition of type {name:?}"));
        }
    }
    let (issued, issued_before) = (text(report.at("/status/certificate")), text(&old["certificate"]));
    if issued != issued_before && !issued_before.is_empty() {
        report.forbidden("status.certificate", "updates may not modify existing certificate content");
    }
}

fn check_conditions(report: &mut Report<'_>, now: &[Value], before: &[Value]) {
    let has = |conditions: &[Value], name: &str| conditions.iter().any(|condition| condition["type"] == name);
    let was_contradictory = has(before, "Approved") && has(before, "Denied");
    let mut seen = BTreeSet::new();
    for (at, condition) in now.iter().enumerate() {
        let (path, name, status) =
            (format!("status.conditions[{at}]"), text(&condition["type"]), text(&condition["status"]));
        if name.is_empty() {
            report.required(format!("{path}.type"), "");
        }
        let supported: &[&str] = if VERDICTS.contains(&name) { &["True"] } else { &["False", "True", "Unknown"] };
        match status {
            "" => report.required(format!("{path}.status"), ""),
            status if supported.contains(&status) => {}
            _ => report.unsupported(format!("{path}.status"), &condition["status"], supported),
        }
        let other = if name == "Approved" { "Denied" } else { "Approved" };
        let is_verdict = matches!(name, "Approved" | "Denied");
        if is_verdict && !was_contradictory && seen.contains(other) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            report.invalid("status.conditions", &name.into(), detail);
        }
        if !seen.insert(name) {
            report.duplicate(format!("{path}.type"), &name.into());
        }
    }
}
