//! A write as a store carries it out: its key, the resource before it, and the decision.

use std::sync::Arc;

use serde_json::{Value, json};

use super::document::{metadata, metadata_text, set};
use super::unknown::unknown_fields;
use super::{Decision, Validation, WriteContext, admit, build_resource, decide, moved, planned};
use crate::schema::Schemas;
use crate::{
    ClockAndIds, Error, EventType, FieldValidation, Key, Request, Resource, Result, Revision, Target, Write, numbers,
    validate,
};

/// Attempts to generate a free name for `generateName`.
const GENERATE_TRIES: usize = 8;

/// The result of [`plan_write`].
#[derive(Debug, Clone, PartialEq)]
pub struct WritePlan {
    /// The resource that the write is about.
    pub key: Key,
    /// The resource before the write; `None` when there was none.
    pub previous: Option<Arc<Resource>>,
    /// The decision.
    pub decision: Decision,
    /// The paths of the dropped unknown fields, if the request asks for them.
    pub unknown_fields: Vec<String>,
}

impl WritePlan {
    /// Returns the event of the change; `None` when nothing changes.
    pub fn event(&self) -> Option<EventType> {
        match (&self.decision, &self.previous) {
            (Decision::Unchanged(_), _) => None,
            (Decision::Put(..), None) => Some(EventType::Added),
            (Decision::Put(..), Some(_)) => Some(EventType::Modified),
            (Decision::Remove(..), _) => Some(EventType::Deleted),
        }
    }
}

/// Decides a write: derives its key, looks up the current resource and calls [`decide`]. Replaces a generated
/// name that is already in use.
///
/// `revision` is the revision of the change. `validation` says what is validated here. `lookup` reads the
/// current resource, which must not change until the caller has stored the decision.
///
/// # Errors
/// As [`address`] and [`decide`], and the errors of `lookup`; `UnknownFields`.
pub fn plan_write(
    source: &dyn ClockAndIds,
    schemas: &Schemas,
    request: Request,
    revision: Revision,
    validation: Validation,
    mut lookup: impl FnMut(&Key) -> Result<Option<Arc<Resource>>>,
) -> Result<WritePlan> {
    if request.is_move {
        return moved::plan(request.write, revision, lookup);
    }
    if request.is_planned {
        return planned::plan(schemas, request, revision, lookup);
    }
    let Request {
        mut write,
        subresource,
        manager,
        dry_run,
        field_validation: unknown,
        is_move: _,
        is_planned: _,
        fence: _,
    } = request;
    if let Some(value) = write.value_mut() {
        numbers::normalize(value);
    }
    if let (Write::Create { document }, Err(error)) = (&write, write.target())
        && let Some(schema) = admit::schema_of(schemas, document)
    {
        return Err(admit::with_violations(Some(&schema), document.clone(), None, error));
    }
    let generates = matches!(&write, Write::Create { document } if metadata_text(document, "name").is_empty());
    let mut tries = if generates { GENERATE_TRIES } else { 1 };
    let (key, mut previous) = loop {
        let key = address(&mut write, || source.suffix())?;
        let previous = lookup(&key)?;
        tries -= 1;
        if previous.is_none() || tries == 0 {
            break (key, previous);
        }
        if let Write::Create { document } = &mut write {
            set(metadata(document), "name", None);
        }
    };
    // A dry run changes nothing, so the resource keeps its revision. A new one has only that of its document. In Kubernetes the
    // store gives the revision, and a dry run does not reach the store.
    let revision = previous.as_ref().filter(|_| dry_run).map_or(revision, |previous| previous.revision());
    let is_trial = dry_run && previous.is_none();
    let named = match &mut write {
        Write::Create { document } if is_trial => take_revision(document),
        _ => None,
    };
    // Only a creation needs a uid, and generating one costs a system call.
    let uid = if previous.is_none() { source.uid() } else { String::new() };
    let (now, version) = (source.now(), schemas.of(key.kind()));
    let moment = WriteContext { now, uid, revision, manager, version, subresource, validation };
    if !matches!(write, Write::Delete { .. }) {
        planned::check_version(&key, previous.as_deref(), &moment.version)?;
    }
    let current = previous.as_ref().map(Resource::detached);
    let fields = match unknown {
        FieldValidation::Warn | FieldValidation::Strict => {
            unknown_fields(&key, current.as_deref(), &write, &moment.version)
        }
        FieldValidation::Ignore => Vec::new(),
    };
    let makes = matches!(write, Write::Create { .. } | Write::Apply { .. });
    if unknown == FieldValidation::Strict && !fields.is_empty() && (makes || current.is_some()) {
        return Err(Error::UnknownFields { fields });
    }
    let decision = match decide(&key, current.as_ref(), write, &moment)? {
        Decision::Put(resource) if is_trial => Decision::Put(with_revision(&resource, named)?),
        decision => decision,
    };
    // Freed here, while it is still in the processor's cache.
    drop(current);
    if let Some(previous) = previous.as_mut().and_then(Arc::get_mut) {
        previous.forget_document();
    }
    Ok(WritePlan { key, previous, decision, unknown_fields: fields })
}

/// Returns the key of the resource that a write is about, and sets a generated name.
///
/// A create with `generateName` and no name gets a name that ends with the result of `suffix`.
///
/// # Errors
/// `Invalid` when the document does not name its resource.
pub fn address(write: &mut Write, suffix: impl FnOnce() -> String) -> Result<Key> {
    let Target { kind, namespace, name } = write.target()?;
    if let Some(name) = name {
        return Ok(Key::new(kind, &namespace, &name));
    }
    let Write::Create { document } = write else {
        return Err(Error::invalid("metadata.name", "must not be empty"));
    };
    let metadata = &mut document["metadata"];
    let name = validate::generated(metadata["generateName"].as_str().unwrap_or(""), &suffix());
    metadata["name"] = json!(name);
    Ok(Key::new(kind, &namespace, &name))
}

/// Takes the revision out of a document.
fn take_revision(document: &mut Value) -> Option<Value> {
    document.get_mut("metadata")?.as_object_mut()?.remove("resourceVersion").filter(|named| *named != "")
}

/// Returns a resource with this revision in its document.
fn with_revision(resource: &Resource, revision: Option<Value>) -> Result<Arc<Resource>> {
    let mut document = resource.document().clone();
    set(metadata(&mut document), "resourceVersion", revision);
    build_resource(&document, None)
}
