//! Whether a document is about a resource: its names, and the preconditions in its metadata.

use serde_json::Value;

use super::document::{metadata_text, set};
use crate::{Error, Precondition, Resource, Result, Target, validate};

/// Checks that a document has the name of the resource, and its namespace, which it may leave out. The words are those of
/// Kubernetes.
pub(super) fn check_names(current: &Resource, document: &mut Value) -> Result<()> {
    let key = current.key();
    let has_metadata = document.get("metadata").is_none_or(|metadata| metadata.is_object() || metadata.is_null());
    if !document.is_object() || !has_metadata {
        // It is refused as malformed.
        return Ok(());
    }
    if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut)
        && metadata.get("namespace").is_none_or(|namespace| namespace.is_null() || namespace == "")
    {
        set(metadata, "namespace", Some(key.namespace()).filter(|name| !name.is_empty()).map(Into::into));
    }
    let (name, namespace) = (metadata_text(document, "name"), metadata_text(document, "namespace"));
    if name.is_empty() {
        let name = key.name();
        let reason = format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
        return Err(Error::invalid("metadata.name", reason));
    }
    if name != key.name() {
        let reason = format!("the name of the object ({name}) does not match the name on the URL ({})", key.name());
        return Err(Error::invalid("metadata.name", reason));
    }
    if namespace != key.namespace() {
        let reason = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Error::invalid("metadata.namespace", reason));
    }
    Ok(())
}

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
    fixed("metadata.name", name.as_deref() == Some(key.name()))
}

/// Checks the preconditions of a write.
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
