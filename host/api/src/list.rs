//! Lists, streamed page by page, all at one revision.
//!
//! A list holds one page in memory, regardless of the number of resources. A client that sets a limit
//! receives one page and requests the next one itself; if history is compacted before, it gets a `410` with a token to go on
//! in the present. If history is compacted before the last page of a list without a limit is read, the response is cut off,
//! which clients treat as a broken connection.

use std::sync::Arc;
use std::vec::IntoIter;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::try_unfold;
use homeostat_builtin::protobuf::ENVELOPE_END;
use homeostat_store::{Error, Kind, Page, Query, Resource, Revision, Scope, Store, continue_in_present};
use serde_json::{Value, json};

use crate::client::Client;
use crate::encoder::ResourceEncoder;
use crate::limiter::{Limiter, LimiterPermit};
use crate::request::ResourceRequest;
use crate::status::Failure;

/// Resources per page if the client sets no limit; fewer if they are large
/// ([`homeostat_store::PAGE_BYTES_MAX`]).
const ITEMS_MAX: usize = 500;

/// Text is sent once it has so many bytes. A chunk ends with a whole resource.
const CHUNK_BYTES: usize = 64 << 10;

/// The maximum size of the items of several pages in protobuf that are sent as a whole, in bytes.
const BUFFERED_BYTES_MAX: usize = 1 << 20;

/// Checks that a revision of a kind is not in the future. Not each store tells.
///
/// # Errors
/// `FutureRevision`, and those of [`Store::revision`].
pub(crate) async fn check_known(store: &dyn Store, kind: &Kind, asked: Revision) -> Result<(), Error> {
    let current = store.revision(&Scope::Kind(kind.clone())).await?;
    if asked > current { Err(Error::FutureRevision { asked, current }) } else { Ok(()) }
}

/// Responds with a list in the requested format.
pub(crate) async fn answer(request: &ResourceRequest<'_>) -> Result<Response, Failure> {
    let api = request.http.api;
    request.params.check_list()?;
    let query = request.query()?;
    if let Some(asked) = query.at {
        check_known(&*api.host.store(), &query.kind, asked).await?;
    }
    let (list, first) = PagedList::open((&api.limits.lists, request.http.client), api.host.store(), query).await?;
    request.params.check_revision(list.revision())?;
    let encoder = ResourceEncoder::of(request);
    if encoder.format.is_protobuf() {
        return send_protobuf(encoder, list, first).await;
    }
    Ok(send(encoder, &list.metadata(), list, first))
}

/// Responds with a list in protobuf, whose size stands before its items. A long list is read twice: it is measured, and then
/// streamed.
async fn send_protobuf(encoder: ResourceEncoder, mut list: PagedList, first: PageItems) -> Result<Response, Failure> {
    let metadata = list.metadata();
    let mut buffer = encoder.protobuf_items(&first)?;
    let mut bytes = buffer.len();
    drop(first);
    while let Some(page) = list.next_page().await? {
        let items = encoder.protobuf_items(&page)?;
        bytes += items.len();
        if bytes <= BUFFERED_BYTES_MAX {
            buffer.extend(items);
        } else {
            buffer = Vec::new();
        }
    }
    let mut text = encoder.protobuf_list_head(&metadata, bytes)?;
    if buffer.len() == bytes {
        text.append(&mut buffer);
        encoder.end_list(&mut text);
        return Ok(([(header::CONTENT_TYPE, encoder.content_type())], text).into_response());
    }
    let first = list.restart(Some(list.revision)).await?;
    // If the list reads differently the second time, the size of the answer is not this one, which breaks it off.
    let size = text.len() + bytes + ENVELOPE_END.len();
    let response = stream(ListStream { encoder, source: list, items: first.into_iter(), chunk: text, is_over: false });
    Ok(([(header::CONTENT_LENGTH, size)], response).into_response())
}

/// Streams a list while it is read.
pub(crate) fn send(
    encoder: ResourceEncoder,
    metadata: &Value,
    source: impl PageSource + Send + 'static,
    first: PageItems,
) -> Response {
    stream(ListStream::begin(encoder, metadata, source, first))
}

fn stream(list: ListStream<impl PageSource + Send + 'static>) -> Response {
    let content_type = list.encoder.content_type();
    let chunks = try_unfold(list, async |mut list| {
        let chunk = list.next().await;
        let chunk = chunk.inspect_err(|error| tracing::warn!(%error, "a list could not be read to its end"));
        chunk.map(|chunk| Some((chunk?, list)))
    });
    ([(header::CONTENT_TYPE, content_type)], Body::from_stream(chunks)).into_response()
}

/// The resources of one page of a list.
pub(crate) type PageItems = Vec<Arc<Resource>>;

/// A source of the pages of a list.
pub(crate) trait PageSource {
    /// Why the source failed before the end of the list.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Returns the next page, which may be empty; `None` at the end.
    fn next_page(&mut self) -> impl Future<Output = Result<Option<PageItems>, Self::Error>> + Send;
}

/// A list of the store, read page by page.
pub(crate) struct PagedList {
    store: Arc<dyn Store>,
    query: Query,
    revision: Revision,
    next: Option<String>,
    /// The number of resources on the following pages, if it is known.
    remaining: Option<u64>,
    /// The client has set a limit, and requests the following pages itself.
    is_one: bool,
    /// One permit of the list limiter.
    _permit: LimiterPermit,
}

impl PagedList {
    /// Waits for a permit of the list limiter and reads the first page.
    ///
    /// # Errors
    /// Those of [`Store::list`]; 429 if the limiter has no permit. The refusal of an expired continue token contains one for the rest.
    pub(crate) async fn open(
        (lists, client): (&Limiter, &Client),
        store: Arc<dyn Store>,
        mut query: Query,
    ) -> Result<(Self, PageItems), Failure> {
        let permit = lists.acquire(client, 1).await?;
        let is_one = query.limit.is_some();
        query.limit.get_or_insert(ITEMS_MAX);
        query.count = is_one;
        let page = store.list(&query).await;
        let Page { items, revision, next, remaining } = page.map_err(|error| refused_page(&query, error))?;
        Ok((Self { store, query, revision, next, remaining, is_one, _permit: permit }, items))
    }

    /// Restarts the list at a revision, `None` for the current one, and reads its first page.
    ///
    /// # Errors
    /// Those of [`Store::list`], for a revision mostly `Expired`.
    pub(crate) async fn restart(&mut self, at: Option<Revision>) -> Result<PageItems, Error> {
        (self.query.from, self.query.at) = (None, at);
        let Page { items, revision, next, remaining } = self.store.list(&self.query).await?;
        (self.revision, self.next, self.remaining) = (revision, next, remaining);
        Ok(items)
    }

    /// Returns the revision that all pages show.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns whether there is a page after this one that the client does not request itself.
    fn has_more(&self) -> bool {
        !self.is_one && self.next.is_some()
    }

    /// Returns the metadata of the list.
    pub(crate) fn metadata(&self) -> Value {
        let next = self.next.as_deref().filter(|_| self.is_one);
        let mut metadata = json!({ "resourceVersion": self.revision.to_string() });
        if let Some(next) = next {
            metadata["continue"] = next.into();
            if let Some(remaining) = self.remaining {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        metadata
    }
}

fn refused_page(query: &Query, error: Error) -> Failure {
    let expired = query.from.as_deref().filter(|_| matches!(error, Error::Expired { .. }));
    expired.and_then(continue_in_present).map_or_else(|| error.into(), |next| Failure::expired_page(&next))
}

impl PageSource for PagedList {
    type Error = Error;

    /// Reads the next page.
    ///
    /// *Cancel safety*: nothing is lost.
    ///
    /// # Errors
    /// Those of [`Store::list`], mostly `Expired`.
    async fn next_page(&mut self) -> Result<Option<PageItems>, Error> {
        if !self.has_more() {
            return Ok(None);
        }
        self.query.from.clone_from(&self.next);
        let page = self.store.list(&self.query).await?;
        self.next = page.next;
        Ok(Some(page.items))
    }
}

/// A list that is being sent.
struct ListStream<S> {
    encoder: ResourceEncoder,
    /// Kept until the list is sent, with the permit that it holds.
    source: S,
    items: IntoIter<Arc<Resource>>,
    /// The encoded text that is not sent yet.
    chunk: Vec<u8>,
    is_over: bool,
}

impl<S: PageSource> ListStream<S> {
    fn begin(encoder: ResourceEncoder, metadata: &Value, source: S, first: PageItems) -> Self {
        let chunk = encoder.list_head(metadata);
        Self { encoder, source, items: first.into_iter(), chunk, is_over: false }
    }

    /// Returns the next chunk of text; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, S::Error> {
        while !self.is_over {
            for resource in self.items.by_ref() {
                self.encoder.append_item(&resource, &mut self.chunk);
                if self.chunk.len() >= CHUNK_BYTES {
                    return Ok(Some(std::mem::take(&mut self.chunk).into()));
                }
            }
            match self.source.next_page().await? {
                Some(items) => self.items = items.into_iter(),
                None => {
                    self.is_over = true;
                    self.encoder.end_list(&mut self.chunk);
                    return Ok(Some(std::mem::take(&mut self.chunk).into()));
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
