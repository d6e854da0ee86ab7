//! The record of a lease as the value of a bucket.
//!
//! The fields are those of the `Lease` of `coordination.k8s.io`. The record of an acquisition has no epoch: the
//! fence follows it in the same batch, so the epoch is the next sequence. Pure.

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderValue;
use async_nats::jetstream::message::StreamMessage;
use homeostat_fleet::{DESCRIPTION_BYTES_MAX, Epoch, Identity, Record, Version};
use serde::{Deserialize, Serialize};

use crate::codec::{FORMAT, FORMAT_HEADER, MARKER_REASON_HEADER, OPERATION_HEADER, is_deletion};

/// The longest identity of a holder, in bytes.
const IDENTITY_BYTES_MAX: usize = 512;

/// The value of a record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeaseRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) holder_identity: Option<String>,
    pub(super) lease_duration_seconds: u64,
    /// For people, as `renew_time`.
    #[serde(default)]
    pub(super) acquire_time: String,
    #[serde(default)]
    pub(super) renew_time: String,
    #[serde(default)]
    pub(super) lease_transitions: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) preferred_holder: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<Arc<str>>,
}

/// The content of the last message about a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordContent {
    /// The mark of a deletion.
    Absent,
    Present(Record),
    /// No record that this host knows, with the reason for a person.
    Unreadable(String),
}

impl LeaseRecord {
    /// Returns the text of the value.
    pub(super) fn encode(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts are JSON")
    }
}

/// Reads a message about a lease.
pub(super) fn record_of(message: &StreamMessage) -> RecordContent {
    let header = |name: &str| message.headers.get(name).map(HeaderValue::as_str);
    content(message.sequence, header, &message.payload)
}

/// Reads a value with these headers.
pub(super) fn content<'a>(sequence: u64, header: impl Fn(&str) -> Option<&'a str>, payload: &[u8]) -> RecordContent {
    if is_deletion(header(OPERATION_HEADER), header(MARKER_REASON_HEADER)) {
        return RecordContent::Absent;
    }
    if header(FORMAT_HEADER) != Some(FORMAT) {
        return RecordContent::Unreadable(format!("it has another format than {FORMAT}"));
    }
    let record: LeaseRecord = match serde_json::from_slice(payload) {
        Ok(record) => record,
        Err(error) => return RecordContent::Unreadable(error.to_string()),
    };
    let LeaseRecord {
        holder_identity,
        lease_duration_seconds,
        acquire_time: _,
        renew_time: _,
        lease_transitions,
        preferred_holder,
        epoch,
        description,
    } = record;
    let identity = |text: Option<String>| match text {
        Some(text) if text.len() > IDENTITY_BYTES_MAX => Err("the name of a holder is too long".to_owned()),
        text => Ok(text.filter(|text| !text.is_empty()).map(|text| Identity::new(&text))),
    };
    let (holder, preferred_holder) = match (identity(holder_identity), identity(preferred_holder)) {
        (Ok(holder), Ok(preferred)) => (holder, preferred),
        (Err(reason), _) | (_, Err(reason)) => return RecordContent::Unreadable(reason),
    };
    RecordContent::Present(Record {
        version: Version(sequence),
        holder,
        epoch: Epoch(epoch.unwrap_or(sequence.saturating_add(1))),
        length: Duration::from_secs(lease_duration_seconds),
        preferred_holder,
        transitions: lease_transitions,
        description: description.filter(|text| text.len() <= DESCRIPTION_BYTES_MAX),
    })
}
