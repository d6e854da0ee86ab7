//! Volumes and their claims, and the kinds of storage: classes, drivers, attachments and capacities.

mod claims;
mod classes;

use std::collections::BTreeSet;

use homeostat_store::schema::quantity_in_nanos;
use serde_json::{Map, Value};

use super::amounts::check_not_negative;
use super::defaults::{default, object_at};
use super::report::{Report, text, without};
use super::{pods, volumes};
pub(super) use claims::{check_claim, check_claim_spec, check_persistent_volume_claim, claim_defaults};
pub(super) use classes::{check_storage_class, check_volume_attributes_class};

/// Most bytes of the id of a node for a driver.
const NODE_ID_BYTES_MAX: usize = 256;
/// The least time between two updates of the capacity of a node, in seconds.
const UPDATE_SECONDS_MIN: i64 = 10;

pub(super) fn persistent_volume_defaults(volume: &mut Value, _old: Option<&Value>) {
    if let Some(spec) = object_at(volume, "/spec") {
        default(spec, "persistentVolumeReclaimPolicy", "Retain");
        default(spec, "volumeMode", "Filesystem");
    }
}

pub(super) fn check_persistent_volume(report: &mut Report<'_>) {
    if report.at("/spec/accessModes").as_array().is_none_or(Vec::is_empty) {
        report.required("spec.accessModes", "");
    }
    check_modes(report, report.at("/spec/accessModes"), "spec.accessModes");
    let capacity = report.at("/spec/capacity");
    if capacity.as_object().is_none_or(Map::is_empty) {
        report.required("spec.capacity", "");
    }
    if capacity.get("storage").is_none() || capacity.as_object().is_some_and(|amounts| amounts.len() > 1) {
        report.unsupported("spec.capacity", capacity, &["storage"]);
    }
    for (name, amount) in capacity.as_object().into_iter().flatten() {
        check_not_negative(report, amount, format!("spec.capacity[{name}]"));
        if quantity_in_nanos(amount).is_some_and(|amount| amount <= 0) {
            report.invalid(format!("spec.capacity[{name}]"), amount, "must be greater than zero");
        }
    }
    check_node_affinity(report);
    volumes::persistent::check(report, report.at("/spec"), text(report.at("/metadata/name")), "spec");
    let class = report.at("/spec/storageClassName");
    if !text(class).is_empty() {
        report.subdomain("spec.storageClassName".to_owned(), class);
    }
    check_attributes_class(report);
    let Some(old) = report.old else { return };
    let sources = |spec: &Value| without(spec, &PLAIN_FIELDS);
    if sources(report.at("/spec")) != sources(&old["spec"]) {
        report.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation");
    }
    let (mode, before) = (report.at("/spec/volumeMode"), &old["spec"]["volumeMode"]);
    if mode != before {
        report.invalid("volumeMode", mode, "field is immutable");
    }
}

/// The fields of a volume that name no source.
const PLAIN_FIELDS: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// Checks from which nodes a volume can be reached.
fn check_node_affinity(report: &mut Report<'_>) {
    let (path, affinity) = ("spec.nodeAffinity.required", report.at("/spec/nodeAffinity"));
    if !affinity.is_object() {
        return;
    }
    if affinity["required"].is_object() {
        pods::check_node_selector(report, &affinity["required"], path, true);
    } else {
        report.required(path, "must specify required node constraints");
    }
}

/// Checks the class of attributes of a volume: only a driver of CSI has them.
fn check_attributes_class(report: &mut Report<'_>) {
    let (path, class) = ("spec.volumeAttributesClassName", report.at("/spec/volumeAttributesClassName"));
    match class.as_str() {
        None => return,
        Some("") => report.required(path, "an empty string is disallowed"),
        Some(_) => report.subdomain(path.to_owned(), class),
    }
    if !report.at("/spec/csi").is_object() {
        report.required("spec.csi", "has to be specified when using volumeAttributesClassName");
    }
}

/// Checks how volumes are accessed. One for a single pod has no other way.
fn check_modes(report: &mut Report<'_>, modes: &Value, path: &str) {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let has = |known: &[&str]| modes.as_array().into_iter().flatten().any(|mode| known.contains(&text(mode)));
    if has(&MODES[3..]) && has(&MODES[..3]) {
        report.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
    for mode in modes.as_array().into_iter().flatten().filter(|mode| !MODES.iter().any(|known| mode == known)) {
        report.unsupported(path, mode, &MODES);
    }
}

const GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: [&str; 2] = ["Persistent", "Ephemeral"];

pub(super) fn check_driver(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    let policy = &spec["fsGroupPolicy"];
    if !policy.is_null() && !GROUP_POLICIES.iter().any(|known| policy == known) {
        report.unsupported("spec.fsGroupPolicy", policy, &GROUP_POLICIES);
    }
    let mut audiences = BTreeSet::new();
    for (at, request) in spec["tokenRequests"].as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.tokenRequests[{at}]");
        if !audiences.insert(request["audience"].as_str().unwrap_or_default()) {
            report.duplicate(format!("{path}.audience"), &request["audience"]);
            continue;
        }
        report.token_seconds(format!("{path}.expirationSeconds"), &request["expirationSeconds"]);
    }
    for mode in spec["volumeLifecycleModes"].as_array().into_iter().flatten() {
        if !LIFECYCLE_MODES.iter().any(|known| mode == known) {
            report.unsupported("spec.volumeLifecycleModes", mode, &LIFECYCLE_MODES);
        }
    }
    let period = &spec["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|seconds| seconds < UPDATE_SECONDS_MIN) {
        let detail = "must be greater than or equal to 10 seconds";
        report.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail);
    }
    let in_secrets = &spec["serviceAccountTokenInSecrets"];
    if !in_secrets.is_null() && spec["tokenRequests"].as_array().is_none_or(Vec::is_empty) {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        report.invalid("spec.serviceAccountTokenInSecrets", in_secrets, detail);
    }
    let Some(old) = report.old else { return };
    // As there, with this word.
    if old["spec"]["attachRequired"] != spec["attachRequired"] {
        report.invalid("spec.attachedRequired", &spec["attachRequired"], "field is immutable");
    }
    report.immutable("/spec/volumeLifecycleModes");
}

/// Removes the field of a driver whose gate is off.
pub(super) fn driver_defaults(driver: &mut Value, _old: Option<&Value>) {
    if let Some(spec) = object_at(driver, "/spec") {
        spec.remove("preventPodSchedulingIfMissing");
    }
}

pub(super) fn check_node_drivers(report: &mut Report<'_>) {
    let mut names = BTreeSet::new();
    for (at, driver) in report.at("/spec/drivers").as_array().into_iter().flatten().enumerate() {
        let path = format!("spec.drivers[{at}]");
        report.driver_name(&format!("{path}.name"), text(&driver["name"]));
        if !names.insert(driver["name"].as_str().unwrap_or_default()) {
            report.duplicate(format!("{path}.name"), &driver["name"]);
        }
        if driver["nodeID"].as_str().is_some_and(|id| id.len() > NODE_ID_BYTES_MAX) {
            report.invalid(format!("{path}.nodeID"), &driver["nodeID"], "must be 256 characters or less");
        }
        let count = &driver["allocatable"]["count"];
        if count.as_i64().is_some_and(|count| count < 0) {
            let detail = "must be greater than or equal to 0";
            report.invalid(format!("{path}.allocatable.count"), count, detail);
        }
        let mut keys = BTreeSet::new();
        for key in driver["topologyKeys"].as_array().into_iter().flatten() {
            if key == "" {
                report.required(path.clone(), "");
            }
            if !keys.insert(key.as_str().unwrap_or_default()) {
                report.duplicate(path.clone(), key);
            }
            report.qualified(path.clone(), key);
        }
    }
    let old = report.old.map(|old| &old["spec"]["drivers"]).and_then(Value::as_array);
    for before in old.into_iter().flatten() {
        for now in report.at("/spec/drivers").as_array().into_iter().flatten() {
            if now["name"] == before["name"] && without(now, &["allocatable"]) != without(before, &["allocatable"]) {
                report.invalid("spec.drivers", now, "field is immutable");
            }
        }
    }
}

pub(super) fn check_capacity(report: &mut Report<'_>) {
    report.selector("nodeTopology", report.at("/nodeTopology"));
    let class = report.at("/storageClassName").as_str().unwrap_or_default();
    report.subdomain("storageClassName".to_owned(), &class.into());
    let capacity = report.at("/capacity");
    if quantity_in_nanos(capacity).is_some_and(|amount| amount < 0) {
        report.invalid("capacity", capacity, "must be greater than or equal to 0");
    }
    report.immutable("/nodeTopology");
    report.immutable("/storageClassName");
}

pub(super) fn check_attachment(report: &mut Report<'_>) {
    let spec = report.at("/spec");
    report.driver_name("spec.attacher", text(&spec["attacher"]));
    if text(&spec["attacher"]).is_empty() {
        report.required("spec.attacher", "");
    }
    let (name, inline) = (&spec["source"]["persistentVolumeName"], &spec["source"]["inlineVolumeSpec"]);
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (name.as_str(), inline.is_object()) {
        (None, false) => report.required("spec.source", detail),
        (Some(_), true) => report.forbidden("spec.source", detail),
        (Some(""), _) => {
            report.required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName");
        }
        _ => {}
    }
    if inline.is_object() {
        volumes::persistent::check(report, inline, "", "spec.source.inlineVolumeSpec");
    }
    if name.is_string() {
        report.subdomain("spec.source.persistentVolumeName".to_owned(), name);
    }
    report.subdomain("spec.nodeName".to_owned(), &text(&spec["nodeName"]).into());
    report.immutable("/spec");
}

#[cfg(test)]
mod tests;
