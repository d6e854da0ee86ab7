//! Lists, streamed page by page, all at one revision.
//!
//! A list holds one page in memory, regardless of the number of resources. A client that sets a limit
//! receives one page and requests the next one itself. If history is compacted before the last page is read,
//! the response is cut off, which clients treat as a broken connection.

use std::sync::Arc;
use std::vec::IntoIter;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use homeostat_runtime::KindInfo;
use homeostat_store::{Error, Kind, Page, Query, Resource, Revision, Store};
use serde::Serialize;
use serde_json::{Value, json};

use crate::client::Client;
use crate::limiter::{Limiter, LimiterPermit};
use crate::negotiate::{ResponseFormat, in_version, only_metadata, response_format};
use crate::params::Params;
use crate::presentation::Presentation;
use crate::request::RequestContext;
use crate::state::Api;
use crate::status::Failure;
use crate::table::Table;

/// Resources per page if the client sets no limit; fewer if they are large
/// ([`homeostat_store::PAGE_BYTES_MAX`]).
const ITEMS_MAX: usize = 500;

/// Text is sent once it has so many bytes. A chunk ends with a whole resource.
const CHUNK_BYTES: usize = 64 << 10;

/// Responds with a list in the requested format.
pub(crate) async fn answer(
    api: &Api,
    info: &KindInfo,
    ask: &RequestContext<'_>,
    params: &Params,
) -> Result<Response, Failure> {
    params.check_list()?;
    params.check_revision(api.host.store().revision())?;
    let query = params.query(info.kind.clone(), ask.target.namespace)?;
    let (pieces, first) = PagedList::open((&api.limits.lists, ask.client), api.host.store(), query).await?;
    let metadata = pieces.metadata();
    Ok(send(ListEncoder::of(info, ask, params), &metadata, pieces, first))
}

/// Streams a list while it is read.
pub(crate) fn send(
    frame: ListEncoder,
    metadata: &Value,
    source: impl PageSource + Send + 'static,
    first: PageItems,
) -> Response {
    let writing = ListStream::begin(frame, metadata, source, first);
    let chunks = stream::unfold(writing, async |mut writing| Some((writing.next().await?, writing)));
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(chunks)).into_response()
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
    /// The client has set a limit, and requests the following pages itself.
    is_one: bool,
    /// One permit of the list limiter.
    _held: LimiterPermit,
}

impl PagedList {
    /// Waits for a permit of the list limiter and reads the first page.
    ///
    /// # Errors
    /// Those of [`Store::list`]; 429 if the limiter has no permit.
    pub(crate) async fn open(
        (lists, client): (&Limiter, &Client),
        store: Arc<dyn Store>,
        mut query: Query,
    ) -> Result<(Self, PageItems), Failure> {
        let held = lists.acquire(client, 1).await?;
        let is_one = query.limit.is_some();
        query.limit.get_or_insert(ITEMS_MAX);
        let Page { items, revision, next } = store.list(&query).await?;
        Ok((Self { store, query, revision, next, is_one, _held: held }, items))
    }

    /// Restarts the list at the current revision and reads its first page.
    ///
    /// # Errors
    /// Those of [`Store::list`].
    pub(crate) async fn restart(&mut self) -> Result<PageItems, Error> {
        self.query.from = None;
        let Page { items, revision, next } = self.store.list(&self.query).await?;
        (self.revision, self.next) = (revision, next);
        Ok(items)
    }

    /// Returns the revision that all pages show.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the metadata of the list.
    pub(crate) fn metadata(&self) -> Value {
        let next = self.next.as_deref().filter(|_| self.is_one);
        json!({ "resourceVersion": self.revision.to_string(), "continue": next.unwrap_or_default() })
    }
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
        if self.is_one || self.next.is_none() {
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
    frame: ListEncoder,
    source: S,
    items: IntoIter<Arc<Resource>>,
    /// The encoded text that is not sent yet.
    chunk: Vec<u8>,
    is_over: bool,
}

impl<S: PageSource> ListStream<S> {
    fn begin(frame: ListEncoder, metadata: &Value, source: S, first: PageItems) -> Self {
        let chunk = frame.head(metadata);
        Self { frame, source, items: first.into_iter(), chunk, is_over: false }
    }

    /// Returns the next chunk of text; `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes, S::Error>> {
        while !self.is_over {
            for resource in self.items.by_ref() {
                self.frame.item(&resource, &mut self.chunk);
                if self.chunk.len() >= CHUNK_BYTES {
                    return Some(Ok(std::mem::take(&mut self.chunk).into()));
                }
            }
            match self.source.next_page().await {
                Ok(Some(items)) => self.items = items.into_iter(),
                Ok(None) => {
                    self.is_over = true;
                    self.chunk.extend_from_slice(END);
                    return Some(Ok(std::mem::take(&mut self.chunk).into()));
                }
                Err(error) => {
                    self.is_over = true;
                    tracing::warn!(%error, "a list could not be read to its end");
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// The text after the last item of a list.
const END: &[u8] = b"]}";

/// Encodes a list: the text around the items, and each item.
pub(crate) struct ListEncoder {
    items: ItemEncoding,
    dress: Presentation,
    /// The kind, in the version that the client requested.
    spoken: Kind,
    /// The next item is the first one.
    is_first: bool,
}

enum ItemEncoding {
    Documents,
    Metadata,
    Rows(Table),
}

impl ListEncoder {
    /// Returns an encoder for the requested format.
    pub(crate) fn of(info: &KindInfo, ask: &RequestContext<'_>, params: &Params) -> Self {
        let items = match response_format(ask.headers) {
            ResponseFormat::Table => ItemEncoding::Rows(Table::of(info, params.included())),
            ResponseFormat::Metadata => ItemEncoding::Metadata,
            ResponseFormat::Document => ItemEncoding::Documents,
        };
        Self { items, ..Self::plain(info, ask) }
    }

    pub(crate) fn plain(info: &KindInfo, ask: &RequestContext<'_>) -> Self {
        let dress = Presentation::of(info, ask.host);
        Self { items: ItemEncoding::Documents, dress, spoken: info.kind.clone(), is_first: true }
    }

    /// Responds with a list of resources that are already in memory.
    pub(crate) fn response<'r>(mut self, metadata: &Value, resources: impl Iterator<Item = &'r Resource>) -> Response {
        let mut text = self.head(metadata);
        resources.for_each(|resource| self.item(resource, &mut text));
        text.extend_from_slice(END);
        ([(header::CONTENT_TYPE, "application/json")], text).into_response()
    }

    /// Returns the text before the first item.
    fn head(&self, metadata: &Value) -> Vec<u8> {
        let (name, facts) = match &self.items {
            ItemEncoding::Documents => {
                let (kind, api_version) = (format!("{}List", self.spoken.name), self.spoken.api_version());
                ("items", json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata }))
            }
            ItemEncoding::Metadata => {
                let (kind, api_version) = ("PartialObjectMetadataList", "meta.k8s.io/v1");
                ("items", json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata }))
            }
            ItemEncoding::Rows(table) => ("rows", json!(table.document(metadata, []).without_rows())),
        };
        let mut text = Vec::with_capacity(CHUNK_BYTES);
        append(&facts, &mut text);
        // `END` closes the object.
        text.pop();
        text.extend_from_slice(format!(",\"{name}\":[").as_bytes());
        text
    }

    fn item(&mut self, resource: &Resource, text: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_first, false) {
            text.push(b',');
        }
        let document = || self.dress.render(in_version(resource.document(), &self.spoken));
        match &self.items {
            ItemEncoding::Documents => match self.dress.as_stored(resource, &self.spoken) {
                Some(stored) => text.extend_from_slice(stored.as_bytes()),
                None => append(&document(), text),
            },
            ItemEncoding::Metadata => append(&only_metadata(&document()), text),
            ItemEncoding::Rows(table) => append(&table.row(&document()), text),
        }
    }
}

fn append(value: &impl Serialize, text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("documents have texts as keys, and memory takes them");
}

#[cfg(test)]
mod tests;
