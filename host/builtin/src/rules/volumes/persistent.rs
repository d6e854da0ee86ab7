//! The sources of persistent volumes.
//!
//! Source: `ValidatePersistentVolumeSpec` of Kubernetes.

use homeostat_cel::names::DNS_1123_LABEL;
use serde_json::Value;

use super::network::{self, TOO_LONG_WITH_PORTAL};
use super::paths::check_steps;
use super::sources::{self, MORE_THAN_ONE, Source, require};
use crate::rules::report::{Report, text};

/// The sources of persistent volumes, in the order in which Kubernetes looks for them.
const SOURCES: [Source; 22] = [
    sources::HOST_PATH,
    sources::GCE,
    sources::AWS,
    Source { check: check_gluster_fs, ..sources::GLUSTER_FS },
    sources::FLOCKER,
    sources::NFS,
    sources::RBD,
    sources::QUOBYTE,
    sources::CEPH_FS,
    Source { check: check_iscsi, ..sources::ISCSI },
    Source { check: check_cinder, ..sources::CINDER },
    sources::FIBRE_CHANNEL,
    sources::FLEX_VOLUME,
    Source { check: check_azure_file, ..sources::AZURE_FILE },
    sources::VSPHERE,
    sources::PHOTON,
    sources::PORTWORX,
    sources::AZURE_DISK,
    sources::SCALE_IO,
    Source { name: "local", required: &["path"], check: check_local },
    Source { check: check_storage_os, ..sources::STORAGE_OS },
    Source { name: "csi", required: &["driver", "volumeHandle"], check: check_driver },
];
/// The secrets of a driver.
const SECRETS: [&str; 4] =
    ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];

/// Checks the source of a persistent volume, which has a name unless it is a part of an attachment.
pub(in crate::rules) fn check(report: &mut Report<'_>, spec: &Value, name: &str, path: &str) {
    let mut is_first = true;
    for source in SOURCES.iter().filter(|source| spec[source.name].is_object()) {
        // Kubernetes always checks this one.
        if is_first || source.name == "flexVolume" {
            source.check(report, &spec[source.name], path);
            check_surroundings(report, spec, source, name, path);
        } else {
            report.forbidden(format!("{path}.{}", source.name_if_forbidden()), MORE_THAN_ONE);
        }
        is_first = false;
    }
    if is_first {
        report.required(path, "must specify a volume type");
    }
    let is_root = |folder: &str| !folder.is_empty() && depth(folder) == 0 && folder.starts_with('/');
    if is_root(text(&spec["hostPath"]["path"])) && spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        report.forbidden(format!("{path}.persistentVolumeReclaimPolicy"), detail);
    }
}

/// Returns how many folders below the root an absolute path ends.
fn depth(path: &str) -> usize {
    path.split('/').fold(0, |depth, step| match step {
        "" | "." => depth,
        ".." => depth.saturating_sub(1),
        _ => depth + 1,
    })
}

/// Checks what a source and the rest of its volume say together.
fn check_surroundings(report: &mut Report<'_>, spec: &Value, source: &Source, name: &str, path: &str) {
    match source.name {
        "iscsi" => check_portal(report, &spec["iscsi"], name, &format!("{path}.iscsi")),
        "local" if spec["nodeAffinity"].is_null() => {
            report.required(format!("{path}.nodeAffinity"), "Local volume requires node affinity");
        }
        _ => {}
    }
}

fn check_portal(report: &mut Report<'_>, source: &Value, name: &str, path: &str) {
    if network::is_too_long_with_portal(source, name) {
        report.invalid(format!("{path}.targetportal"), &text(&source["targetPortal"]).into(), TOO_LONG_WITH_PORTAL);
    }
}

fn check_iscsi(report: &mut Report<'_>, source: &Value, path: &str) {
    network::check_targets(report, source, path, "must be valid format");
    network::check_secret(report, source, path);
}

fn check_gluster_fs(report: &mut Report<'_>, source: &Value, path: &str) {
    let namespace = &source["endpointsNamespace"];
    let path = format!("{path}.endpointsNamespace");
    if namespace == "" {
        report.invalid(path, namespace, "if the endpointnamespace is set, it must be a valid namespace name");
    } else if namespace.is_string() {
        report.form(path, namespace, &DNS_1123_LABEL);
    }
}

fn check_cinder(report: &mut Report<'_>, source: &Value, path: &str) {
    if source["secretRef"].is_object() {
        require(report, &source["secretRef"], &format!("{path}.secretRef"), &["name", "namespace"]);
    }
}

fn check_azure_file(report: &mut Report<'_>, source: &Value, path: &str) {
    if source["secretNamespace"].is_string() {
        require(report, source, path, &["secretNamespace"]);
    }
}

fn check_local(report: &mut Report<'_>, source: &Value, path: &str) {
    check_steps(report, &source["path"], &format!("{path}.path"));
}

fn check_storage_os(report: &mut Report<'_>, source: &Value, path: &str) {
    network::check_storage_os(report, source, path);
    if source["secretRef"].is_object() {
        require(report, &source["secretRef"], &format!("{path}.secretRef"), &["namespace"]);
    }
}

fn check_driver(report: &mut Report<'_>, source: &Value, path: &str) {
    network::check_driver(report, source, path);
    for name in SECRETS.into_iter().filter(|name| source[*name].is_object()) {
        let (secret, path) = (&source[name], format!("{path}.{name}"));
        require(report, secret, &path, &["name", "namespace"]);
        if !text(&secret["name"]).is_empty() {
            report.subdomain(format!("{path}.name"), &secret["name"]);
        }
        if !text(&secret["namespace"]).is_empty() {
            report.label(format!("{path}.namespace"), &secret["namespace"]);
        }
    }
}
