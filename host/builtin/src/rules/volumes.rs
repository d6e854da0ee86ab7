//! The volumes of a pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names::is_label;
use super::report::Report;

/// The field by which a volume names its source.
const SOURCES: [(&str, &str); 7] = [
    ("configMap", "name"),
    ("csi", "driver"),
    ("hostPath", "path"),
    ("nfs", "path"),
    ("nfs", "server"),
    ("persistentVolumeClaim", "claimName"),
    ("secret", "secretName"),
];

/// The supported types of a path of the host.
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

const MODE_MAX: i64 = 0o777;
/// The shortest time that a token of a service account may be valid for, in seconds.
const TOKEN_SECONDS_MIN: i64 = 600;

/// Checks the volumes of a pod, and returns those that are valid: others cannot be mounted.
pub(super) fn check<'v>(report: &mut Report<'_>, volumes: &[&'v Value], path: &str) -> Vec<&'v Value> {
    let (mut names, mut valid) = (BTreeSet::new(), Vec::new());
    for (at, volume) in volumes.iter().enumerate() {
        let before = report.found.len();
        let path = format!("{path}[{at}]");
        let sources = volume.as_object().into_iter().flatten().filter(|(name, _)| *name != "name");
        for (at, (name, source)) in sources.enumerate() {
            let path = format!("{path}.{name}");
            if at == 0 {
                check_source(report, name, source, &path);
            } else {
                report.forbidden(path, "may not specify more than 1 volume type");
            }
        }
        let path = format!("{path}.name");
        let name = volume["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            report.required(path, "");
        } else if !is_label(name) {
            report.label(path, &volume["name"]);
        } else if !names.insert(name) {
            report.duplicate(path, &volume["name"]);
        }
        if report.found.len() == before {
            valid.push(*volume);
        }
    }
    valid
}

fn check_source(report: &mut Report<'_>, name: &str, source: &Value, path: &str) {
    for (_, field) in SOURCES.iter().filter(|(known, _)| *known == name) {
        require(report, source, path, field);
    }
    match name {
        "configMap" | "secret" => {
            check_mode(report, source, path, "defaultMode");
            check_items(report, source, path);
        }
        "downwardAPI" => {
            check_mode(report, source, path, "defaultMode");
            check_files(report, source, path);
        }
        "emptyDir" if is_negative(&source["sizeLimit"]) => {
            report.forbidden(format!("{path}.sizeLimit"), "SizeLimit field must be a valid resource quantity");
        }
        "hostPath" if !text(source, "path").is_empty() => {
            check_steps(report, &source["path"], &format!("{path}.path"));
            if !source["type"].is_null() && !HOST_PATH_TYPES.contains(&text(source, "type")) {
                report.unsupported(format!("{path}.type"), &source["type"], &HOST_PATH_TYPES);
            }
        }
        "nfs" if !text(source, "path").starts_with('/') => {
            report.invalid(format!("{path}.path"), &source["path"], "must be an absolute path");
        }
        "projected" => {
            check_mode(report, source, path, "defaultMode");
            for (at, source) in items(source, "sources").enumerate() {
                check_projection(report, source, path, &format!("{path}.sources[{at}]"));
            }
        }
        _ => {}
    }
}

/// Checks one of the sources of a projected volume. Some errors have the path of the volume.
fn check_projection(report: &mut Report<'_>, source: &Value, volume: &str, path: &str) {
    for name in ["configMap", "secret"] {
        if let Some(source) = source.get(name) {
            let path = format!("{path}.{name}");
            require(report, source, &path, "name");
            check_items(report, source, &path);
        }
    }
    if let Some(source) = source.get("downwardAPI") {
        check_files(report, source, &format!("{path}.downwardAPI"));
    }
    if let Some(token) = source.get("serviceAccountToken") {
        let seconds = &token["expirationSeconds"];
        if seconds.as_i64().is_some_and(|seconds| seconds < TOKEN_SECONDS_MIN) {
            let path = format!("{path}.serviceAccountToken.expirationSeconds");
            report.invalid(path, seconds, "may not specify a duration less than 10 minutes");
        }
        require(report, token, volume, "path");
        check_local_path(report, &token["path"], &format!("{volume}.path"));
    }
    if source.as_object().is_some_and(|sources| sources.len() > 1) {
        report.forbidden(path, "may not specify more than 1 volume type per source");
    }
}

/// Checks which keys of a config map or a secret become which files.
fn check_items(report: &mut Report<'_>, source: &Value, path: &str) {
    for (at, item) in items(source, "items").enumerate() {
        let path = format!("{path}.items[{at}]");
        require(report, item, &path, "key");
        require(report, item, &path, "path");
        check_local_path(report, &item["path"], &format!("{path}.path"));
        check_mode(report, item, &path, "mode");
    }
}

/// Checks which fields of the pod become which files. The errors have no index, as those of Kubernetes.
fn check_files(report: &mut Report<'_>, source: &Value, path: &str) {
    for file in items(source, "items") {
        require(report, file, path, "path");
        check_local_path(report, &file["path"], &format!("{path}.path"));
        match (file.get("fieldRef"), file.get("resourceFieldRef")) {
            (None, None) => report.required(path, "one of fieldRef and resourceFieldRef is required"),
            (Some(_), Some(_)) => {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                report.invalid(path, &"resource".into(), detail);
            }
            _ => {}
        }
        check_mode(report, file, path, "mode");
    }
}

/// Checks a path below the folder of a volume.
fn check_local_path(report: &mut Report<'_>, value: &Value, path: &str) {
    let text = value.as_str().unwrap_or_default();
    if text.starts_with('/') {
        report.invalid(path, value, "must be a relative path");
    }
    check_steps(report, value, path);
    if text.starts_with("..") && text != ".." && !text.starts_with("../") {
        report.invalid(path, value, "must not start with '..'");
    }
}

fn check_steps(report: &mut Report<'_>, value: &Value, path: &str) {
    if value.as_str().is_some_and(|text| text.split('/').any(|step| step == "..")) {
        report.invalid(path, value, "must not contain '..'");
    }
}

fn check_mode(report: &mut Report<'_>, fields: &Value, path: &str, name: &str) {
    if fields[name].as_i64().is_some_and(|mode| !(0..=MODE_MAX).contains(&mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        report.invalid(format!("{path}.{name}"), &fields[name], detail);
    }
}

fn require(report: &mut Report<'_>, fields: &Value, path: &str, name: &str) {
    if text(fields, name).is_empty() {
        report.required(format!("{path}.{name}"), "");
    }
}

fn is_negative(quantity: &Value) -> bool {
    quantity.as_str().is_some_and(|text| text.starts_with('-'))
}

fn items<'v>(fields: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    fields[name].as_array().into_iter().flatten()
}

fn text<'v>(fields: &'v Value, name: &str) -> &'v str {
    fields[name].as_str().unwrap_or_default()
}
