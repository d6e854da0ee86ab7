//! The policies by which a job fails or succeeds.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::rules::report::{Report, items, text};

/// Most rules of a policy, and most conditions of one rule.
const RULES_MAX: usize = 20;
/// Most exit codes of a rule.
const EXIT_CODES_MAX: usize = 255;
/// Most bytes of a list of indexes.
const INDEXES_BYTES_MAX: usize = 64 * 1024;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// Checks when a failed pod makes its job fail. `spec` is that of the job, at `path`.
pub(super) fn check_failure_policy(report: &mut Report<'_>, spec: &Value, path: &str) {
    let path = format!("{path}.podFailurePolicy.rules");
    let rules = items(&spec["podFailurePolicy"]["rules"]);
    if rules.len() > RULES_MAX {
        report.too_many(&path, rules.len(), RULES_MAX);
    }
    for (at, rule) in rules.iter().enumerate() {
        check_failure_rule(report, spec, rule, &format!("{path}[{at}]"));
    }
}

fn check_failure_rule(report: &mut Report<'_>, spec: &Value, rule: &Value, path: &str) {
    let (action, conditions) = (&rule["action"], items(&rule["onPodConditions"]));
    match text(action) {
        "FailIndex" if spec["backoffLimitPerIndex"].is_null() => {
            report.invalid(format!("{path}.action"), action, "requires the backoffLimitPerIndex to be set");
        }
        _ => one_of(report, format!("{path}.action"), action, &ACTIONS),
    }
    let has_codes = rule["onExitCodes"].is_object();
    if has_codes {
        check_exit_codes(report, spec, &rule["onExitCodes"], &format!("{path}.onExitCodes"));
    }
    check_conditions(report, conditions, &format!("{path}.onPodConditions"));
    match (has_codes, conditions.is_empty()) {
        (true, false) => report.invalid_whole(path, "specifying both OnExitCodes and OnPodConditions is not supported"),
        (false, true) => report.invalid_whole(path, "specifying one of OnExitCodes and OnPodConditions is required"),
        _ => {}
    }
}

/// Checks that a required text is one of some.
fn one_of(report: &mut Report<'_>, path: String, value: &Value, supported: &[&str]) {
    let listed: Vec<String> = supported.iter().map(|name| format!("{name:?}")).collect();
    match text(value) {
        "" => report.required(path, &format!("valid values: [{}]", listed.join(" "))),
        name if !supported.contains(&name) => report.unsupported(path, value, supported),
        _ => {}
    }
}

fn check_conditions(report: &mut Report<'_>, conditions: &[Value], path: &str) {
    if conditions.len() > RULES_MAX {
        report.too_many(path, conditions.len(), RULES_MAX);
    }
    for (at, condition) in conditions.iter().enumerate() {
        report.qualified(format!("{path}[{at}].type"), &text(&condition["type"]).into());
        one_of(report, format!("{path}[{at}].status"), &condition["status"], &STATUSES);
    }
}

fn check_exit_codes(report: &mut Report<'_>, spec: &Value, codes: &Value, path: &str) {
    one_of(report, format!("{path}.operator"), &codes["operator"], &OPERATORS);
    let containers = ["containers", "initContainers"].map(|list| items(&spec["template"]["spec"][list]));
    let is_known = |name: &Value| containers.iter().copied().flatten().any(|container| container["name"] == *name);
    let container = &codes["containerName"];
    if container.is_string() && !is_known(container) {
        let detail = "must be one of the container or initContainer names in the pod template";
        report.invalid(format!("{path}.containerName"), container, detail);
    }
    let (values, path) = (items(&codes["values"]), format!("{path}.values"));
    if values.is_empty() {
        report.invalid(path.clone(), &codes["values"], "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        report.too_many(&path, values.len(), EXIT_CODES_MAX);
    }
    let mut seen = BTreeSet::new();
    for (at, value) in values.iter().enumerate() {
        if codes["operator"] == "In" && *value == 0 {
            report.invalid(format!("{path}[{at}]"), value, "must not be 0 for the In operator");
        }
        if !seen.insert(value.as_i64()) {
            report.duplicate(format!("{path}[{at}]"), value);
        }
    }
    if !values.is_sorted_by_key(Value::as_i64) {
        report.invalid(path, &codes["values"], "must be ordered");
    }
}

/// Checks when an indexed job succeeds before all of its indexes have. `spec` is that of the job, at `path`.
pub(super) fn check_success_policy(report: &mut Report<'_>, spec: &Value, path: &str) {
    let path = format!("{path}.successPolicy.rules");
    let rules = items(&spec["successPolicy"]["rules"]);
    if rules.is_empty() {
        report.required(path.clone(), "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > RULES_MAX {
        report.too_many(&path, rules.len(), RULES_MAX);
    }
    let completions = spec["completions"].as_i64().unwrap_or(0);
    for (at, rule) in rules.iter().enumerate() {
        check_success_rule(report, rule, completions, &format!("{path}[{at}]"));
    }
}

fn check_success_rule(report: &mut Report<'_>, rule: &Value, completions: i64, path: &str) {
    let (count, indexes) = (&rule["succeededCount"], &rule["succeededIndexes"]);
    if count.is_null() && indexes.is_null() {
        report.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let indexes_path = format!("{path}.succeededIndexes");
    if text(indexes).len() > INDEXES_BYTES_MAX {
        report.too_long(indexes_path.clone(), INDEXES_BYTES_MAX);
    }
    let named = count_indexes(text(indexes), completions);
    if let Err(fault) = &named {
        report.invalid(indexes_path, indexes, &format!("error parsing succeededIndexes: {fault}"));
    }
    let Some(number) = count.as_i64() else { return };
    let named = named.unwrap_or(0);
    let bounds = [
        (number < 0, "greater than or equal to 0".to_owned()),
        (number > completions, format!("less than or equal to {completions} (the number of specified completions)")),
        (
            !indexes.is_null() && number > named,
            format!("less than or equal to {named} (the number of indexes in the specified succeededIndexes field)"),
        ),
    ];
    for (_, bound) in bounds.iter().filter(|(is_violated, _)| *is_violated) {
        report.invalid(format!("{path}.succeededCount"), count, &format!("must be {bound}"));
    }
}

/// Returns how many indexes a text names, as `0,3-5`.
pub(in crate::rules) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, None);
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval_of(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(not_increasing(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first index that two texts name both; `None` if there is none. Intervals that cannot be read name none.
pub(in crate::rules) fn first_common_index(one: &str, other: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|interval| interval_of(interval, completions).ok()).collect()
    };
    let (one, other) = (intervals(one), intervals(other));
    let (mut at, mut other_at) = (0, 0);
    while let (Some(&(first, end)), Some(&(other_first, other_end))) = (one.get(at), other.get(other_at)) {
        if first <= other_end && other_first <= end {
            return Some(first.max(other_first));
        }
        if first <= other_first {
            at += 1;
        } else {
            other_at += 1;
        }
    }
    None
}

/// Returns the first and the last index of an interval, as `3-5` or `3`.
fn interval_of(text: &str, completions: i64) -> Result<(i64, i64), String> {
    match text.split('-').collect::<Vec<_>>()[..] {
        [one] => index(one, completions).map(|index| (index, index)),
        [first, end] => {
            let (first, end) = (index(first, completions)?, index(end, completions)?);
            if first < end { Ok((first, end)) } else { Err(not_increasing(first, end)) }
        }
        _ => Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}

fn not_increasing(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

fn index(text: &str, completions: i64) -> Result<i64, String> {
    let index = text.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
    if index >= completions { Err(format!("too large index: {text:?}")) } else { Ok(index) }
}
