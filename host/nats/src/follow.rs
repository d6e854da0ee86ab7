//! The stream of a kind: a push consumer of the server, whose values are resources.
//!
//! The consumers of the client library are not used. Their ordered consumer makes itself anew at the next
//! sequence of the bucket that is there now: after the bucket was deleted and made again it waits silently.

pub(crate) mod deliveries;
pub(crate) mod machine;

use std::sync::Arc;

use async_nats::Message;
use async_trait::async_trait;
use homeostat_store::cached::{Delta, DeltaStream, Start};
use homeostat_store::{Error, Kind, Result, Revision};

use self::deliveries::{Deliveries, Source, StreamItem, header};
use self::machine::{ConsumerMachine, DeliveryKind};
use crate::codec::{
    EXPECTED_HEADER, FORMAT_HEADER, MARKER_REASON_HEADER, OPERATION_HEADER, Value, ValueContent, decode,
};
use crate::protocol::Deliver;
use crate::state::{BucketState, Marks};
use crate::subject::Subjects;

/// A stream of the resources of one kind.
pub(crate) struct BucketStream {
    deliveries: Deliveries,
    subjects: Subjects,
    kind: Kind,
    bucket: String,
    marks: Arc<Marks>,
    error: Option<Error>,
}

impl BucketStream {
    /// Opens the stream of a kind.
    pub(crate) async fn open(bucket: &BucketState, kind: &Kind, start: Start) -> Result<Self> {
        let connection = bucket.connection()?;
        let losses = connection.losses();
        let what = format!("watch of {kind}");
        let info = bucket.info(&connection).await.map_err(|failure| bucket.error(failure, &what))?;
        let last = info.state.last_seq;
        if !bucket.has_content(&info) {
            return Err(Error::Expired { oldest: Revision(last) });
        }
        let (machine, deliver) = begin(bucket, start, last)?;
        let filter = bucket.subjects.kind(kind);
        let source = Source { stream: &bucket.stream, filter: &filter, machine, deliver, what };
        Ok(Self {
            deliveries: Deliveries::open(bucket, connection, losses, source).await?,
            subjects: bucket.subjects.clone(),
            kind: kind.clone(),
            bucket: bucket.settings.bucket.clone(),
            marks: Arc::clone(&bucket.marks),
            error: None,
        })
    }

    async fn read(&mut self) -> Result<Delta> {
        loop {
            match self.deliveries.next().await? {
                StreamItem::ListEnd(at) => return Ok(Delta::ListEnd { at: Revision(at) }),
                StreamItem::Bookmark(through) => {
                    self.marks.note(through);
                    return Ok(Delta::Bookmark(Revision(through)));
                }
                StreamItem::Value { message, sequence, kind } => {
                    if let Some(delta) = self.delta(&message, sequence, kind) {
                        return Ok(delta);
                    }
                }
            }
        }
    }

    fn delta(&self, message: &Message, sequence: u64, kind: DeliveryKind) -> Option<Delta> {
        let value = Value {
            subject: &message.subject,
            sequence,
            operation: header(message, OPERATION_HEADER),
            marker_reason: header(message, MARKER_REASON_HEADER),
            format: header(message, FORMAT_HEADER),
            expected: header(message, EXPECTED_HEADER),
            payload: &message.payload,
        };
        let last = match decode(&self.subjects, value) {
            ValueContent::Resource(resource) if kind == DeliveryKind::Changed => return Some(Delta::Put(resource)),
            ValueContent::Resource(resource) => return Some(Delta::Listed(resource)),
            ValueContent::Deleted(last) => last,
            ValueContent::Unreadable(reason) => {
                let subject = message.subject.as_str();
                tracing::warn!(bucket = self.bucket, subject = ?subject, sequence, "a value is no resource: {reason}");
                let key = self.subjects.address(&message.subject)?.key(&self.kind.version);
                return Some(Delta::Unreadable { key, reason, at: Revision(sequence) });
            }
        };
        let key = self.subjects.address(&message.subject)?.key(&self.kind.version);
        Some(Delta::Deleted { key, last, at: Revision(sequence) })
    }
}

/// Returns how a stream begins in a bucket with this last sequence.
fn begin(bucket: &BucketState, start: Start, last: u64) -> Result<(ConsumerMachine, Deliver)> {
    let expired = Error::Expired { oldest: Revision(last) };
    match start {
        Start::Now { .. } => Ok((ConsumerMachine::listing(last, false), Deliver::LastPerSubject)),
        Start::Exactly(at) if at.0 > last => Err(Error::FutureRevision { asked: at, current: Revision(last) }),
        Start::Exactly(at) if bucket.marks.is_recent(at.0) => {
            Ok((ConsumerMachine::listing(at.0, true), Deliver::LastPerSubject))
        }
        // Its last sequence is below what it was: the content is another one.
        Start::After(after) if after.0 > last => Err(expired),
        Start::After(after) if bucket.marks.is_recent(after.0) => {
            Ok((ConsumerMachine::following(after.0), Deliver::After(after.0)))
        }
        Start::Exactly(_) | Start::After(_) => Err(expired),
    }
}

#[async_trait]
impl DeltaStream for BucketStream {
    async fn next(&mut self) -> Result<Delta> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let answer = self.read().await;
        if let Err(error) = &answer {
            self.error = Some(error.clone());
        }
        answer
    }
}
