//! The owners of fields as a client writes them: the `managedFields` of a document that replaces another one.
//!
//! So `kubectl` moves what it applied on its side to what it applies on the server's (`client-go/util/csaupgrade`). Source:
//! `decodeLiveOrNew` of Kubernetes' `managedfields`, and the check of `managedFields` in its `ValidateObjectMeta`.

use serde_json::Value;

use super::managers::Managers;
use crate::{Error, Result};

/// Longest name of a manager, and of a part of a resource. Source: Kubernetes.
const MANAGER_BYTES_MAX: usize = 128;
const SUBRESOURCE_BYTES_MAX: usize = 256;

/// What a client wants to become of the owners of a resource's fields.
#[derive(Debug, PartialEq)]
pub(crate) enum RequestedOwners {
    /// They stay, also where the client says nothing that is understood: it may know nothing of owners.
    Unchanged,
    /// Nobody owns anything.
    Reset,
    /// They are these.
    Set(Managers),
}

/// Returns what a client wants that writes these `managedFields` in place of those of `current`. Entries that differ in their times alone
/// are no others.
///
/// # Errors
/// `Invalid` for a name that is too long, or cannot be printed.
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
    /// Writes them into a document that has those of the current one.
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

/// Returns whether a client that writes these `managedFields` wants the owners of all fields forgotten: a list that is empty, or has one
/// empty entry, as Kubernetes wants it.
fn is_reset(managed_fields: &Value) -> bool {
    let empty = |entry: &Value| entry.as_object().is_some_and(serde_json::Map::is_empty);
    managed_fields.as_array().is_some_and(|entries| match &entries[..] {
        [] => true,
        [entry] => empty(entry),
        _ => false,
    })
}
