//! Volumes that hold the files of several sources.

use std::collections::BTreeSet;

use serde_json::Value;

use super::files::{check_field, check_key, check_mode};
use super::paths::check_local;
use super::sources::require;
use crate::rules::report::{Report, items, text};

/// The sources that Kubernetes knows without its optional features.
const SOURCES: [&str; 4] = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];

/// Checks a projected volume. Some errors have the path of the volume, and not that of the source.
pub(super) fn check(report: &mut Report<'_>, volume: &Value, path: &str) {
    check_mode(report, volume, path, "defaultMode");
    let mut files = BTreeSet::new();
    for (at, source) in items(&volume["sources"]).iter().enumerate() {
        let item = format!("{path}.sources[{at}]");
        check_keys(report, source, &mut files, path, &item);
        check_fields(report, &source["downwardAPI"], &mut files, path, &item);
        if source["serviceAccountToken"].is_object() {
            check_token(report, &source["serviceAccountToken"], path, &item);
        }
        if SOURCES.iter().filter(|name| source[**name].is_object()).count() > 1 {
            report.forbidden(item, "may not specify more than 1 volume type per source");
        }
    }
}

/// Checks the keys of a secret and of a config map. `files` are the earlier files of the volume.
fn check_keys<'v>(report: &mut Report<'_>, source: &'v Value, files: &mut BTreeSet<&'v str>, volume: &str, path: &str) {
    for name in ["secret", "configMap"].into_iter().filter(|name| source[*name].is_object()) {
        let (holder, path) = (&source[name], format!("{path}.{name}"));
        require(report, holder, &path, &["name"]);
        for (at, item) in items(&holder["items"]).iter().enumerate() {
            check_key(report, item, &format!("{path}.items[{at}]"));
            check_conflict(report, text(&item["path"]), files, text(&holder["name"]), volume);
        }
    }
}

/// Checks the fields of the pod that become files. `files` are the earlier files of the volume.
fn check_fields<'v>(
    report: &mut Report<'_>,
    source: &'v Value,
    files: &mut BTreeSet<&'v str>,
    volume: &str,
    path: &str,
) {
    for file in items(&source["items"]) {
        check_field(report, file, &format!("{path}.downwardAPI"));
        check_conflict(report, text(&file["path"]), files, text(&file["path"]), volume);
    }
}

/// Checks that a file is the first of its path. `shown` is what the error displays.
fn check_conflict<'v>(
    report: &mut Report<'_>,
    file: &'v str,
    files: &mut BTreeSet<&'v str>,
    shown: &str,
    volume: &str,
) {
    if !file.is_empty() && !files.insert(file) {
        report.invalid(volume, &shown.into(), "conflicting duplicate paths");
    }
}

/// Checks the token of a service account.
fn check_token(report: &mut Report<'_>, token: &Value, volume: &str, path: &str) {
    report.token_seconds(format!("{path}.serviceAccountToken.expirationSeconds"), &token["expirationSeconds"]);
    require(report, token, volume, &["path"]);
    check_local(report, &token["path"], &format!("{volume}.path"));
}
