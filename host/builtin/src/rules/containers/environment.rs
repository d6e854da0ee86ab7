//! The environment variables of containers.

use homeostat_cel::names::{CONFIG_KEY, DNS_1123_SUBDOMAIN};
use serde_json::{Value, json};

use super::references;
use crate::rules::report::{Report, items, text};
use crate::rules::volumes::paths;

/// The sources of the value of a variable, in the order of Kubernetes.
const SOURCES: [(&str, Check); 5] = [
    ("fieldRef", check_field),
    ("resourceFieldRef", check_resource_field),
    ("configMapKeyRef", check_key),
    ("secretKeyRef", check_key),
    ("fileKeyRef", check_file_key),
];
/// The fields of a pod whose value a variable can have.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const MORE_THAN_ONE: &str = "may not have more than one field specified at a time";

type Check = fn(&mut Report<'_>, &Value, &str);

/// Checks the variables of a container, and the config maps and secrets that hold further ones.
pub(super) fn check(report: &mut Report<'_>, container: &Value, path: &str) {
    for (at, variable) in items(&container["env"]).iter().enumerate() {
        let path = format!("{path}.env[{at}]");
        if text(&variable["name"]).is_empty() {
            report.required(format!("{path}.name"), "");
        } else {
            check_name(report, &variable["name"], format!("{path}.name"));
        }
        if variable["valueFrom"].is_object() {
            check_source(report, variable, &format!("{path}.valueFrom"));
        }
    }
    for (at, source) in items(&container["envFrom"]).iter().enumerate() {
        check_set(report, source, at, &format!("{path}.envFrom"));
    }
}

/// Checks the name of a variable, or the beginning of names.
fn check_name(report: &mut Report<'_>, name: &Value, path: String) {
    if text(name).chars().any(|letter| !matches!(letter, ' '..='~') || letter == '=') {
        let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        report.invalid(path, name, detail);
    }
}

/// Checks where the value of a variable comes from.
fn check_source(report: &mut Report<'_>, variable: &Value, path: &str) {
    let mut count = 0;
    for (name, check) in SOURCES.into_iter().filter(|(name, _)| variable["valueFrom"][*name].is_object()) {
        count += 1;
        check(report, &variable["valueFrom"][name], &format!("{path}.{name}"));
    }
    if count == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
            `fileKeyRef`";
        report.invalid(path, &json!(""), detail);
    } else if !text(&variable["value"]).is_empty() {
        report.invalid(path, &json!(""), "may not be specified when `value` is not empty");
    } else if count > 1 {
        report.invalid(path, &json!(""), MORE_THAN_ONE);
    }
}

fn check_field(report: &mut Report<'_>, reference: &Value, path: &str) {
    references::check_field(report, reference, &FIELDS, path);
}

fn check_resource_field(report: &mut Report<'_>, reference: &Value, path: &str) {
    references::check_resource_field(report, reference, path);
}

/// Checks a key of a config map or a secret.
fn check_key(report: &mut Report<'_>, reference: &Value, path: &str) {
    report.subdomain(format!("{path}.name"), &text(&reference["name"]).into());
    if text(&reference["key"]).is_empty() {
        report.required(format!("{path}.key"), "");
    } else {
        report.form(format!("{path}.key"), &reference["key"], &CONFIG_KEY);
    }
}

/// Checks a key of a file of a volume.
fn check_file_key(report: &mut Report<'_>, reference: &Value, path: &str) {
    let checks: [(&str, Check); 3] = [
        ("key", |report, key, path| check_name(report, key, path.to_owned())),
        ("volumeName", |report, name, path| report.label(path.to_owned(), name)),
        ("path", paths::check_steps),
    ];
    for (name, check) in checks {
        let path = format!("{path}.{name}");
        if text(&reference[name]).is_empty() {
            report.required(path, "");
        } else {
            check(report, &reference[name], &path);
        }
    }
}

/// Checks a config map or a secret whose keys are variables. Some errors have the path of the list.
fn check_set(report: &mut Report<'_>, source: &Value, at: usize, list: &str) {
    let path = format!("{list}[{at}]");
    check_name(report, &source["prefix"], format!("{path}.prefix"));
    let given = ["configMapRef", "secretRef"].into_iter().filter(|name| source[*name].is_object());
    let count = given.clone().count();
    for name in given {
        check_set_name(report, text(&source[name]["name"]), format!("{path}.{name}.name"));
    }
    if count == 0 {
        report.invalid(list, &json!(""), "must specify one of: `configMapRef` or `secretRef`");
    } else if count > 1 {
        report.invalid(list, &json!(""), MORE_THAN_ONE);
    }
}

/// Checks the name of a config map or a secret, which Kubernetes checks as the beginning of a name: it may end with a hyphen.
fn check_set_name(report: &mut Report<'_>, name: &str, path: String) {
    if name.is_empty() {
        return report.required(path, "");
    }
    let checked = match name.strip_suffix('-').and_then(|rest| rest.char_indices().next_back()) {
        Some((end, _)) => format!("{}a", &name[..end]),
        None => name.to_owned(),
    };
    report.faults(path, &name.into(), DNS_1123_SUBDOMAIN.faults(&checked));
}

/// Checks that variables from files name empty directories of the pod. `path` is that of its specification.
pub(super) fn check_files(report: &mut Report<'_>, spec: &Value, path: &str) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (at, container) in items(&spec[list]).iter().enumerate() {
            for (index, variable) in items(&container["env"]).iter().enumerate() {
                let reference = &variable["valueFrom"]["fileKeyRef"];
                if reference.is_object() {
                    let path = format!("{path}.{list}[{at}].env[{index}].valueFrom.fileKeyRef.volumeName");
                    check_file_volume(report, spec, text(&reference["volumeName"]), path);
                }
            }
        }
    }
}

fn check_file_volume(report: &mut Report<'_>, spec: &Value, name: &str, path: String) {
    // The last volume of a name counts.
    let found = items(&spec["volumes"]).iter().rfind(|volume| text(&volume["name"]) == name);
    match found {
        None => report.not_found(path, &name.into()),
        Some(volume) if volume["emptyDir"].is_null() => {
            report.invalid(path, &name.into(), "referenced volume must be of type emptyDir");
        }
        Some(_) => {}
    }
}
