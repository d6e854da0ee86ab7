//! Errors of a store. One enum for all stores.

use crate::violation::Violation;
use crate::{Key, Revision};

/// A result whose error is this room's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call to a store failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such resource.
    #[error("{what} not found")]
    NotFound {
        /// The key of the resource, for a person.
        what: String,
    },
    /// A precondition does not hold; the store did not change.
    #[error("{key} does not match the precondition: {}", current_state(*current))]
    Conflict {
        /// The resource that was to be written.
        key: Key,
        /// The revision that the resource has now; `None` when it is gone.
        current: Option<Revision>,
    },
    /// The lease under which the write was decided has passed to another term; the store did not change. The
    /// same write never succeeds.
    #[error("the term {epoch} of the lease {lease} has ended; nothing was written")]
    Fenced {
        /// The name of the lease, for a person.
        lease: String,
        /// The number of the term.
        epoch: u64,
    },
    /// The apply would change fields that other managers own; the store did not change.
    #[error("Apply failed with {}", describe_conflicts(conflicts))]
    ApplyConflict {
        /// The resource that was to be written.
        key: Key,
        /// Every such field with each of its owners, by owner and field. Never empty.
        conflicts: Vec<FieldConflict>,
    },
    /// A resource of that name already exists.
    #[error("{key} already exists, at revision {current}")]
    AlreadyExists {
        /// The resource that was to be created.
        key: Key,
        /// The revision of the existing resource.
        current: Revision,
    },
    /// The document, selector or query is not acceptable.
    #[error("{path}: {reason}")]
    Invalid {
        /// The path of the field, as `metadata.name`.
        path: String,
        /// The error, as `must not be empty`.
        reason: String,
    },
    /// A directive of a strategic merge patch is malformed.
    #[error("the patch is malformed: {reason}")]
    MalformedPatch {
        /// The path of the directive, and the error.
        reason: String,
    },
    /// A patched document of a built-in kind, or an applied document, has a value of a type that its field does not have.
    #[error("{reason}")]
    Mistyped {
        /// The first such field, in the words of Go's JSON decoder.
        reason: String,
    },
    /// Fields of the document violate the schema of its kind.
    #[error("{what} is invalid: {}", join_violations(violations))]
    InvalidFields {
        /// The resource, for a person, as `Widget.demo.dev "a"`.
        what: String,
        /// The violations, one or more, at most [`VIOLATIONS_MAX`](crate::schema::VIOLATIONS_MAX).
        violations: Vec<Violation>,
    },
    /// The document has fields that the schema of its kind does not know, and the request refuses such
    /// fields.
    #[error("strict decoding error: {}", unknown(fields))]
    UnknownFields {
        /// Their paths, one or more, as `spec.color`; at most
        /// [`VIOLATIONS_MAX`](crate::schema::VIOLATIONS_MAX).
        fields: Vec<String>,
    },
    /// A value exceeds its size limit.
    #[error("{what} has {bytes} bytes, the limit is {bytes_max}")]
    TooLarge {
        /// The name of the value, as `document`.
        what: String,
        /// Its size, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        bytes_max: u64,
    },
    /// The revision or continue token is older than the kept history. List again.
    #[error("history before revision {oldest} is gone; list again")]
    Expired {
        /// The oldest revision from which a watch can still be opened.
        oldest: Revision,
    },
    /// The store has not reached the revision: it belongs to another store, or the file was replaced by an
    /// older one since.
    #[error("revision {asked} is in the future, the store is at {current}; list again")]
    FutureRevision {
        /// The requested revision.
        asked: Revision,
        /// The revision of the store.
        current: Revision,
    },
    /// The kind has a conversion, and the stored document is in another version than the write; nothing changed. Only
    /// a conversion brings the document into the version of the write.
    #[error("{key} is stored in version {stored}, and has to be converted first")]
    OtherVersion {
        /// The resource that was to be written, in the version of the write.
        key: Key,
        /// The version of the stored document; the storage version of the kind if there is no document.
        stored: String,
    },
    /// A document could not be converted into another version of its kind.
    #[error("{reason}")]
    Conversion {
        /// The reason, in the words of Kubernetes where it has some.
        reason: String,
    },
    /// The server of the store does not allow it to this host; nothing changed.
    #[error("the store refuses {what}: {reason}")]
    Forbidden {
        /// What was refused, as `list of Secret`.
        what: String,
        /// The reason of the server, for a person.
        reason: String,
    },
    /// The store has no such operation for this kind; nothing changed.
    #[error("the store has no {what}: {reason}")]
    Unsupported {
        /// The operation, as `watch of Scale.autoscaling`.
        what: String,
        /// The reason, for a person.
        reason: String,
    },
    /// The store is unavailable now. A write may or may not have happened.
    #[error("the store is unavailable: {reason}")]
    Unavailable {
        /// The reason, for a person.
        reason: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// A field that an apply would change, and another manager that owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldConflict {
    /// The path of the field, as `.spec.replicas` or `.spec.ports[port=80].name`.
    pub field: String,
    /// The name of the manager, as `kubectl`.
    pub manager: String,
    /// The `apiVersion` that the manager wrote; `None` for a manager that applies.
    pub version: Option<String>,
    /// The subresource that the manager wrote, as `status`.
    pub subresource: Option<String>,
}

impl FieldConflict {
    /// Returns the owner of the field, for a person: `"kubectl" using apps/v1`.
    pub fn owner(&self) -> String {
        let Self { field: _, manager, version, subresource } = self;
        let subresource = subresource.as_ref().map(|name| format!(" with subresource {name:?}")).unwrap_or_default();
        let version = version.as_ref().map(|version| format!(" using {version}")).unwrap_or_default();
        format!("{manager:?}{subresource}{version}")
    }
}

impl Error {
    /// Builds [`Error::InvalidFields`] from the violations of a resource.
    pub fn invalid_fields(what: String, violations: Vec<Violation>) -> Self {
        Self::InvalidFields { what, violations }
    }

    /// Builds [`Error::Invalid`] from the path of a field and the reason.
    pub fn invalid(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { path: path.into(), reason: reason.into() }
    }

    /// Builds [`Error::Unavailable`] from any displayable reason.
    pub fn unavailable(reason: impl std::fmt::Display) -> Self {
        Self::Unavailable { reason: reason.to_string() }
    }

    /// Builds the error for a resource whose document this host cannot read, from the reason.
    pub fn unreadable(key: &Key, reason: impl std::fmt::Display) -> Self {
        Self::unavailable(format!("the document of {key} cannot be read: {reason}"))
    }

    /// Returns whether a list failed for a reason that concerns one kind: the caller may not list it, or it
    /// is not served.
    pub fn concerns_one_kind(&self) -> bool {
        matches!(self, Self::Forbidden { .. } | Self::Unsupported { .. } | Self::NotFound { .. })
    }

    pub(crate) fn not_found(key: &Key) -> Self {
        Self::NotFound { what: key.to_string() }
    }
}

/// Source: the message of Kubernetes, so that users can search for it.
fn describe_conflicts(conflicts: &[FieldConflict]) -> String {
    if let [conflict] = conflicts {
        return format!("1 conflict: conflict with {}: {}", conflict.owner(), conflict.field);
    }
    let mut text = format!("{} conflicts:", conflicts.len());
    let mut before = None;
    for conflict in conflicts {
        let owner = conflict.owner();
        if before.as_ref() != Some(&owner) {
            let gap = if before.is_none() { ' ' } else { '\n' };
            text.push_str(&format!("{gap}conflicts with {owner}:"));
            before = Some(owner);
        }
        text.push_str(&format!("\n- {}", conflict.field));
    }
    text
}

/// Source: the message of Kubernetes, so that users can search for it.
fn unknown(fields: &[String]) -> String {
    fields.iter().map(|field| format!("unknown field {field:?}")).collect::<Vec<_>>().join(", ")
}

fn current_state(current: Option<Revision>) -> String {
    match current {
        Some(revision) => format!("it is at revision {revision} now"),
        None => "it is gone".to_owned(),
    }
}

/// As in Kubernetes, it says the same once.
fn join_violations(violations: &[Violation]) -> String {
    let mut texts = Vec::<String>::with_capacity(violations.len());
    for text in violations.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match &*texts {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
