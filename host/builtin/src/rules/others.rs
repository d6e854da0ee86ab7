//! The rules of kinds with few rules.

use homeostat_store::Subresource;
use serde_json::{Value, json};

use super::defaults::{default_text, object_at};
use super::pods::check_preemption_policy;
use super::report::{Report, items, text};

/// Longest value of a label. Source: Kubernetes.
const LABEL_BYTES_MAX: usize = 63;
const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn namespace_defaults(namespace: &mut Value, old: Option<&Value>) {
    let name = namespace["metadata"]["name"].clone();
    if let Some(metadata) = object_at(namespace, "/metadata") {
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert("kubernetes.io/metadata.name".to_owned(), name);
        }
    }
    let spec = object_at(namespace, "").map(|fields| fields.entry("spec").or_insert_with(|| json!({})));
    let Some(spec) = spec.and_then(Value::as_object_mut).filter(|_| old.is_none()) else { return };
    // A new namespace has one of the host's own; later, only `finalize` removes it.
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut().filter(|names| !names.contains(&json!("kubernetes"))) {
        finalizers.push(json!("kubernetes"));
    }
}

/// Returns the finalizers of the content, unless the writer names some.
pub(super) fn allocated_of_namespace(namespace: &Value) -> Vec<String> {
    let is_named = namespace.pointer("/spec/finalizers").is_some();
    if is_named { Vec::new() } else { vec!["/spec".to_owned()] }
}

/// Keeps the finalizers of the content: only `finalize` changes them.
pub(super) fn confine_namespace(namespace: &mut Value, old: &Value, subresource: Option<Subresource>) {
    if subresource == Some(Subresource::Finalize) {
        return;
    }
    match old.get("spec") {
        Some(spec) => namespace["spec"] = spec.clone(),
        None => drop(object_at(namespace, "").and_then(|fields| fields.remove("spec"))),
    }
}

pub(super) fn binding_defaults(binding: &mut Value, _old: Option<&Value>) {
    if let Some(role) = binding.get_mut("roleRef").and_then(Value::as_object_mut) {
        default_text(role, "apiGroup", RBAC);
    }
    for subject in binding.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(subject) = subject.as_object_mut() else { continue };
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            default_text(subject, "apiGroup", RBAC);
        }
    }
}

pub(super) fn check_binding(report: &mut Report<'_>) {
    let role = report.at("/roleRef");
    let is_local = report.at("/kind") == "RoleBinding";
    if role["apiGroup"] != RBAC {
        report.unsupported("roleRef.apiGroup", &role["apiGroup"], &[RBAC]);
    }
    match role["kind"].as_str().unwrap_or_default() {
        "ClusterRole" => {}
        "Role" if is_local => {}
        _ => {
            let supported: &[&str] = if is_local { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
            report.unsupported("roleRef.kind", &role["kind"], supported);
        }
    }
    if text(&role["name"]).is_empty() {
        report.required("roleRef.name", "");
    } else {
        report.path_segment("roleRef.name", &role["name"]);
    }
    for (at, subject) in report.at("/subjects").as_array().into_iter().flatten().enumerate() {
        let path = format!("subjects[{at}]");
        if text(&subject["name"]).is_empty() {
            report.required(format!("{path}.name"), "");
        } else if subject["kind"] == "ServiceAccount" {
            report.subdomain(format!("{path}.name"), &subject["name"]);
        }
        let group = text(&subject["apiGroup"]);
        let supported = match subject["kind"].as_str() {
            Some("ServiceAccount") => "",
            Some("User" | "Group") => RBAC,
            _ => group,
        };
        if group != supported {
            report.unsupported(format!("{path}.apiGroup"), &group.into(), &[supported]);
        }
        match text(&subject["kind"]) {
            "ServiceAccount" if !is_local && text(&subject["namespace"]).is_empty() => {
                report.required(format!("{path}.namespace"), "");
            }
            "ServiceAccount" | "User" | "Group" => {}
            _ => report.unsupported(format!("{path}.kind"), &subject["kind"], &["ServiceAccount", "User", "Group"]),
        }
    }
    if report.old.is_some_and(|old| old["roleRef"] != *role) {
        report.invalid("roleRef", role, "cannot change roleRef");
    }
}

pub(super) fn check_role(report: &mut Report<'_>) {
    let is_local = report.at("/kind") == "Role";
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    for (at, rule) in report.at("/rules").as_array().into_iter().flatten().enumerate() {
        let path = format!("rules[{at}]");
        if is_empty(&rule["verbs"]) {
            report.required(format!("{path}.verbs"), "verbs must contain at least one value");
        }
        if !is_empty(&rule["nonResourceURLs"]) {
            if is_local {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                report.invalid(format!("{path}.nonResourceURLs"), &rule["nonResourceURLs"], detail);
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|list| !is_empty(&rule[*list])) {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                report.invalid(format!("{path}.nonResourceURLs"), &rule["nonResourceURLs"], detail);
            }
            continue;
        }
        if is_empty(&rule["apiGroups"]) {
            report.required(format!("{path}.apiGroups"), "resource rules must supply at least one api group");
        }
        if is_empty(&rule["resources"]) {
            report.required(format!("{path}.resources"), "resource rules must supply at least one resource");
        }
    }
    if !is_local {
        check_aggregation_rule(report);
    }
}

/// Checks which roles a cluster role gets its rules from.
fn check_aggregation_rule(report: &mut Report<'_>) {
    const PATH: &str = "aggregationRule.clusterRoleSelectors";
    let rule = report.at("/aggregationRule");
    let selectors = items(&rule["clusterRoleSelectors"]);
    if rule.is_object() && selectors.is_empty() {
        report.required(PATH, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (at, selector) in selectors.iter().enumerate() {
        let (path, before) = (format!("{PATH}[{at}]"), report.found.len());
        report.selector(&path, selector);
        if report.found.len() > before {
            report.invalid(path, &Value::Null, "invalid label selector.");
        }
    }
}

pub(super) fn check_lease(report: &mut Report<'_>) {
    let seconds = report.at("/spec/leaseDurationSeconds");
    if seconds.as_i64().is_some_and(|seconds| seconds <= 0) {
        report.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0");
    }
    report.not_negative("/spec", &["leaseTransitions"]);
}

/// The highest priority of a class that is not the system's.
const PRIORITY_MAX: i64 = 1_000_000_000;

/// The priority classes of the system, with their values.
const PRIORITIES_OF_SYSTEM: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

pub(super) fn check_priority_class(report: &mut Report<'_>) {
    if let Some(old) = report.old {
        if old["value"] != report.resource["value"] {
            report.forbidden("value", "may not be changed in an update.");
        }
        return report.immutable("/preemptionPolicy");
    }
    let name = report.at("/metadata/name").as_str().unwrap_or_default();
    let is_of_system = name.starts_with("system-");
    if is_of_system {
        let known = PRIORITIES_OF_SYSTEM.iter().find(|(known, _)| *known == name);
        let wrong = match known {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, value)) if report.at("/value") != value => {
                Some(format!("value of {name} PriorityClass must be {value}"))
            }
            Some(_) if report.at("/globalDefault") == true => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(wrong) = wrong {
            let words = "priority class names with 'system-' prefix are reserved for system use only. error: ";
            report.forbidden("metadata.name", &format!("{words}{wrong}"));
        }
    }
    if !is_of_system && report.at("/value").as_i64().is_some_and(|value| value > PRIORITY_MAX) {
        report.forbidden("value", &format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}"));
    }
    check_preemption_policy(report, report.at("/preemptionPolicy"), "preemptionPolicy");
}

/// Checks the labels of a namespace for Pod Security. Those that it has already stay.
fn check_pod_security(report: &mut Report<'_>) {
    let is_version = |text: &str| {
        text == "latest"
            || text.strip_prefix("v1.").is_some_and(|minor| {
                minor == "0"
                    || (!minor.starts_with('0') && !minor.is_empty() && minor.bytes().all(|c| c.is_ascii_digit()))
            })
    };
    let stored = report.old.map_or(&Value::Null, |old| &old["metadata"]["labels"]);
    for mode in ["enforce", "audit", "warn"].map(|mode| format!("pod-security.kubernetes.io/{mode}")) {
        let version = format!("{mode}-version");
        for (label, is_level) in [(mode, true), (version, false)] {
            let value = &report.at("/metadata/labels")[label.as_str()];
            let Some(text) = value.as_str().filter(|_| stored[label.as_str()] != *value) else { continue };
            let (is_valid, words) = if is_level {
                (
                    ["privileged", "baseline", "restricted"].contains(&text),
                    "must be one of privileged, baseline, restricted",
                )
            } else {
                (is_version(text), "must be \"latest\" or \"v1.x\"")
            };
            if !is_valid {
                report.invalid(format!("metadata.labels[{label}]"), value, words);
            }
        }
    }
}

pub(super) fn check_namespace(report: &mut Report<'_>) {
    // The name is the value of a label, too.
    let name = report.at("/metadata/name");
    if name.as_str().is_some_and(|name| name.len() > LABEL_BYTES_MAX) {
        report.invalid("metadata.labels", name, "must be no more than 63 bytes");
    }
    check_pod_security(report);
    let is_indexed = report.subresource == Some(Subresource::Finalize);
    for (at, finalizer) in report.at("/spec/finalizers").as_array().into_iter().flatten().enumerate() {
        let path = if is_indexed { format!("spec.finalizers[{at}]") } else { "spec.finalizers".to_owned() };
        report.qualified(path.clone(), finalizer);
        if finalizer != "kubernetes" && !finalizer.as_str().is_some_and(|name| name.contains('/')) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            report.invalid(path, finalizer, detail);
        }
    }
}
