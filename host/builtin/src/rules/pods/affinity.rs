//! Node selectors, and which nodes and pods a pod wants to be near.

use serde_json::Value;

use super::label_keys;
use super::spec::PodSpec;
use crate::rules::report::{Report, items, text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHTS: std::ops::RangeInclusive<i64> = 1..=100;

/// Checks the affinity of a pod. Values of labels that the old pod had in spite of these rules stay valid.
pub(super) fn check(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    let path = format!("{}.affinity", pod.path);
    let old = pod.old.map(|old| &old["affinity"]);
    let affinity = &pod.fields["affinity"];
    let are_nodes_valid = old.is_none_or(|old| has_valid_node_values(&old["nodeAffinity"][REQUIRED]));
    check_node_affinity(report, &affinity["nodeAffinity"], &format!("{path}.nodeAffinity"), are_nodes_valid);
    let are_pods_valid = old.is_none_or(has_valid_pod_selectors);
    for name in ["podAffinity", "podAntiAffinity"] {
        check_pod_affinity(report, &affinity[name], &format!("{path}.{name}"), are_pods_valid);
    }
}

fn check_node_affinity(report: &mut Report<'_>, affinity: &Value, path: &str, checks_values: bool) {
    if affinity[REQUIRED].is_object() {
        check_node_selector(report, &affinity[REQUIRED], &format!("{path}.{REQUIRED}"), checks_values);
    }
    for (at, term) in items(&affinity[PREFERRED]).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{at}]");
        check_weight(report, term, &path);
        // Kubernetes never checks the values of labels of a preference.
        check_node_selector_term(report, &term["preference"], &format!("{path}.preference"), false);
    }
}

fn check_weight(report: &mut Report<'_>, term: &Value, path: &str) {
    let weight = term["weight"].as_i64().unwrap_or_default();
    if !WEIGHTS.contains(&weight) {
        report.invalid(format!("{path}.weight"), &weight.into(), "must be in the range 1-100");
    }
}

/// Checks a node selector, and the values of labels if `checks_values`.
pub(in crate::rules) fn check_node_selector(
    report: &mut Report<'_>,
    selector: &Value,
    path: &str,
    checks_values: bool,
) {
    let terms = items(&selector["nodeSelectorTerms"]);
    if terms.is_empty() {
        report.required(format!("{path}.nodeSelectorTerms"), "must have at least one node selector term");
    }
    for (at, term) in terms.iter().enumerate() {
        check_node_selector_term(report, term, &format!("{path}.nodeSelectorTerms[{at}]"), checks_values);
    }
}

fn check_node_selector_term(report: &mut Report<'_>, term: &Value, path: &str, checks_values: bool) {
    for (at, requirement) in items(&term["matchExpressions"]).iter().enumerate() {
        report.selector_requirement(&format!("{path}.matchExpressions[{at}]"), requirement, true, checks_values);
    }
    for (at, requirement) in items(&term["matchFields"]).iter().enumerate() {
        check_field_requirement(report, requirement, &format!("{path}.matchFields[{at}]"));
    }
}

/// Checks a requirement of a field of a node.
fn check_field_requirement(report: &mut Report<'_>, requirement: &Value, path: &str) {
    let values = items(&requirement["values"]);
    match text(&requirement["operator"]) {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            report.required(format!("{path}.values"), detail);
        }
        "In" | "NotIn" => {}
        other => report.invalid(format!("{path}.operator"), &other.into(), "not a valid selector operator"),
    }
    let key = text(&requirement["key"]);
    if key != "metadata.name" {
        return report.invalid(format!("{path}.key"), &key.into(), "not a valid field selector key");
    }
    for (at, value) in values.iter().enumerate() {
        report.subdomain(format!("{path}.values[{at}]"), value);
    }
}

fn check_pod_affinity(report: &mut Report<'_>, affinity: &Value, path: &str, checks_values: bool) {
    for (at, term) in items(&affinity[REQUIRED]).iter().enumerate() {
        check_pod_affinity_term(report, term, &format!("{path}.{REQUIRED}[{at}]"), checks_values);
    }
    for (at, term) in items(&affinity[PREFERRED]).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{at}]");
        check_weight(report, term, &path);
        let path = format!("{path}.podAffinityTerm");
        check_pod_affinity_term(report, &term["podAffinityTerm"], &path, checks_values);
    }
}

fn check_pod_affinity_term(report: &mut Report<'_>, term: &Value, path: &str, checks_values: bool) {
    check_selectors(report, term, path, checks_values);
    for name in items(&term["namespaces"]) {
        report.label(format!("{path}.namespace"), name);
    }
    label_keys::check(report, term, path);
    let key = text(&term["topologyKey"]);
    if key.is_empty() {
        report.required(format!("{path}.topologyKey"), "can not be empty");
    }
    report.qualified(format!("{path}.topologyKey"), &key.into());
}

fn check_selectors(report: &mut Report<'_>, term: &Value, path: &str, checks_values: bool) {
    for name in ["labelSelector", "namespaceSelector"] {
        report.selector_with(&format!("{path}.{name}"), &term[name], checks_values);
    }
}

/// Returns whether a node selector has no invalid values of labels.
fn has_valid_node_values(selector: &Value) -> bool {
    let mut report = Report::new(selector, None, None);
    for requirement in items(&selector["nodeSelectorTerms"]).iter().flat_map(|term| items(&term["matchExpressions"])) {
        report.label_values("", items(&requirement["values"]));
    }
    report.found.is_empty()
}

/// Returns whether the label selectors of an affinity are valid.
fn has_valid_pod_selectors(affinity: &Value) -> bool {
    let mut report = Report::new(affinity, None, None);
    for term in pod_affinity_terms(affinity) {
        check_selectors(&mut report, term, "", true);
    }
    report.found.is_empty()
}

/// Returns the terms of the affinity and anti-affinity to pods.
fn pod_affinity_terms(affinity: &Value) -> impl Iterator<Item = &Value> {
    ["podAffinity", "podAntiAffinity"].into_iter().flat_map(|name| {
        let preferred = items(&affinity[name][PREFERRED]).iter().map(|term| &term["podAffinityTerm"]);
        items(&affinity[name][REQUIRED]).iter().chain(preferred)
    })
}

/// Returns the terms of the affinity and anti-affinity to pods, to change them.
pub(super) fn pod_affinity_terms_mut(affinity: &mut Value) -> impl Iterator<Item = &mut Value> {
    let kinds = affinity.as_object_mut().into_iter().flatten();
    let lists = kinds.filter(|(name, _)| *name != "nodeAffinity").filter_map(|(_, kind)| kind.as_object_mut());
    let terms = lists.flatten().filter_map(|(_, list)| list.as_array_mut()).flatten();
    terms.filter_map(|term| match term.get("podAffinityTerm").is_some() {
        true => term.get_mut("podAffinityTerm"),
        false => Some(term),
    })
}
