//! Field owners written by a client: the `managedFields` of a document that replaces another one.
//!
//! `kubectl` uses this to migrate from client-side to server-side apply (`client-go/util/csaupgrade`).
//! Source: `decodeLiveOrNew` of Kubernetes' `managedfields`, and the check of `managedFields` in its
//! `ValidateObjectMeta`.

use serde_json::Value;

use super::managers::Managers;
use crate::{Error, Result};

/// Longest name of a manager, and of a subresource. Source: Kubernetes.
const MANAGER_BYTES_MAX: usize = 128;
const SUBRESOURCE_BYTES_MAX: usize = 256;

/// The change of field owners that a client requests.
#[derive(Debug, PartialEq)]
pub(crate) enum RequestedOwners {
    /// The owners stay. Also for malformed `managedFields`: the client may not know about owners.
    Unchanged,
    /// No field has an owner.
    Reset,
    /// The owners are these.
    Set(Managers),
}

/// Returns the change that a client requests by writing these `managedFields`. Entries that differ only in
/// their times count as equal.
///
/// # Errors
/// `Invalid` for a name that is too long or not printable.
pub(crate) fn requested_owners(written: Option<&Value>, current: &Value) -> Result<RequestedOwners> {
    let Some(written) = written.filter(|written| Some(*written) != current["metadata"].get("managedFields")) else {
        return Ok(RequestedOwners::Unchanged);
    };
    if is_reset(written) {
        return Ok(RequestedOwners::Reset);
    }
    let Some(given) = Managers::read(written).filter(|given| !given.is_empty()) else {
        return Ok(RequestedOwners::Unchanged);
    };
    for (at, (manager, subresource)) in given.names().enumerate() {
        check(at, "manager", manager, MANAGER_BYTES_MAX)?;
        check(at, "subresource", subresource, SUBRESOURCE_BYTES_MAX)?;
    }
    Ok(if given.same_owners(&Managers::of(current)) { RequestedOwners::Unchanged } else { RequestedOwners::Set(given) })
}

impl RequestedOwners {
    /// Sets the owners in a document that has those of the current one.
    ///
    /// # Errors
    /// `TooLarge`.
    pub(crate) fn write(self, document: &mut Value) -> Result<()> {
        match self {
            Self::Unchanged => Ok(()),
            Self::Reset => Managers::default().write(document),
            Self::Set(managers) => managers.write(document),
        }
    }
}

fn check(at: usize, field: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() <= bytes_max && !text.chars().any(char::is_control) {
        return Ok(());
    }
    let reason = format!("must be at most {bytes_max} bytes long, without control characters");
    Err(Error::invalid(format!("metadata.managedFields[{at}].{field}"), reason))
}

/// Returns whether these `managedFields` reset all owners: an empty list, or one empty entry, as in
/// Kubernetes.
fn is_reset(managed_fields: &Value) -> bool {
    let empty = |entry: &Value| entry.as_object().is_some_and(serde_json::Map::is_empty);
    managed_fields.as_array().is_some_and(|entries| match &entries[..] {
        [] => true,
        [entry] => empty(entry),
        _ => false,
    })
}
