//! Values of the bucket as resources, and back.
//!
//! A value is the JSON document with an empty `metadata.resourceVersion`: the sequence of the value is the
//! revision. Other programs can write below the same subjects. So a value is a resource only if it is a whole
//! document of the key that its subject names.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use homeostat_store::cached::LastState;
use homeostat_store::{DOCUMENT_BYTES_MAX, Resource, Revision};

use crate::subject::Subjects;

/// The header with the format of a value.
pub(crate) const FORMAT_HEADER: &str = "Homeostat-Format";
/// The only format so far.
pub(crate) const FORMAT: &str = "1";
/// The header that marks a deletion, as every client of buckets writes it.
pub(crate) const OPERATION_HEADER: &str = "KV-Operation";
/// The value of [`OPERATION_HEADER`] for a deletion.
pub(crate) const OPERATION_DELETE: &str = "DEL";
/// The header with the sequence that the value of the subject had before, as the server checks it.
pub(crate) const EXPECTED_HEADER: &str = "Nats-Expected-Last-Subject-Sequence";

/// The header with the reason for which the server itself marked a deletion.
pub(crate) const MARKER_REASON_HEADER: &str = "Nats-Marker-Reason";

/// A value of the bucket, or the mark of its deletion.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Value<'a> {
    pub(crate) subject: &'a str,
    /// The number of the change in the bucket.
    pub(crate) sequence: u64,
    /// The header [`OPERATION_HEADER`].
    pub(crate) operation: Option<&'a str>,
    /// The reason for which the server itself marked a deletion.
    pub(crate) marker_reason: Option<&'a str>,
    /// The header [`FORMAT_HEADER`].
    pub(crate) format: Option<&'a str>,
    /// The header [`EXPECTED_HEADER`].
    pub(crate) expected: Option<&'a str>,
    pub(crate) payload: &'a [u8],
}

/// The content of a [`Value`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ValueContent {
    Resource(Arc<Resource>),
    Deleted(LastState),
    /// No resource, with the reason for a person.
    Unreadable(String),
}

/// Returns the value of a resource.
pub(crate) fn encode(resource: &Resource) -> String {
    resource.text_without_revision()
}

/// Returns the payload of the marker of a deletion: the metadata of the resource, without what people write into
/// annotations. Streams may have left out the resource itself, because the marker has overwritten it.
pub(crate) fn encode_deleted(resource: &Resource) -> String {
    resource.metadata_alone().text_without_revision()
}

/// Returns whether a message with these headers says that its value was deleted, or that it expired.
pub(crate) fn is_deletion(operation: Option<&str>, marker_reason: Option<&str>) -> bool {
    // Purges are no verb of ours, but other clients have them.
    marker_reason.is_some() || matches!(operation, Some(OPERATION_DELETE | "PURGE"))
}

/// Returns the meaning of a value.
pub(crate) fn decode(subjects: &Subjects, value: Value<'_>) -> ValueContent {
    if is_deletion(value.operation, value.marker_reason) {
        return ValueContent::Deleted(last_state(subjects, value));
    }
    match resource(subjects, value) {
        Ok(resource) => ValueContent::Resource(Arc::new(resource)),
        Err(reason) => ValueContent::Unreadable(reason),
    }
}

fn resource(subjects: &Subjects, value: Value<'_>) -> Result<Resource, String> {
    let Value { subject, sequence, operation, marker_reason: _, format, expected: _, payload } = value;
    if let Some(operation) = operation {
        return Err(format!("it has the unknown operation {operation:?}"));
    }
    if let Some(format) = format.filter(|format| *format != FORMAT) {
        return Err(format!("it has the format {format:?}, this host reads format {FORMAT:?}"));
    }
    let Some(address) = subjects.address(subject) else {
        return Err("its subject names no resource".to_owned());
    };
    // The revision is not part of a value.
    if payload.len() as u64 > DOCUMENT_BYTES_MAX {
        return Err(format!("it has {} bytes, the limit is {DOCUMENT_BYTES_MAX}", payload.len()));
    }
    let text = str::from_utf8(payload).map_err(|error| error.to_string())?;
    let resource = Resource::from_text_at(text, Revision(sequence)).map_err(|error| error.to_string())?;
    if !address.is_of(resource.key()) {
        return Err(format!("it is the document of {:?}", resource.key().to_string()));
    }
    if resource.uid().is_empty() {
        return Err("it has no metadata.uid".to_owned());
    }
    Ok(resource)
}

/// Returns what the marker of a deletion tells of the resource. The markers of other clients tell nothing.
fn last_state(subjects: &Subjects, value: Value<'_>) -> LastState {
    let before = value.expected.and_then(|sequence| sequence.parse().ok());
    let (Some(FORMAT), Some(sequence)) = (value.format, before) else { return LastState::Unknown };
    let last = resource(subjects, Value { sequence, operation: None, ..value });
    last.map_or(LastState::Unknown, |last| LastState::Metadata(Arc::new(last)))
}
