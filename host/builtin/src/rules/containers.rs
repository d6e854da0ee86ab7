//! The containers of a pod.
//!
//! Source: `validateContainers`, `validateInitContainers` and `validateEphemeralContainers` of Kubernetes.

mod environment;
mod mounts;
mod ports;
mod probes;
pub(super) mod references;
mod resources;
mod restarts;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::report::{Report, items, text};
pub(super) use resources::{check_amounts, check_quantity};

/// Fields that an ephemeral container cannot have.
const FORBIDDEN: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];
/// Fields that an initial container cannot have, unless it runs beside the other containers.
const FORBIDDEN_BEFORE_START: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

/// Volumes by their names.
pub(super) type Volumes<'v> = BTreeMap<&'v str, &'v Value>;

/// The pod, or the template of pods, that has the containers.
pub(super) struct Pod<'p> {
    pub(super) spec: &'p Value,
    /// The valid volumes: others cannot be mounted.
    pub(super) volumes: &'p Volumes<'p>,
    /// Whether it is a pod, and no template.
    pub(super) is_pod: bool,
}

/// Checks all containers of a pod. `path` is that of its specification.
pub(super) fn check_all(report: &mut Report<'_>, pod: &Pod<'_>, path: &str) {
    if items(&pod.spec["containers"]).is_empty() {
        report.required(format!("{path}.containers"), "");
    }
    check_main(report, pod, &format!("{path}.containers"));
    check_initial(report, pod, &format!("{path}.initContainers"));
    check_ephemeral(report, pod, &format!("{path}.ephemeralContainers"));
    environment::check_files(report, pod.spec, path);
    if pod.spec["hostNetwork"] == true {
        ports::check_on_host(report, pod, &format!("{path}.containers"));
    }
}

/// Checks the containers that run together.
fn check_main(report: &mut Report<'_>, pod: &Pod<'_>, path: &str) {
    let containers = items(&pod.spec["containers"]);
    let mut names = BTreeSet::new();
    for (at, container) in containers.iter().enumerate() {
        let path = format!("{path}[{at}]");
        check_common(report, pod, container, &path);
        if pod.is_pod {
            check_image_spaces(report, container, &path);
        }
        if !names.insert(text(&container["name"])) {
            report.duplicate(format!("{path}.name"), &text(&container["name"]).into());
        }
        probes::check(report, pod, container, &path);
        restarts::check_policy(report, container, &path);
    }
    ports::check_conflicts(report, containers, path);
}

/// Checks the containers that run before the others.
fn check_initial(report: &mut Report<'_>, pod: &Pod<'_>, path: &str) {
    let mut names = names_of(pod, &["containers"]);
    for (at, container) in items(&pod.spec["initContainers"]).iter().enumerate() {
        let item = format!("{path}[{at}]");
        check_common(report, pod, container, &item);
        if pod.is_pod {
            check_image_spaces(report, container, &item);
        }
        restarts::check_initial_policy(report, container, &item);
        let name = text(&container["name"]);
        if names.contains(name) {
            report.duplicate(format!("{item}.name"), &name.into());
        } else if !name.is_empty() {
            names.insert(name);
        }
        // Kubernetes checks each of them alone, as the first of a list.
        ports::check_conflicts(report, std::slice::from_ref(container), path);
        if container["restartPolicy"] == "Always" {
            probes::check(report, pod, container, &item);
        } else {
            check_before_start(report, container, &item);
        }
    }
}

/// Checks what an initial container that ends before the others start cannot have.
fn check_before_start(report: &mut Report<'_>, container: &Value, path: &str) {
    for name in FORBIDDEN_BEFORE_START.into_iter().filter(|name| container[*name].is_object()) {
        let detail = "may not be set for init containers without restartPolicy=Always";
        report.forbidden(format!("{path}.{name}"), detail);
    }
    for (at, policy) in items(&container["resizePolicy"]).iter().enumerate() {
        if policy["restartPolicy"] == "RestartContainer" {
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            report.invalid(format!("{path}.resizePolicy[{at}].restartPolicy"), &policy["restartPolicy"], detail);
        }
    }
}

/// Checks the containers that a user adds to a running pod.
fn check_ephemeral(report: &mut Report<'_>, pod: &Pod<'_>, path: &str) {
    let others = names_of(pod, &["containers", "initContainers"]);
    let mut names = others.clone();
    for (at, container) in items(&pod.spec["ephemeralContainers"]).iter().enumerate() {
        let path = format!("{path}[{at}]");
        check_common(report, pod, container, &path);
        check_image_spaces(report, container, &path);
        if !names.insert(text(&container["name"])) {
            report.duplicate(format!("{path}.name"), &text(&container["name"]).into());
        }
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !others.contains(target) {
            report.not_found(format!("{path}.targetContainerName"), &target.into());
        }
        check_forbidden(report, container, &path);
    }
}

/// Checks what an ephemeral container cannot have.
fn check_forbidden(report: &mut Report<'_>, container: &Value, path: &str) {
    const ERROR: &str = "cannot be set for an Ephemeral Container";
    for name in FORBIDDEN.into_iter().filter(|name| is_set(container, name)) {
        report.forbidden(format!("{path}.{name}"), ERROR);
    }
    for (at, mount) in items(&container["volumeMounts"]).iter().enumerate() {
        for name in ["subPath", "subPathExpr"].into_iter().filter(|name| !text(&mount[*name]).is_empty()) {
            report.forbidden(format!("{path}.volumeMounts[{at}].{name}"), ERROR);
        }
    }
}

/// Checks what all containers have in common.
fn check_common(report: &mut Report<'_>, pod: &Pod<'_>, container: &Value, path: &str) {
    if text(&container["name"]).is_empty() {
        report.required(format!("{path}.name"), "");
    } else {
        report.label(format!("{path}.name"), &container["name"]);
    }
    if text(&container["image"]).is_empty() {
        report.required(format!("{path}.image"), "");
    }
    ports::check(report, &container["ports"], &format!("{path}.ports"));
    environment::check(report, container, path);
    mounts::check(report, container, pod.volumes, path);
    resources::check(report, pod, &container["resources"], &format!("{path}.resources"));
    restarts::check_resize_policy(report, pod, &container["resizePolicy"], &format!("{path}.resizePolicy"));
}

/// Checks that the name of an image has no spaces around it. A template may have them.
fn check_image_spaces(report: &mut Report<'_>, container: &Value, path: &str) {
    let image = text(&container["image"]);
    if image.trim().len() != image.len() {
        report.invalid(format!("{path}.image"), &image.into(), "must not have leading or trailing whitespace");
    }
}

/// Returns the names of the containers of some lists.
fn names_of<'p>(pod: &Pod<'p>, lists: &[&str]) -> BTreeSet<&'p str> {
    let spec = pod.spec;
    lists.iter().flat_map(|list| items(&spec[*list])).map(|container| text(&container["name"])).collect()
}

/// Returns whether a container has a field. Its resources are always there, and may be empty.
fn is_set(container: &Value, name: &str) -> bool {
    match &container[name] {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => name != "resources" || !fields.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
