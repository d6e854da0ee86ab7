//! What can go wrong with a call to a store. One enum for all stores.

use crate::violation::Violation;
use crate::{Key, Revision};

/// A result whose error is this room's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call to a store did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such resource.
    #[error("{what} not found")]
    NotFound {
        /// The key of the resource, for a person.
        what: String,
    },
    /// A precondition does not hold, and nothing was changed.
    #[error("{key} is not as expected: {}", current_state(*current))]
    Conflict {
        /// The resource that was to be written.
        key: Key,
        /// The revision that the resource has now; `None` when it is gone.
        current: Option<Revision>,
    },
    /// To apply the document would change fields that other managers own, and nothing was changed.
    #[error("Apply failed with {}", describe_conflicts(conflicts))]
    ApplyConflict {
        /// The resource that was to be written.
        key: Key,
        /// Every such field with each of its owners, by owner and field. Never empty.
        conflicts: Vec<FieldConflict>,
    },
    /// A resource of that name is there already.
    #[error("{key} already exists, at revision {current}")]
    AlreadyExists {
        /// The resource that was to be created.
        key: Key,
        /// The revision of the one that is there.
        current: Revision,
    },
    /// The document, selector or query is not acceptable.
    #[error("{path}: {reason}")]
    Invalid {
        /// The path of the field, as `metadata.name`.
        path: String,
        /// What is wrong with it, as `must not be empty`.
        reason: String,
    },
    /// Fields of the document are not as the schema of its kind says.
    #[error("{what} is invalid: {}", join_violations(violations))]
    InvalidFields {
        /// The resource, for a person, as `Widget.demo.dev "a"`.
        what: String,
        /// What is wrong, one or more, at most [`VIOLATIONS_MAX`](crate::schema::VIOLATIONS_MAX).
        violations: Vec<Violation>,
    },
    /// The document has fields that the schema of its kind does not know, and they were not to be left out.
    #[error("strict decoding error: {}", unknown(fields))]
    UnknownFields {
        /// Their paths, one or more, as `spec.color`; at most [`VIOLATIONS_MAX`](crate::schema::VIOLATIONS_MAX).
        fields: Vec<String>,
    },
    /// Something is larger than its limit.
    #[error("{what} has {bytes} bytes, the limit is {bytes_max}")]
    TooLarge {
        /// What is too large, as `document`.
        what: String,
        /// How large it is, in bytes.
        bytes: u64,
        /// How large it may be, in bytes.
        bytes_max: u64,
    },
    /// The revision or continue token is older than the history that is kept. List again.
    #[error("history before revision {oldest} is gone; list again")]
    Expired {
        /// The oldest revision from which a watch can still be opened.
        oldest: Revision,
    },
    /// The revision is one that the store has not reached: it belongs to another store, or to a file that was put back since.
    #[error("revision {asked} is in the future, the store is at {current}; list again")]
    FutureRevision {
        /// The revision that was asked for.
        asked: Revision,
        /// The revision of the store.
        current: Revision,
    },
    /// The store cannot answer now. A write may or may not have happened.
    #[error("the store is unavailable: {reason}")]
    Unavailable {
        /// What happened, for a person.
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
    /// The `apiVersion` that the manager wrote; `None` when it applies.
    pub version: Option<String>,
    /// The subresource that the manager wrote, as `status`.
    pub subresource: Option<String>,
}

impl FieldConflict {
    /// Returns who owns the field, for a person: `"kubectl" using apps/v1`.
    pub fn owner(&self) -> String {
        let Self { field: _, manager, version, subresource } = self;
        let subresource = subresource.as_ref().map(|name| format!(" with subresource {name:?}")).unwrap_or_default();
        let version = version.as_ref().map(|version| format!(" using {version}")).unwrap_or_default();
        format!("{manager:?}{subresource}{version}")
    }
}

impl Error {
    /// Builds [`Error::Invalid`] from the path of a field and what is wrong with it.
    pub fn invalid(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { path: path.into(), reason: reason.into() }
    }

    /// Builds [`Error::Unavailable`] from anything that can be shown.
    pub fn unavailable(reason: impl std::fmt::Display) -> Self {
        Self::Unavailable { reason: reason.to_string() }
    }

    pub(crate) fn not_found(key: &Key) -> Self {
        Self::NotFound { what: key.to_string() }
    }
}

/// Source: the words of Kubernetes, which people search for.
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

/// Source: the words of Kubernetes, which people search for.
fn unknown(fields: &[String]) -> String {
    fields.iter().map(|field| format!("unknown field {field:?}")).collect::<Vec<_>>().join(", ")
}

fn current_state(current: Option<Revision>) -> String {
    match current {
        Some(revision) => format!("it is at revision {revision} now"),
        None => "it is gone".to_owned(),
    }
}

fn join_violations(violations: &[Violation]) -> String {
    match violations {
        [one] => one.to_string(),
        many => format!("[{}]", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}
