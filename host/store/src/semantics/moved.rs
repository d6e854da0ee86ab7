//! The steps of moving a kind between two stores: documents as they are, and removals without finalizers.

use std::sync::Arc;

use serde_json::json;

use super::{Decision, WritePlan, address, build_resource_of_any_size, check_precondition, metadata, set};
use crate::model::Resource;
use crate::semantics::document::metadata_text;
use crate::{Error, Key, Result, Revision, Write, validate};

/// Decides a write whose request has `is_move`.
///
/// # Errors
/// `AlreadyExists` when the name belongs to a resource with another uid, `NotFound`, `Conflict`, and `Invalid` for
/// other writes than a creation and a deletion.
pub(super) fn plan(
    mut write: Write,
    revision: Revision,
    mut lookup: impl FnMut(&Key) -> Result<Option<Arc<Resource>>>,
) -> Result<WritePlan> {
    let key = address(&mut write, String::new)?;
    let previous = lookup(&key)?;
    let revision = json!(revision.to_string());
    let decision = match write {
        Write::Create { mut document } => {
            validate::document(&document)?;
            let uid = metadata_text(&document, "uid");
            if uid.is_empty() {
                return Err(Error::invalid("metadata.uid", "must not be empty"));
            }
            if let Some(other) = previous.as_deref().filter(|previous| previous.uid() != uid) {
                return Err(Error::AlreadyExists { key, current: other.revision() });
            }
            if let Some(previous) = &previous {
                let same = previous.document()["metadata"].get("resourceVersion").cloned();
                set(metadata(&mut document), "resourceVersion", same);
            }
            match &previous {
                Some(previous) if *previous.document() == document => Decision::Unchanged(Arc::clone(previous)),
                _ => {
                    set(metadata(&mut document), "resourceVersion", Some(revision));
                    Decision::Put(build_resource_of_any_size(&document, previous.as_deref())?)
                }
            }
        }
        Write::Delete { key, precondition, propagation: _, grace_seconds: _ } => {
            let current = previous.as_ref().ok_or_else(|| Error::not_found(&key))?;
            check_precondition(current, &precondition)?;
            let mut document = current.document().clone();
            set(metadata(&mut document), "resourceVersion", Some(revision));
            Decision::Remove(build_resource_of_any_size(&document, Some(current))?)
        }
        other => return Err(Error::invalid("write", format!("{} is no step of a move", other.verb()))),
    };
    Ok(WritePlan { key, previous, decision, unknown_fields: Vec::new() })
}
