//! Errors of the store.

use std::fmt;

use crate::Key;
use crate::bindings::imports::homeostat::reconciler::types::StoreError;

/// The reason why the store refused or failed a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such resource, or no such kind.
    #[error("{0} does not exist")]
    NotFound(String),
    /// The resource has changed since it was read. Read it again and retry.
    #[error("it has changed since it was read (now at revision {current:?})")]
    Conflict {
        /// The current revision of the resource; empty when it is gone.
        current: String,
    },
    /// An apply would change fields that another manager owns. Only their owner, or an apply by force, can
    /// change them.
    #[error("another manager owns applied fields: {0}")]
    Owned(String),
    /// A resource of that name exists.
    #[error("a resource of that name already exists (at revision {current:?})")]
    AlreadyExists {
        /// The revision of the existing resource.
        current: String,
    },
    /// The controller has no grant for this. The text names the missing grant.
    #[error("not granted: {0}")]
    Forbidden(String),
    /// The document is invalid. The text starts with the path of the field.
    #[error("invalid: {0}")]
    Invalid(String),
    /// The document, or the answer, is larger than the limit that the text names.
    #[error("too large: {0}")]
    TooLarge(String),
    /// The store is temporarily unavailable. A write may or may not have been executed, and may still come:
    /// see [the crate's page](crate#when-the-answer-of-a-write-is-lost).
    #[error("the store cannot answer now: {0}")]
    Unavailable(String),
    /// The list took longer than the store keeps its history. List again.
    #[error("the list has expired: {0}")]
    Expired(String),
    /// The document does not fit the Rust type. As a [`Failure`](crate::Failure) it is not retried before the
    /// document changes.
    #[error("{key} does not fit its type: {reason}")]
    Malformed {
        /// The resource.
        key: String,
        /// The parse error.
        reason: String,
    },
}

impl Error {
    /// Returns whether there is no such resource.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// Returns whether a concurrent write won: [`Error::Conflict`] or [`Error::AlreadyExists`].
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
