//! Buckets of other programs: their values bring resources of a kind, and statuses go back.
//!
//! The resources are ordinary ones of the store's own bucket, so uid, generation, finalizers, owners and
//! watches are those of any kind. Every host with the kind follows the foreign bucket. All do the same, and
//! each write is conditional, so the first one counts.

mod projection;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{HeaderMap, Message};
use homeostat_store::cached::{CachedState, Delta, DeltaStream as _, ExponentialBackoff, Start, jitter};
use homeostat_store::semantics::{Decision, WritePlan};
use homeostat_store::{Error, Key, Query, Request, Resource, Result, Write};
use serde_json::json;
use tokio::time::Instant;

use self::projection::{DesiredResource, KEY_ANNOTATION, spec_of, status_value, step, with_status};
use crate::codec::{EXPECTED_HEADER, MARKER_REASON_HEADER, OPERATION_DELETE, OPERATION_HEADER, is_deletion};
use crate::connection::Connection;
use crate::errors::RequestResult;
use crate::follow::BucketStream;
use crate::follow::deliveries::{Deliveries, Source, StreamItem};
use crate::follow::machine::ConsumerMachine;
use crate::pattern::KeyPattern;
use crate::protocol::{Deliver, StreamInfo};
use crate::read::last_in;
use crate::settings::{ForeignBucket, StatusPlace};
use crate::state::BucketState;

/// Time after which the foreign bucket is listed again: a purge without a marker is seen by its absence.
const LIST_EVERY: Duration = Duration::from_secs(10 * 60);
/// Wait before a bucket is listed again that could not be followed.
const BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_secs(1), longest: Duration::from_secs(30), spread: (0.5, 1.0) };
/// Attempts of one step, when others write at the same time.
const TRIES: usize = 8;
/// Most keys of one foreign bucket.
const KEYS_MAX: usize = 1 << 20;

/// Refuses what belongs to the foreign bucket: creations, deletions, and changes of the spec.
pub(crate) fn guard(write: &Write, plan: &WritePlan) -> Result<()> {
    let belongs = match (&plan.previous, &plan.decision) {
        (None, _) => true,
        (Some(previous), Decision::Put(next)) if !matches!(write, Write::Delete { .. }) => {
            previous.generation() != next.generation()
        }
        (Some(_), Decision::Unchanged(_)) => false,
        (Some(previous), _) => !previous.is_deleting(),
    };
    if !belongs {
        return Ok(());
    }
    let reason = "its bucket is written by other programs; only metadata and status can be written here".to_owned();
    Err(Error::Forbidden { what: format!("{} of {}", write.verb(), plan.key), reason })
}

/// Follows the values of a foreign bucket until the store is closed.
pub(crate) async fn follow(state: Arc<BucketState>, foreign: ForeignBucket) {
    let mut failures = 0_u32;
    loop {
        let started = Instant::now();
        let end = match Follower::open(&state, &foreign).await {
            Ok(mut follower) => follower.run().await,
            Err(error) => Err(error),
        };
        match end {
            Ok(()) => failures = 0,
            Err(Error::Closed) => return,
            Err(error) => {
                failures = if started.elapsed() > BACKOFF.longest { 1 } else { failures.saturating_add(1) };
                tracing::warn!(bucket = foreign.bucket, %error, "a foreign bucket is not followed; it is listed again");
                tokio::time::sleep(BACKOFF.delay(failures, jitter())).await;
            }
        }
    }
}

/// One round over a foreign bucket: its list, then its changes.
struct Follower<'a> {
    state: &'a BucketState,
    foreign: &'a ForeignBucket,
    pattern: KeyPattern,
    connection: Arc<Connection>,
    /// The name of the foreign stream.
    stream: String,
    values: Deliveries,
    resources: BucketStream,
    /// The resources whose values were listed; `None` after the list.
    listed: Option<BTreeSet<(String, String)>>,
}

impl<'a> Follower<'a> {
    async fn open(state: &'a BucketState, foreign: &'a ForeignBucket) -> Result<Self> {
        let connection = state.connection()?;
        let losses = connection.losses();
        let stream = format!("KV_{}", foreign.bucket);
        let info: RequestResult<StreamInfo> = connection.call(&format!("STREAM.INFO.{stream}"), &json!({})).await;
        let what = format!("watch of the bucket {:?}", foreign.bucket);
        let info = info.map_err(|failure| failure.into_error(&foreign.bucket, &what))?;
        let machine = ConsumerMachine::listing(info.state.last_seq, false);
        let filter = format!("$KV.{}.>", foreign.bucket);
        let source = Source { stream: &stream, filter: &filter, machine, deliver: Deliver::LastPerSubject, what };
        Ok(Self {
            values: Deliveries::open(state, Arc::clone(&connection), losses, source).await?,
            resources: BucketStream::open(state, &foreign.kind, Start::Now { not_before: None }).await?,
            pattern: KeyPattern::parse(&foreign.key, foreign.namespaced)?,
            state,
            foreign,
            connection,
            stream,
            listed: Some(BTreeSet::new()),
        })
    }

    /// Follows until it is time for the next list.
    async fn run(&mut self) -> Result<()> {
        let end = tokio::time::sleep(LIST_EVERY);
        tokio::pin!(end);
        loop {
            tokio::select! {
                delivered = self.values.next() => match delivered? {
                    StreamItem::Value { message, .. } => self.take(&message).await?,
                    StreamItem::ListEnd(_) => self.end_list().await?,
                    StreamItem::Bookmark(_) => {}
                },
                delta = self.resources.next() => match delta? {
                    Delta::Listed(resource) | Delta::Put(resource) => self.write_status(&resource).await?,
                    Delta::Deleted { key, .. } | Delta::Unreadable { key, .. } => self.went(&key).await?,
                    Delta::ListEnd { .. } | Delta::Bookmark(_) => {}
                },
                () = &mut end => return Ok(()),
            }
        }
    }

    /// Takes a value or a marker of the foreign bucket.
    async fn take(&mut self, message: &Message) -> Result<()> {
        let is_marker = message.headers.as_ref().is_some_and(is_marker);
        let Some((key, desired)) = self.desired(&message.subject, &message.payload) else { return Ok(()) };
        if let Some(listed) = &mut self.listed
            && !is_marker
        {
            listed.insert((desired.namespace.clone(), desired.name.clone()));
            if listed.len() > KEYS_MAX {
                return Err(Error::unavailable(format!("the bucket has more than {KEYS_MAX} keys")));
            }
        }
        self.bring(&key, (!is_marker).then_some(&desired)).await
    }

    /// Returns what a value asks for; `None` for a key of another form.
    fn desired(&self, subject: &str, payload: &[u8]) -> Option<(Key, DesiredResource)> {
        let key = subject.strip_prefix("$KV.")?.strip_prefix(&self.foreign.bucket)?.strip_prefix('.')?;
        let (namespace, name) = self.pattern.read(key)?;
        let status = match &self.foreign.status {
            StatusPlace::Field(pointer) => Some(pointer.as_str()),
            StatusPlace::Nowhere | StatusPlace::Bucket { .. } => None,
        };
        let spec = spec_of(payload, self.foreign.value, status);
        let resource = Key::new(self.foreign.kind.clone(), &namespace, &name);
        Some((resource, DesiredResource { namespace, name, key: key.to_owned(), spec }))
    }

    /// Brings a resource closer to its value. A value that no resource can have is told and left.
    async fn bring(&self, key: &Key, desired: Option<&DesiredResource>) -> Result<()> {
        for _ in 0..TRIES {
            let current = match self.state.read(key).await {
                Ok(resource) => Some(resource),
                Err(Error::NotFound { .. }) => None,
                Err(error) => return Err(error),
            };
            let Some(write) = step(&self.foreign.kind, desired, current.as_deref()) else { return Ok(()) };
            let request = Request { manager: "homeostat-foreign".to_owned(), ..write.into() };
            let at = current.as_ref().map(|resource| resource.revision()).unwrap_or_default();
            let cached = CachedState::Known { resource: current, at };
            match self.state.write(request, cached, &|_, _| Ok(())).await {
                Ok(_) => return Ok(()),
                Err(Error::Conflict { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. }) => {}
                Err(error @ (Error::Unavailable { .. } | Error::Closed | Error::Forbidden { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::warn!(bucket = self.foreign.bucket, %key, %error, "a foreign value cannot be a resource");
                    return Ok(());
                }
            }
        }
        Err(Error::unavailable(format!("others write {key} all the time")))
    }

    /// Deletes the resources whose values are gone without a marker.
    async fn end_list(&mut self) -> Result<()> {
        let Some(listed) = self.listed.take() else { return Ok(()) };
        let page = self.state.read_all(&Query::all(self.foreign.kind.clone())).await?;
        for resource in page.items {
            let key = resource.key();
            let has_value = listed.contains(&(key.namespace().to_owned(), key.name().to_owned()));
            if has_value || resource.annotation(KEY_ANNOTATION).is_none() {
                continue;
            }
            // It may have come back since.
            self.revisit(key).await?;
        }
        Ok(())
    }

    /// Looks at a value again.
    async fn revisit(&self, key: &Key) -> Result<()> {
        let Some(subject) = self.subject(&self.foreign.bucket, &self.pattern, key) else { return Ok(()) };
        let last = self.last(&self.stream, &subject).await?.filter(|message| !is_marker(&message.headers));
        let desired = last.and_then(|message| self.desired(&subject, &message.payload));
        self.bring(key, desired.as_ref().map(|(_, desired)| desired)).await
    }

    /// A resource is gone: so is its status, and a value that came back while it was deleted makes a new one.
    async fn went(&self, key: &Key) -> Result<()> {
        if let StatusPlace::Bucket { bucket, key: form, .. } = &self.foreign.status
            && let Some(subject) = self.subject(bucket, &KeyPattern::parse(form, self.foreign.namespaced)?, key)
            && let Some(last) = self.last(&format!("KV_{bucket}"), &subject).await?
            && !is_marker(&last.headers)
        {
            let mut headers = expecting(last.sequence);
            headers.insert(OPERATION_HEADER, OPERATION_DELETE);
            // Another host may have done it.
            self.publish(bucket, &subject, headers, String::new()).await?;
        }
        self.revisit(key).await
    }

    /// Writes a status to where the settings of the foreign bucket say.
    async fn write_status(&self, resource: &Resource) -> Result<()> {
        match &self.foreign.status {
            StatusPlace::Nowhere => Ok(()),
            StatusPlace::Bucket { bucket, key, form } => {
                let Some(value) = status_value(resource, *form) else { return Ok(()) };
                let pattern = KeyPattern::parse(key, self.foreign.namespaced)?;
                let Some(subject) = self.subject(bucket, &pattern, resource.key()) else { return Ok(()) };
                let last = self.last(&format!("KV_{bucket}"), &subject).await?;
                if last.as_ref().is_some_and(|last| last.payload == value.as_bytes() && !is_marker(&last.headers)) {
                    return Ok(());
                }
                let headers = expecting(last.map_or(0, |last| last.sequence));
                // A conflict is another host, which writes the same, or a newer status, which comes here,
                // too.
                self.publish(bucket, &subject, headers, value).await.map(drop)
            }
            StatusPlace::Field(pointer) => self.write_field(resource, pointer).await,
        }
    }

    async fn write_field(&self, resource: &Resource, pointer: &str) -> Result<()> {
        let bucket = &self.foreign.bucket;
        let Some(subject) = self.subject(bucket, &self.pattern, resource.key()) else { return Ok(()) };
        for _ in 0..TRIES {
            let Some(last) = self.last(&self.stream, &subject).await?.filter(|last| !is_marker(&last.headers)) else {
                return Ok(());
            };
            let is_null = resource.status().is_null();
            let value = (!is_null).then(|| with_status(&last.payload, pointer, resource.status())).flatten();
            let Some(value) = value else { return Ok(()) };
            if self.publish(bucket, &subject, expecting(last.sequence), value).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn subject(&self, bucket: &str, pattern: &KeyPattern, key: &Key) -> Option<String> {
        Some(format!("$KV.{bucket}.{}", pattern.key(key.namespace(), key.name())?))
    }

    async fn last(&self, stream: &str, subject: &str) -> Result<Option<async_nats::jetstream::message::StreamMessage>> {
        let last = last_in(&self.connection, stream, subject).await;
        last.map_err(|failure| failure.into_error(stream, &format!("read of {subject:?}")))
    }

    /// Publishes a foreign value. Returns whether it is stored: not if somebody else came first.
    async fn publish(&self, bucket: &str, subject: &str, headers: HeaderMap, value: String) -> Result<bool> {
        match self.connection.publish(subject, headers, value.into()).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_wrong_sequence() => Ok(false),
            Err(failure) => Err(failure.into_error(bucket, &format!("write of {subject:?}"))),
        }
    }
}

fn is_marker(headers: &HeaderMap) -> bool {
    let header = |name: &str| headers.get(name).map(async_nats::HeaderValue::as_str);
    is_deletion(header(OPERATION_HEADER), header(MARKER_REASON_HEADER))
}

fn expecting(sequence: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(EXPECTED_HEADER, sequence.to_string());
    headers
}
