//! Events as resources of the core group, where clients look for the events of a resource. Read-only: the
//! host and its guests write them.
//!
//! Events are kept in memory, bounded, and are lost at a restart. A repeated event keeps its name and uid.
//! Its revision is one number made of the log's start in microseconds and the event's sequence. So revisions
//! of an earlier process differ from those of this one. Field selector terms on `involvedObject.uid` match
//! every event, because events refer to resources by name.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use homeostat_component::Severity;
use homeostat_runtime::events::{Event, EventFilter, EventSource};
use homeostat_runtime::{EventLog, KindInfo, manifest};
use homeostat_store::{Resource, Revision, Selector};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::list::ListEncoder;
use crate::params::Params;
use crate::presentation::resource_response;
use crate::request::RequestContext;
use crate::state::Api;
use crate::status::Failure;
use crate::watch::{BOOKMARK_EVERY, WatchEncoder, line, sleep_until};

pub(crate) const PLURAL: &str = "events";

/// The namespace for events of cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// Answers one request about events.
pub(crate) async fn answer(api: &Api, info: &KindInfo, ask: &RequestContext<'_>) -> Result<Response, Failure> {
    if ask.method != Method::GET {
        return Err(Failure::method_not_allowed("events are read-only: the host and its controllers write them"));
    }
    if let Some(part) = ask.target.subresource {
        return Err(Failure::not_found(format!("events have no subresource {part}")));
    }
    let params: Params = ask.params()?;
    let wanted = wanted(&params, ask)?;
    let log = api.host.events();
    if params.is_watch() && ask.target.name.is_none() {
        params.check_watch()?;
        return watch(log, wanted, info, ask, &params);
    }
    let (found, through) = read(&log, &wanted, 0)?;
    if let Some(name) = ask.target.name {
        let found = found.iter().find(|(_, event)| event.key().name() == name);
        let (_, event) = found.ok_or_else(|| Failure::not_found(format!("events \"{name}\" not found")))?;
        return Ok(resource_response(info, event, ask, &params));
    }
    let revision = revision(&log, through);
    params.check_list()?;
    params.check_revision(revision)?;
    let metadata = json!({ "resourceVersion": revision.to_string() });
    Ok(ListEncoder::of(info, ask, &params).response(&metadata, found.iter().map(|(_, event)| event)))
}

/// Returns the selector of the events that a request asks for.
fn wanted(params: &Params, ask: &RequestContext<'_>) -> Result<Selector, Failure> {
    let mut selector = params.selector(ask.target.namespace)?;
    selector.fields.retain(|(pointer, _)| pointer != "/involvedObject/uid");
    Ok(selector)
}

/// Returns the events after a sequence, each with its first sequence, and the newest sequence of the log.
fn read(log: &EventLog, wanted: &Selector, after: u64) -> Result<(Vec<(u64, Resource)>, u64), Failure> {
    let events = log.list(&EventFilter { controller: None, key: None, after });
    // The newest event is never evicted, so its sequence is the newest of the log.
    let through = events.last().map_or(after, |event| event.sequence);
    let resource = |event: Event| Ok((event.first_sequence, Resource::from_document(document(log, &event))?));
    let found: Result<Vec<_>, homeostat_store::Error> = events.into_iter().map(resource).collect();
    Ok((found?.into_iter().filter(|(_, event)| wanted.matches(event)).collect(), through))
}

/// Returns the revision of a sequence.
fn revision(log: &EventLog, sequence: u64) -> Revision {
    Revision(log.began() + sequence)
}

/// Returns an event as a resource.
fn document(log: &EventLog, event: &Event) -> Value {
    let Event { sequence, first_sequence, first_seen, last_seen, count, controller, source, key, .. } = event;
    let Event { severity, reason, message, .. } = event;
    let (namespace, name, object) = match key {
        Some(key) => {
            let namespace = Some(key.namespace()).filter(|namespace| !namespace.is_empty());
            let object = json!({
                "apiVersion": key.kind().api_version(), "kind": key.kind().name, "namespace": namespace, "name": key.name(),
            });
            (namespace.unwrap_or(DEFAULT_NAMESPACE), key.name(), object)
        }
        None => {
            let object =
                json!({ "apiVersion": manifest::API_VERSION, "kind": manifest::KIND, "name": controller.as_ref() });
            (DEFAULT_NAMESPACE, controller.as_ref(), object)
        }
    };
    let kind = match severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    // An event of a guest must not look like an event of the host.
    let (component, instance) = match source {
        EventSource::Host => ("homeostat", controller.as_ref()),
        EventSource::Guest => (controller.as_ref(), ""),
    };
    json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": {
            "name": format!("{name}.{:x}", revision(log, *first_sequence).0), "namespace": namespace,
            "uid": uid(log, *first_sequence),
            "resourceVersion": revision(log, *sequence).to_string(), "creationTimestamp": first_seen,
        },
        "involvedObject": object, "reason": reason, "message": message, "type": kind,
        "source": { "component": component }, "reportingComponent": component, "reportingInstance": instance,
        "firstTimestamp": first_seen, "lastTimestamp": last_seen, "count": count,
    })
}

/// Returns a uid that no other event has, in this process or an earlier one.
fn uid(log: &EventLog, first_sequence: u64) -> String {
    let digits = format!("{:016x}{first_sequence:016x}", log.began());
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// Responds with a watch, from the requested revision or from all current events.
fn watch(
    log: Arc<EventLog>,
    wanted: Selector,
    info: &KindInfo,
    ask: &RequestContext<'_>,
    params: &Params,
) -> Result<Response, Failure> {
    let shape = WatchEncoder::of(info, ask, params);
    let mut following = EventWatch {
        wanted,
        shape,
        after: 0,
        known_through: 0,
        pending: VecDeque::new(),
        knows_columns: false,
        is_over: false,
        bookmark: params.wants_bookmarks().then(|| Instant::now() + BOOKMARK_EVERY),
        log,
    };
    match params.after()? {
        Some(revision) if !params.wants_initial_events() => {
            if let Err(failure) = following.resume_after(revision) {
                following.end_with_error(&failure);
            }
        }
        _ => following.send_initial_events(params.wants_initial_events())?,
    }
    let lines = stream::unfold(following, async |mut following| {
        Some((Ok::<_, Infallible>(following.next().await?), following))
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response())
}

/// One watch of one client.
struct EventWatch {
    log: Arc<EventLog>,
    wanted: Selector,
    shape: WatchEncoder,
    /// The sequence up to which the log was read.
    after: u64,
    /// The sequence up to which the client has every event. An event that first happened after it is `ADDED`.
    known_through: u64,
    pending: VecDeque<Bytes>,
    /// The client has received a table with columns.
    knows_columns: bool,
    /// An error was sent, and nothing follows it.
    is_over: bool,
    /// When the next bookmark is due; `None` if the client did not ask for bookmarks.
    bookmark: Option<Instant>,
}

impl EventWatch {
    /// Resumes after a revision.
    ///
    /// # Errors
    /// `Expired` if the revision is not of this log, or if events after it were evicted.
    fn resume_after(&mut self, from: Revision) -> Result<(), Failure> {
        let newest = self.log.list(&EventFilter::default()).last().map_or(0, |event| event.sequence);
        let forgotten = self.log.forgotten();
        let sequence = from.0.checked_sub(self.log.began());
        let expired = || expired(&self.log, forgotten);
        self.after = sequence.filter(|sequence| (forgotten..=newest).contains(sequence)).ok_or_else(expired)?;
        self.known_through = self.after;
        Ok(())
    }

    /// Queues all current events, and the bookmark that ends them if the client asked for it.
    fn send_initial_events(&mut self, wants_end: bool) -> Result<(), Failure> {
        self.read_new_events()?;
        if wants_end {
            let mark = self.shape.bookmark(self.revision(), &json!({ "k8s.io/initial-events-end": "true" }));
            self.pending.push_back(mark);
        }
        Ok(())
    }

    fn revision(&self) -> Revision {
        revision(&self.log, self.after)
    }

    /// Reads the events since the last read.
    fn read_new_events(&mut self) -> Result<(), Failure> {
        let (found, through) = read(&self.log, &self.wanted, self.after)?;
        let forgotten = self.log.forgotten();
        if self.after > 0 && forgotten > self.after {
            return Err(expired(&self.log, forgotten));
        }
        for (first, event) in found {
            let further = std::mem::replace(&mut self.knows_columns, true);
            let word = if first > self.known_through { "ADDED" } else { "MODIFIED" };
            self.pending.push_back(self.shape.line(word, &event, further));
        }
        (self.after, self.known_through) = (through, through);
        Ok(())
    }

    /// Ends with an error. It is sent as an `ERROR` event of the watch, as for any other kind.
    fn end_with_error(&mut self, failure: &Failure) {
        self.is_over = true;
        self.pending.push_back(line("ERROR", &failure.document()));
    }

    /// Returns the next line; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        while self.pending.is_empty() && !self.is_over {
            let bookmark = self.bookmark;
            // Biased, so that a bookmark is sent only if no event is pending.
            tokio::select! {
                biased;
                () = self.log.changed(self.after) => {
                    if let Err(failure) = self.read_new_events() {
                        self.end_with_error(&failure);
                    }
                }
                () = sleep_until(bookmark) => {
                    self.bookmark = Some(Instant::now() + BOOKMARK_EVERY);
                    self.pending.push_back(self.shape.bookmark(self.revision(), &json!({})));
                }
            }
        }
        self.pending.pop_front()
    }
}

/// Returns the error that tells a client to list again.
fn expired(log: &EventLog, forgotten: u64) -> Failure {
    homeostat_store::Error::Expired { oldest: revision(log, forgotten) }.into()
}
