//! The scopes of a quota: which pods and claims of volumes it is for. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::usage::{CountedKind, has_deadline};

/// Returns whether a resource is in all scopes of a quota.
pub(super) fn match_all(counted: &CountedKind, quota: &Value, document: &Value) -> bool {
    let scopes = quota["spec"]["scopes"].as_array().into_iter().flatten();
    let selected = quota["spec"]["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
    scopes
        .map(|scope| (scope, "Exists", &Value::Null))
        .chain(selected.map(|expression| {
            let operator = expression["operator"].as_str().unwrap_or_default();
            (&expression["scopeName"], operator, &expression["values"])
        }))
        .all(|(scope, operator, values)| {
            matches(counted, scope.as_str().unwrap_or_default(), operator, values, document)
        })
}

fn matches(counted: &CountedKind, scope: &str, operator: &str, values: &Value, document: &Value) -> bool {
    let spec = &document["spec"];
    if counted.is_pod() {
        return match scope {
            "Terminating" => has_deadline(document),
            "NotTerminating" => !has_deadline(document),
            "BestEffort" => document["status"]["qosClass"] == "BestEffort",
            "NotBestEffort" => document["status"]["qosClass"] != "BestEffort",
            "PriorityClass" => selects(operator, values, &names([&spec["priorityClassName"]])),
            "CrossNamespacePodAffinity" => crosses_namespaces(&spec["affinity"]),
            _ => false,
        };
    }
    let status = &document["status"];
    counted.is_volume_claim() && scope == "VolumeAttributesClass" && {
        let current = &status["currentVolumeAttributesClassName"];
        let target = &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"];
        selects(operator, values, &names([&spec["volumeAttributesClassName"], current, target]))
    }
}

fn names<const N: usize>(values: [&Value; N]) -> BTreeSet<&str> {
    values.into_iter().filter_map(Value::as_str).filter(|name| !name.is_empty()).collect()
}

/// Returns whether an expression selects one of the names, or a resource without a name.
fn selects(operator: &str, values: &Value, names: &BTreeSet<&str>) -> bool {
    let is_listed = |name: &&str| values.as_array().into_iter().flatten().any(|value| value == name);
    match operator {
        "Exists" => !names.is_empty(),
        "DoesNotExist" => names.is_empty(),
        "In" => names.iter().any(is_listed),
        "NotIn" => names.is_empty() || names.iter().any(|name| !is_listed(name)),
        _ => false,
    }
}

/// Returns whether a pod wants to be near to, or far from, pods of namespaces that it names.
fn crosses_namespaces(affinity: &Value) -> bool {
    let names_namespaces = |term: &Value| {
        term["namespaces"].as_array().is_some_and(|namespaces| !namespaces.is_empty())
            || term["namespaceSelector"].is_object()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|side| {
        let terms = |list: &str| affinity[side][list].as_array().map(Vec::as_slice).unwrap_or_default();
        terms("requiredDuringSchedulingIgnoredDuringExecution").iter().any(names_namespaces)
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|weighted| names_namespaces(&weighted["podAffinityTerm"]))
    })
}
