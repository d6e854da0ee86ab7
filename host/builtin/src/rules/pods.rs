//! Pods and the templates of pods.

mod affinity;
mod annotations;
mod claims;
mod disabled;
mod gates;
mod hosts;
mod label_keys;
mod profile_annotations;
mod security;
mod spec;
mod subresources;
mod tolerations;
mod topology_spread;
mod windows;

use serde_json::{Map, Value, json};

use super::containers;
use super::defaults::{absent, default, object_at};
use super::report::{Report, text};
use super::volumes;
pub(super) use affinity::check_node_selector;
pub(super) use annotations::APP_ARMOR_PREFIX;
pub(super) use profile_annotations::{SECCOMP_POD, SECCOMP_PREFIX, app_armor_profile};
use spec::PodSpec;
pub(super) use spec::check_preemption_policy;
pub(super) use subresources::confine;
pub(super) use tolerations::check_tolerations;

/// The lists of containers in the specification of a pod.
pub(super) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// The longest name of an image.
const IMAGE_BYTES_MAX: usize = 255;
/// The fields of a container that an update of a pod can change.
const MUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Sets the defaults of a pod.
pub(super) fn set_defaults(pod: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        label_keys::merge_into_selectors(pod);
    }
    let Some(spec) = object_at(pod, "/spec") else { return };
    spec_defaults(spec);
    default(spec, "enableServiceLinks", true);
    // Only in a pod: a template keeps what it says.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    prioritize(spec, old.map(|old| &old["spec"]));
    tolerate(spec);
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for name in &CONTAINERS[..2] {
        for container in spec.get_mut(*name).and_then(Value::as_array_mut).into_iter().flatten() {
            requests_of_limits(container);
            if on_host {
                host_ports(container);
            }
        }
    }
}

/// Returns the fields that admission plug-ins set.
pub(super) fn allocated(pod: &Value) -> Vec<String> {
    absent(pod, &[&["spec", "priority"], &["spec", "preemptionPolicy"], &["spec", "tolerations"]])
}

/// Does what the admission plug-in `Priority` does with a pod without a priority class: it keeps what it had.
fn prioritize(spec: &mut Map<String, Value>, old: Option<&Value>) {
    if let Some(old) = old {
        for name in ["priority", "preemptionPolicy"] {
            if let Some(before) = old.get(name) {
                default(spec, name, before.clone());
            }
        }
    } else if !spec.contains_key("priorityClassName") {
        default(spec, "priority", 0);
        default(spec, "preemptionPolicy", "PreemptLowerPriority");
    }
}

/// Does what the admission plug-in `DefaultTolerationSeconds` does.
fn tolerate(spec: &mut Map<String, Value>) {
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |toleration: &Value| {
            let text = |name: &str| toleration[name].as_str().unwrap_or_default();
            matches!(text("key"), "" | "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable")
                && (text("key").is_empty() || text("key") == taint)
                && matches!(text("effect"), "" | "NoExecute")
        };
        if !tolerations.iter().any(tolerates) {
            tolerations.push(json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
}

/// Requests what a container may use at most, where it requests nothing.
fn requests_of_limits(container: &mut Value) {
    let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned() else { return };
    let Some(resources) = object_at(container, "/resources") else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Some(requests) = requests.as_object_mut() {
        limits.into_iter().for_each(|(name, limit)| default(requests, &name, limit));
    }
}

fn host_ports(container: &mut Value) {
    let ports = container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    for port in ports.filter_map(Value::as_object_mut) {
        if let Some(number) = port.get("containerPort").cloned() {
            default(port, "hostPort", number);
        }
    }
}

/// Sets the defaults of a template.
pub(super) fn template_defaults(template: &mut Value) {
    if let Some(spec) = object_at(template, "/spec") {
        spec_defaults(spec);
    }
}

fn spec_defaults(spec: &mut Map<String, Value>) {
    disabled::remove(spec);
    // Its gate is off.
    spec.remove("schedulingGroup");
    // The account has an old and a new name, which are always the same.
    let account = spec.get("serviceAccountName").or_else(|| spec.get("serviceAccount")).cloned();
    if let Some(account) = account {
        spec.insert("serviceAccount".to_owned(), account.clone());
        spec.insert("serviceAccountName".to_owned(), account);
    }
    for name in CONTAINERS {
        let containers = spec.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            let policy = pull_policy(container.get("image").and_then(Value::as_str).unwrap_or_default());
            default(container, "imagePullPolicy", policy);
        }
    }
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten();
    for volume in volumes.filter_map(Value::as_object_mut) {
        if volume.keys().all(|name| name == "name") {
            volume.insert("emptyDir".to_owned(), json!({}));
        }
        if let Some(image) = volume.get_mut("image").and_then(Value::as_object_mut) {
            let policy = pull_policy(image.get("reference").and_then(Value::as_str).unwrap_or_default());
            default(image, "pullPolicy", policy);
        }
    }
}

/// Returns the policy for an image: without a tag it has the tag `latest`, unless it has a digest. A malformed name has no
/// tag.
fn pull_policy(image: &str) -> &'static str {
    if image.len() > IMAGE_BYTES_MAX || image.split([':', '@']).next().is_some_and(is_no_image) {
        return "IfNotPresent";
    }
    let (name, has_digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let tag = name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    match tag {
        Some("latest") => "Always",
        None if !has_digest && !image.is_empty() => "Always",
        _ => "IfNotPresent",
    }
}

/// Returns whether a text without tag and digest is no name of an image. A registry may have upper-case letters.
fn is_no_image(name: &str) -> bool {
    let path = name.rsplit('/').next().unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    !path.bytes().all(is_plain)
}

/// Checks a pod.
pub(super) fn check(report: &mut Report<'_>) {
    annotations::check(report, "", "metadata.annotations");
    let (spec, annotations) = (PodSpec::new(report, "/spec", "spec"), report.at("/metadata/annotations"));
    profile_annotations::check(report, &spec, annotations, "metadata.annotations");
    check_spec(report, "/spec", "spec", None, &[]);
    let Some(old) = report.old else {
        profile_annotations::check_fields(report, &spec, annotations);
        if has_ephemeral_containers(report.at("/spec")) {
            report.forbidden("spec.ephemeralContainers", "cannot be set on create");
        }
        gates::check_node_of_new_pod(report);
        return;
    };
    annotations::check_change(report, old);
    if subresources::check(report, old) {
        return;
    }
    let (now, before) = (report.at("/spec"), &old["spec"]);
    let is_bound = before["nodeName"].as_str().is_some_and(|name| !name.is_empty());
    let moves = now["nodeName"] != before["nodeName"] && (is_bound || !is_scheduled(old));
    for list in &CONTAINERS[..2] {
        let count = |spec: &Value| spec[*list].as_array().map_or(0, Vec::len);
        if count(now) != count(before) {
            return report.forbidden(format!("spec.{list}"), "pod updates may not add or remove containers");
        }
    }
    let (deadline, before_it) = (&now["activeDeadlineSeconds"], &before["activeDeadlineSeconds"]);
    if before_it.is_number() && deadline.is_null() {
        let detail = "must not update from a positive integer to nil value";
        report.invalid("spec.activeDeadlineSeconds", deadline, detail);
    }
    if before_it.as_i64().zip(deadline.as_i64()).is_some_and(|(before, now)| before < now) {
        let detail = "must be less than or equal to previous value";
        return report.invalid("spec.activeDeadlineSeconds", deadline, detail);
    }
    tolerations::check_old_tolerations(report, &now["tolerations"], &before["tolerations"]);
    gates::check_old_gates(report, now, before);
    let is_gated = gates::is_gated(before);
    if is_gated {
        gates::check_nodes_of_gated_pod(report, now, before);
    }
    if moves || comparable(now, is_gated) != comparable(before, is_gated) {
        report.forbidden("spec", MUTABLE);
    }
}

fn has_ephemeral_containers(spec: &Value) -> bool {
    spec["ephemeralContainers"].as_array().is_some_and(|containers| !containers.is_empty())
}

/// Returns whether a scheduler has chosen a node: a binding reports the condition before it sets the node.
fn is_scheduled(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|found| found["type"] == "PodScheduled" && found["status"] == "True")
}

/// Returns a specification without the fields that an update can change.
fn comparable(spec: &Value, is_gated: bool) -> Value {
    let mut spec = spec.clone();
    for name in &CONTAINERS[..2] {
        let containers = spec.get_mut(*name).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            container.remove("image");
        }
    }
    if let Some(fields) = spec.as_object_mut() {
        for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeName"] {
            fields.remove(name);
        }
        if is_gated {
            gates::remove_mutable_fields(fields);
        }
    }
    spec
}

/// Checks a template of pods. `restart_policies` are those that its owner allows; `None` for all. The pods get `further`
/// volumes when they are made.
pub(super) fn check_template(
    report: &mut Report<'_>,
    pointer: &str,
    path: &str,
    restart_policies: Option<&[&str]>,
    further: &[Value],
) {
    let metadata = report.at(&format!("{pointer}/metadata"));
    report.labels(&format!("{path}.labels"), &metadata["labels"]);
    report.annotation_names(&format!("{path}.annotations"), &metadata["annotations"]);
    annotations::check(report, pointer, &format!("{path}.annotations"));
    if has_ephemeral_containers(report.at(&format!("{pointer}/spec"))) {
        report
            .forbidden(format!("{path}.spec.ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
    let spec_path = format!("{path}.spec");
    let spec = PodSpec::new(report, &format!("{pointer}/spec"), &spec_path);
    profile_annotations::check(report, &spec, &metadata["annotations"], &format!("{path}.annotations"));
    profile_annotations::check_fields(report, &spec, &metadata["annotations"]);
    check_spec(report, &format!("{pointer}/spec"), &spec_path, restart_policies, further);
}

/// Checks the specification of a pod.
fn check_spec(
    report: &mut Report<'_>,
    pointer: &str,
    path: &str,
    restart_policies: Option<&[&str]>,
    further: &[Value],
) {
    let spec = report.at(pointer);
    let is_further = |volume: &&Value| further.iter().any(|known| known["name"] == volume["name"]);
    let own = spec["volumes"].as_array().into_iter().flatten().filter(|volume| !is_further(volume));
    let volumes: Vec<&Value> = further.iter().chain(own).collect();
    // A template has another path.
    let is_pod = pointer == "/spec";
    let name = is_pod.then(|| text(report.at("/metadata/name")));
    let volumes = volumes::check(report, &volumes, name, &format!("{path}.volumes"));
    if is_pod {
        volumes::check_tokens(report, spec, path);
    }
    let volumes = volumes.into_iter().map(|volume| (text(&volume["name"]), volume)).collect();
    containers::check_all(report, &containers::Pod { spec, volumes: &volumes, is_pod }, path);
    spec::check(report, &PodSpec::new(report, pointer, path), restart_policies);
}

/// Returns the status of a new pod.
pub(super) fn first_status(pod: &Value) -> Value {
    let mut status = json!({ "phase": "Pending", "qosClass": quality(&pod["spec"]) });
    if gates::is_gated(&pod["spec"]) {
        status["conditions"] = json!([gates::gated_condition(pod)]);
    }
    status
}

/// Returns the seconds that a pod may take for its end: none without a node that runs it.
pub(super) fn grace_seconds(pod: &Value, asked: Option<u32>) -> u32 {
    let has_node = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    if !has_node || matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")) {
        return 0;
    }
    asked.unwrap_or_else(|| match pod["spec"]["terminationGracePeriodSeconds"].as_i64() {
        Some(seconds) if seconds < 0 => 1,
        seconds => u32::try_from(seconds.unwrap_or_default()).unwrap_or(u32::MAX),
    })
}

/// Returns the class of a pod by its processor time and memory: by those of the pod as a whole, if it names them.
fn quality(spec: &Value) -> &'static str {
    const COMPUTE: [&str; 2] = ["cpu", "memory"];
    let whole = Some(spec).filter(|spec| spec["resources"].is_object());
    let containers = || {
        let lists = CONTAINERS[..2].iter().flat_map(|name| spec[*name].as_array().into_iter().flatten());
        whole.into_iter().chain(lists.filter(|_| whole.is_none()))
    };
    let amount = |container: &Value, list: &str, name: &str| container["resources"][list][name].clone();
    let is_set = |amount: &Value| amount.as_str().is_some_and(|amount| amount != "0");
    let asks = |container: &Value| {
        COMPUTE
            .iter()
            .any(|name| is_set(&amount(container, "limits", name)) || is_set(&amount(container, "requests", name)))
    };
    let is_guaranteed = |container: &Value| {
        COMPUTE.iter().all(|name| {
            let limit = amount(container, "limits", name);
            is_set(&limit) && amount(container, "requests", name) == limit
        })
    };
    if !containers().any(asks) {
        "BestEffort"
    } else if containers().all(is_guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

#[cfg(test)]
mod tests;
