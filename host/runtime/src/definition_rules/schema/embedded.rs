//! The resources in a default: each has a kind, a version, and well-formed metadata.
//!
//! Deliberately absent: the owners and the managed fields, of which only the types are checked.

use homeostat_cel::names::{
    ANNOTATIONS_BYTES_MAX, DNS_1035_LABEL, DNS_1123_LABEL, LABEL_VALUE, path_segment_faults,
    path_segment_prefix_faults, qualified_faults,
};
use homeostat_store::schema::{Path, Reason, Violation};
use serde_json::Value;

use super::{Report, is_true};

/// Returns the violations of the resources at a value and below it. As in Kubernetes, a wrong type hides all others.
pub(super) fn violations(value: &Value, schema: &Value, is_resource: bool, path: &Path<'_>) -> Vec<Violation> {
    let mut report = Report::default();
    walk(value, schema, is_resource, path, &mut |resource, path| check_types(resource, path, &mut report));
    if report.found.is_empty() {
        walk(value, schema, is_resource, path, &mut |resource, path| check(resource, path, &mut report));
    } else {
        report.found.truncate(1);
    }
    report.found
}

/// Visits the resources at a value and below it.
fn walk(value: &Value, schema: &Value, is_resource: bool, path: &Path<'_>, visit: &mut impl FnMut(&Value, &Path<'_>)) {
    let is_embedded = |part: &Value| is_true(part, "x-kubernetes-embedded-resource");
    match value {
        Value::Object(fields) => {
            if is_resource {
                visit(value, path);
            }
            for (name, value) in fields {
                if let Some(property) = schema["properties"].get(name) {
                    walk(value, property, is_embedded(property), &path.field(name), visit);
                } else if let Some(values) = schema.get("additionalProperties") {
                    walk(value, values, is_embedded(values), &path.key(name), visit);
                }
            }
        }
        Value::Array(items) => {
            let schema = &schema["items"];
            for (at, item) in items.iter().enumerate() {
                walk(item, schema, is_embedded(schema), &path.item(at), visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_types(resource: &Value, path: &Path<'_>, report: &mut Report) {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = resource.get(name).filter(|value| !value.is_string()) {
            report.invalid(&path.field(name), value, "must be a string");
        }
    }
    if let Some(metadata) = resource.get("metadata").filter(|metadata| !is_metadata(metadata)) {
        report.invalid(&path.field("metadata"), metadata, "must be metadata, with fields of the right types");
    }
}

/// Returns whether a value is read as metadata. A null is, and so is one in a field.
fn is_metadata(value: &Value) -> bool {
    let fields = match value {
        Value::Null => return true,
        Value::Object(fields) => fields,
        _ => return false,
    };
    fields.iter().filter(|(_, value)| !value.is_null()).all(|(name, value)| {
        let all_items = |is_one: fn(&Value) -> bool| value.as_array().is_some_and(|items| items.iter().all(is_one));
        let is_text = |value: &Value| value.is_string() || value.is_null();
        match name.as_str() {
            "name" | "generateName" | "namespace" | "selfLink" | "uid" | "resourceVersion" => value.is_string(),
            "generation" | "deletionGracePeriodSeconds" => value.is_i64(),
            "creationTimestamp" | "deletionTimestamp" => {
                value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok())
            }
            "labels" | "annotations" => value.as_object().is_some_and(|entries| entries.values().all(is_text)),
            "finalizers" => all_items(|item| item.is_string() || item.is_null()),
            "ownerReferences" | "managedFields" => all_items(|item| item.is_object() || item.is_null()),
            _ => true,
        }
    })
}

fn check(resource: &Value, path: &Path<'_>, report: &mut Report) {
    for name in ["apiVersion", "kind"] {
        let path = path.field(name);
        match resource.get(name) {
            None => report.require(&path, ""),
            Some(value) => {
                let text = value.as_str().unwrap_or_default();
                let fault = match name {
                    _ if text.is_empty() => Some("must not be empty".to_owned()),
                    "kind" => kind_fault(text),
                    _ => (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}")),
                };
                if let Some(fault) = fault {
                    report.invalid(&path, value, &fault);
                }
            }
        }
    }
    check_metadata(&resource["metadata"], &path.field("metadata"), report);
}

fn kind_fault(kind: &str) -> Option<String> {
    let faults = DNS_1035_LABEL.faults(&kind.to_lowercase());
    (!faults.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {}", faults.join(",")))
}

fn check_metadata(metadata: &Value, path: &Path<'_>, report: &mut Report) {
    let mut add = |name: &str, value: &Value, faults: &[String]| {
        for fault in faults {
            report.invalid(&path.field(name), value, fault);
        }
    };
    let text = |name: &str| metadata[name].as_str().unwrap_or_default();
    add("generateName", &metadata["generateName"], &path_segment_prefix_faults(text("generateName")));
    add("name", &metadata["name"], &path_segment_faults(text("name")));
    if !text("namespace").is_empty() {
        add("namespace", &metadata["namespace"], &DNS_1123_LABEL.faults(text("namespace")));
    }
    if metadata["generation"].as_i64().is_some_and(|generation| generation < 0) {
        add("generation", &metadata["generation"], &["must be greater than or equal to 0".to_owned()]);
    }
    for (name, value) in metadata["labels"].as_object().into_iter().flatten() {
        add("labels", &Value::from(name.as_str()), &qualified_faults(name));
        add("labels", value, &LABEL_VALUE.faults(value.as_str().unwrap_or_default()));
    }
    let mut bytes = 0;
    for (name, value) in metadata["annotations"].as_object().into_iter().flatten() {
        add("annotations", &Value::from(name.as_str()), &qualified_faults(&name.to_lowercase()));
        bytes += name.len() + value.as_str().map_or(0, str::len);
    }
    for name in metadata["finalizers"].as_array().into_iter().flatten() {
        add("finalizers", name, &qualified_faults(name.as_str().unwrap_or_default()));
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        let detail = format!("may not be more than {ANNOTATIONS_BYTES_MAX} bytes");
        report.add(&path.field("annotations"), Reason::TooLong, detail);
    }
}
