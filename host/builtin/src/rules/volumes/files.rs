//! The files of volumes that hold keys of config maps and secrets, or fields of the pod.

use serde_json::Value;

use super::paths::check_local;
use super::sources::require;
use crate::rules::containers::references;
use crate::rules::report::{Report, items};

const MODE_MAX: i64 = 0o777;
/// The fields of a pod that can become a file.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Checks a volume of the keys of a config map or a secret.
pub(super) fn check_keys(report: &mut Report<'_>, source: &Value, path: &str) {
    check_mode(report, source, path, "defaultMode");
    for (at, item) in items(&source["items"]).iter().enumerate() {
        check_key(report, item, &format!("{path}.items[{at}]"));
    }
}

/// Checks which key becomes which file.
pub(super) fn check_key(report: &mut Report<'_>, item: &Value, path: &str) {
    require(report, item, path, &["key", "path"]);
    check_local(report, &item["path"], &format!("{path}.path"));
    check_mode(report, item, path, "mode");
}

/// Checks a volume of fields of the pod. The errors have no index, as those of Kubernetes.
pub(super) fn check_fields(report: &mut Report<'_>, source: &Value, path: &str) {
    check_mode(report, source, path, "defaultMode");
    for file in items(&source["items"]) {
        check_field(report, file, path);
    }
}

/// Checks which field of the pod becomes which file.
pub(super) fn check_field(report: &mut Report<'_>, file: &Value, path: &str) {
    require(report, file, path, &["path"]);
    check_local(report, &file["path"], &format!("{path}.path"));
    let (field, resource) = (&file["fieldRef"], &file["resourceFieldRef"]);
    if field.is_object() {
        references::check_field(report, field, &FIELDS, &format!("{path}.fieldRef"));
        if resource.is_object() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            report.invalid(path, &"resource".into(), detail);
        }
    } else if resource.is_object() {
        references::check_resource_field_of_file(report, resource, &format!("{path}.resourceFieldRef"));
    } else {
        report.required(path, "one of fieldRef and resourceFieldRef is required");
    }
    check_mode(report, file, path, "mode");
}

/// Checks who may use a file.
pub(super) fn check_mode(report: &mut Report<'_>, fields: &Value, path: &str, name: &str) {
    if fields[name].as_i64().is_some_and(|mode| !(0..=MODE_MAX).contains(&mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        report.invalid(format!("{path}.{name}"), &fields[name], detail);
    }
}
