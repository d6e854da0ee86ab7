//! The host's answers to effects.

use homeostat_store as store;
use homeostat_store::{EventType, Key, Resource, View};
use serde::{Deserialize, Serialize};

use super::Blob;
use crate::limits::LimitName;
use crate::result_serde;

/// The host's answer to an [`super::Effect`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// To `Get`.
    #[serde(with = "result_serde")]
    Resource(Result<ResourceData, StoreError>),
    /// To `List`.
    #[serde(with = "result_serde")]
    Page(Result<PageData, StoreError>),
    /// To `Write`.
    #[serde(with = "result_serde")]
    Written(Result<WriteData, StoreError>),
    /// To `Follow`, `FollowAll`, `Enqueue` and `Reach`; an error also to `Config`.
    #[serde(with = "result_serde")]
    Done(Result<(), StoreError>),
    /// To `Config`: the requested settings, without those that do not exist.
    Config(Vec<(String, String)>),
    /// To `Http`.
    #[serde(with = "result_serde")]
    Http(Result<HttpResponse, HttpError>),
    /// To `WallClock` and `MonotonicClock`.
    Nanoseconds(u64),
    /// To `Random`.
    Bytes(Blob),
    /// To `Emit` and `Log`.
    Unit,
    /// To every effect: the call hit a limit and ends under its name, regardless of how the guest reacts.
    Limit {
        /// The limit.
        limit: LimitName,
        /// The requested and the allowed amount.
        message: String,
    },
}

impl Answer {
    /// Returns the name of the kind of answer, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Resource(_) => "Resource",
            Self::Page(_) => "Page",
            Self::Written(_) => "Written",
            Self::Done(_) => "Done",
            Self::Config(_) => "Config",
            Self::Http(_) => "Http",
            Self::Nanoseconds(_) => "Nanoseconds",
            Self::Bytes(_) => "Bytes",
            Self::Unit => "Unit",
            Self::Limit { .. } => "Limit",
        }
    }
}

/// One resource as a guest sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceData {
    /// The key of the resource.
    pub key: Key,
    /// Unique for each creation. Empty for virtual kinds.
    pub uid: String,
    /// The store's version of it, as text.
    pub revision: String,
    /// Grows when `spec` changes.
    pub generation: u64,
    /// The part of the document that the view selects, as JSON text.
    pub json: String,
}

impl ResourceData {
    /// Returns the part of `resource` that `view` selects.
    pub fn new(resource: &Resource, view: View) -> Self {
        Self {
            key: resource.key().clone(),
            uid: resource.uid().to_owned(),
            revision: resource.revision().to_string(),
            generation: resource.generation(),
            json: resource.view(view),
        }
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PageData {
    /// Ordered by namespace, then name.
    pub items: Vec<ResourceData>,
    /// The revision of the store at which the list was read.
    pub revision: String,
    /// The continuation of the next page; `None` at the end.
    pub next: Option<String>,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteData {
    /// The resource as stored; after a deletion its last state.
    pub resource: ResourceData,
    /// The kind of change; `None` if the write changed nothing and made no new revision.
    pub change: Option<EventType>,
}

/// The reason why the store refused or failed a request, in the terms of the contract. The texts are for
/// people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum StoreError {
    /// There is no such resource, or no such kind.
    #[error("not found: {0}")]
    NotFound(String),
    /// A precondition does not hold; carries the current revision of the resource, empty when it is gone.
    #[error("conflict: the revision is now {0:?}")]
    Conflict(String),
    /// An apply would change fields that others own; lists each field and its owner.
    #[error("owned: {0}")]
    Owned(String),
    /// A resource of that name exists; carries its revision.
    #[error("already exists, at revision {0:?}")]
    AlreadyExists(String),
    /// A grant is missing.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The document is invalid; starts with the path of the field.
    #[error("invalid: {0}")]
    Invalid(String),
    /// The document or the answer is too large.
    #[error("too large: {0}")]
    TooLarge(String),
    /// The store is temporarily unavailable.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The revision or continuation is older than the store's history.
    #[error("expired: {0}")]
    Expired(String),
}

impl From<store::Error> for StoreError {
    fn from(error: store::Error) -> Self {
        let text = error.to_string();
        match error {
            store::Error::NotFound { what, .. } => Self::NotFound(what.to_string()),
            store::Error::Conflict { current, .. } => {
                Self::Conflict(current.map(|at| at.to_string()).unwrap_or_default())
            }
            // Another host decides about the resource now; the host ends this run.
            store::Error::Fenced { .. } => Self::Conflict(String::new()),
            store::Error::ApplyConflict { .. } => Self::Owned(text),
            store::Error::InvalidFields { .. }
            | store::Error::MalformedPatch { .. }
            | store::Error::Mistyped { .. }
            | store::Error::UnknownFields { .. } => Self::Invalid(text),
            store::Error::AlreadyExists { current, .. } => Self::AlreadyExists(current.to_string()),
            store::Error::Invalid { path, reason } => Self::Invalid(format!("{path}: {reason}")),
            store::Error::TooLarge { .. } => Self::TooLarge(text),
            store::Error::Forbidden { .. } => Self::Forbidden(text),
            store::Error::Unsupported { .. } => Self::Invalid(text),
            store::Error::Expired { .. } | store::Error::FutureRevision { .. } => Self::Expired(text),
            _ => Self::Unavailable(text),
        }
    }
}

/// The response of a server, with its whole body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpResponse {
    /// The status code: 100 to 999.
    pub status: u16,
    /// In the server's order, names in lower case.
    pub headers: Vec<(String, Blob)>,
    /// At most `http_body_bytes_max` bytes.
    pub body: Blob,
}

/// The reason why an HTTP request failed. The texts are for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum HttpError {
    /// A grant is missing.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The request is malformed.
    #[error("invalid: {0}")]
    Invalid(String),
    /// The body of the request or of the response is longer than allowed; carries the bound in bytes.
    #[error("the body is longer than {0} bytes")]
    TooLarge(u64),
    /// The timeout passed.
    #[error("no answer in time")]
    Timeout,
    /// No connection, or it broke.
    #[error("unreachable: {0}")]
    Unreachable(String),
}
