//! The annotations that named profiles of seccomp and AppArmor before the security contexts had fields for them.

use serde_json::{Value, json};

use super::annotations::APP_ARMOR_PREFIX;
use super::spec::PodSpec;
use crate::rules::report::{Report, text};
use crate::rules::volumes::paths::check_descending;

pub(in crate::rules) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(in crate::rules) const SECCOMP_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
const LOCALHOST_PREFIX: &str = "localhost/";

/// A way to confine processes.
struct Confinement {
    name: &'static str,
    /// The field of a security context.
    field: &'static str,
    /// The values of an annotation for the profile of the container runtime.
    runtime_default: &'static [&'static str],
}

const SECCOMP: Confinement =
    Confinement { name: "seccomp", field: "seccompProfile", runtime_default: &["runtime/default", "docker/default"] };
const APP_ARMOR: Confinement =
    Confinement { name: "apparmor", field: "appArmorProfile", runtime_default: &["runtime/default"] };

/// Returns the profile of AppArmor that an annotation names; `None` for a text that names none.
pub(in crate::rules) fn app_armor_profile(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({ "type": "Unconfined" })),
        "runtime/default" => Some(json!({ "type": "RuntimeDefault" })),
        other => {
            let name = other.strip_prefix(LOCALHOST_PREFIX).filter(|name| !name.is_empty())?;
            Some(json!({ "type": "Localhost", "localhostProfile": name }))
        }
    }
}

/// Checks the annotations of a pod or template. `path` is that of the annotations.
pub(super) fn check(report: &mut Report<'_>, pod: &PodSpec<'_>, annotations: &Value, path: &str) {
    let containers = pod.containers();
    for (key, value) in annotations.as_object().into_iter().flatten() {
        if key == SECCOMP_POD || key.starts_with(SECCOMP_PREFIX) {
            check_seccomp(report, value, &format!("{path}.{key}"));
        } else if let Some(container) = key.strip_prefix(APP_ARMOR_PREFIX) {
            let path = format!("{path}[{key}]");
            if !containers.iter().any(|(_, known)| known["name"] == container) {
                report.invalid(path.clone(), &container.into(), "container not found");
            }
            check_app_armor(report, value, path);
        }
    }
}

fn check_seccomp(report: &mut Report<'_>, value: &Value, path: &str) {
    match text(value) {
        "runtime/default" | "docker/default" | "unconfined" => {}
        other => match other.strip_prefix(LOCALHOST_PREFIX) {
            Some(file) => check_descending(report, &file.into(), path),
            None => report.invalid(path, value, "must be a valid seccomp profile"),
        },
    }
}

fn check_app_armor(report: &mut Report<'_>, value: &Value, path: String) {
    let name = text(value);
    if !matches!(name, "" | "runtime/default" | "unconfined") && !name.starts_with(LOCALHOST_PREFIX) {
        report.invalid(path, value, &format!("invalid AppArmor profile name: {value}"));
    }
}

/// Checks that the fields of a new pod or of a template say the same as its annotations.
pub(super) fn check_fields(report: &mut Report<'_>, pod: &PodSpec<'_>, annotations: &Value) {
    let whole = &pod.fields["securityContext"];
    check_field(report, &SECCOMP, &whole[SECCOMP.field], &annotations[SECCOMP_POD], pod.path);
    for (path, container) in pod.containers() {
        let (context, name) = (&container["securityContext"], text(&container["name"]));
        let seccomp = &annotations[format!("{SECCOMP_PREFIX}{name}")];
        check_field(report, &SECCOMP, &context[SECCOMP.field], seccomp, &path);
        if pod.fields["os"]["name"] != "windows" {
            let own = &context[APP_ARMOR.field];
            let profile = if own.is_object() { own } else { &whole[APP_ARMOR.field] };
            let app_armor = &annotations[format!("{APP_ARMOR_PREFIX}{name}")];
            check_field(report, &APP_ARMOR, profile, app_armor, &path);
        }
    }
}

/// Checks that the profile of the pod or container at a path is that of an annotation.
fn check_field(report: &mut Report<'_>, by: &Confinement, profile: &Value, annotation: &Value, path: &str) {
    let Some(annotation) = annotation.as_str() else { return };
    let local = annotation.strip_prefix(LOCALHOST_PREFIX);
    let is_of_type = match text(&profile["type"]) {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => by.runtime_default.contains(&annotation),
        "Localhost" => local.is_some(),
        _ => return,
    };
    let path = format!("{path}.securityContext.{}", by.field);
    if !is_of_type {
        report.forbidden(format!("{path}.type"), &format!("{} type in annotation and field must match", by.name));
    } else if profile["type"] == "Localhost" && local != profile["localhostProfile"].as_str() {
        let detail = format!("{} profile in annotation and field must match", by.name);
        report.forbidden(format!("{path}.localhostProfile"), &detail);
    }
}
