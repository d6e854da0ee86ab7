//! Writes that were decided before, in another version of their kind, and converted.
//!
//! The decision relies on the current resource at one revision, so the write has that revision as its precondition.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Decision, WritePlan, address, build_resource, check_precondition, metadata, metadata_text, set};
use crate::model::is_held;
use crate::schema::{Schemas, VersionSchema};
use crate::{Error, Key, Request, Resource, Result, Revision, Write, numbers, validate};

/// Decides a write whose request has `is_planned`.
///
/// # Errors
/// `AlreadyExists`, `NotFound` and `Conflict` when the resource is not the one of the decision; `OtherVersion` when the
/// document is not in the storage version; `Invalid` for other writes than a creation and an update, and for a document
/// without a uid; `TooLarge`.
pub(super) fn plan(
    schemas: &Schemas,
    request: Request,
    revision: Revision,
    mut lookup: impl FnMut(&Key) -> Result<Option<Arc<Resource>>>,
) -> Result<WritePlan> {
    let Request { mut write, dry_run, .. } = request;
    let key = address(&mut write, String::new)?;
    let previous = lookup(&key)?;
    let (mut document, precondition) = match write {
        Write::Create { document } => (document, None),
        Write::Update { document, precondition } => (document, Some(precondition)),
        other => return Err(Error::invalid("write", format!("{} cannot be converted", other.verb()))),
    };
    match (&previous, &precondition) {
        (None, None) => {}
        (Some(current), None) => return Err(Error::AlreadyExists { key, current: current.revision() }),
        (None, Some(_)) => return Err(Error::not_found(&key)),
        (Some(current), Some(precondition)) => check_precondition(current, precondition)?,
    }
    numbers::normalize(&mut document);
    validate::document(&document)?;
    let written = validate::target(&document, false)?.kind;
    if let Some(stored) = schemas.of(&written).stored.filter(|stored| *stored != written.version) {
        return Err(Error::OtherVersion { key, stored });
    }
    if metadata_text(&document, "uid").is_empty() {
        return Err(Error::invalid("metadata.uid", "must not be empty"));
    }
    // A dry run changes nothing, so the resource keeps its revision.
    let kept = previous.as_ref().map(|previous| previous.revision());
    let put = |document: &mut Value, revision: Revision| {
        set(metadata(document), "resourceVersion", Some(json!(revision.to_string())));
    };
    put(&mut document, kept.unwrap_or(revision));
    let unchanged = previous.as_ref().filter(|previous| *previous.document() == document).map(Arc::clone);
    if let Some(previous) = unchanged {
        let decision = Decision::Unchanged(Arc::clone(&previous));
        return Ok(WritePlan { key, previous: Some(previous), decision, unknown_fields: Vec::new() });
    }
    if !dry_run {
        put(&mut document, revision);
    }
    let resource = build_resource(&document, previous.as_deref())?;
    let is_removed = !is_held(&document) && previous.as_ref().is_some_and(|previous| previous.is_deleting());
    let decision = if is_removed { Decision::Remove(resource) } else { Decision::Put(resource) };
    Ok(WritePlan { key, previous, decision, unknown_fields: Vec::new() })
}

/// Refuses a write in another version than that of the stored document, or, without one, than the storage version, if
/// the kind has a conversion.
pub(super) fn check_version(key: &Key, previous: Option<&Resource>, version: &VersionSchema) -> Result<()> {
    let VersionSchema { stored: Some(stored), converts: true, schema: _, stored_schema: _ } = version else {
        return Ok(());
    };
    let stored = previous.map_or(stored, |previous| &previous.key().kind().version);
    if *stored == key.kind().version {
        return Ok(());
    }
    Err(Error::OtherVersion { key: key.clone(), stored: stored.clone() })
}

#[cfg(test)]
mod tests;
