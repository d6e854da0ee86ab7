//! Paths in volumes and in file systems.

use serde_json::Value;

use crate::rules::report::{Report, text};

/// Checks a path below the folder of a volume that no file of Kubernetes has.
pub(super) fn check_local(report: &mut Report<'_>, value: &Value, path: &str) {
    check_descending(report, value, path);
    if text(value).starts_with("..") && !text(value).starts_with("../") {
        report.invalid(path, value, "must not start with '..'");
    }
}

/// Checks a path below a folder.
pub(in crate::rules) fn check_descending(report: &mut Report<'_>, value: &Value, path: &str) {
    if text(value).starts_with('/') {
        report.invalid(path, value, "must be a relative path");
    }
    check_steps(report, value, path);
}

/// Checks that no step of a path leads up.
pub(in crate::rules) fn check_steps(report: &mut Report<'_>, value: &Value, path: &str) {
    if has_back_step(text(value)) {
        report.invalid(path, value, "must not contain '..'");
    }
}

/// Returns whether a step of a path leads up.
pub(in crate::rules) fn has_back_step(path: &str) -> bool {
    path.split('/').any(|step| step == "..")
}
