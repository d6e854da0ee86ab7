//! Nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::names::{NO_NETWORK, is_network};
use super::report::Report;

/// Sets the defaults of a node. A new one is not ready.
pub(super) fn node_defaults(node: &mut Value, old: Option<&Value>) {
    let fields = node.as_object_mut().map(|fields| fields.entry("spec").or_insert_with(|| json!({})));
    let Some(spec) = fields.and_then(Value::as_object_mut) else { return };
    if !old.is_some_and(|old| old["spec"]["configSource"].is_object()) {
        // No kubelet reads it any more.
        spec.remove("configSource");
    }
    // The first range has an old and a new field, which are always the same.
    match (spec.get("podCIDR").cloned(), spec.get("podCIDRs").and_then(|ranges| ranges.get(0)).cloned()) {
        (Some(range), first) if first.as_ref() != Some(&range) => {
            spec.insert("podCIDRs".to_owned(), json!([range]));
        }
        (None, Some(first)) => drop(spec.insert("podCIDR".to_owned(), first)),
        _ => {}
    }
    let taint = json!({ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" });
    let taints = spec.entry("taints").or_insert_with(|| json!([]));
    if let Some(taints) = taints.as_array_mut().filter(|taints| old.is_none() && !taints.contains(&taint)) {
        taints.push(taint);
    }
    if spec["taints"] == json!([]) {
        spec.remove("taints");
    }
}

/// Sets the defaults of the status of a node.
pub(super) fn status_defaults(node: &mut Value) {
    let Some(status) = node.get_mut("status").and_then(Value::as_object_mut) else { return };
    let is_empty = |amounts: &Value| amounts.as_object().is_none_or(serde_json::Map::is_empty);
    if status.get("allocatable").is_none_or(is_empty)
        && let Some(capacity) = status.get("capacity").cloned()
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}

pub(super) fn check_node(report: &mut Report<'_>) {
    check_taints(report);
    for (at, range) in report.at("/spec/podCIDRs").as_array().into_iter().flatten().enumerate() {
        if !range.as_str().is_some_and(is_network) {
            report.invalid(format!("spec.podCIDRs[{at}]"), range, NO_NETWORK);
        }
    }
    let ranges = report.at("/spec/podCIDRs");
    let mut families = BTreeSet::new();
    let mut texts = ranges.as_array().into_iter().flatten().filter_map(Value::as_str);
    if texts.any(|range| !families.insert(range.contains(':'))) {
        report.invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family");
    }
    if let Some(old) = report.old {
        let before = &old["spec"]["podCIDRs"];
        if before.is_array() && before != report.at("/spec/podCIDRs") {
            report.forbidden("spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid");
        }
        let before = &old["spec"]["providerID"];
        if before.as_str().is_some_and(|id| !id.is_empty()) && before != report.at("/spec/providerID") {
            report.forbidden("spec.providerID", "node updates may not change providerID except from \"\" to valid");
        }
    }
}

/// Checks what keeps pods away from a node.
fn check_taints(report: &mut Report<'_>) {
    let mut known = BTreeSet::new();
    for (at, taint) in report.at("/spec/taints").as_array().into_iter().flatten().enumerate() {
        // The path is that of Kubernetes.
        let path = format!("metadata.taints[{at}]");
        let text = |name: &str| taint[name].as_str().unwrap_or_default();
        report.qualified(format!("{path}.key"), &text("key").into());
        report.label_value(format!("{path}.value"), &taint["value"]);
        match text("effect") {
            "" => report.required(format!("{path}.effect"), ""),
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            _ => {
                let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
                report.unsupported(format!("{path}.effect"), &taint["effect"], &supported);
            }
        }
        if !known.insert((text("effect"), text("key"))) {
            report.duplicate_with(path, taint, "taints must be unique by key and effect pair");
        }
    }
}
