//! Warnings about labels of nodes.

use homeostat_cel::names::LABEL_VALUE;
use serde_json::Value;

use super::addresses;
use crate::rules::report::{items, text};

/// Labels of nodes that are deprecated, with their replacements.
const DEPRECATED: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    ("failure-domain.beta.kubernetes.io/zone", r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#),
    ("beta.kubernetes.io/instance-type", r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", r#"use "node-role.kubernetes.io/control-plane" instead"#),
];

/// Returns why a label of nodes should not be used.
pub(super) fn deprecation(label: &str) -> Option<&'static str> {
    DEPRECATED.iter().find(|(known, _)| *known == label).map(|(_, reason)| *reason)
}

/// Returns the labels of a map that should not be used, with the reasons.
pub(super) fn deprecated_labels(labels: &Value) -> impl Iterator<Item = (&String, &'static str)> {
    labels.as_object().into_iter().flatten().filter_map(|(label, _)| Some((label, deprecation(label)?)))
}

/// Returns the warnings of a term that selects nodes, and of the values that it wants if `checks_values`.
pub(super) fn of_term(term: &Value, checks_values: bool, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, requirement) in items(&term["matchExpressions"]).iter().enumerate() {
        let (key, path) = (text(&requirement["key"]), format!("{path}.matchExpressions[{at}]"));
        found.extend(deprecation(key).map(|reason| format!("{path}.key: {key} is {reason}")));
        for (index, value) in items(&requirement["values"]).iter().enumerate().filter(|_| checks_values) {
            let faults = LABEL_VALUE.faults(text(value));
            let warning = |fault: &String| format!("{path}.values[{index}]: {} is invalid, {fault}", text(value));
            found.extend(faults.iter().map(warning));
        }
    }
    found
}

/// Returns the warnings of a selector of nodes by labels.
pub(super) fn of_selector(selector: &Value, path: &str) -> Vec<String> {
    let of_labels =
        deprecated_labels(&selector["matchLabels"]).map(|(label, why)| format!("{path}.matchLabels.{label}: {why}"));
    of_term(selector, false, path).into_iter().chain(of_labels).collect()
}

/// Returns the warnings of the specification of a node.
pub(super) fn of_node(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if spec["configSource"].is_object() {
        found.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(&spec["externalID"]).is_empty() {
        found.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    found.extend(addresses::of_networks(&spec["podCIDRs"], "spec.podCIDRs"));
    found
}

/// Returns the warnings of a runtime class.
pub(super) fn of_runtime_class(class: &Value) -> Vec<String> {
    let labels = deprecated_labels(&class["scheduling"]["nodeSelector"]);
    labels.map(|(_, reason)| format!("scheduling.nodeSelector: {reason}")).collect()
}
