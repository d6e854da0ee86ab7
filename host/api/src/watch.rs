//! Watches resources: one JSON document per line, until the client disconnects or `limits` ends the stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::OptionFuture;
use futures_util::stream;
use homeostat_builtin::{cbor, protobuf};
use homeostat_store::{Error, Event, EventType, Query, Resource, Revision, Scope, Selector, View, Watch};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::encoder::{ResourceEncoder, append_json};
use crate::event_cache::{EncodedEventCache, EventCacheKey, EventFormat};
use crate::list::{PageItems, PageSource, PagedList};
use crate::negotiate::{self, ResponseFormat};
use crate::params::Params;
use crate::request::ResourceRequest;
use crate::status::Failure;

/// The interval of bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// Responds with a watch, from the requested revision or from all current resources.
pub(crate) async fn answer(request: &ResourceRequest<'_>) -> Result<Response, Failure> {
    let ResourceRequest { http, info, params } = request;
    let api = http.api;
    params.check_watch()?;
    negotiate::check_stream(http.headers)?;
    let selector = request.selector()?;
    let encoder = ResourceEncoder::of(request);
    let has_whole = api.host.store().watched_view(&info.kind) == View::Whole;
    if !has_whole && !matches!(encoder.format, ResponseFormat::Metadata | ResponseFormat::ProtobufMetadata) {
        let reason = format!("a watch of {} has metadata alone here: accept PartialObjectMetadata", info.plural);
        return Err(Failure::not_acceptable(reason));
    }
    let (initial_events, after) = match params.watch_after()? {
        Some(revision) => (None, revision),
        None => {
            let query = Query { selector: selector.clone(), live: params.is_live(), ..Query::all(info.kind.clone()) };
            let (list, items) = PagedList::open((&api.limits.lists, http.client), api.host.store(), query).await?;
            let revision = list.revision();
            (Some(InitialEvents::new(items, Some(list))), revision)
        }
    };
    let watch = match api.host.store().watch(Scope::Kind(info.kind.clone()), after).await {
        Ok(watch) => watch,
        Err(error @ (Error::Expired { .. } | Error::FutureRevision { .. })) => {
            return Ok(error_response(&encoder.format, &error));
        }
        Err(error) => return Err(error.into()),
    };
    let watch = WatchStream::new(watch, after, initial_events, selector, encoder, params);
    // A definition may get another conversion, and then the same event has another encoding.
    let watch = match info.converts() {
        true => watch,
        false => watch.sharing(api.event_cache.clone(), info.reshaped_since()),
    };
    Ok(watch.response())
}

/// Responds to a watch from a compacted or future revision. Like an API server, it sends the error as a watch
/// event: some clients list again only then.
pub(crate) fn error_response(format: &ResponseFormat, error: &Error) -> Response {
    let event = error_event(format, &Failure::expired(error.to_string()));
    ([(header::CONTENT_TYPE, stream_content_type(format))], event).into_response()
}

/// The resources at the start of a watch, which are sent first.
pub(crate) struct InitialEvents {
    items: IntoIter<Arc<Resource>>,
    /// The list that has more of them.
    list: Option<PagedList>,
}

impl InitialEvents {
    pub(crate) fn new(items: PageItems, list: Option<PagedList>) -> Self {
        Self { items: items.into_iter(), list }
    }

    /// Returns the next resource; `None` at the end.
    ///
    /// # Errors
    /// Those of [`PagedList::next_page`].
    async fn next(&mut self) -> Result<Option<Arc<Resource>>, Error> {
        loop {
            if let Some(resource) = self.items.next() {
                return Ok(Some(resource));
            }
            let Some(list) = &mut self.list else { return Ok(None) };
            match list.next_page().await? {
                Some(items) => self.items = items.into_iter(),
                None => return Ok(None),
            }
        }
    }
}

/// One watch of one client, of a kind in the store or of the events of the host.
pub(crate) struct WatchStream {
    watch: Watch,
    selector: Selector,
    /// The initial events that are not sent yet.
    initial_events: Option<InitialEvents>,
    /// The client asked for a bookmark after the last initial event.
    marks_initial_events_end: bool,
    encoder: ResourceEncoder,
    /// The encoded events that all watches share, and the kind in the version that the client requested.
    shared: Option<(EncodedEventCache, Arc<str>)>,
    /// The client has received a table with columns.
    knows_columns: bool,
    /// The client has every event up to this revision.
    seen: Revision,
    /// When the next bookmark is due; `None` if the client did not ask for bookmarks.
    bookmark: Option<Instant>,
}

impl WatchStream {
    /// Returns the stream of a watch that starts after a revision, at which the initial events are.
    pub(crate) fn new(
        watch: Watch,
        after: Revision,
        initial_events: Option<InitialEvents>,
        selector: Selector,
        encoder: ResourceEncoder,
        params: &Params,
    ) -> Self {
        Self {
            watch,
            selector,
            initial_events,
            marks_initial_events_end: params.wants_initial_events() && params.wants_bookmarks(),
            encoder,
            shared: None,
            knows_columns: false,
            seen: after,
            bookmark: params.wants_bookmarks().then(|| Instant::now() + BOOKMARK_INTERVAL),
        }
    }

    /// Shares the encoded events of a cache, which all watches use. `reshaped_since` is the revision of a definition
    /// whose documents are encoded in another form than the stored one.
    fn sharing(self, cache: EncodedEventCache, reshaped_since: Option<Revision>) -> Self {
        let kind = format!("{} {}", self.encoder.kind, reshaped_since.unwrap_or_default());
        Self { shared: Some((cache, kind.into())), ..self }
    }

    /// Responds with the lines of the watch, or with events in a binary format. An error ends it, and is its last line.
    pub(crate) fn response(self) -> Response {
        let content_type = stream_content_type(&self.encoder.format);
        let lines = stream::unfold(Some(self), async |watch| {
            let mut watch = watch?;
            Some(match watch.next().await {
                Ok(line) => (Ok::<_, Infallible>(line), Some(watch)),
                Err(error) => (Ok(error_event(&watch.encoder.format, &error.into())), None),
            })
        });
        ([(header::CONTENT_TYPE, content_type)], Body::from_stream(lines)).into_response()
    }

    /// Returns the next line.
    ///
    /// # Errors
    /// Those of [`Watch::next`] and of the list of the initial events.
    async fn next(&mut self) -> Result<Bytes, Error> {
        if let Some(initial_events) = &mut self.initial_events {
            if let Some(resource) = initial_events.next().await? {
                return Ok(self.event_line("ADDED", &resource, resource.revision()));
            }
            self.initial_events = None;
            if self.marks_initial_events_end {
                return Ok(self.bookmark_line(&json!({ "k8s.io/initial-events-end": "true" })));
            }
        }
        loop {
            // Biased, so that a bookmark is sent only if no event is pending.
            let event = tokio::select! {
                biased;
                event = self.watch.next() => event?,
                Some(()) = OptionFuture::from(self.bookmark.map(sleep_until)) => {
                    self.bookmark = Some(Instant::now() + BOOKMARK_INTERVAL);
                    self.seen = self.seen.max(self.watch.position().unwrap_or_default());
                    return Ok(self.bookmark_line(&json!({})));
                }
            };
            self.seen = event.revision;
            if let Some((event_type, resource)) = visible_change(&event, &self.selector) {
                return Ok(self.shared_event_line(event_type, resource, event.revision));
            }
        }
    }

    /// Returns the line of an event, which all watches of the same form share.
    fn shared_event_line(&mut self, event_type: &'static str, resource: &Resource, revision: Revision) -> Bytes {
        match self.shared.clone().filter(|_| self.encoder.is_deterministic()) {
            Some((cache, kind)) => {
                let format = match self.encoder.format {
                    ResponseFormat::Metadata => EventFormat::Metadata,
                    ResponseFormat::Protobuf => EventFormat::Protobuf,
                    ResponseFormat::ProtobufMetadata => EventFormat::ProtobufMetadata,
                    ResponseFormat::Cbor => EventFormat::Cbor,
                    ResponseFormat::Document | ResponseFormat::Table(_) => EventFormat::Document,
                };
                let key = EventCacheKey { revision, event_type, format, kind };
                cache.get_or_encode(key, || self.event_line(event_type, resource, revision))
            }
            None => self.event_line(event_type, resource, revision),
        }
    }

    /// Returns the line of an event. Its resource has the revision of the event, so that a client can resume
    /// from there. The first table has the columns, further ones do not.
    fn event_line(&mut self, event_type: &str, resource: &Resource, revision: Revision) -> Bytes {
        if self.encoder.format.is_protobuf() || matches!(self.encoder.format, ResponseFormat::Cbor) {
            let mut document = self.encoder.binary_document(resource.document());
            if resource.revision() != revision {
                document.to_mut()["metadata"]["resourceVersion"] = revision.to_string().into();
            }
            return binary_event(&self.encoder.format, event_type, &document).unwrap_or_default();
        }
        let knows_columns = std::mem::replace(&mut self.knows_columns, true);
        line(event_type, |text| {
            if resource.revision() == revision {
                return self.encoder.append(resource, knows_columns, text);
            }
            let mut document = resource.document().clone();
            document["metadata"]["resourceVersion"] = revision.to_string().into();
            self.encoder.append_document(&document, knows_columns, text);
        })
    }

    fn bookmark_line(&self, annotations: &Value) -> Bytes {
        let bookmark = self.encoder.bookmark(self.seen, annotations);
        let ResourceEncoder { format, .. } = &self.encoder;
        if let Some(event) = binary_event(format, "BOOKMARK", &self.encoder.binary_document(&bookmark)) {
            return event;
        }
        line("BOOKMARK", |text| self.encoder.append_bookmark(self.seen, annotations, text))
    }
}

/// Returns the type and the resource of an event as a client with this selector sees it; `None` if the client does not see it.
/// A resource that no longer matches is `DELETED` for that client, who sees it as it matched.
fn visible_change<'e>(event: &'e Event, selector: &Selector) -> Option<(&'static str, &'e Resource)> {
    let matches = |resource: &Resource| selector.matches(resource);
    let is_deleted = event.kind == EventType::Deleted;
    let resource = &*event.resource;
    let before = event.previous.as_deref().map_or(is_deleted && matches(&event.resource), matches);
    let after = !is_deleted && matches(&event.resource);
    match (before, after) {
        (false, false) => None,
        (false, true) => Some(("ADDED", resource)),
        (true, true) => Some(("MODIFIED", resource)),
        (true, false) if is_deleted => Some(("DELETED", resource)),
        (true, false) => Some(("DELETED", event.previous.as_deref().unwrap_or(resource))),
    }
}

/// Returns one line of a watch.
fn line(event_type: &str, append_object: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut line = format!("{{\"type\":\"{event_type}\",\"object\":").into_bytes();
    append_object(&mut line);
    line.extend_from_slice(b"}\n");
    line.into()
}

/// Returns one event of a watch in protobuf. A stored document that does not fit its kind becomes an error event.
fn frame(event_type: &str, document: &Value) -> Bytes {
    let encoded = protobuf::encode_event(event_type, document).or_else(|error| {
        let failure = Failure::internal(format!("an event cannot be encoded as protobuf: {error}"));
        protobuf::encode_event("ERROR", &failure.document())
    });
    encoded.unwrap_or_default().into()
}

/// Returns the content type of a watch.
fn stream_content_type(format: &ResponseFormat) -> &'static str {
    match format {
        ResponseFormat::Protobuf | ResponseFormat::ProtobufMetadata => protobuf::WATCH_CONTENT_TYPE,
        ResponseFormat::Cbor => cbor::SEQUENCE_CONTENT_TYPE,
        ResponseFormat::Document | ResponseFormat::Metadata | ResponseFormat::Table(_) => "application/json",
    }
}

/// Returns an event in a binary format; `None` for a watch of lines.
fn binary_event(format: &ResponseFormat, event_type: &str, document: &Value) -> Option<Bytes> {
    match format {
        ResponseFormat::Protobuf | ResponseFormat::ProtobufMetadata => Some(frame(event_type, document)),
        ResponseFormat::Cbor => Some(cbor::encode(&json!({ "type": event_type, "object": document })).into()),
        ResponseFormat::Document | ResponseFormat::Metadata | ResponseFormat::Table(_) => None,
    }
}

/// Returns the last event of a watch that an error ends.
fn error_event(format: &ResponseFormat, failure: &Failure) -> Bytes {
    let status = failure.document();
    binary_event(format, "ERROR", &status).unwrap_or_else(|| line("ERROR", |text| append_json(&status, text)))
}

#[cfg(test)]
mod tests;
