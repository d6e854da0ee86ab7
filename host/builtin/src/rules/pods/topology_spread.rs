//! How the pods of a workload spread over the nodes.

use serde_json::Value;

use super::label_keys;
use super::spec::PodSpec;
use crate::rules::report::{Report, items, text};

const FIELD: &str = "topologySpreadConstraints";

/// Checks the spread constraints of a pod. A constraint of the old pod stays valid in spite of these rules.
pub(super) fn check(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    let constraints = items(&pod.fields[FIELD]);
    let old = pod.old.map(|old| items(&old[FIELD])).unwrap_or_default();
    let had_valid_selectors = has_none(old, |report, one| report.selector("", &one["labelSelector"]));
    let had_valid_keys = has_none(old, |report, one| label_keys::check(report, one, ""));
    for (at, constraint) in constraints.iter().enumerate() {
        let path = format!("{}.{FIELD}[{at}]", pod.path);
        check_constraint(report, constraint, &path);
        check_repetition(report, constraint, &constraints[at + 1..], &path);
        if had_valid_keys {
            label_keys::check(report, constraint, &path);
        } else {
            label_keys::check_as_before(report, constraint, &path);
        }
        if had_valid_selectors {
            report.selector(&format!("{path}.labelSelector"), &constraint["labelSelector"]);
        }
    }
}

/// Returns whether a check finds nothing in any constraint.
fn has_none(constraints: &[Value], check: fn(&mut Report<'_>, &Value)) -> bool {
    let mut report = Report::new(&Value::Null, None, None);
    constraints.iter().for_each(|constraint| check(&mut report, constraint));
    report.found.is_empty()
}

fn check_constraint(report: &mut Report<'_>, constraint: &Value, path: &str) {
    check_positive(report, &constraint["maxSkew"], &format!("{path}.maxSkew"));
    if text(&constraint["topologyKey"]).is_empty() {
        report.required(format!("{path}.topologyKey"), "can not be empty");
    }
    let action = text(&constraint["whenUnsatisfiable"]);
    let actions = ["DoNotSchedule", "ScheduleAnyway"];
    if !actions.contains(&action) {
        report.unsupported(format!("{path}.whenUnsatisfiable"), &action.into(), &actions);
    }
    let domains = &constraint["minDomains"];
    if domains.is_null() {
        return;
    }
    let path = format!("{path}.minDomains");
    check_positive(report, domains, &path);
    if action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        report.invalid(path, domains, &detail);
    }
}

fn check_positive(report: &mut Report<'_>, value: &Value, path: &str) {
    let number = value.as_i64().unwrap_or_default();
    if number <= 0 {
        report.invalid(path, &number.into(), "must be greater than zero");
    }
}

/// Checks that no later constraint has the topology and the action of this one.
fn check_repetition(report: &mut Report<'_>, constraint: &Value, later: &[Value], path: &str) {
    let identity = |constraint: &Value| {
        format!("{{{}, {}}}", text(&constraint["topologyKey"]), text(&constraint["whenUnsatisfiable"]))
    };
    let shown = identity(constraint);
    if later.iter().any(|other| identity(other) == shown) {
        report.duplicate(format!("{path}.{{topologyKey, whenUnsatisfiable}}"), &shown.into());
    }
}
