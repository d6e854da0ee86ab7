//! Watches resources: one JSON document per line, until the client disconnects or `limits` ends the stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use homeostat_runtime::KindInfo;
use homeostat_store::{Error, Event, EventType, Kind, Query, Resource, Revision, Scope, Selector, Watch};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::event_cache::{EncodedEventCache, EventCacheKey};
use crate::list::{PageSource, PagedList};
use crate::negotiate::{ResponseFormat, in_version, only_metadata, response_format};
use crate::params::Params;
use crate::presentation::Presentation;
use crate::request::RequestContext;
use crate::state::Api;
use crate::status::Failure;
use crate::table::Table;

/// Responds with a watch, from the requested revision or from all current resources.
pub(crate) async fn answer(
    api: &Api,
    info: &KindInfo,
    ask: &RequestContext<'_>,
    params: &Params,
) -> Result<Response, Failure> {
    params.check_watch()?;
    let selector = params.selector(ask.target.namespace)?;
    let shape = WatchEncoder::of(info, ask, params);
    let version = info.kind.version.as_str().into();
    let (first, after) = match params.after()? {
        Some(revision) if !params.wants_initial_events() => (None, revision),
        _ => {
            let query = Query { selector: selector.clone(), ..Query::all(info.kind.clone()) };
            let (pieces, items) = PagedList::open((&api.limits.lists, ask.client), api.host.store(), query).await?;
            let revision = pieces.revision();
            let wants_end = params.wants_initial_events();
            (Some(InitialEvents { pieces, items: items.into_iter(), wants_end }), revision)
        }
    };
    let watch = match api.host.store().watch(Scope::Kind(info.kind.clone()), after).await {
        Ok(watch) => watch,
        Err(error @ (Error::Expired { .. } | Error::FutureRevision { .. })) => return Ok(error_response(&error)),
        Err(error) => return Err(error.into()),
    };
    let following = WatchStream {
        watch,
        selector,
        initial_events: first,
        is_over: false,
        knows_columns: false,
        seen: after,
        bookmark: params.wants_bookmarks().then(|| Instant::now() + BOOKMARK_EVERY),
        shape,
        version,
        event_cache: api.event_cache.clone(),
    };
    let lines = stream::unfold(following, async |mut following| {
        Some((Ok::<_, Infallible>(following.next().await?), following))
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response())
}

/// Responds to a watch from a compacted or future revision. Like an API server, it sends the error as a watch
/// event: some clients list again only then.
fn error_response(error: &Error) -> Response {
    let told = line("ERROR", &Failure::expired(error.to_string()).document());
    ([(header::CONTENT_TYPE, "application/json")], told).into_response()
}

/// The resources at the start of a watch, which are sent first.
struct InitialEvents {
    pieces: PagedList,
    items: IntoIter<Arc<Resource>>,
    /// The client asked for a bookmark after the last of them.
    wants_end: bool,
}

/// The interval of bookmarks.
pub(crate) const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// Encodes watch events in the requested format.
pub(crate) struct WatchEncoder {
    /// As rows of this table.
    table: Option<Table>,
    /// As their metadata only.
    metadata: bool,
    /// The kind, in the version that the client requested.
    spoken: Kind,
    dress: Presentation,
}

impl WatchEncoder {
    /// Returns an encoder for the requested format.
    pub(crate) fn of(info: &KindInfo, ask: &RequestContext<'_>, params: &Params) -> Self {
        Self {
            table: (response_format(ask.headers) == ResponseFormat::Table).then(|| Table::of(info, params.included())),
            metadata: response_format(ask.headers) == ResponseFormat::Metadata,
            spoken: info.kind.clone(),
            dress: Presentation::of(info, ask.host),
        }
    }

    /// Returns the line of one event. The first table has the columns, `further` ones do not.
    pub(crate) fn line(&self, word: &str, resource: &Resource, further: bool) -> Bytes {
        match self.dress.as_stored(resource, &self.spoken) {
            Some(stored) if self.table.is_none() && !self.metadata => {
                format!("{{\"type\":\"{word}\",\"object\":{stored}}}\n").into()
            }
            _ => self.line_of(word, resource.document(), further),
        }
    }

    fn line_of(&self, word: &str, document: &Value, further: bool) -> Bytes {
        let document = &*self.dress.render(in_version(document, &self.spoken));
        match &self.table {
            Some(table) if further => line(word, &table.without_columns(document)),
            Some(table) => {
                let metadata = json!({ "resourceVersion": document.pointer("/metadata/resourceVersion") });
                line(word, &table.document(&metadata, [document]))
            }
            None if self.metadata => line(word, &only_metadata(document)),
            None => line(word, document),
        }
    }

    /// Returns the line of a bookmark.
    pub(crate) fn bookmark(&self, revision: Revision, annotations: &Value) -> Bytes {
        let metadata = json!({ "resourceVersion": revision.to_string(), "annotations": annotations });
        let (api_version, kind) = (self.spoken.api_version(), &self.spoken.name);
        let mark = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata });
        match &self.table {
            Some(table) => {
                let mut told = json!(table.without_columns(&mark));
                told["metadata"] = json!({ "resourceVersion": revision.to_string() });
                told["rows"][0]["object"] = json!(only_metadata(&mark));
                line("BOOKMARK", &told)
            }
            None if self.metadata => line("BOOKMARK", &only_metadata(&mark)),
            None => line("BOOKMARK", &mark),
        }
    }
}

/// One watch of one client.
struct WatchStream {
    watch: Watch,
    selector: Selector,
    /// The initial events that are not sent yet.
    initial_events: Option<InitialEvents>,
    /// An error was sent, and nothing follows it.
    is_over: bool,
    shape: WatchEncoder,
    /// The version of the kind that the client requested.
    version: Arc<str>,
    /// The encoded events that all watches share.
    event_cache: EncodedEventCache,
    /// The client has received a table with columns.
    knows_columns: bool,
    /// The client has every event up to this revision.
    seen: Revision,
    /// When the next bookmark is due; `None` if the client did not ask for bookmarks.
    bookmark: Option<Instant>,
}

impl WatchStream {
    /// Returns the next line; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(line) = self.next_initial_event().await {
            return Some(line);
        }
        while !self.is_over {
            let bookmark = self.bookmark;
            let event = tokio::select! {
                biased;
                event = self.watch.next() => event,
                () = sleep_until(bookmark) => {
                    self.bookmark = Some(Instant::now() + BOOKMARK_EVERY);
                    self.seen = self.seen.max(self.watch.position().unwrap_or_default());
                    return Some(self.shape.bookmark(self.seen, &json!({})));
                }
            };
            match event {
                Ok(event) => {
                    self.seen = event.revision;
                    if let Some((word, resource)) = visible_change(&event, &self.selector) {
                        let further = std::mem::replace(&mut self.knows_columns, true);
                        return Some(self.encode_event(word, resource, event.revision, further));
                    }
                }
                Err(error) => return Some(self.end_with_error(error)),
            }
        }
        None
    }

    /// Returns the next line of the initial events; `None` after the last one.
    async fn next_initial_event(&mut self) -> Option<Bytes> {
        while let Some(first) = &mut self.initial_events {
            if let Some(resource) = first.items.next() {
                let further = std::mem::replace(&mut self.knows_columns, true);
                return Some(self.shape.line("ADDED", &resource, further));
            }
            match first.pieces.next_page().await {
                Ok(Some(items)) => first.items = items.into_iter(),
                Ok(None) => {
                    let wants_end = first.wants_end;
                    self.initial_events = None;
                    if wants_end {
                        let annotations = json!({ "k8s.io/initial-events-end": "true" });
                        return Some(self.shape.bookmark(self.seen, &annotations));
                    }
                }
                Err(error) => {
                    self.initial_events = None;
                    return Some(self.end_with_error(error));
                }
            }
        }
        None
    }

    /// Returns the line of an event.
    fn encode_event(&self, word: &'static str, resource: &Resource, revision: Revision, further: bool) -> Bytes {
        let write = || event_line(&self.shape, word, resource, revision, further);
        if self.shape.table.is_some() || self.shape.dress.is_volatile() {
            // Not cached: the first row has the columns, and ages and live status change.
            return write();
        }
        let about = EventCacheKey { revision, word, metadata: self.shape.metadata, version: self.version.clone() };
        self.event_cache.get_or_encode(about, write)
    }

    /// Returns the last line, with the error that ends the watch.
    fn end_with_error(&mut self, error: homeostat_store::Error) -> Bytes {
        self.is_over = true;
        line("ERROR", &Failure::from(error).document())
    }
}

/// Returns the event as a client with this selector sees it. A resource that no longer matches is `DELETED`
/// for that client.
fn visible_change<'e>(event: &'e Event, selector: &Selector) -> Option<(&'static str, &'e Resource)> {
    let before = event.previous.as_deref().filter(|resource| selector.matches(resource));
    let after = match event.kind {
        EventType::Deleted => None,
        EventType::Added | EventType::Modified => Some(&*event.resource).filter(|resource| selector.matches(resource)),
    };
    match (before, after) {
        (None, None)
            if event.kind == EventType::Deleted && event.previous.is_none() && selector.matches(&event.resource) =>
        {
            Some(("DELETED", &event.resource))
        }
        (None, None) => None,
        (None, Some(after)) => Some(("ADDED", after)),
        (Some(_), Some(after)) => Some(("MODIFIED", after)),
        (Some(_), None) => Some(("DELETED", &event.resource)),
    }
}

/// Returns the line of an event. Its resource has the revision of the event, so that a client can resume from
/// there.
fn event_line(shape: &WatchEncoder, word: &str, resource: &Resource, revision: Revision, further: bool) -> Bytes {
    if resource.revision() == revision {
        return shape.line(word, resource, further);
    }
    let mut document = resource.document().clone();
    document["metadata"]["resourceVersion"] = revision.to_string().into();
    shape.line_of(word, &document, further)
}

/// Waits until an instant; for ever if there is none.
pub(crate) async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Returns one line of a watch.
pub(crate) fn line(word: &str, object: &impl Serialize) -> Bytes {
    let told = WatchEvent { word, object };
    let mut line = serde_json::to_vec(&told).expect("documents have texts as keys, and memory takes them");
    line.push(b'\n');
    line.into()
}

#[derive(Serialize)]
struct WatchEvent<'o, O> {
    #[serde(rename = "type")]
    word: &'o str,
    object: &'o O,
}

#[cfg(test)]
mod tests;
