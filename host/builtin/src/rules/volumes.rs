//! The volumes of a pod, and the sources of persistent volumes.
//!
//! Source: `ValidateVolumes` and `validateVolumeSource` of Kubernetes.

mod files;
mod network;
pub(super) mod paths;
pub(super) mod persistent;
mod projected;
mod sources;

use std::collections::BTreeSet;

use homeostat_cel::names::DNS_1123_SUBDOMAIN;
use serde_json::Value;

use super::report::{Report, items, text};
use super::storage;
use sources::{MORE_THAN_ONE, OF_PODS};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// Checks the volumes of a pod, and returns those that are valid: others cannot be mounted. `pod` is the name of the pod;
/// `None` for a template.
pub(super) fn check<'v>(
    report: &mut Report<'_>,
    volumes: &[&'v Value],
    pod: Option<&str>,
    path: &str,
) -> Vec<&'v Value> {
    let (mut names, mut valid) = (BTreeSet::new(), Vec::new());
    for (at, volume) in volumes.iter().enumerate() {
        let before = report.found.len();
        let path = format!("{path}[{at}]");
        check_source(report, volume, pod, &path);
        check_name(report, text(&volume["name"]), &names, &format!("{path}.name"));
        if report.found.len() == before {
            names.insert(text(&volume["name"]));
            valid.push(*volume);
        }
        if let Some(pod) = pod {
            check_claim_name(report, volumes, volume, pod, &path);
        }
    }
    valid
}

fn check_name(report: &mut Report<'_>, name: &str, names: &BTreeSet<&str>, path: &str) {
    if name.is_empty() {
        report.required(path, "");
    } else {
        report.label(path.to_owned(), &name.into());
    }
    if names.contains(name) {
        report.duplicate(path, &name.into());
    }
}

/// Checks that a volume has one source, and the first one that it has.
fn check_source(report: &mut Report<'_>, volume: &Value, pod: Option<&str>, path: &str) {
    let mut given = OF_PODS.iter().filter(|source| volume[source.name].is_object());
    let Some(first) = given.next() else { return report.required(path, "must specify a volume type") };
    let source = &volume[first.name];
    first.check(report, source, path);
    match first.name {
        "image" => check_image(report, source, pod.is_some(), &format!("{path}.image")),
        "ephemeral" => check_ephemeral(report, volume, pod, path),
        _ => {}
    }
    for source in given {
        report.forbidden(format!("{path}.{}", source.name_if_forbidden()), MORE_THAN_ONE);
    }
    check_portal(report, volume, path);
}

/// Checks the length of the name of a volume whose node names itself to a portal.
fn check_portal(report: &mut Report<'_>, volume: &Value, path: &str) {
    let name = text(&volume["name"]);
    if network::is_too_long_with_portal(&volume["iscsi"], name) {
        report.invalid(format!("{path}.name"), &name.into(), network::TOO_LONG_WITH_PORTAL);
    }
}

/// Checks a volume that is an image. A template may leave its name to a controller.
fn check_image(report: &mut Report<'_>, image: &Value, is_pod: bool, path: &str) {
    if is_pod && text(&image["reference"]).is_empty() {
        report.required(format!("{path}.reference"), "");
    }
    match text(&image["pullPolicy"]) {
        "" => report.required(format!("{path}.pullPolicy"), ""),
        policy if PULL_POLICIES.contains(&policy) => {}
        policy => report.unsupported(format!("{path}.pullPolicy"), &policy.into(), &PULL_POLICIES),
    }
}

/// Checks a volume whose claim is made with the pod.
fn check_ephemeral(report: &mut Report<'_>, volume: &Value, pod: Option<&str>, path: &str) {
    let template = &volume["ephemeral"]["volumeClaimTemplate"];
    let template_path = format!("{path}.ephemeral.volumeClaimTemplate");
    if template.is_object() {
        check_claim_template(report, template, &template_path);
    } else {
        report.required(template_path, "");
    }
    let (name, Some(pod)) = (text(&volume["name"]), pod.filter(|pod| !pod.is_empty())) else { return };
    if name.is_empty() {
        return;
    }
    let claim = format!("{pod}-{name}");
    for fault in DNS_1123_SUBDOMAIN.faults(&claim) {
        report.invalid(format!("{path}.name"), &name.into(), &format!("PVC name {claim:?}: {fault}"));
    }
}

/// Checks the template of a claim, whose metadata can have labels and annotations only.
fn check_claim_template(report: &mut Report<'_>, template: &Value, path: &str) {
    let metadata = &template["metadata"];
    let metadata_path = format!("{path}.metadata");
    report.annotation_names(&format!("{metadata_path}.annotations"), &metadata["annotations"]);
    report.labels(&format!("{metadata_path}.labels"), &metadata["labels"]);
    let is_given = |(name, value): &(&String, &Value)| name != &"annotations" && name != &"labels" && !value.is_null();
    for (name, _) in metadata.as_object().into_iter().flatten().filter(is_given) {
        // Kubernetes writes the name of the field in Go, from a small letter.
        let name = if name == "uid" { "uID" } else { name };
        report.forbidden(format!("{metadata_path}.{name}"), "cannot be set");
    }
    storage::check_claim_spec(report, &template["spec"], &format!("{path}.spec"));
    let mode = &template["spec"]["volumeMode"];
    if !mode.is_null() && !VOLUME_MODES.contains(&text(mode)) {
        report.unsupported(format!("{path}.spec.volumeMode"), mode, &VOLUME_MODES);
    }
}

/// Checks that a volume has no claim that is made with the pod for another volume.
fn check_claim_name(report: &mut Report<'_>, volumes: &[&Value], volume: &Value, pod: &str, path: &str) {
    let claim = text(&volume["persistentVolumeClaim"]["claimName"]);
    let Some(made) = claim.strip_prefix(pod).and_then(|rest| rest.strip_prefix('-')).filter(|_| !pod.is_empty()) else {
        return;
    };
    if volumes.iter().any(|other| other["ephemeral"].is_object() && text(&other["name"]) == made) {
        let detail = "must not reference a PVC that gets created for an ephemeral volume";
        report.invalid(format!("{path}.persistentVolumeClaim.claimName"), &claim.into(), detail);
    }
}

/// Checks that service account tokens are those of a named account. Only pods have this rule.
pub(super) fn check_tokens(report: &mut Report<'_>, spec: &Value, path: &str) {
    if !text(&spec["serviceAccountName"]).is_empty() {
        return;
    }
    for (at, volume) in items(&spec["volumes"]).iter().enumerate() {
        for (index, source) in items(&volume["projected"]["sources"]).iter().enumerate() {
            if source["serviceAccountToken"].is_object() {
                let path = format!("{path}.volumes[{at}].projected.sources[{index}].serviceAccountToken");
                report.forbidden(path, "must not be specified when serviceAccountName is not set");
            }
        }
    }
}

#[cfg(test)]
mod tests;
