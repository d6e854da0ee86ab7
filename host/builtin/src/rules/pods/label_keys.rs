//! The keys of labels whose values of a pod select other pods: `matchLabelKeys` and `mismatchLabelKeys`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::affinity::pod_affinity_terms_mut;
use crate::rules::report::{Report, items, text};

const EXISTS_IN_SELECTOR: &str = "exists in both matchLabelKeys and labelSelector";

/// Adds the labels of a new pod that these keys name to the label selectors of its affinity and spread constraints.
pub(super) fn merge_into_selectors(pod: &mut Value) {
    let Some(labels) = pod["metadata"]["labels"].as_object().cloned() else { return };
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(affinity) = spec.get_mut("affinity") {
        pod_affinity_terms_mut(affinity).for_each(|term| merge(term, &labels));
    }
    let constraints = spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut);
    constraints.into_iter().flatten().for_each(|constraint| merge(constraint, &labels));
}

fn merge(term: &mut Value, labels: &Map<String, Value>) {
    let mut requirements = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in items(&term[field]) {
            let value = labels.get(text(key));
            requirements.extend(value.map(|value| json!({ "key": key, "operator": operator, "values": [value] })));
        }
    }
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
    if requirements.is_empty() {
        return;
    }
    let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
    if let Some(expressions) = expressions.as_array_mut() {
        // The defaults of a pod can be set again.
        requirements.retain(|requirement| !expressions.contains(requirement));
        expressions.append(&mut requirements);
    }
}

/// Checks the keys of a term of affinity or of a spread constraint.
pub(super) fn check(report: &mut Report<'_>, term: &Value, path: &str) {
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        check_names(report, term, name, path);
    }
    check_selector_keys(report, term, path);
    let mismatch = items(&term["mismatchLabelKeys"]);
    for (at, key) in items(&term["matchLabelKeys"]).iter().enumerate().filter(|(_, key)| mismatch.contains(key)) {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        report.invalid(format!("{path}.matchLabelKeys[{at}]"), key, detail);
    }
}

fn check_names(report: &mut Report<'_>, term: &Value, name: &str, path: &str) {
    let (keys, path) = (items(&term[name]), format!("{path}.{name}"));
    if !keys.is_empty() && term["labelSelector"].is_null() {
        return report.forbidden(path, "must not be specified when labelSelector is not set");
    }
    for (at, key) in keys.iter().enumerate() {
        report.qualified(format!("{path}[{at}]"), key);
    }
}

/// Checks that the label selector has each key of `matchLabelKeys` once at most: as the creation of the pod adds it.
fn check_selector_keys(report: &mut Report<'_>, term: &Value, path: &str) {
    let keys = items(&term["matchLabelKeys"]).iter().enumerate();
    let places: BTreeMap<&str, usize> = keys.map(|(at, key)| (text(key), at)).collect();
    let selector = &term["labelSelector"];
    let mut seen: BTreeSet<&str> =
        selector["matchLabels"].as_object().into_iter().flatten().map(|(key, _)| &**key).collect();
    for key in items(&selector["matchExpressions"]).iter().map(|requirement| text(&requirement["key"])) {
        if !seen.insert(key)
            && let Some(at) = places.get(key)
        {
            report.invalid(format!("{path}[{at}]"), &key.into(), EXISTS_IN_SELECTOR);
        }
    }
}

/// Checks the keys of a spread constraint as Kubernetes does it for a pod from before 1.34.
pub(super) fn check_as_before(report: &mut Report<'_>, constraint: &Value, path: &str) {
    check_names(report, constraint, "matchLabelKeys", path);
    let selector = &constraint["labelSelector"];
    for (at, key) in items(&constraint["matchLabelKeys"]).iter().enumerate() {
        let is_expressed = items(&selector["matchExpressions"]).iter().any(|requirement| requirement["key"] == *key);
        if is_expressed || selector["matchLabels"].get(text(key)).is_some() {
            report.invalid(format!("{path}.matchLabelKeys[{at}]"), key, EXISTS_IN_SELECTOR);
        }
    }
}
