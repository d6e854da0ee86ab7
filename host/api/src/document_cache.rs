//! The encoded documents of the kinds as they are now.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use homeostat_runtime::{Host, KindInfo};
use tokio::sync::Mutex;

use crate::status::Failure;

/// Maximum size of all kept documents, in bytes. A document beyond it is made anew for each request.
const BYTES_MAX: usize = 4 << 20;

/// Documents, each with its tag. One document is made at a time.
#[derive(Default)]
pub(crate) struct DocumentCache(Mutex<Documents>);

#[derive(Default)]
struct Documents {
    /// The version of the kinds that they describe.
    version: u64,
    by_name: BTreeMap<String, TaggedDocument>,
}

/// An encoded document and its `ETag`.
#[derive(Clone)]
pub(crate) struct TaggedDocument {
    bytes: Bytes,
    tag: HeaderValue,
}

impl DocumentCache {
    /// Returns the document of this name. `make` makes it of all served kinds, on a blocking thread.
    ///
    /// # Errors
    /// That of `make`.
    pub(crate) async fn find_or_make(
        &self,
        host: &Host,
        name: &str,
        make: impl FnOnce(&[KindInfo]) -> Result<Vec<u8>, Failure> + Send + 'static,
    ) -> Result<TaggedDocument, Failure> {
        let mut documents = self.0.lock().await;
        // Before the kinds are read: a change meanwhile has the next request make the document again.
        let version = host.kinds().version();
        if documents.version != version {
            *documents = Documents { version, ..Documents::default() };
        }
        if let Some(found) = documents.by_name.get(name) {
            return Ok(found.clone());
        }
        let kinds = host.kinds().list();
        let made = tokio::task::spawn_blocking(move || make(&kinds)).await;
        let made = made.map_err(|error| Failure::internal(format!("the kinds could not be described: {error}")))?;
        let document = TaggedDocument::new(made?);
        documents.keep(name, &document);
        Ok(document)
    }
}

impl Documents {
    /// Keeps a document, in place of all others if there is no room.
    fn keep(&mut self, name: &str, document: &TaggedDocument) {
        let kept: usize = self.by_name.values().map(|kept| kept.bytes.len()).sum();
        if kept + document.bytes.len() > BYTES_MAX {
            self.by_name.clear();
        }
        if document.bytes.len() <= BYTES_MAX {
            self.by_name.insert(name.to_owned(), document.clone());
        }
    }
}

impl TaggedDocument {
    fn new(bytes: Vec<u8>) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        let tag = HeaderValue::try_from(format!("\"{:016X}\"", hasher.finish())).expect("digits are visible");
        Self { bytes: bytes.into(), tag }
    }

    /// Responds with the document, or with `304` to a client that has it.
    pub(crate) fn response(self, content_type: &'static str, headers: &HeaderMap) -> Response {
        let known = headers.get_all(header::IF_NONE_MATCH).iter().any(|known| known == self.tag);
        let about: [(HeaderName, HeaderValue); 2] =
            [(header::ETAG, self.tag), (header::VARY, HeaderValue::from_static("Accept"))];
        if known {
            return (StatusCode::NOT_MODIFIED, about).into_response();
        }
        (about, [(header::CONTENT_TYPE, content_type)], self.bytes).into_response()
    }
}
