//! Reads that ask the leader of the stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_nats::jetstream::message::StreamMessage;
use homeostat_store::cached::{Delta, DeltaStream, Start};
use homeostat_store::{Error, Key, Page, Query, Resource, Result, Revision};
use serde_json::json;

use crate::codec::{
    EXPECTED_HEADER, FORMAT_HEADER, MARKER_REASON_HEADER, OPERATION_HEADER, Value, ValueContent, decode,
};
use crate::connection::Connection;
use crate::errors::{RequestError, RequestResult};
use crate::follow::BucketStream;
use crate::protocol::StoredMessage;
use crate::state::BucketState;

/// Total size of the documents of one list, in bytes of their text. A kind that is larger can be read through
/// the cache, which has a bound of its own.
const LIST_BYTES_MAX: u64 = 256 << 20;

impl BucketState {
    /// Reads the last value of a subject from the leader, a marker included.
    pub(crate) async fn last(&self, connection: &Connection, subject: &str) -> RequestResult<Option<StreamMessage>> {
        last_in(connection, &self.stream, subject).await
    }

    /// Returns the meaning of a value that was read.
    pub(crate) fn decoded(&self, message: &StreamMessage) -> ValueContent {
        let header = |name: &str| message.headers.get(name).map(async_nats::HeaderValue::as_str);
        let value = Value {
            subject: &message.subject,
            sequence: message.sequence,
            operation: header(OPERATION_HEADER),
            marker_reason: header(MARKER_REASON_HEADER),
            format: header(FORMAT_HEADER),
            expected: header(EXPECTED_HEADER),
            payload: &message.payload,
        };
        decode(&self.subjects, value)
    }

    /// Reads one resource.
    pub(crate) async fn read(&self, key: &Key) -> Result<Arc<Resource>> {
        let connection = self.connection()?;
        let subject = self.subjects.resource(key)?;
        let last = self.last(&connection, &subject).await;
        let last = last.map_err(|failure| self.error(failure, &format!("read of {key}")))?;
        match last.map(|message| self.decoded(&message)) {
            None | Some(ValueContent::Deleted(_)) => Err(Error::NotFound { what: key.to_string() }),
            Some(ValueContent::Resource(resource)) => Ok(resource),
            Some(ValueContent::Unreadable(reason)) => Err(unreadable(key, &reason)),
        }
    }

    /// Lists resources of a kind in one page, also beyond the limit: there is no state in common with a later
    /// page.
    pub(crate) async fn read_all(&self, query: &Query) -> Result<Page> {
        query.selector.validate()?;
        if query.limit == Some(0) {
            return Err(Error::invalid("limit", "must be 1 or more"));
        }
        if query.from.is_some() {
            return Err(Error::Expired { oldest: Revision::ZERO });
        }
        let mut stream = BucketStream::open(self, &query.kind, Start::Now { not_before: None }).await?;
        let mut found = BTreeMap::new();
        let mut bytes = 0_u64;
        let place = |key: &Key| (key.namespace().to_owned(), key.name().to_owned());
        let revision = loop {
            match stream.next().await? {
                Delta::Listed(resource) | Delta::Put(resource) => {
                    bytes += resource.bytes();
                    if let Some(before) = found.insert(place(resource.key()), resource) {
                        bytes -= before.bytes();
                    }
                }
                Delta::Deleted { key, .. } | Delta::Unreadable { key, .. } => {
                    bytes -= found.remove(&place(&key)).map_or(0, |before| before.bytes());
                }
                Delta::ListEnd { at } => break at,
                Delta::Bookmark(_) => {}
            }
            if bytes > LIST_BYTES_MAX {
                return Err(Error::TooLarge { what: "list".to_owned(), bytes, bytes_max: LIST_BYTES_MAX });
            }
        };
        let items = found.into_values().filter(|resource| query.selector.matches(resource)).collect();
        Ok(Page { items, revision, next: None, remaining: None })
    }
}

/// Reads the last value of a subject from the leader of a stream, a marker included.
pub(crate) async fn last_in(
    connection: &Connection,
    stream: &str,
    subject: &str,
) -> RequestResult<Option<StreamMessage>> {
    let request = json!({"last_by_subj": subject});
    let answer = connection.call(&format!("STREAM.MSG.GET.{stream}"), &request).await;
    let StoredMessage { message } = match answer {
        Err(failure) if failure.is_no_value() => return Ok(None),
        answer => answer?,
    };
    let decoded = StreamMessage::try_from(message);
    decoded.map(Some).map_err(|error| RequestError::Silent(format!("the answer cannot be read: {error}")))
}

/// Returns the error for a value that is no resource.
pub(crate) fn unreadable(key: &Key, reason: &str) -> Error {
    Error::unavailable(format!("the value of {key} cannot be read, somebody else wrote it: {reason}"))
}
