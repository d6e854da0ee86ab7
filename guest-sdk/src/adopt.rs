//! Which resources are the parts of a parent: a selector says it, and an owner reference keeps it.

use std::collections::BTreeSet;

use serde_json::json;

use crate::kind::Kind;
use crate::metadata::OwnerReference;
use crate::resource::{Patch, Resource};
use crate::selector::{LabelSelector, Selector};
use crate::store_error::Error;
use crate::watches;

#[cfg(test)]
mod tests;

/// Returns the resources of kind `C` that `parent` manages, when it has *adopted* those that its selector means and nobody manages, and
/// *released* those that it manages and the selector no longer means.
///
/// So a parent that was deleted without its parts (`--cascade=orphan`) and made again has them again, and makes none twice. What is being
/// deleted is neither adopted nor released. The parent is brought back when anything that its selector means changes. Call it for a parent
/// that is not being deleted, and with a selector that has conditions: one without means everything in the namespace. Needs the grants
/// `list`, `get`, `watch` and `patch` for the parts, and `get` for the parent.
///
/// *Source*: `ControllerRefManager` of Kubernetes' controllers.
///
/// # Errors
///
/// Those of [`Kind::list`], [`Kind::get`] and [`Kind::patch`]. What somebody else changes or deletes meanwhile is no error: its change
/// brings the parent back.
pub fn adopt<P: Kind, C: Kind>(parent: &Resource<P>, selector: &LabelSelector) -> Result<Vec<Resource<C>>, Error> {
    let meant = || Selector::everything().in_namespace(&parent.metadata.namespace).matching(selector);
    watches::follow_all::<C>(meant())?;
    let mut parts = Vec::new();
    for part in C::list(Selector::everything().owned_by(parent)).all()? {
        match Relation::of(parent, &part, selector) {
            Relation::Part => parts.push(part),
            Relation::Lost => drop(set_owner(part, parent, None)?),
            // It is looked at with those that the selector means.
            Relation::Orphan | Relation::Stranger => {}
        }
    }
    let known: BTreeSet<String> = parts.iter().map(|part| part.metadata.name.clone()).collect();
    for key in C::list(meant()).keys()?.into_iter().filter(|key| !known.contains(&key.name)) {
        let Some(part) = C::get_opt(&key)? else { continue };
        if Relation::of(parent, &part, selector) != Relation::Orphan {
            continue;
        }
        // A parent that is gone would take what it adopts along.
        let there = P::get_opt(&parent.key())?;
        if !there.is_some_and(|there| there.metadata.uid == parent.metadata.uid && !there.is_deleting()) {
            break;
        }
        parts.extend(set_owner(part, parent, Some(OwnerReference::controller(parent)))?);
    }
    Ok(parts)
}

/// What a resource is to a parent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Relation {
    /// It is managed by the parent, and stays so.
    Part,
    /// It is managed by the parent, and is not meant any more.
    Lost,
    /// It is meant, and nobody manages it.
    Orphan,
    /// It is none of the parent's.
    Stranger,
}

impl Relation {
    fn of<P: Kind, C: Kind>(parent: &Resource<P>, part: &Resource<C>, selector: &LabelSelector) -> Self {
        let is_meant = selector.matches(&part.metadata.labels);
        match part.metadata.controller() {
            Some(owner) if owner.uid != parent.metadata.uid => Self::Stranger,
            Some(_) if is_meant || part.is_deleting() => Self::Part,
            Some(_) => Self::Lost,
            None if is_meant && !part.is_deleting() => Self::Orphan,
            None => Self::Stranger,
        }
    }
}

/// Writes how a resource refers to a parent, if it is still as it was read; returns it where that is so.
fn set_owner<P: Kind, C: Kind>(
    mut part: Resource<C>,
    parent: &Resource<P>,
    reference: Option<OwnerReference>,
) -> Result<Option<Resource<C>>, Error> {
    let mut owners = part.metadata.owner_references.clone();
    owners.retain(|owner| owner.uid != parent.metadata.uid);
    owners.extend(reference);
    match part.patch_as_read(Patch::Merge(json!({ "metadata": { "ownerReferences": owners } }))) {
        Ok(()) => Ok(Some(part)),
        Err(Error::Conflict { .. } | Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
