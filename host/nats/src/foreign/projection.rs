//! The effect of another program's value on the resource of its key, and of the resource on the value.
//!
//! A resource follows the value: it is created with the first one, its spec is the value's, and it is deleted
//! with the value. All else of it belongs to the store: uid, generation, finalizers, owners, labels. So a
//! resource with finalizers outlives its value, with its last spec.
//!
//! Pure: each step is decided on a state of both sides, and is taken only if the resource is still in that
//! state.

#[cfg(test)]
mod tests;

use homeostat_store::json_pointer::unescape;
use homeostat_store::{Kind, Precondition, Propagation, Resource, Write};
use serde_json::{Map, Value, json};

use crate::settings::{StatusForm, ValueForm};

/// The annotation with the key of the value.
pub(crate) const KEY_ANNOTATION: &str = "homeostat.dev/key";
/// The annotation with the reason why a value has no spec.
pub(crate) const UNREADABLE_ANNOTATION: &str = "homeostat.dev/unreadable";
/// Longest reason, in bytes.
const REASON_BYTES_MAX: usize = 256;

/// The resource that a value asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DesiredResource {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The key of the value.
    pub(crate) key: String,
    /// The spec, or why there is none.
    pub(crate) spec: Result<Value, String>,
}

/// Returns the spec of a value; the error is for a person. `status` is the pointer to the status, if it is in
/// the value.
pub(crate) fn spec_of(payload: &[u8], form: ValueForm, status: Option<&str>) -> Result<Value, String> {
    let mut value: Value = serde_json::from_slice(payload).map_err(|error| shortened(&error.to_string()))?;
    if !value.is_object() {
        return Err("it is no JSON object".to_owned());
    }
    if let Some((parent, field)) = status.and_then(|pointer| pointer.rsplit_once('/'))
        && let Some(parent) = value.pointer_mut(parent).and_then(Value::as_object_mut)
    {
        parent.remove(&unescape(field));
    }
    match form {
        ValueForm::Spec => Ok(value),
        ValueForm::Document => match value.get_mut("spec").map(Value::take) {
            Some(spec) => Ok(spec),
            None => Err("it has no `spec`".to_owned()),
        },
    }
}

/// Returns the write that brings a resource closer to its value; `None` when there is nothing to do now.
pub(crate) fn step(kind: &Kind, desired: Option<&DesiredResource>, current: Option<&Resource>) -> Option<Write> {
    match (desired, current) {
        (None, None) => None,
        (Some(desired), None) => Some(Write::Create { document: document(kind, desired) }),
        // It goes first. Then a value that is there again makes a new one.
        (_, Some(current)) if current.is_deleting() => None,
        (None, Some(current)) => Some(Write::Delete {
            key: current.key().clone(),
            precondition: Precondition { uid: Some(current.uid().to_owned()), revision: None },
            propagation: Propagation::Background,
            grace_seconds: None,
        }),
        (Some(desired), Some(current)) => changed(desired, current),
    }
}

fn document(kind: &Kind, desired: &DesiredResource) -> Value {
    let DesiredResource { namespace, name, key: _, spec } = desired;
    let mut metadata = json!({"name": name, "annotations": annotations(desired)});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    let mut document = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": metadata});
    if let Ok(spec) = spec {
        document["spec"] = spec.clone();
    }
    document
}

fn annotations(desired: &DesiredResource) -> Map<String, Value> {
    let mut annotations = Map::new();
    annotations.insert(KEY_ANNOTATION.to_owned(), json!(desired.key));
    if let Err(reason) = &desired.spec {
        annotations.insert(UNREADABLE_ANNOTATION.to_owned(), json!(reason));
    }
    annotations
}

/// Returns the update of a resource whose value differs; other annotations stay. The last readable spec
/// stays, too.
fn changed(desired: &DesiredResource, current: &Resource) -> Option<Write> {
    let unreadable = desired.spec.as_ref().err().map(String::as_str);
    let same_spec = desired.spec.as_ref().map_or(true, |spec| current.document().get("spec") == Some(spec));
    let same_key = current.annotation(KEY_ANNOTATION) == Some(desired.key.as_str());
    if same_spec && same_key && current.annotation(UNREADABLE_ANNOTATION) == unreadable {
        return None;
    }
    let mut document = current.document().clone();
    if let Ok(spec) = &desired.spec {
        document["spec"] = spec.clone();
    }
    let known = document["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let others = known.into_iter().filter(|(name, _)| name != KEY_ANNOTATION && name != UNREADABLE_ANNOTATION);
    let all: Map<String, Value> = others.chain(annotations(desired)).collect();
    document["metadata"]["annotations"] = Value::Object(all);
    let precondition = Precondition { uid: None, revision: Some(current.revision()) };
    Some(Write::Update { document, precondition })
}

/// Returns the value of a resource's status in a bucket of statuses; `None` for a resource without a status.
pub(crate) fn status_value(resource: &Resource, form: StatusForm) -> Option<String> {
    let status = resource.status();
    if status.is_null() {
        return None;
    }
    Some(match form {
        StatusForm::Bare => status.to_string(),
        StatusForm::Wrapped => json!({"status": status, "observedGeneration": resource.generation()}).to_string(),
    })
}

/// Returns a value with the status at a pointer; `None` when it has that status already, or no place for it.
pub(crate) fn with_status(payload: &[u8], pointer: &str, status: &Value) -> Option<String> {
    let mut value: Value = serde_json::from_slice(payload).ok()?;
    let (parent, field) = pointer.rsplit_once('/')?;
    let parent = value.pointer_mut(parent)?.as_object_mut()?;
    let field = unescape(field);
    if parent.get(&field) == Some(status) {
        return None;
    }
    parent.insert(field, status.clone());
    Some(value.to_string())
}

fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(REASON_BYTES_MAX)].to_owned()
}
