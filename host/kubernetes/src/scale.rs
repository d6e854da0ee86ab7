//! The subresource `scale` of a resource: its path and its document. Pure.

use homeostat_store::{Error, Key, Precondition, Result, Revision};
use serde_json::{Value, json};

use crate::catalog::ServedKind;
use crate::path;

/// Returns the path of the scale of a resource, in the version of its key.
///
/// # Errors
/// `Unsupported` for a kind without one; `NotFound` for a name that no resource can have.
pub(crate) fn path_of(served: &ServedKind, key: &Key) -> Result<String> {
    let version = served.version(&key.kind().version);
    if !served.has_scale(version) {
        let reason = "the server has no such subresource of the kind".to_owned();
        return Err(Error::Unsupported { what: format!("scale of {}", key.kind()), reason });
    }
    let item = path::item(served, version, key.namespace(), key.name());
    let item = item.map_err(|_| Error::NotFound { what: key.to_string() })?;
    Ok(format!("{item}/scale"))
}

/// Returns the document that sets the number of replicas.
pub(crate) fn document(key: &Key, replicas: u64, Precondition { uid, revision }: &Precondition) -> Value {
    let mut metadata = json!({"name": key.name(), "namespace": key.namespace()});
    if let Some(revision) = revision {
        metadata["resourceVersion"] = json!(revision.to_string());
    }
    if let Some(uid) = uid {
        metadata["uid"] = json!(uid);
    }
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}})
}

/// Parses the answer of the server.
///
/// # Errors
/// `Unavailable` for any other document.
pub(crate) fn parse(body: &[u8], key: &Key) -> Result<Value> {
    let scale: Value = serde_json::from_slice(body)
        .map_err(|error| Error::unavailable(format!("the scale of {key} from the server cannot be read: {error}")))?;
    if scale["kind"] != "Scale" {
        return Err(Error::unavailable(format!("the server answered no scale of {key}, but a {}", scale["kind"])));
    }
    Ok(scale)
}

/// Returns the uid of the resource of a scale.
pub(crate) fn uid_of(scale: &Value) -> Option<&str> {
    scale.pointer("/metadata/uid")?.as_str()
}

/// Returns the revision of the resource of a scale.
pub(crate) fn revision_of(scale: &Value) -> Option<Revision> {
    scale.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}
