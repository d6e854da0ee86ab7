//! References to the fields of a pod and to the resources of its containers, in variables and volumes.

use homeostat_cel::names::qualified_faults;
use homeostat_store::schema::quantity_in_nanos;
use serde_json::Value;

use crate::rules::report::{Report, text};

/// The fields of a pod that a reference can name. Which of them are supported depends on where the reference is.
const LABELS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];
/// The resources of a container that a reference can name, besides huge pages.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const DIVISORS_OF_CPU: [&str; 2] = ["1m", "1"];
const DIVISORS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Checks a reference to a field of the pod. `supported` are the fields without a key, in the order of the alphabet.
pub(in crate::rules) fn check_field(report: &mut Report<'_>, reference: &Value, supported: &[&str], path: &str) {
    for name in ["apiVersion", "fieldPath"] {
        if text(&reference[name]).is_empty() {
            return report.required(format!("{path}.{name}"), "");
        }
    }
    let field = text(&reference["fieldPath"]);
    let internal = match internal_field(text(&reference["apiVersion"]), field) {
        Ok(internal) => internal,
        Err(fault) => {
            let detail = format!("error converting fieldPath: {fault}");
            return report.invalid(format!("{path}.fieldPath"), &field.into(), &detail);
        }
    };
    match subscript(internal) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            report.faults(path, &key.as_str().into(), qualified_faults(&key));
        }
        Some((_, key)) => report.qualified(path, &key.into()),
        None if supported.contains(&internal) => {}
        None => report.unsupported(format!("{path}.fieldPath"), &internal.into(), supported),
    }
}

/// Returns the present name of a field of a pod.
fn internal_field<'f>(version: &str, field: &'f str) -> Result<&'f str, String> {
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    match (subscript(field), field) {
        (Some(("metadata.annotations" | "metadata.labels", _)), _) => Ok(field),
        (Some(_), _) => Err(format!("field label does not support subscript: {field}")),
        (None, "spec.host") => Ok("spec.nodeName"),
        (None, _) if LABELS.contains(&field) => Ok(field),
        (None, _) => Err(format!("field label not supported: {field}")),
    }
}

/// Returns the field and the key of `metadata.labels['key']`; `None` if the text has another form.
fn subscript(field: &str) -> Option<(&str, &str)> {
    let (name, key) = field.strip_suffix("']")?.split_once("['")?;
    (!name.is_empty()).then_some((name, key))
}

/// Checks a reference of a file of a volume to a resource of a container.
pub(in crate::rules) fn check_resource_field_of_file(report: &mut Report<'_>, reference: &Value, path: &str) {
    if text(&reference["containerName"]).is_empty() {
        report.required(format!("{path}.containerName"), "");
        check_divisor(report, reference, path);
    } else {
        check_resource_field(report, reference, path);
    }
}

/// Checks a reference to a resource of a container.
pub(super) fn check_resource_field(report: &mut Report<'_>, reference: &Value, path: &str) {
    let resource = text(&reference["resource"]);
    if resource.is_empty() {
        report.required(format!("{path}.resource"), "");
    } else if !RESOURCES.contains(&resource) && !is_huge_pages(resource) {
        report.unsupported(format!("{path}.resource"), &resource.into(), &RESOURCES);
    }
    check_divisor(report, reference, path);
}

fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-")
}

/// Checks the amount in which a resource is counted. None, or zero, is the usual one.
fn check_divisor(report: &mut Report<'_>, reference: &Value, path: &str) {
    if quantity_in_nanos(&reference["divisor"]).unwrap_or_default() == 0 {
        return;
    }
    let resource = text(&reference["resource"]);
    let (supported, named): (&[&str], _) = match resource.split_once('.') {
        _ if is_huge_pages(resource) => (&DIVISORS, "hugepages"),
        Some(("limits" | "requests", "cpu")) => (&DIVISORS_OF_CPU, "cpu"),
        Some(("limits" | "requests", "memory")) => (&DIVISORS, "memory"),
        Some(("limits" | "requests", "ephemeral-storage")) => (&DIVISORS, "local ephemeral storage"),
        _ => return,
    };
    if !supported.contains(&text(&reference["divisor"])) {
        let listed = if named == "cpu" { supported.join(" and ") } else { supported.join(", ") };
        let detail = format!("only divisor's values {listed} are supported with the {named} resource");
        report.invalid(format!("{path}.divisor"), &resource.into(), &detail);
    }
}
