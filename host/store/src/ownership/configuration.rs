//! Merges an apply configuration into a document, without owners: a mutation of an admission policy.
//!
//! Source: `pkg/admission/plugin/policy/mutating/patch/smd.go` of `k8s.io/apiserver`.

use serde_json::Value;

use super::accept;
use super::merge::merge;
use super::shape::Shape;
use crate::Result;
use crate::schema::Schema;

/// Sets the fields of a configuration in a document.
///
/// # Errors
/// `Invalid` as for an applied document.
pub(crate) fn merged(document: &Value, configuration: &Value, schema: Option<&Schema>) -> Result<Value> {
    let shape = Shape::document(schema);
    accept::document(configuration, shape, schema)?;
    let mut merged = document.clone();
    merge(&mut merged, configuration, shape);
    Ok(merged)
}

/// Returns the paths of the lists and objects in a configuration that have one owner. A merge would replace them as a whole.
pub(crate) fn atomic_paths(configuration: &Value, schema: Option<&Schema>) -> Vec<String> {
    let mut found = Vec::new();
    collect(configuration, Shape::document(schema), "", &mut found);
    found
}

fn collect(value: &Value, shape: Shape<'_>, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if !shape.has_fields() {
                found.push(path.to_owned());
            }
            for (name, field) in fields {
                // As in Kubernetes, the values of a map with free keys are not looked at.
                if let Some(shape) = shape.field(name).filter(|shape| shape.is_declared()) {
                    collect(field, shape, &format!("{path}.{name}"), found);
                }
            }
        }
        Value::Array(items) => {
            if shape.is_atomic_list() {
                found.push(path.to_owned());
            }
            for (at, item) in items.iter().enumerate() {
                collect(item, shape.items(), &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}
