//! The conditions on the current resource: the identity, and the preconditions of a write.

use serde_json::Value;

use super::document::metadata_text;
use crate::{Error, Precondition, Resource, Result, Target, validate};

/// Checks that a document names the same resource.
pub(super) fn check_identity(current: &Resource, document: &Value) -> Result<()> {
    let Target { kind, namespace, name } = validate::target(document, false)?;
    let fixed = |path: &str, same: bool| {
        if same { Ok(()) } else { Err(Error::invalid(path, "cannot be changed")) }
    };
    let key = current.key();
    fixed("apiVersion", kind.group == key.kind().group)?;
    fixed("kind", kind.name == key.kind().name)?;
    fixed("metadata.namespace", namespace == key.namespace())?;
    fixed("metadata.name", name.as_deref() == Some(key.name()))?;
    let created = metadata_text(document, "creationTimestamp");
    let before = metadata_text(current.document(), "creationTimestamp");
    fixed("metadata.creationTimestamp", created.is_empty() || is_same_moment(created, before))
}

/// Returns whether two texts are the same time. Clients in Python write `+00:00` for the zone `Z`.
fn is_same_moment(one: &str, other: &str) -> bool {
    let moment = |text: &str| text.parse::<jiff::Timestamp>().ok();
    one == other || moment(one).is_some_and(|found| Some(found) == moment(other))
}

pub(crate) fn check_precondition(current: &Resource, precondition: &Precondition) -> Result<()> {
    let Precondition { uid, revision } = precondition;
    let same = uid.as_ref().is_none_or(|uid| uid == current.uid())
        && revision.is_none_or(|revision| revision == current.revision());
    if same { Ok(()) } else { Err(Error::Conflict { key: current.key().clone(), current: Some(current.revision()) }) }
}

/// Returns the preconditions in the metadata of a document. A revision that is malformed is a conflict.
pub(super) fn metadata_precondition(current: &Resource, document: &Value) -> Result<Precondition> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let revision = match some(metadata_text(document, "resourceVersion")) {
        None => None,
        Some(text) => Some(
            text.parse()
                .map_err(|_| Error::Conflict { key: current.key().clone(), current: Some(current.revision()) })?,
        ),
    };
    Ok(Precondition { uid: some(metadata_text(document, "uid")), revision })
}
