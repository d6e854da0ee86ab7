//! The annotation in which `kubectl` stores its last client-side apply. It lets a manager switch to
//! server-side apply without conflicts with itself. As long as the annotation exists, each apply updates it.
//!
//! Source: `lastAppliedManager` and `lastAppliedUpdater` of Kubernetes' `managedfields`.

use serde_json::Value;

use super::difference::{diff, named};
use super::fields::FieldSet;
use super::shape::Shape;

/// The default manager of `kubectl apply --server-side`.
const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the fields of a manager's last client-side apply that have not changed since.
pub(super) fn unchanged(manager: &str, current: &Value, version: &str, shape: Shape<'_>) -> FieldSet {
    let applied = text(manager, current).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(applied) = applied.filter(|applied| applied["apiVersion"] == version) else { return FieldSet::default() };
    let mut fields = named(&applied, shape);
    let since = diff(&applied, current, shape);
    fields.remove_below(&since.set);
    fields.remove_below(&since.removed);
    fields
}

/// Updates the annotation with the applied document, if the annotation exists. The owner of the annotation does not
/// change.
pub(crate) fn renew(manager: &str, document: &mut Value, applied: &Value) {
    if text(manager, document).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    document["metadata"]["annotations"][ANNOTATION] = format!("{applied}\n").into();
}

fn text<'d>(manager: &str, document: &'d Value) -> Option<&'d str> {
    let annotations = document.get("metadata")?.get("annotations")?;
    annotations.get(ANNOTATION)?.as_str().filter(|text| manager == KUBECTL && !text.is_empty())
}
