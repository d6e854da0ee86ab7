//! The gates of a pod: it is neither scheduled nor ready before they open.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::spec::PodSpec;
use crate::rules::report::{Report, items, text};

const AFFINITY: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";

/// Checks the gates of a pod.
pub(super) fn check(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    for (at, gate) in items(&pod.fields["readinessGates"]).iter().enumerate() {
        let path = format!("{}.readinessGates[{at}].conditionType", pod.path);
        report.qualified(path, &text(&gate["conditionType"]).into());
    }
    let mut names = BTreeSet::new();
    for (at, gate) in items(&pod.fields["schedulingGates"]).iter().enumerate() {
        let (path, name) = (format!("{}.schedulingGates[{at}]", pod.path), text(&gate["name"]));
        report.qualified(path.clone(), &name.into());
        if !names.insert(name) {
            report.duplicate(path, &name.into());
        }
    }
}

/// Checks that a new pod with gates has no node.
pub(super) fn check_node_of_new_pod(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    if is_gated(spec) && !text(&spec["nodeName"]).is_empty() {
        report.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
    }
}

/// Returns whether a pod waits before it is scheduled.
pub(super) fn is_gated(spec: &Value) -> bool {
    !items(&spec["schedulingGates"]).is_empty()
}

/// Returns the condition of a new pod that waits before it is scheduled.
pub(super) fn gated_condition(pod: &Value) -> Value {
    json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastTransitionTime": pod["metadata"]["creationTimestamp"],
    })
}

/// Checks that an update of a pod adds no gate.
pub(super) fn check_old_gates(report: &mut Report<'_>, now: &Value, before: &Value) {
    let before: BTreeSet<&str> = items(&before["schedulingGates"]).iter().map(|gate| text(&gate["name"])).collect();
    for (at, gate) in items(&now["schedulingGates"]).iter().enumerate() {
        let name = text(&gate["name"]);
        if !before.contains(name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            report.forbidden(format!("spec.schedulingGates[{at}].name"), &detail);
        }
    }
}

/// Checks that an update of a pod that waits only narrows the nodes that it can run on.
pub(super) fn check_nodes_of_gated_pod(report: &mut Report<'_>, now: &Value, before: &Value) {
    let selector = &now["nodeSelector"];
    let mut wanted = before["nodeSelector"].as_object().into_iter().flatten();
    if wanted.any(|(key, value)| selector.get(key) != Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        report.invalid("spec.nodeSelector", selector, detail);
    }
    let (now, before) = (node_selector_terms(now), node_selector_terms(before));
    if !items(before).is_empty() && items(before).len() != items(now).len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return report.invalid(AFFINITY, now, detail);
    }
    for (at, (term, before)) in items(now).iter().zip(items(before)).enumerate() {
        if !has_only_additions(term, before) {
            let detail = "only additions are allowed (no mutations or deletions)";
            report.invalid(format!("{AFFINITY}[{at}]"), term, detail);
        }
    }
}

fn node_selector_terms(spec: &Value) -> &Value {
    &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
}

/// Returns whether a term has all requirements that it had, and more only if it had some.
fn has_only_additions(now: &Value, before: &Value) -> bool {
    const LISTS: [&str; 2] = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Value| LISTS.iter().all(|list| items(&term[*list]).is_empty());
    if is_empty(before) {
        return is_empty(now);
    }
    LISTS.iter().all(|list| items(&now[*list]).starts_with(items(&before[*list])))
}

/// Removes what an update of a pod that waits can change.
pub(super) fn remove_mutable_fields(spec: &mut Map<String, Value>) {
    spec.remove("nodeSelector");
    let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) else { return };
    affinity.remove("nodeAffinity");
    if affinity.is_empty() {
        spec.remove("affinity");
    }
}
