//! The protobuf encoding of built-in kinds: JSON to protobuf and back, by the tables of the published data.
//!
//! A body is an envelope, `runtime.Unknown` after four magic bytes, with apiVersion, kind and the message in it. The
//! JSON form is that of Kubernetes' own types: fields that they omit when empty are absent. Fields of a newer Kubernetes
//! are skipped, as there.
//!
//! Source: `k8s.io/apimachinery/pkg/runtime/serializer/protobuf`, and the field numbers of the types.

mod decode;
mod encode;
mod openapi;
mod wire;

use homeostat_store::Kind;
use serde_json::Value;

use crate::kind::definition_of;
use crate::message::{self, Message};

/// The content type.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The content type of a watch: each event has its length before it, as four bytes, the most significant first.
pub const WATCH_CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The end of every body: content encoding and type, which are empty.
pub const ENVELOPE_END: [u8; 4] = [3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// The prefix of every body.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body or a document cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The kind has no protobuf form: it is not built in.
    UnknownKind(String),
    /// The body is malformed, or the document has a field of the wrong type.
    Malformed(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(f, "the kind {kind} has no protobuf form"),
            Self::Malformed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {}

fn malformed(reason: impl Into<String>) -> Error {
    Error::Malformed(reason.into())
}

/// Returns whether resources of a kind have a protobuf form.
pub fn supports(kind: &Kind) -> bool {
    definition_of(kind).is_some()
}

/// Decodes a body. The document has `apiVersion` and `kind`, if the envelope has them.
///
/// # Errors
/// [`Error::UnknownKind`]; [`Error::Malformed`], also for a body whose document would have more than 8 MiB.
pub fn decode(body: &[u8]) -> Result<Value, Error> {
    decode::envelope(body)
}

/// Encodes a document, or a list of documents, by its `apiVersion` and `kind`.
///
/// # Errors
/// [`Error::UnknownKind`] and [`Error::Malformed`].
pub fn encode(document: &Value) -> Result<Vec<u8>, Error> {
    encode::envelope(document)
}

/// Returns what stands before the items of a list in protobuf. `kind` is that of the items, and `items_bytes` their size
/// together; the envelope has it before them.
///
/// # Errors
/// [`Error::Malformed`] for `metadata` with a field of the wrong type.
pub fn list_head(kind: &Kind, metadata: &Value, items_bytes: usize) -> Result<Vec<u8>, Error> {
    encode::list_head(kind, metadata, items_bytes)
}

/// Appends an item of a list in protobuf. [`ENVELOPE_END`] ends the list.
///
/// # Errors
/// As [`encode()`].
pub fn append_item(kind: &Kind, document: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    encode::append_item(kind, document, out)
}

/// Encodes one event of a watch, with its length. `document` is a resource, a bookmark or a `Status`.
///
/// # Errors
/// As [`encode()`].
pub fn encode_event(name: &str, document: &Value) -> Result<Vec<u8>, Error> {
    encode::event(name, document)
}

/// Encodes a document in OpenAPI v2: its information, paths and definitions.
pub fn encode_openapi(document: &Value) -> Vec<u8> {
    openapi::document(document)
}

/// Returns the kind that a document names.
fn kind_of(api_version: &str, name: &str) -> Kind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // Every group registers the options of a deletion.
    let group = if name == "DeleteOptions" { "" } else { group };
    let version = if name == "DeleteOptions" { "v1" } else { version };
    Kind::new(group, version, name)
}

/// Returns the message of a kind.
fn message_of(kind: &Kind) -> Result<std::sync::Arc<Message>, Error> {
    let name = definition_of(kind).ok_or_else(|| Error::UnknownKind(kind.to_string()))?;
    message::find(name).ok_or_else(|| Error::UnknownKind(kind.to_string()))
}

#[cfg(test)]
mod tests;
