//! Why the store did not do what was asked.

use std::fmt;

use crate::Key;
use crate::bindings::imports::homeostat::reconciler::types::StoreError;

/// Why the store did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such resource, or no such kind.
    #[error("{0} is not there")]
    NotFound(String),
    /// The resource has changed since it was read. Trying again with what is there now is the cure.
    #[error("it has changed since it was read (now at revision {current:?})")]
    Conflict {
        /// The revision that the resource has now; empty when it is gone.
        current: String,
    },
    /// An apply would change fields that somebody else owns. Nobody but their owner, or an apply by force, can change them.
    #[error("somebody else owns what is to be applied: {0}")]
    Owned(String),
    /// A resource of that name is there already.
    #[error("a resource of that name is there already (at revision {current:?})")]
    AlreadyExists {
        /// The revision of what is there.
        current: String,
    },
    /// The controller has no grant for this. The text names the grant that is missing.
    #[error("not granted: {0}")]
    Forbidden(String),
    /// The store does not accept the document. The text starts with the path of the field.
    #[error("not acceptable: {0}")]
    Invalid(String),
    /// The document, or the answer, is larger than the limit that the text names.
    #[error("too large: {0}")]
    TooLarge(String),
    /// The store cannot answer now. What was asked may or may not have been done.
    #[error("the store cannot answer now: {0}")]
    Unavailable(String),
    /// The list took longer than the store keeps its history. List again.
    #[error("the list has expired: {0}")]
    Expired(String),
    /// The document does not fit the Rust type. Turned into a [`Failure`](crate::Failure), it is not tried again before it changes.
    #[error("{key} does not fit its type: {reason}")]
    Malformed {
        /// The resource.
        key: String,
        /// What does not fit.
        reason: String,
    },
}

impl Error {
    /// Whether there is no such resource.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// Whether somebody else was faster: [`Error::Conflict`] or [`Error::AlreadyExists`].
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::AlreadyExists { .. })
    }

    pub(crate) fn malformed(key: &Key, reason: &impl fmt::Display) -> Self {
        Self::Malformed { key: key.to_string(), reason: reason.to_string() }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(what) => Self::NotFound(what),
            StoreError::Conflict(current) => Self::Conflict { current },
            StoreError::Owned(what) => Self::Owned(what),
            StoreError::AlreadyExists(current) => Self::AlreadyExists { current },
            StoreError::Forbidden(what) => Self::Forbidden(what),
            StoreError::Invalid(what) => Self::Invalid(what),
            StoreError::TooLarge(what) => Self::TooLarge(what),
            StoreError::Unavailable(what) => Self::Unavailable(what),
            StoreError::Expired(what) => Self::Expired(what),
        }
    }
}
