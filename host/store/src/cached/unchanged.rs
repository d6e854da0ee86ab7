//! Writes that would change nothing need not be sent. Pure.
//!
//! The effect of a write is computed from the cached resource by the rules of [`semantics`], without a
//! schema. A server with a schema may know more writes that change nothing; they are sent. The cached
//! resource may be old: another client has changed it a moment ago. That change arrives as an event, as with
//! every cache.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::SystemTime;

use crate::schema::VersionSchema;
use crate::semantics::{self, Decision, Validation, WriteContext};
use crate::{FieldValidation, Request, Resource, Subresource, Write, numbers};

/// Returns whether a write changes nothing of the cached resource. `rename` returns the name under which the
/// server knows a manager.
pub(crate) fn is_unchanged(request: &Request, cached: &Arc<Resource>, rename: impl Fn(&str) -> String) -> bool {
    // A write that is not sent needs no term.
    let Request { write, subresource, manager, dry_run, field_validation, is_move, is_planned, fence: _ } = request;
    let is_explicit = matches!(write, Write::Create { .. } | Write::Delete { .. });
    let is_of_part = subresource.is_some_and(|part| part != Subresource::Status);
    if is_explicit || is_of_part || *dry_run || *is_move || *is_planned || *field_validation != FieldValidation::Ignore
    {
        return false;
    }
    let mut write = write.clone();
    if let Some(value) = write.value_mut() {
        numbers::normalize(value);
    }
    if let Write::Apply { manager, .. } | Write::ApplyStatus { manager, .. } = &mut write {
        *manager = rename(manager);
    }
    let context = WriteContext {
        now: SystemTime::UNIX_EPOCH,
        uid: String::new(),
        revision: cached.revision().next(),
        manager: rename(manager),
        version: VersionSchema::default(),
        subresource: None,
        validation: Validation::WithoutRules,
    };
    let decision = semantics::decide(cached.key(), Some(&cached.detached()), write, &context);
    matches!(decision, Ok(Decision::Unchanged(_)))
}
