//! Events of the log as resources of the core group, for hosts where `Event` is no built-in kind. Read-only: the
//! host and its guests write them. Elsewhere they are in the store (`event_resources.rs` of the runtime).
//!
//! Events are kept in memory, bounded, and are lost at a restart. A repeated event keeps its name and uid.
//! Its revision is one number made of the log's start in microseconds and the event's sequence. So revisions
//! of an earlier process differ from those of this one. Field selector terms on `involvedObject.uid` match
//! every event, because events refer to resources by name.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use axum::http::Method;
use axum::response::Response;
use homeostat_runtime::events::{Event, EventFilter};
use homeostat_runtime::{EventLog, KindInfo};
use homeostat_store::{Changes, Error, EventType, Resource, Revision, Selector, Watch};
use serde_json::json;

use crate::encoder::ResourceEncoder;
use crate::request::{RequestContext, ResourceRequest};
use crate::status::Failure;
use crate::watch::{self, InitialEvents, WatchStream};

pub(crate) const PLURAL: &str = "events";

/// Answers one request about events.
pub(crate) async fn answer(http: &RequestContext<'_>, info: &KindInfo) -> Result<Response, Failure> {
    if http.method != Method::GET {
        return Err(Failure::method_not_allowed("events are read-only: the host and its controllers write them"));
    }
    if let Some(part) = http.target.subresource {
        return Err(Failure::not_found(format!("events have no subresource {part}")));
    }
    let request = ResourceRequest::new(http, info)?;
    let mut selector = request.selector()?;
    selector.fields.retain(|(pointer, _)| pointer != "/involvedObject/uid");
    let log = http.api.host.events();
    if request.params.is_watch() && http.target.name.is_none() {
        request.params.check_watch()?;
        return watch(log, selector, &request);
    }
    let (mut events, through) = read(&log, 0)?;
    events.retain(|event| selector.matches(&event.resource));
    let encoder = ResourceEncoder::of(&request);
    if let Some(name) = http.target.name {
        let found = events.iter().find(|event| event.resource.key().name() == name);
        let event = found.ok_or_else(|| Failure::not_found(format!("events \"{name}\" not found")))?;
        return Ok(encoder.response(&event.resource));
    }
    let revision = revision(&log, through);
    request.params.check_list()?;
    request.params.check_revision(revision)?;
    let metadata = json!({ "resourceVersion": revision.to_string() });
    Ok(encoder.list_response(&metadata, events.iter().map(|event| &*event.resource)))
}

/// Returns the events after a sequence as changes of a store, and the newest sequence of the log. A repeated
/// event changes the one that was there before.
///
/// # Errors
/// `Invalid` for an event that is no resource.
fn read(log: &EventLog, after: u64) -> Result<(Vec<homeostat_store::Event>, u64), Error> {
    let events = log.list(&EventFilter { controller: None, key: None, after });
    // The newest event is never evicted, so its sequence is the newest of the log.
    let through = events.last().map_or(after, |event| event.sequence);
    let change = |event: Event| {
        let resource = Arc::new(Resource::from_document(log.document(&event))?);
        let is_new = event.first_sequence > after;
        Ok(homeostat_store::Event {
            kind: if is_new { EventType::Added } else { EventType::Modified },
            revision: resource.revision(),
            previous: (!is_new).then(|| Arc::clone(&resource)),
            resource,
        })
    };
    Ok((events.into_iter().map(change).collect::<Result<_, Error>>()?, through))
}

/// Returns the revision of a sequence.
fn revision(log: &EventLog, sequence: u64) -> Revision {
    Revision(log.revision(sequence))
}

/// Responds with a watch, from the requested revision or from all current events.
fn watch(log: Arc<EventLog>, selector: Selector, request: &ResourceRequest<'_>) -> Result<Response, Failure> {
    let encoder = ResourceEncoder::of(request);
    let (initial_events, after) = match request.params.watch_after()? {
        Some(revision) => match sequence(&log, revision) {
            Ok(after) => (None, after),
            Err(error) => return Ok(watch::error_response(&encoder.format, &error)),
        },
        None => {
            let (events, through) = read(&log, 0)?;
            let resources = events.into_iter().map(|event| event.resource);
            let resources = resources.filter(|resource| selector.matches(resource)).collect();
            (Some(InitialEvents::new(resources, None)), through)
        }
    };
    let revision = revision(&log, after);
    let watch = Watch::new(EventLogChanges { log, after, pending: VecDeque::new() });
    Ok(WatchStream::new(watch, revision, initial_events, selector, encoder, &request.params).response())
}

/// Returns the sequence of a revision.
///
/// # Errors
/// `Expired` if the revision is not of this log, or if events after it were evicted.
fn sequence(log: &EventLog, revision: Revision) -> Result<u64, Error> {
    let newest = log.list(&EventFilter::default()).last().map_or(0, |event| event.sequence);
    let forgotten = log.forgotten();
    let sequence = revision.0.checked_sub(log.began());
    sequence.filter(|sequence| (forgotten..=newest).contains(sequence)).ok_or_else(|| expired(log, forgotten))
}

/// Returns the error that tells a client to list again.
fn expired(log: &EventLog, forgotten: u64) -> Error {
    Error::Expired { oldest: revision(log, forgotten) }
}

/// The changes of a log of events.
struct EventLogChanges {
    log: Arc<EventLog>,
    /// The sequence up to which the log was read.
    after: u64,
    pending: VecDeque<homeostat_store::Event>,
}

#[async_trait]
impl Changes for EventLogChanges {
    async fn next(&mut self) -> Result<homeostat_store::Event, Error> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(event);
            }
            self.log.changed(self.after).await;
            // Everything is read after the await: a cancelled read is repeated.
            let (events, through) = read(&self.log, self.after)?;
            let forgotten = self.log.forgotten();
            if self.after > 0 && forgotten > self.after {
                return Err(expired(&self.log, forgotten));
            }
            (self.pending, self.after) = (events.into(), through);
        }
    }

    fn position(&self) -> Option<Revision> {
        let read = revision(&self.log, self.after);
        Some(self.pending.front().map_or(read, |next| Revision(next.revision.0 - 1)))
    }
}
