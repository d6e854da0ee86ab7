//! What `kubectl` has applied on its own side, as it keeps it in an annotation: whoever goes over to applying on the server's side gets no
//! conflict with themselves, and the annotation goes along for as long as it is there.
//!
//! Source: `lastAppliedManager` and `lastAppliedUpdater` of Kubernetes' `managedfields`.

use serde_json::Value;

use super::difference::{diff, named};
use super::fields::FieldSet;
use super::shape::Shape;

/// The manager in whose name `kubectl apply --server-side` applies, unless it is told another one.
const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the fields that a manager has applied on its own side and that are still as it left them: nobody else has changed those.
pub(super) fn unchanged(manager: &str, current: &Value, version: &str, shape: Shape<'_>) -> FieldSet {
    let applied = text(manager, current).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(applied) = applied.filter(|applied| applied["apiVersion"] == version) else { return FieldSet::default() };
    let mut fields = named(&applied, shape);
    let since = diff(&applied, current, shape);
    fields.remove_below(&since.set);
    fields.remove_below(&since.removed);
    fields
}

/// Puts what a manager applies into the annotation, where there is one; returns whether it did. Who owns the annotation does not change.
pub(crate) fn renew(manager: &str, document: &mut Value, applied: &Value) -> bool {
    if text(manager, document).is_none() {
        return false;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    document["metadata"]["annotations"][ANNOTATION] = format!("{applied}\n").into();
    true
}

fn text<'d>(manager: &str, document: &'d Value) -> Option<&'d str> {
    let annotations = document.get("metadata")?.get("annotations")?;
    annotations.get(ANNOTATION)?.as_str().filter(|text| manager == KUBECTL && !text.is_empty())
}
