//! The taints of nodes that a pod tolerates.

use serde_json::Value;

use crate::rules::report::{Report, items, text, without};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks tolerations.
pub(in crate::rules) fn check_tolerations(report: &mut Report<'_>, tolerations: &Value, path: &str) {
    for (at, toleration) in items(tolerations).iter().enumerate() {
        let path = format!("{path}[{at}]");
        check_key(report, toleration, &path);
        check_operator(report, toleration, format!("{path}.operator"));
        check_effect(report, toleration, &format!("{path}.effect"));
    }
}

fn check_key(report: &mut Report<'_>, toleration: &Value, path: &str) {
    let operator = text(&toleration["operator"]);
    if !text(&toleration["key"]).is_empty() {
        report.qualified(format!("{path}.key"), &toleration["key"]);
    } else if operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        report.invalid(format!("{path}.operator"), &operator.into(), detail);
    }
}

/// Checks the operator and its value, whose faults are those of the operator.
fn check_operator(report: &mut Report<'_>, toleration: &Value, path: String) {
    let (operator, value) = (&toleration["operator"], &toleration["value"]);
    match text(operator) {
        "" | "Equal" => report.label_value(path, value),
        "Exists" if !text(value).is_empty() => {
            report.invalid(path, value, "value must be empty when `operator` is 'Exists'");
        }
        "Exists" => {}
        // Kubernetes names these two with the others although their gate is off.
        "Lt" | "Gt" => report.unsupported(path, operator, &["Equal", "Exists", "Lt", "Gt"]),
        _ => report.unsupported(path, operator, &["Equal", "Exists"]),
    }
}

fn check_effect(report: &mut Report<'_>, toleration: &Value, path: &str) {
    let effect = text(&toleration["effect"]);
    if toleration["tolerationSeconds"].is_number() && effect != "NoExecute" {
        report.invalid(path, &effect.into(), "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        report.unsupported(path, &effect.into(), &EFFECTS);
    }
}

/// Checks that each toleration of a pod stays, except for its time.
pub(super) fn check_old_tolerations(report: &mut Report<'_>, now: &Value, before: &Value) {
    let timeless = |toleration: &Value| without(toleration, &["tolerationSeconds"]);
    let now: Vec<Value> = items(now).iter().map(timeless).collect();
    if items(before).iter().any(|old| !now.contains(&timeless(old))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        report.forbidden("spec.tolerations", detail);
    }
}
