//! Writes whose document others change before it is validated: the admission plug-ins and webhooks of an API server.
//!
//! [`plan_write`](super::plan_write) with [`Validation::Deferred`] decides the draft. [`plan_draft`] completes it.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

use super::admit;
use super::document::{
    HOST_OWNED, fields, in_version_of, into_stored_version, metadata, metadata_text, normalize_metadata, set,
};
use super::identity::{check_identity, check_names};
use super::{Decision, Validation, WriteContext, WritePlan, build_resource, store};
use crate::schema::{Reason, Schemas, Violation};
use crate::{Error, Key, Result, Subresource, Target, numbers, validate};

/// Returns the document of a draft, in the version of its write.
pub fn draft_document(draft: &WritePlan) -> Value {
    in_version_of(&draft.key, draft.decision.resource())
}

/// Returns the key of a resource that is created. As in Kubernetes, it may have got another name.
fn new_key(drafted: &Key, document: &Value) -> Result<Key> {
    let Target { kind, namespace, name } = validate::target(document, false)?;
    let kept = [("kind", kind == *drafted.kind()), ("metadata.namespace", namespace == drafted.namespace())];
    if let Some((path, _)) = kept.into_iter().find(|(_, is_kept)| !is_kept) {
        return Err(Error::invalid(path, "cannot be changed"));
    }
    Ok(Key::new(kind, &namespace, &name.unwrap_or_default()))
}

/// Refuses another name of a resource that exists.
fn check_same_name(key: &Key, document: &Value) -> Result<()> {
    let name = metadata_text(document, "name");
    if name.is_empty() || name == key.name() {
        return Ok(());
    }
    let detail = format!("{name:?}: field is immutable");
    let violation = Violation { path: "metadata.name".to_owned(), reason: Reason::Invalid, detail };
    Err(Error::invalid_fields(admit::what(document), vec![violation]))
}

/// Decides the write of a draft with a changed document: it is pruned, defaulted and validated.
///
/// `part` is the subresource that the write of the draft writes, `None` for the resource itself; of the rest, the draft stays. Field owners stay as the
/// draft has them: as in Kubernetes, nobody owns the changes.
///
/// # Errors
/// `InvalidFields` for another name of a resource that exists, and as for any write; `Invalid` for another kind, and for a
/// malformed document; `TooLarge`.
pub fn plan_draft(
    now: SystemTime,
    schemas: &Schemas,
    draft: &WritePlan,
    part: Option<Subresource>,
    mut document: Value,
) -> Result<WritePlan> {
    let WritePlan { key, previous, decision, unknown_fields } = draft;
    let drafted = decision.resource();
    let context = WriteContext {
        now,
        uid: drafted.uid().to_owned(),
        revision: drafted.revision(),
        manager: String::new(),
        version: schemas.of(key.kind()),
        subresource: part,
        validation: Validation::Complete,
    };
    let schema = context.version.schema.clone();
    let schema = schema.as_deref();
    let old = previous.as_ref().map(|previous| previous.document());
    numbers::normalize(&mut document);
    if previous.is_some() {
        check_same_name(drafted.key(), &document)?;
        check_names(drafted, &mut document)?;
    }
    if let Err(error) = validate::document(&document) {
        return Err(admit::with_violations(schema, document, old, error));
    }
    let key = match previous {
        Some(_) => {
            check_identity(drafted, &document)?;
            key.clone()
        }
        None => new_key(key, &document)?,
    };
    let is_of_status = part == Some(Subresource::Status);
    let mut document = if is_of_status {
        let mut whole = draft_document(draft);
        set(fields(&mut whole), "status", fields(&mut document).remove("status"));
        for field in schema.map(|schema| schema.status_metadata()).unwrap_or_default() {
            set(metadata(&mut whole), field, document["metadata"].get(field).cloned());
        }
        normalize_metadata(metadata(&mut whole));
        admit::admit(schema, &mut whole, part, old, context.validation)?;
        whole
    } else {
        // The first status of a resource depends on the changed document.
        let status = drafted.document().get("status").filter(|_| old.is_some());
        set(fields(&mut document), "status", status.cloned());
        let metadata = metadata(&mut document);
        for field in HOST_OWNED {
            set(metadata, field, drafted.document()["metadata"].get(field).cloned());
        }
        normalize_metadata(metadata);
        match old {
            Some(old) => admit::admit_change(&mut document, old, &context)?,
            None => admit::admit(schema, &mut document, None, None, context.validation)?,
        }
        document
    };
    let decision = match previous {
        Some(previous) => store(previous, document, part, &context)?,
        None => {
            into_stored_version(&mut document, &context)?;
            Decision::Put(build_resource(&document, None)?)
        }
    };
    let (previous, unknown_fields) = (previous.as_ref().map(Arc::clone), unknown_fields.clone());
    Ok(WritePlan { key, previous, decision, unknown_fields })
}

#[cfg(test)]
mod tests;
