//! Pods and the templates of pods.

mod annotations;
mod subresources;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::containers;
use super::defaults::{absent, default, object_at};
use super::names::{QUALIFIED, is_label, is_label_value, is_qualified};
use super::report::Report;
use super::volumes;
pub(super) use subresources::confine;

/// The lists of containers in the specification of a pod.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// The longest name of an image.
const IMAGE_BYTES_MAX: usize = 255;
/// The fields of a container that an update of a pod can change.
const MUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Sets the defaults of a pod.
pub(super) fn set_defaults(pod: &mut Value, old: Option<&Value>) {
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
    check_spec(report, "/spec", "spec", None, &[]);
    let Some(old) = report.old else {
        if has_ephemeral_containers(report.at("/spec")) {
            report.forbidden("spec.ephemeralContainers", "cannot be set on create");
        }
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
    check_old_tolerations(report, &now["tolerations"], &before["tolerations"]);
    if moves || comparable(now) != comparable(before) {
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

/// Checks that each toleration of a pod stays, except for its time.
fn check_old_tolerations(report: &mut Report<'_>, now: &Value, before: &Value) {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(fields) = toleration.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    let now: Vec<Value> = now.as_array().into_iter().flatten().map(timeless).collect();
    if before.as_array().into_iter().flatten().any(|old| !now.contains(&timeless(old))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        report.forbidden("spec.tolerations", detail);
    }
}

/// Returns a specification without the fields that an update can change.
fn comparable(spec: &Value) -> Value {
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
    for (name, _) in metadata["annotations"].as_object().into_iter().flatten() {
        if !is_qualified(&name.to_lowercase()) {
            report.invalid(format!("{path}.annotations"), &name.as_str().into(), QUALIFIED);
        }
    }
    annotations::check(report, pointer, &format!("{path}.annotations"));
    if has_ephemeral_containers(report.at(&format!("{pointer}/spec"))) {
        report
            .forbidden(format!("{path}.spec.ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
    check_spec(report, &format!("{pointer}/spec"), &format!("{path}.spec"), restart_policies, further);
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
    let volumes = volumes::check(report, &volumes, &format!("{path}.volumes"));
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        report.required(format!("{path}.containers"), "");
    }
    let mut names = BTreeSet::new();
    let named = |list: &&'static str| {
        let containers = spec[*list].as_array().into_iter().flatten();
        containers.filter_map(|one| one["name"].as_str())
    };
    let others: BTreeSet<&str> = CONTAINERS[..2].iter().flat_map(named).collect();
    for list in CONTAINERS {
        for (at, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let path = format!("{path}.{list}[{at}]");
            let name = container["name"].as_str().unwrap_or_default();
            if name.is_empty() {
                report.required(format!("{path}.name"), "");
            } else if !is_label(name) {
                report.label(format!("{path}.name"), &container["name"]);
            } else if !names.insert(name) {
                report.duplicate(format!("{path}.name"), &container["name"]);
            }
            containers::check(report, container, &path, &volumes);
            if list == "ephemeralContainers" {
                containers::check_ephemeral(report, container, &others, &path);
            }
        }
    }
    let policy = &spec["restartPolicy"];
    match restart_policies {
        Some(allowed) if policy == "Always" && !allowed.contains(&"Always") => {
            report.required(format!("{path}.restartPolicy"), "valid values: \"OnFailure\", \"Never\"");
        }
        Some(allowed) if !allowed.iter().any(|name| policy == name) => {
            report.unsupported(format!("{path}.restartPolicy"), policy, allowed);
        }
        _ => {}
    }
    report.labels(&format!("{path}.nodeSelector"), &spec["nodeSelector"]);
    check_tolerations(report, &spec["tolerations"], &format!("{path}.tolerations"));
    if spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        report.invalid(format!("{path}.activeDeadlineSeconds"), &spec["activeDeadlineSeconds"], detail);
    }
}

pub(super) fn check_tolerations(report: &mut Report<'_>, tolerations: &Value, path: &str) {
    for (at, toleration) in tolerations.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}[{at}]");
        let text = |name: &str| toleration[name].as_str().unwrap_or_default();
        let operator = format!("{path}.operator");
        if !text("key").is_empty() {
            report.qualified(format!("{path}.key"), &toleration["key"]);
        } else if text("operator") != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            report.invalid(operator.clone(), &text("operator").into(), detail);
        }
        if toleration["tolerationSeconds"].is_number() && text("effect") != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            report.invalid(format!("{path}.effect"), &text("effect").into(), detail);
        }
        match text("operator") {
            "" | "Equal" if !is_label_value(text("value")) => {
                report.invalid(operator, &toleration["value"], "is no value of a label");
            }
            "Exists" if !text("value").is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                report.invalid(operator, &toleration["value"], detail);
            }
            "" | "Equal" | "Exists" => {}
            _ => report.unsupported(operator, &toleration["operator"], &["Equal", "Exists"]),
        }
    }
}

/// Returns the status of a new pod.
pub(super) fn first_status(pod: &Value) -> Value {
    json!({ "phase": "Pending", "qosClass": quality(&pod["spec"]) })
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
