//! Warnings about definitions and the resources of their kinds, in the words of Kubernetes.

use std::collections::BTreeSet;

use homeostat_cel::names::qualified_faults;
use serde_json::Value;

use crate::Resource;
use crate::schema::is_known_format;

/// Most warnings about the formats of a definition. A response has fewer.
const WARNINGS_MAX: usize = 512;
/// The finalizers that need no domain.
const PLAIN: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

/// Returns a warning for each format in the schemas of a definition that validates nothing, unless the definition had it
/// before.
pub fn format_warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let mut known: BTreeSet<&str> = old.map(unknown_formats).unwrap_or_default().into_iter().collect();
    let new = unknown_formats(definition).into_iter().filter(|format| known.insert(format));
    new.take(WARNINGS_MAX).map(|format| format!("unrecognized format {format:?}")).collect()
}

/// Returns the formats that validate nothing, version by version.
fn unknown_formats(definition: &Value) -> Vec<&str> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let mut found = Vec::new();
    versions.for_each(|version| add_unknown_formats(&version["schema"]["openAPIV3Schema"], &mut found));
    found
}

fn add_unknown_formats<'s>(schema: &'s Value, found: &mut Vec<&'s str>) {
    let Some(fields) = schema.as_object() else { return };
    if let Some(format) = fields.get("format").and_then(Value::as_str).filter(|format| !format.is_empty())
        && !is_known_format(format, fields.get("type").and_then(Value::as_str).unwrap_or_default())
    {
        found.push(format);
    }
    // Kubernetes takes the parts in this order.
    for name in ["items", "allOf", "anyOf", "oneOf", "not", "properties", "additionalProperties"] {
        match (name, fields.get(name)) {
            ("properties", Some(Value::Object(properties))) => {
                properties.values().for_each(|inner| add_unknown_formats(inner, found));
            }
            (_, Some(Value::Array(parts))) => parts.iter().for_each(|inner| add_unknown_formats(inner, found)),
            (_, Some(inner)) => add_unknown_formats(inner, found),
            (_, None) => {}
        }
    }
}

/// Returns the warnings for the finalizers that a write has added to a resource of a defined kind.
pub fn finalizer_warnings(resource: &Resource, old: Option<&Resource>) -> Vec<String> {
    // Few resources have finalizers, and most documents were not parsed yet.
    if !resource.text().contains("\"finalizers\"") {
        return Vec::new();
    }
    let before: Vec<&str> = old.into_iter().flat_map(Resource::finalizers).collect();
    let mut added: Vec<&str> = resource.finalizers().filter(|name| !before.contains(name)).collect();
    added.sort_unstable();
    added.dedup();
    added.into_iter().flat_map(warnings_of_finalizer).collect()
}

fn warnings_of_finalizer(name: &str) -> Vec<String> {
    let mut faults = qualified_faults(name);
    if !name.contains('/') && !PLAIN.contains(&name) {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        faults.push(format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    faults.into_iter().map(|fault| format!("metadata.finalizers: {name:?}: {fault}")).collect()
}

#[cfg(test)]
mod tests;
