//! The leases of controllers in a bucket: carries out the requests of the machine of a lease.
//!
//! The record of a lease has the subject `m.lease.CONTROLLER.SHARD-of-COUNT` below the prefix of the bucket. An
//! acquisition is one atomic batch: the record on the condition of its last version, and then the fence. The
//! fence has several subjects, the *lanes*. A write names the lane of its resource, since a stream with
//! replicas refuses a second message whose condition names a subject that is still in process.
//!
//! A lease of another store has a fence here alone ([`other_fence`]).
//!
//! Deliberately absent: times and decisions, which are those of `homeostat_fleet::Lease`. A request that fails
//! is not tried again here.

mod other_fence;
mod record;
mod stream;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::HeaderMap;
use async_trait::async_trait;
use bytes::Bytes;
use homeostat_fleet::{
    AcquireCondition, Answer, DESCRIPTION_BYTES_MAX, Epoch, Identity, LeaseName, Observation, Request, Version,
};
use homeostat_store::{Error, Fence, LeaseRequests, LeaseStore, LeaseWatch, OtherTerm, Result};

use self::record::{LeaseRecord, RecordContent, record_of};
pub(crate) use self::stream::LeaseStream;
use crate::codec::{EXPECTED_HEADER, FORMAT, FORMAT_HEADER};
use crate::connection::{BatchMessage, Connection};
use crate::errors::RequestResult;
use crate::fenced_writes::TermCheck;
use crate::state::{BucketState, lock};
use crate::write::STREAM_HEADER;

/// The lanes of a fence. Their number may grow and never shrink: a host with fewer lanes would leave the others
/// to an old holder.
const LANES: u64 = 16;

/// The header of the message that checks a fence; it names the subject of the condition.
const EXPECTED_SUBJECT_HEADER: &str = "Nats-Expected-Last-Subject-Sequence-Subject";

/// The leases of a bucket.
pub(crate) struct BucketLeases(pub(crate) Arc<BucketState>);

#[async_trait]
impl LeaseStore for BucketLeases {
    fn lease(&self, name: &LeaseName, identity: &Identity, length: Duration) -> Result<Arc<dyn LeaseRequests>> {
        Ok(Arc::new(BucketLease::new(Arc::clone(&self.0), name, identity, length)?))
    }

    async fn raise_fence(&self, term: &OtherTerm) -> Result<Option<Fence>> {
        self.0.raise_fence(term).await.map(Some)
    }

    async fn watch_leases(&self) -> Result<Box<dyn LeaseWatch>> {
        Ok(Box::new(LeaseStream::open(&self.0).await?))
    }
}

/// The requests of one lease, for one host.
pub(crate) struct BucketLease {
    bucket: Arc<BucketState>,
    lease: LeaseName,
    subject: String,
    identity: Identity,
    length_s: u64,
    /// Details of the present term, from its acquisition.
    term: Mutex<TermDetails>,
    description: Mutex<Option<Arc<str>>>,
}

/// The details of a term in its record, besides the holder. For people.
#[derive(Debug, Clone, Default)]
struct TermDetails {
    acquired: String,
    transitions: u32,
}

impl std::fmt::Debug for BucketLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BucketLease").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl BucketLease {
    pub(crate) fn new(
        bucket: Arc<BucketState>,
        lease: &LeaseName,
        identity: &Identity,
        length: Duration,
    ) -> Result<Self> {
        let subject = bucket.subjects.lease(lease)?;
        let length_s = length.as_secs() + u64::from(length.subsec_nanos() > 0);
        let (lease, identity) = (lease.clone(), identity.clone());
        Ok(Self { bucket, lease, subject, identity, length_s, term: Mutex::default(), description: Mutex::default() })
    }

    async fn observe(&self, connection: &Connection) -> Result<Observation> {
        observe(&self.bucket, connection, &self.lease, &self.subject).await
    }

    async fn acquire(&self, connection: &Connection, expected: AcquireCondition, transitions: u32) -> Result<Answer> {
        let (version, fence) = match expected {
            AcquireCondition::Version(version) => (version.0, None),
            AcquireCondition::Absent { fence } => {
                // The marker of a deletion has a sequence too. A term that began meanwhile has raised the fence.
                let last = self.bucket.last(connection, &self.subject).await;
                let last = last.map_err(|failure| self.bucket.error(failure, "read of a lease"))?;
                if last.as_ref().is_some_and(|message| !matches!(record_of(message), RecordContent::Absent)) {
                    return Ok(Answer::Conflict);
                }
                (last.map_or(0, |message| message.sequence), Some(fence.map_or(0, |epoch| epoch.0)))
            }
        };
        *lock(&self.term) = TermDetails { acquired: self.now(), transitions };
        // The sequence of its fence, which is not known yet, is the epoch.
        let record = LeaseRecord { epoch: None, ..self.held(Epoch(0)) };
        let mut messages = vec![self.bucket.lease_message(self.subject.clone(), Some(version), record.encode())];
        messages.extend(self.bucket.fence_messages(&self.lease, fence, &self.identity.to_string())?);
        let answer = connection.publish_batch(messages).await;
        let stored = |last: u64| {
            let version = last.saturating_sub(LANES);
            Answer::Stored { version: Version(version), epoch: Epoch(version + 1) }
        };
        self.answer(answer, stored)
    }

    /// Writes the record of a term over a version of it.
    async fn replace(
        &self,
        connection: &Connection,
        expected: Version,
        epoch: Epoch,
        record: &LeaseRecord,
    ) -> Result<Answer> {
        let BatchMessage { subject, headers, payload } =
            self.bucket.lease_message(self.subject.clone(), Some(expected.0), record.encode());
        let answer = connection.publish(&subject, headers, payload).await;
        self.answer(answer, |sequence| Answer::Stored { version: Version(sequence), epoch })
    }

    fn answer(&self, answer: RequestResult<u64>, stored: impl FnOnce(u64) -> Answer) -> Result<Answer> {
        match answer {
            Ok(sequence) => Ok(stored(sequence)),
            Err(failure) if failure.is_wrong_sequence() => Ok(Answer::Conflict),
            Err(failure) => Err(self.bucket.error(failure, &format!("write of the lease {}", self.lease))),
        }
    }

    /// Returns the record of a term of this host.
    fn held(&self, epoch: Epoch) -> LeaseRecord {
        let (holder_identity, description) = (Some(self.identity.to_string()), lock(&self.description).clone());
        LeaseRecord { holder_identity, description, ..self.record(epoch) }
    }

    /// Returns the record of a term, without a holder.
    fn record(&self, epoch: Epoch) -> LeaseRecord {
        let TermDetails { acquired, transitions } = lock(&self.term).clone();
        LeaseRecord {
            holder_identity: None,
            lease_duration_seconds: self.length_s,
            acquire_time: acquired,
            renew_time: self.now(),
            lease_transitions: transitions,
            preferred_holder: None,
            epoch: Some(epoch.0),
            description: None,
        }
    }

    fn now(&self) -> String {
        jiff::Timestamp::try_from(self.bucket.clock.now()).map(|now| now.to_string()).unwrap_or_default()
    }
}

#[async_trait]
impl LeaseRequests for BucketLease {
    fn fence(&self, epoch: Epoch) -> Option<Fence> {
        Some(Fence { lease: self.lease.clone(), epoch: epoch.0 })
    }

    fn describe(&self, description: &str) {
        *lock(&self.description) = (description.len() <= DESCRIPTION_BYTES_MAX).then(|| description.into());
    }

    async fn carry_out(&self, request: &Request) -> Result<Answer> {
        let connection = self.bucket.connection()?;
        match request {
            Request::Read => self.observe(&connection).await.map(Answer::Found),
            Request::Acquire { expected, transitions } => self.acquire(&connection, *expected, *transitions).await,
            Request::Renew { expected, epoch } => {
                self.replace(&connection, *expected, *epoch, &self.held(*epoch)).await
            }
            Request::Release { expected, epoch, preferred_holder } => {
                let preferred_holder = preferred_holder.as_ref().map(ToString::to_string);
                let record = LeaseRecord { preferred_holder, ..self.record(*epoch) };
                self.replace(&connection, *expected, *epoch, &record).await
            }
        }
    }
}

/// The lane of one resource in the fence of a term.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    /// The subject of the lane.
    pub(crate) subject: String,
    fence: Fence,
    check: String,
    expected: u64,
}

impl BucketState {
    fn lease_message(&self, subject: String, expected: Option<u64>, payload: String) -> BatchMessage {
        let mut headers = HeaderMap::new();
        headers.insert(STREAM_HEADER, self.stream.as_str());
        headers.insert(FORMAT_HEADER, FORMAT);
        if let Some(expected) = expected {
            headers.insert(EXPECTED_HEADER, expected.to_string());
        }
        BatchMessage { subject, headers, payload: payload.into() }
    }

    /// Returns the messages that write all lanes of a fence, on the condition of the last sequence of the first one.
    fn fence_messages(&self, lease: &LeaseName, expected: Option<u64>, payload: &str) -> Result<Vec<BatchMessage>> {
        let message = |lane| {
            let subject = self.subjects.fence(lease, lane)?;
            Ok(self.lease_message(subject, expected.filter(|_| lane == 0), payload.to_owned()))
        };
        (0..LANES).map(message).collect()
    }

    /// Returns the lane of a resource. Without replicas it is the first one, so that a batch of writes needs one check.
    ///
    /// # Errors
    /// `Invalid` for the name of the lease.
    pub(crate) fn lane(&self, fence: &Fence, resource: &str) -> Result<Lane> {
        let mut hasher = DefaultHasher::new();
        resource.hash(&mut hasher);
        let lane = if self.fenced_writes.is_replicated() { hasher.finish() % LANES } else { 0 };
        Ok(Lane {
            subject: self.subjects.fence(&fence.lease, lane)?,
            fence: fence.clone(),
            check: self.subjects.check(&fence.lease)?,
            expected: fence.epoch.saturating_add(lane),
        })
    }

    /// Returns the check that the term of a lane goes on.
    pub(crate) fn check(&self, lane: &Lane) -> TermCheck {
        let mut headers = HeaderMap::new();
        headers.insert(STREAM_HEADER, self.stream.as_str());
        headers.insert(EXPECTED_HEADER, lane.expected.to_string());
        headers.insert(EXPECTED_SUBJECT_HEADER, lane.subject.as_str());
        let message = BatchMessage { subject: lane.check.clone(), headers, payload: Bytes::new() };
        TermCheck { condition: (lane.subject.clone(), lane.expected), message }
    }

    /// Fails if the term of a lane has ended. The server says only that some condition of a batch does not
    /// hold.
    ///
    /// # Errors
    /// `Fenced`. No error where the leader cannot be asked.
    pub(crate) async fn check_term(&self, connection: &Connection, lane: &Lane) -> Result<()> {
        match self.last(connection, &lane.subject).await {
            Ok(last) if last.as_ref().map_or(0, |message| message.sequence) != lane.expected => {
                Err(Error::Fenced { lease: lane.fence.lease.to_string(), epoch: lane.fence.epoch })
            }
            _ => Ok(()),
        }
    }
}

/// Reads the record of a lease from the leader, and the fence where there is no record.
async fn observe(
    bucket: &BucketState,
    connection: &Connection,
    lease: &LeaseName,
    subject: &str,
) -> Result<Observation> {
    let failed = |failure| bucket.error(failure, &format!("read of the lease {lease}"));
    let last = bucket.last(connection, subject).await.map_err(failed)?;
    match last.as_ref().map_or(RecordContent::Absent, record_of) {
        RecordContent::Present(record) => return Ok(Observation::Present(record)),
        RecordContent::Unreadable(reason) => {
            return Err(Error::unavailable(format!("the record of the lease {lease} cannot be read: {reason}")));
        }
        RecordContent::Absent => {}
    }
    let fence = bucket.last(connection, &bucket.subjects.fence(lease, 0)?).await.map_err(failed)?;
    Ok(Observation::Absent { fence: fence.map(|message| Epoch(message.sequence)) })
}
