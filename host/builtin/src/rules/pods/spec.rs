//! The specification of a pod, except for its containers and volumes.
//!
//! Source: `ValidatePodSpec` in `pkg/apis/core/validation` of Kubernetes.

use homeostat_cel::names::DNS_1123_SUBDOMAIN;
use serde_json::{Value, json};

use super::{CONTAINERS, affinity, claims, gates, hosts, security, tolerations, topology_spread, windows};
use crate::rules::containers;
use crate::rules::report::{Report, text};

const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const PREEMPTION_POLICIES: [&str; 2] = ["PreemptLowerPriority", "Never"];
const DEADLINE_SECONDS: std::ops::RangeInclusive<i64> = 1..=i32::MAX as i64;

/// The specification of a pod, or of the pods of a template.
pub(super) struct PodSpec<'r> {
    pub(super) fields: &'r Value,
    /// The specification before the write; `None` when the resource is created.
    pub(super) old: Option<&'r Value>,
    pub(super) path: &'r str,
    /// Whether the specification is that of a pod, not of a template.
    pub(super) is_of_pod: bool,
}

impl<'r> PodSpec<'r> {
    pub(super) fn new(report: &Report<'r>, pointer: &str, path: &'r str) -> Self {
        let old = report.old.and_then(|old| old.pointer(pointer));
        Self { fields: report.at(pointer), old, path, is_of_pod: pointer == "/spec" }
    }

    /// Returns all containers with their paths.
    pub(super) fn containers(&self) -> Vec<(String, &'r Value)> {
        let lists =
            CONTAINERS.iter().map(|list| (list, self.fields[*list].as_array().into_iter().flatten().enumerate()));
        let named = |list: &str, at: usize| format!("{}.{list}[{at}]", self.path);
        lists.flat_map(|(list, all)| all.map(move |(at, container)| (named(list, at), container))).collect()
    }

    pub(super) fn is_on_host_network(&self) -> bool {
        self.fields["hostNetwork"] == true
    }
}

/// Checks a specification, except for its containers and volumes. `restart_policies` are those that the owner of a
/// template allows; `None` for all.
pub(super) fn check(report: &mut Report<'_>, pod: &PodSpec<'_>, restart_policies: Option<&[&str]>) {
    claims::check(report, pod);
    check_restart_policy(report, pod, restart_policies);
    report.labels(&format!("{}.nodeSelector", pod.path), &pod.fields["nodeSelector"]);
    security::check(report, pod);
    affinity::check(report, pod);
    hosts::check(report, pod);
    gates::check(report, pod);
    topology_spread::check(report, pod);
    windows::check(report, pod);
    check_names(report, pod);
    check_deadline(report, pod);
    tolerations::check_tolerations(report, &pod.fields["tolerations"], &format!("{}.tolerations", pod.path));
    let path = format!("{}.preemptionPolicy", pod.path);
    check_preemption_policy(report, &pod.fields["preemptionPolicy"], &path);
    check_overhead(report, pod);
}

fn check_restart_policy(report: &mut Report<'_>, pod: &PodSpec<'_>, allowed: Option<&[&str]>) {
    let (policy, path) = (&pod.fields["restartPolicy"], format!("{}.restartPolicy", pod.path));
    match text(policy) {
        "" => report.required(path.clone(), ""),
        name if !RESTART_POLICIES.contains(&name) => report.unsupported(path.clone(), policy, &RESTART_POLICIES),
        _ => {}
    }
    match allowed {
        Some(allowed) if policy == "Always" && !allowed.contains(&"Always") => {
            report.required(path, "valid values: \"OnFailure\", \"Never\"");
        }
        Some(allowed) if !allowed.iter().any(|name| policy == name) => report.unsupported(path, policy, allowed),
        _ => {}
    }
}

/// Checks the names of other resources.
fn check_names(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    for name in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        let value = &pod.fields[name];
        // An empty name of a runtime class is not the same as none.
        let is_given = if name == "runtimeClassName" { value.is_string() } else { !text(value).is_empty() };
        if is_given {
            report.form(format!("{}.{name}", pod.path), value, &DNS_1123_SUBDOMAIN);
        }
    }
}

fn check_deadline(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    let deadline = &pod.fields["activeDeadlineSeconds"];
    if deadline.as_i64().is_some_and(|seconds| !DEADLINE_SECONDS.contains(&seconds)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        report.invalid(format!("{}.activeDeadlineSeconds", pod.path), deadline, detail);
    }
}

/// Checks whether pods make room for others, if it is given.
pub(in crate::rules) fn check_preemption_policy(report: &mut Report<'_>, policy: &Value, path: &str) {
    match policy.as_str() {
        Some("") => report.required(path, ""),
        Some(name) if !PREEMPTION_POLICIES.contains(&name) => report.unsupported(path, policy, &PREEMPTION_POLICIES),
        _ => {}
    }
}

fn check_overhead(report: &mut Report<'_>, pod: &PodSpec<'_>) {
    let overhead = &pod.fields["overhead"];
    if overhead.is_object() {
        containers::check_amounts(report, &json!({ "limits": overhead }), &format!("{}.overhead", pod.path));
    }
}
