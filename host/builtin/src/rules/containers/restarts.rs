//! When containers restart: after their end, and after a change of their resources.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Pod;
use crate::rules::report::{Report, items, text};

const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const NO_POLICY: &str = "must specify restartPolicy when restart rules are used";
const RESIZED: [&str; 2] = ["cpu", "memory"];
const RESIZE_POLICIES: [&str; 2] = ["NotRequired", "RestartContainer"];

/// Checks when an initial container restarts. Without a policy its rules do not matter.
pub(super) fn check_initial_policy(report: &mut Report<'_>, container: &Value, path: &str) {
    if !container["restartPolicy"].is_null() {
        check_policy(report, container, path);
    } else if !items(&container["restartPolicyRules"]).is_empty() {
        report.required(format!("{path}.restartPolicy"), NO_POLICY);
    }
}

/// Checks when a container restarts after its end.
pub(super) fn check_policy(report: &mut Report<'_>, container: &Value, path: &str) {
    let (policy, rules) = (&container["restartPolicy"], items(&container["restartPolicyRules"]));
    if policy.is_null() && !rules.is_empty() {
        report.required(format!("{path}.restartPolicy"), NO_POLICY);
    }
    if !policy.is_null() && !POLICIES.contains(&text(policy)) {
        report.unsupported(format!("{path}.restartPolicy"), policy, &POLICIES);
    }
    if rules.len() > RULES_MAX {
        report.too_many(&format!("{path}.restartPolicyRules"), rules.len(), RULES_MAX);
    }
    for (at, rule) in rules.iter().enumerate() {
        check_rule(report, rule, &format!("{path}.restartPolicyRules[{at}]"));
    }
}

fn check_rule(report: &mut Report<'_>, rule: &Value, path: &str) {
    supported(report, &rule["action"], &ACTIONS, format!("{path}.action"));
    let codes = &rule["exitCodes"];
    if codes.is_null() {
        return report.required(format!("{path}.exitCodes"), "must be specified");
    }
    supported(report, &codes["operator"], &OPERATORS, format!("{path}.exitCodes.operator"));
    let values = items(&codes["values"]);
    if values.len() > EXIT_CODES_MAX {
        report.too_many(&format!("{path}.exitCodes.values"), values.len(), EXIT_CODES_MAX);
    }
}

/// Checks that a text, which may be absent, is one of those that are known.
fn supported(report: &mut Report<'_>, value: &Value, known: &[&str], path: String) {
    if !known.contains(&text(value)) {
        report.unsupported(path, &text(value).into(), known);
    }
}

/// Checks when a container restarts after a change of its resources. Most errors have the path of the list.
pub(super) fn check_resize_policy(report: &mut Report<'_>, pod: &Pod<'_>, policies: &Value, path: &str) {
    let mut names = BTreeSet::new();
    for (at, policy) in items(policies).iter().enumerate() {
        let name = text(&policy["resourceName"]);
        if !names.insert(name) {
            report.duplicate(format!("{path}[{at}]"), &name.into());
        }
        for (field, known) in [("resourceName", RESIZED), ("restartPolicy", RESIZE_POLICIES)] {
            match text(&policy[field]) {
                "" => report.required(path, ""),
                value if known.contains(&value) => {}
                value => report.unsupported(path, &value.into(), &known),
            }
        }
        let restart = text(&policy["restartPolicy"]);
        if pod.spec["restartPolicy"] == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            report.invalid(path, &restart.into(), detail);
        }
    }
}
