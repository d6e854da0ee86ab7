//! Finds the resources that belong to a parent: a selector chooses them, and an owner reference claims them.

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

/// Returns the resources of kind `C` that `parent` manages, after it *adopted* the orphans that its selector
/// matches and *released* managed resources that it no longer matches.
///
/// So a parent that was deleted without its parts (`--cascade=orphan`) and created again finds its parts and
/// makes no duplicates. Resources that are being deleted are neither adopted nor released. The call also
/// follows the selector: a change of any matching resource requeues the parent.
///
/// Call it for a parent that is not being deleted, with a selector that has conditions: one without
/// conditions matches everything in the namespace. Needs the grants `list`, `get`, `watch` and `patch` for
/// the parts, and `get` for the parent.
///
/// *Source*: `ControllerRefManager` of Kubernetes' controllers.
///
/// # Errors
///
/// Those of [`Kind::list`], [`Kind::get`] and [`Kind::patch`]. A concurrent change or deletion of a part is
/// no error: that change requeues the parent.
pub fn adopt<P: Kind, C: Kind>(parent: &Resource<P>, selector: &LabelSelector) -> Result<Vec<Resource<C>>, Error> {
    let meant = || Selector::everything().in_namespace(&parent.metadata.namespace).matching(selector);
    watches::follow_all::<C>(meant())?;
    let mut parts = Vec::new();
    for part in C::list(Selector::everything().owned_by(parent)).all()? {
        match Relation::of(parent, &part, selector) {
            Relation::Part => parts.push(part),
            Relation::Lost => drop(set_owner(part, parent, None)?),
            // Handled below, with the resources that the selector matches.
            Relation::Orphan | Relation::Stranger => {}
        }
    }
    let known: BTreeSet<String> = parts.iter().map(|part| part.metadata.name.clone()).collect();
    for key in C::list(meant()).keys()?.into_iter().filter(|key| !known.contains(&key.name)) {
        let Some(part) = C::get_opt(&key)? else { continue };
        if Relation::of(parent, &part, selector) != Relation::Orphan {
            continue;
        }
        // An owner reference to a deleted parent would let the host delete the part, and a cache may show the parent
        // for a while longer.
        let there = P::get_live_opt(&parent.key())?;
        if !there.is_some_and(|there| there.metadata.uid == parent.metadata.uid && !there.is_deleting()) {
            break;
        }
        parts.extend(set_owner(part, parent, Some(OwnerReference::controller(parent)))?);
    }
    Ok(parts)
}

/// The relation of a resource to a parent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Relation {
    /// The parent manages it, and keeps it.
    Part,
    /// The parent manages it, and its selector no longer matches.
    Lost,
    /// The selector matches, and it has no managing owner.
    Orphan,
    /// It belongs to another owner, or does not match.
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

/// Sets or removes a resource's owner reference to a parent, if the resource is unchanged since it was read.
/// Returns the resource, or `None` after a conflict or a deletion.
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
