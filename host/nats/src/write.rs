//! Writes: decided here, committed by the server if the state that they were decided on is still the last
//! one.

pub(crate) mod attempt;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use bytes::Bytes;
use homeostat_store::cached::{CachedState, UpstreamResponse, jitter};
use homeostat_store::semantics::{self, Decision, Validation, WritePlan};
use homeostat_store::{
    Error, Key, Kind, Request, Resource, Result, Revision, Target, Write, WriteResponse, needs_rules,
};

use self::attempt::{Attempts, LastValue, PublishAction, PublishReply, PublishedMessage};
use crate::codec::{
    EXPECTED_HEADER, FORMAT, FORMAT_HEADER, OPERATION_DELETE, OPERATION_HEADER, ValueContent, encode, encode_deleted,
};
use crate::connection::{BatchMessage, Connection};
use crate::errors::{RequestError, RequestResult};
use crate::lease::Lane;
use crate::read::unreadable;
use crate::state::{BucketState, lock};

/// Attempts to generate a free name for `generateName`.
const GENERATE_TRIES: usize = 8;

pub(crate) const STREAM_HEADER: &str = "Nats-Expected-Stream";
const ID_HEADER: &str = "Nats-Msg-Id";
/// The id of a message in a batch, where not every server takes [`ID_HEADER`].
const BATCH_MESSAGE_ID_HEADER: &str = "Homeostat-Id";

/// Judges a decision before it is sent.
pub(crate) type Guard<'a> = &'a (dyn Fn(&Write, &WritePlan) -> Result<()> + Sync);

/// The state of a resource on which a write is decided.
struct Current {
    resource: Option<Arc<Resource>>,
    /// The sequence of its value or marker; 0 for none.
    sequence: u64,
    from_leader: bool,
}

/// A message that carries a decision.
struct Change {
    id: String,
    expected: u64,
    headers: HeaderMap,
    payload: Bytes,
    /// The term that has to go on.
    lane: Option<Lane>,
}

/// The end of the attempts to publish one change.
enum PublishOutcome {
    Stored(u64),
    PlanAgain(Duration),
}

impl BucketState {
    /// Makes one change. `guard` judges each decision before it is sent.
    pub(crate) async fn write(
        &self,
        request: Request,
        cached: CachedState,
        guard: Guard<'_>,
    ) -> Result<UpstreamResponse> {
        let Target { kind, namespace, name } = request.write.target()?;
        if let Some(name) = name {
            return self.write_named(Key::new(kind, &namespace, &name), request, cached, guard).await;
        }
        let mut tries = GENERATE_TRIES;
        loop {
            let mut named = request.clone();
            let key = semantics::address(&mut named.write, || self.clock.suffix())?;
            tries -= 1;
            // Few generated names are in use, and the server finds out.
            let none = CachedState::Known { resource: None, at: Revision::ZERO };
            match self.write_named(key, named, none, guard).await {
                Err(Error::AlreadyExists { .. }) if tries > 0 => {}
                answer => return answer,
            }
        }
    }

    async fn write_named(
        &self,
        key: Key,
        request: Request,
        cached: CachedState,
        guard: Guard<'_>,
    ) -> Result<UpstreamResponse> {
        let connection = self.connection()?;
        let subject = self.subjects.resource(&key)?;
        let what = format!("{} of {key}", request.write.verb());
        let lock = self.key_locks.lock_within(&*subject, self.settings.timings.write).await;
        let _turn = lock.ok_or_else(|| {
            Error::unavailable(format!("{key} was not written: earlier writes of it are not answered"))
        })?;
        let mut current = match cached {
            CachedState::Known { resource, .. } if !request.dry_run => {
                let sequence = resource.as_ref().map_or(0, |resource| resource.revision().0);
                Current { resource, sequence, from_leader: false }
            }
            _ => self.current(&connection, &key, &subject).await?,
        };
        let mut attempts = Attempts::until(self.elapsed() + self.settings.timings.write);
        loop {
            let plan = self.plan(&request, &current).await;
            if plan.is_err() && !current.from_leader {
                current = self.current(&connection, &key, &subject).await?;
                continue;
            }
            let plan = plan?;
            guard(&request.write, &plan)?;
            if request.dry_run || plan.event().is_none() {
                self.skipped.fetch_add(u64::from(!current.from_leader), Ordering::Relaxed);
                return Ok(unwritten(plan, &current));
            }
            if creates(&request.write) {
                let written = self.write_kind(&connection, key.kind()).await;
                written.map_err(|failure| self.refused(failure, &what))?;
            }
            let lane = request.fence.as_ref().map(|fence| self.lane(fence, &subject)).transpose()?;
            let change = self.change(&plan, &current, lane);
            match self.publish(&connection, &subject, &what, change, &mut attempts).await? {
                Some(PublishOutcome::Stored(sequence)) => return Ok(written(&plan, sequence)),
                Some(PublishOutcome::PlanAgain(wait)) => {
                    self.retried.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(wait).await;
                    current = self.current(&connection, &key, &subject).await?;
                }
                None => {
                    let current = self.current(&connection, &key, &subject).await?;
                    return Err(Error::Conflict { key, current: current.resource.map(|resource| resource.revision()) });
                }
            }
        }
    }

    /// Publishes a change until it is known whether it is stored. `None` when others wrote all the time.
    async fn publish(
        &self,
        connection: &Connection,
        subject: &str,
        what: &str,
        change: Change,
        attempts: &mut Attempts,
    ) -> Result<Option<PublishOutcome>> {
        loop {
            let (action, silence) = self.publish_once(connection, subject, what, &change, attempts).await?;
            match action {
                PublishAction::Done(sequence) => {
                    self.refused_writes.end();
                    return Ok(Some(PublishOutcome::Stored(sequence)));
                }
                PublishAction::PlanAgain(wait) => return Ok(Some(PublishOutcome::PlanAgain(wait))),
                PublishAction::Contended => return Ok(None),
                PublishAction::Resend => {
                    self.retried.fetch_add(1, Ordering::Relaxed);
                }
                PublishAction::Inspect | PublishAction::Unknown => return Err(unknown(silence, what)),
            }
        }
    }

    /// Publishes a change, and looks whether it is stored if the server does not say. Returns what to do
    /// next, and why there was no reply.
    async fn publish_once(
        &self,
        connection: &Connection,
        subject: &str,
        what: &str,
        change: &Change,
        attempts: &mut Attempts,
    ) -> Result<(PublishAction, Option<RequestError>)> {
        let Change { payload, lane, .. } = change;
        let mut silence = None;
        let reply = match self.send(connection, subject, change).await {
            Ok(sequence) => PublishReply::Stored(sequence),
            Err(failure) if failure.is_wrong_sequence() => PublishReply::WrongSequence,
            Err(failure) if failure.leaves_outcome_open() => {
                silence = Some(failure);
                PublishReply::Silence
            }
            Err(failure) if failure.is_too_large() => {
                let bytes_max = connection.payload_bytes_max().saturating_sub(1 << 10);
                return Err(Error::TooLarge { what: "document".into(), bytes: payload.len() as u64, bytes_max });
            }
            Err(failure) => return Err(self.refused(failure, what)),
        };
        let action = attempts.answered(self.elapsed(), reply, jitter());
        let action = match action {
            PublishAction::Inspect => self.inspect(connection, subject, change, attempts).await,
            action => action,
        };
        if let (Some(lane), false) = (lane, matches!(action, PublishAction::Done(_) | PublishAction::Unknown)) {
            self.check_term(connection, lane).await?;
        }
        Ok((action, silence))
    }

    /// Sends a change, with the check of its term.
    async fn send(&self, connection: &Connection, subject: &str, change: &Change) -> RequestResult<u64> {
        let Change { headers, payload, lane, .. } = change;
        let (headers, payload) = (headers.clone(), payload.clone());
        let Some(lane) = lane else { return connection.publish(subject, headers, payload).await };
        let value = BatchMessage { subject: subject.to_owned(), headers, payload };
        self.fenced_writes.send(connection, self.check(lane), value).await
    }

    /// Looks whether a change without an answer is stored.
    async fn inspect(
        &self,
        connection: &Connection,
        subject: &str,
        change: &Change,
        attempts: &mut Attempts,
    ) -> PublishAction {
        // A lost connection is the most frequent reason, and often soon replaced.
        let last = match connection.connected().await {
            Ok(()) => self.last(connection, subject).await,
            Err(failure) => Err(failure),
        };
        let Ok(last) = last else { return PublishAction::Unknown };
        let published = PublishedMessage { id: &change.id, expected: change.expected };
        attempts.inspected(self.elapsed(), published, last.as_ref().map(last_of), jitter())
    }

    /// Reads the state of a resource from the leader.
    async fn current(&self, connection: &Connection, key: &Key, subject: &str) -> Result<Current> {
        let last = self.last(connection, subject).await;
        let Some(message) = last.map_err(|failure| self.error(failure, &format!("read of {key}")))? else {
            return Ok(Current { resource: None, sequence: 0, from_leader: true });
        };
        let resource = match self.decoded(&message) {
            ValueContent::Deleted(_) => None,
            ValueContent::Resource(resource) => Some(resource),
            ValueContent::Unreadable(reason) => return Err(unreadable(key, &reason)),
        };
        Ok(Current { resource, sequence: message.sequence, from_leader: true })
    }

    /// Decides a write. Rules in CEL are evaluated on a thread that may block, because they can take a second.
    async fn plan(&self, request: &Request, current: &Current) -> Result<WritePlan> {
        let (clock, schemas) = (Arc::clone(&self.clock), self.schemas.clone());
        let (request, resource) = (request.clone(), current.resource.clone());
        let is_long = needs_rules(&schemas, &request);
        let plan = move || {
            // The server numbers the change; until then it has no revision.
            let (revision, lookup) = (Revision::ZERO, |_: &Key| Ok(resource.clone()));
            semantics::plan_write(&*clock, &schemas, request, revision, Validation::Complete, lookup)
        };
        if is_long { tokio::task::spawn_blocking(plan).await.map_err(Error::unavailable)? } else { plan() }
    }

    fn change(&self, plan: &WritePlan, current: &Current, lane: Option<Lane>) -> Change {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED_HEADER, current.sequence.to_string());
        headers.insert(STREAM_HEADER, self.stream.as_str());
        headers.insert(if lane.is_some() { BATCH_MESSAGE_ID_HEADER } else { ID_HEADER }, id.as_str());
        headers.insert(FORMAT_HEADER, FORMAT);
        let payload = if let Decision::Remove(_) = plan.decision {
            headers.insert(OPERATION_HEADER, OPERATION_DELETE);
            headers.insert("Nats-TTL", format!("{}s", self.settings.markers.as_secs()));
            encode_deleted(plan.decision.resource())
        } else {
            encode(plan.decision.resource())
        };
        Change { id, expected: current.sequence, headers, payload: payload.into(), lane }
    }

    /// Makes sure that the bucket has an entry of a kind, before the first resource of the kind.
    async fn write_kind(&self, connection: &Connection, kind: &Kind) -> RequestResult<()> {
        if lock(&self.written_kinds).contains(kind) {
            return Ok(());
        }
        let subject = self.subjects.written_kind(kind);
        match self.write_if_absent(connection, &subject, "{}").await {
            Err(failure) if !failure.is_wrong_sequence() => Err(failure),
            // Another host wrote it.
            _ => {
                lock(&self.written_kinds).insert(kind.clone());
                Ok(())
            }
        }
    }

    /// Writes a value of the store's own, if there is none. The failure tells by its code whether there is
    /// one.
    pub(crate) async fn write_if_absent(
        &self,
        connection: &Connection,
        subject: &str,
        value: &str,
    ) -> RequestResult<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED_HEADER, "0");
        headers.insert(STREAM_HEADER, self.stream.as_str());
        connection.publish(subject, headers, value.to_owned().into()).await
    }

    /// Returns the error of a write that did not happen, and keeps the reason if it is about all writes.
    fn refused(&self, failure: RequestError, what: &str) -> Error {
        if let Some(reason) = failure.full() {
            self.refused_writes.tell(self.elapsed(), reason);
        }
        self.error(failure, what)
    }
}

/// Returns whether a write can bring the first resource of its kind.
fn creates(write: &Write) -> bool {
    matches!(write, Write::Create { .. } | Write::Apply { .. })
}

fn last_of(message: &StreamMessage) -> LastValue<'_> {
    let header = |name: &str| message.headers.get(name).map(async_nats::HeaderValue::as_str);
    LastValue {
        sequence: message.sequence,
        id: header(BATCH_MESSAGE_ID_HEADER).or_else(|| header(ID_HEADER)),
        expected: header(EXPECTED_HEADER).and_then(|sequence| sequence.parse().ok()),
    }
}

fn unknown(silence: Option<RequestError>, what: &str) -> Error {
    let reason = match silence {
        Some(RequestError::Silent(reason)) => reason,
        _ => "the answer was lost".to_owned(),
    };
    Error::unavailable(format!("the {what} was sent, and nobody can say whether it happened: {reason}"))
}

/// Returns the answer to a write that is not stored: it changes nothing, or it is a trial.
fn unwritten(plan: WritePlan, current: &Current) -> UpstreamResponse {
    let change = plan.event();
    let resource = match change {
        None => Arc::clone(plan.decision.resource()),
        Some(_) => plan.decision.resource().at(Revision(current.sequence + 1)),
    };
    let at = change.is_none().then(|| resource.revision());
    let WritePlan { previous, unknown_fields, .. } = plan;
    UpstreamResponse { response: WriteResponse { resource, change, previous, unknown_fields }, at }
}

/// Returns the answer to a write that is stored.
fn written(plan: &WritePlan, sequence: u64) -> UpstreamResponse {
    let at = Revision(sequence);
    let response = WriteResponse {
        resource: plan.decision.resource().at(at),
        change: plan.event(),
        previous: plan.previous.clone(),
        unknown_fields: plan.unknown_fields.clone(),
    };
    UpstreamResponse { response, at: Some(at) }
}
