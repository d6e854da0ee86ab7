//! Lists, sent as they are read: one piece of the store after the other, all of one moment.
//!
//! What a list holds in memory at once is one piece, whatever the number of resources. A client that names a limit gets one piece of that many
//! itself. A list that cannot be read to its end, because history has been cut meanwhile, ends without its end, which clients take for a
//! connection that broke.

use std::sync::Arc;
use std::vec::IntoIter;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use homeostat_runtime::KindInfo;
use homeostat_store::{Kind, Page, Query, Resource, Revision, Store};
use serde::Serialize;
use serde_json::{Value, json};

use crate::negotiate::{Form, form, in_version, only_metadata};
use crate::params::Params;
use crate::resources::Ask;
use crate::router::Api;
use crate::status::Failure;
use crate::table::Table;

/// Resources that are read at once for who names no limit; fewer when they are large ([`homeostat_store::PAGE_BYTES_MAX`]).
const ITEMS_MAX: usize = 500;

/// Bytes from which on a piece of text is sent. The resource that crosses it is in it whole.
const CHUNK_BYTES: usize = 64 << 10;

/// Answers a list in the form that is asked for.
pub(crate) async fn answer(api: &Api, info: &KindInfo, ask: &Ask<'_>, params: &Params) -> Result<Response, Failure> {
    params.check_revision(api.host.store().revision())?;
    let query = params.query(info.kind.clone(), ask.target.namespace)?;
    let (pieces, first) = Pieces::begin(api.host.store(), query).await?;
    let metadata = list_metadata(pieces.revision(), pieces.next_page());
    let writing = Writing::begin(Frame::of(info, ask, params), &metadata, pieces, first);
    let chunks = stream::unfold(writing, async |mut writing| Some((writing.next().await?, writing)));
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(chunks)).into_response())
}

/// Answers with resources that are in memory already, as they are.
pub(crate) fn plain(info: &KindInfo, page: &Page) -> Response {
    let documents = page.items.iter().map(|resource| resource.document());
    Frame::plain(info).whole(&list_metadata(page.revision, page.next.as_deref()), documents)
}

fn list_metadata(revision: Revision, next: Option<&str>) -> Value {
    json!({ "resourceVersion": revision.to_string(), "continue": next.unwrap_or_default() })
}

/// The resources of a list, read piece by piece.
pub(crate) struct Pieces {
    store: Arc<dyn Store>,
    query: Query,
    revision: Revision,
    next: Option<String>,
    /// The client has named a limit, and reads on itself.
    is_one: bool,
}

impl Pieces {
    /// Reads the first piece.
    ///
    /// # Errors
    /// Those of [`Store::list`].
    pub(crate) async fn begin(
        store: Arc<dyn Store>,
        mut query: Query,
    ) -> homeostat_store::Result<(Self, Vec<Arc<Resource>>)> {
        let is_one = query.limit.is_some();
        query.limit.get_or_insert(ITEMS_MAX);
        let Page { items, revision, next } = store.list(&query).await?;
        Ok((Self { store, query, revision, next, is_one }, items))
    }

    /// Returns the moment that all pieces show.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns what the client reads on with, where it does so itself.
    fn next_page(&self) -> Option<&str> {
        self.next.as_deref().filter(|_| self.is_one)
    }

    /// Reads the next piece; `None` at the end.
    ///
    /// # Errors
    /// Those of [`Store::list`], `Expired` above all. *Cancel safety*: nothing is lost.
    pub(crate) async fn more(&mut self) -> homeostat_store::Result<Option<Vec<Arc<Resource>>>> {
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
struct Writing {
    frame: Frame,
    pieces: Pieces,
    items: IntoIter<Arc<Resource>>,
    /// What has not been sent of the text.
    chunk: Vec<u8>,
    is_over: bool,
}

impl Writing {
    fn begin(frame: Frame, metadata: &Value, pieces: Pieces, first: Vec<Arc<Resource>>) -> Self {
        let chunk = frame.head(metadata);
        Self { frame, pieces, items: first.into_iter(), chunk, is_over: false }
    }

    /// Returns the next piece of text; `None` at the end.
    async fn next(&mut self) -> Option<homeostat_store::Result<Bytes>> {
        while !self.is_over {
            for resource in self.items.by_ref() {
                self.frame.item(resource.document(), &mut self.chunk);
                if self.chunk.len() >= CHUNK_BYTES {
                    return Some(Ok(std::mem::take(&mut self.chunk).into()));
                }
            }
            match self.pieces.more().await {
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

/// What ends the text of a list.
const END: &[u8] = b"]}";

/// What stands around the items of a list, and how each is written.
pub(crate) struct Frame {
    items: Items,
    /// The version of the kind that is spoken.
    spoken: Kind,
    /// The next item is the first one.
    is_first: bool,
}

enum Items {
    Documents,
    Metadata,
    Rows(Table),
}

impl Frame {
    /// Returns the form that a client asks for.
    pub(crate) fn of(info: &KindInfo, ask: &Ask<'_>, params: &Params) -> Self {
        let items = match form(ask.headers) {
            Form::Table => Items::Rows(Table::of(info, params.included())),
            Form::Metadata => Items::Metadata,
            Form::Document => return Self::plain(info),
        };
        Self { items, spoken: info.kind.clone(), is_first: true }
    }

    fn plain(info: &KindInfo) -> Self {
        Self { items: Items::Documents, spoken: info.kind.clone(), is_first: true }
    }

    /// Returns a list of what is in memory already.
    pub(crate) fn whole<'d>(mut self, metadata: &Value, documents: impl Iterator<Item = &'d Value>) -> Response {
        let mut text = self.head(metadata);
        documents.for_each(|document| self.item(document, &mut text));
        text.extend_from_slice(END);
        ([(header::CONTENT_TYPE, "application/json")], text).into_response()
    }

    /// Returns the text before the first item.
    fn head(&self, metadata: &Value) -> Vec<u8> {
        let (name, facts) = match &self.items {
            Items::Documents => {
                let (kind, api_version) = (format!("{}List", self.spoken.name), self.spoken.api_version());
                ("items", json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata }))
            }
            Items::Metadata => {
                let (kind, api_version) = ("PartialObjectMetadataList", "meta.k8s.io/v1");
                ("items", json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata }))
            }
            Items::Rows(table) => ("rows", json!(table.document(metadata, []).without_rows())),
        };
        let mut text = Vec::with_capacity(CHUNK_BYTES);
        append(&facts, &mut text);
        // The object is closed by the end of the list.
        text.pop();
        text.extend_from_slice(format!(",\"{name}\":[").as_bytes());
        text
    }

    fn item(&mut self, document: &Value, text: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_first, false) {
            text.push(b',');
        }
        let document = &*in_version(document, &self.spoken);
        match &self.items {
            Items::Documents => append(document, text),
            Items::Metadata => append(&only_metadata(document), text),
            Items::Rows(table) => append(&table.row(document), text),
        }
    }
}

fn append(value: &impl Serialize, text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("documents have texts as keys, and memory takes them");
}

#[cfg(test)]
mod tests;
