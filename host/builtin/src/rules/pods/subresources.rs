//! Writes of a part of a pod: its ephemeral containers, and the amounts of its containers.
//!
//! Source: `podEphemeralContainersStrategy` and `podResizeStrategy` of Kubernetes.

use std::collections::BTreeMap;

use homeostat_store::Subresource;
use serde_json::{Map, Value, json};

use super::super::report::Report;
use super::annotations::MIRROR;
use super::quality;

/// The lists whose containers can be resized.
const RESIZED: [&str; 2] = ["containers", "initContainers"];
/// The amounts that a resize changes.
const AMOUNTS: [&str; 2] = ["cpu", "memory"];

/// Undoes the changes of a pod that a write through this subresource cannot make.
pub(in crate::rules) fn confine(pod: &mut Value, old: &Value, subresource: Option<Subresource>) {
    let spec = match subresource {
        Some(Subresource::EphemeralContainers) => {
            let mut spec = old["spec"].clone();
            set(&mut spec, "ephemeralContainers", pod["spec"].get("ephemeralContainers"));
            spec
        }
        Some(Subresource::Resize) => match resized(&pod["spec"], &old["spec"]) {
            Some(spec) => spec,
            // The check says what is wrong with it.
            None => return,
        },
        _ => return,
    };
    pod["spec"] = spec;
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        set(&mut pod["metadata"], field, old["metadata"].get(field));
    }
}

/// Returns the old specification with the written amounts; `None` if the containers are others.
fn resized(written: &Value, old: &Value) -> Option<Value> {
    let mut spec = old.clone();
    set(&mut spec, "resources", written.get("resources"));
    for list in RESIZED {
        let containers = containers(written, list);
        if !has_same_names(containers, self::containers(old, list)) {
            return None;
        }
        for (at, container) in containers.iter().enumerate() {
            for field in ["resources", "resizePolicy"] {
                set(&mut spec[list][at], field, container.get(field));
            }
        }
    }
    Some(spec)
}

/// Checks a write of a subresource, and returns whether it is one.
pub(super) fn check(report: &mut Report<'_>, old: &Value) -> bool {
    match report.subresource {
        Some(Subresource::EphemeralContainers) => check_ephemeral_containers(report, old),
        Some(Subresource::Resize) => check_resize(report, old),
        _ => return false,
    }
    true
}

fn check_ephemeral_containers(report: &mut Report<'_>, old: &Value) {
    const PATH: &str = "spec.ephemeralContainers";
    if old["metadata"]["annotations"].get(MIRROR).is_some() {
        report.found.clear();
        return report.forbidden("", "static pods do not support ephemeral containers");
    }
    let now = containers(report.at("/spec"), "ephemeralContainers");
    let now: BTreeMap<&str, &Value> = now.iter().filter_map(|one| Some((one["name"].as_str()?, one))).collect();
    for before in containers(&old["spec"], "ephemeralContainers") {
        let name = &before["name"];
        match now.get(name.as_str().unwrap_or_default()) {
            None => report.forbidden(PATH, &format!("existing ephemeral containers {name} may not be removed\n")),
            Some(container) if *container != before => {
                report.forbidden(PATH, &format!("existing ephemeral containers {name} may not be changed"));
            }
            Some(_) => {}
        }
    }
}

fn check_resize(report: &mut Report<'_>, old: &Value) {
    let refusal = if old["metadata"]["annotations"].get(MIRROR).is_some() {
        Some("static pods cannot be resized")
    } else if old["spec"]["os"]["name"] == "windows" {
        Some("windows pods cannot be resized")
    } else {
        None
    };
    if let Some(refusal) = refusal {
        report.found.clear();
        return report.forbidden("", refusal);
    }
    let (spec, before) = (report.at("/spec"), &old["spec"]);
    let class = &old["status"]["qosClass"];
    if class.as_str().unwrap_or_else(|| quality(before)) != quality(spec) {
        report.invalid("spec", class, "Pod QOS Class may not change as a result of resizing");
    }
    if !is_supported(old) {
        report.forbidden("spec", "Pod running on node without support for resize");
    }
    check_whole(report, &spec["resources"], &before["resources"]);
    if !check_order(report, spec, before) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (at, (now, before)) in containers(spec, list).iter().zip(containers(before, list)).enumerate() {
            let path = format!("spec.{list}[{at}]");
            for (field, reason) in
                [("requests", "resource requests cannot be removed"), ("limits", "resource limits cannot be removed")]
            {
                if is_removed(&now["resources"][field], &before["resources"][field]) {
                    report.forbidden(format!("{path}.resources.{field}"), reason);
                }
            }
            if now == before {
                continue;
            }
            let is_same = without_amounts(now) == without_amounts(before);
            if list == "initContainers" {
                if !is_same {
                    let reason = "only cpu and memory resources for init or sidecar containers are mutable";
                    report.forbidden(&*path, reason);
                }
                let restarts =
                    items(&now["resizePolicy"]).filter(|policy| policy["restartPolicy"] == "RestartContainer");
                if now["restartPolicy"] != "Always" && restarts.count() > 0 {
                    let reason =
                        "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                    report.forbidden(path, reason);
                }
            } else if !is_same {
                report.forbidden("spec", "only cpu and memory resources are mutable");
            }
        }
    }
}

/// Checks the amounts of a pod as a whole.
fn check_whole(report: &mut Report<'_>, now: &Value, before: &Value) {
    let has_some = |resources: &Value| ["requests", "limits"].iter().any(|field| !is_empty(&resources[*field]));
    if !has_some(now) && !has_some(before) {
        return;
    }
    if before.is_object() && !now.is_object() {
        return report.forbidden("spec.resources", "pod-level resources cannot be removed");
    }
    if before.is_object() {
        for (field, reason) in [
            ("requests", "pod-level resource requests cannot be removed"),
            ("limits", "pod-level resource limits cannot be removed"),
        ] {
            if is_removed(&now[field], &before[field]) {
                report.forbidden(format!("spec.resources.{field}"), reason);
            }
        }
    }
    if others(now) != others(before) {
        report.forbidden("spec", "only cpu and memory resources are mutable at pod-level");
    }
}

/// Checks that the containers are the same ones, and returns whether they are.
fn check_order(report: &mut Report<'_>, spec: &Value, before: &Value) -> bool {
    let count = report.found.len();
    for list in RESIZED {
        let (now, before) = (containers(spec, list), containers(before, list));
        if now.len() != before.len() {
            report.forbidden(format!("spec.{list}"), &format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (at, (now, before)) in now.iter().zip(before).enumerate() {
            if now["name"] != before["name"] {
                let path = format!("spec.{list}[{at}].name");
                report.forbidden(path, &format!("{list} may not be renamed or reordered on resize"));
            }
        }
    }
    report.found.len() == count
}

/// Returns whether the node of a pod can resize it, as far as its status says.
fn is_supported(pod: &Value) -> bool {
    let running = items(&pod["status"]["containerStatuses"]).find(|status| status["state"].get("running").is_some());
    running.is_none_or(|status| status.get("resources").is_some())
}

/// Returns whether an amount is gone.
fn is_removed(now: &Value, before: &Value) -> bool {
    let mut names = before.as_object().into_iter().flatten().map(|(name, _)| name);
    names.any(|name| now.get(name).is_none())
}

/// Returns a container without the amounts that a resize changes.
fn without_amounts(container: &Value) -> Value {
    let mut container = container.clone();
    let resources = container.as_object_mut().and_then(|fields| fields.remove("resources")).unwrap_or_default();
    json!({ "container": container, "resources": others(&resources) })
}

/// Returns the amounts that a resize does not change.
fn others(resources: &Value) -> Value {
    let amounts = |field: &str| -> Map<String, Value> {
        let all = resources[field].as_object().into_iter().flatten();
        let kept = all.filter(|(name, _)| !AMOUNTS.contains(&name.as_str()));
        kept.map(|(name, amount)| (name.clone(), amount.clone())).collect()
    };
    json!({ "requests": amounts("requests"), "limits": amounts("limits"), "claims": resources.get("claims") })
}

fn containers<'s>(spec: &'s Value, list: &str) -> &'s [Value] {
    spec[list].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn has_same_names(now: &[Value], before: &[Value]) -> bool {
    now.len() == before.len() && now.iter().zip(before).all(|(now, before)| now["name"] == before["name"])
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn is_empty(map: &Value) -> bool {
    map.as_object().is_none_or(Map::is_empty)
}

/// Sets a field of an object, or removes it.
fn set(object: &mut Value, field: &str, value: Option<&Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    match value {
        Some(value) => drop(fields.insert(field.to_owned(), value.clone())),
        None => drop(fields.remove(field)),
    }
}
