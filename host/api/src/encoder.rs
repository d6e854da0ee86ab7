//! Encodes the resources of a response: of a read, a list or a watch, each in every format.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use homeostat_builtin::{autoscaler, cbor, protobuf};
use homeostat_store::{Kind, Resource, Revision};
use serde::Serialize;
use serde_json::{Value, json};

use crate::event_versions;
use crate::negotiate::{ResponseFormat, response_format};
use crate::presentation::{Presentation, only_metadata};
use crate::request::ResourceRequest;
use crate::status::Failure;
use crate::table::Table;
use crate::untyped;

/// The initial capacity for the text of a list, in bytes.
const LIST_BYTES: usize = 64 << 10;

/// The text after the last item of a list in JSON.
const LIST_END: &[u8] = b"]}";

/// Encodes resources of one kind.
pub(crate) struct ResourceEncoder {
    pub(crate) format: ResponseFormat,
    pub(crate) presentation: Presentation,
    /// The kind, in the version that the client requested.
    pub(crate) kind: Kind,
    /// Whether Kubernetes has a Go type for the kind. Then the items of a list do not repeat their kind.
    pub(crate) is_typed: bool,
}

impl ResourceEncoder {
    /// Returns an encoder for the requested format.
    pub(crate) fn of(request: &ResourceRequest<'_>) -> Self {
        let ResourceRequest { http, info, params } = request;
        let format = response_format(http.headers, info.is_typed(), || Table::of(info, params.included()));
        if http.has_autoscaler_version() && matches!(format, ResponseFormat::Table(_)) {
            // The columns are those of the stored version.
            let (presentation, kind) = (Presentation::Plain, info.kind.clone());
            return Self { format, presentation, kind, is_typed: true };
        }
        Self { format, ..Self::of_documents(request) }
    }

    /// Returns an encoder of whole documents. It ignores the format that the client requested.
    pub(crate) fn of_documents(request: &ResourceRequest<'_>) -> Self {
        if request.http.has_event_version() {
            let (presentation, kind) = (Presentation::Events, event_versions::kind());
            return Self { format: ResponseFormat::Document, presentation, kind, is_typed: true };
        }
        if request.http.has_autoscaler_version() {
            let (presentation, kind) = (Presentation::Autoscalers, autoscaler::kind());
            return Self { format: ResponseFormat::Document, presentation, kind, is_typed: true };
        }
        let presentation = Presentation::of(request.info, &request.http.api.host);
        let (kind, is_typed) = (request.info.kind.clone(), request.info.is_typed());
        Self { format: ResponseFormat::Document, presentation, kind, is_typed }
    }

    /// Returns whether a resource has the same encoding in each response. Otherwise it has columns, ages or
    /// live status.
    pub(crate) fn is_deterministic(&self) -> bool {
        !matches!(self.format, ResponseFormat::Table(_)) && !self.presentation.is_volatile()
    }

    /// Responds with one resource.
    pub(crate) fn response(&self, resource: &Resource) -> Response {
        if self.format.is_protobuf() {
            return protobuf_response(protobuf::encode(&self.binary_document(resource.document())));
        }
        let mut text = Vec::new();
        if matches!(self.format, ResponseFormat::Cbor) {
            text = cbor::encode(&self.presentation.render(resource.document(), &self.kind));
        } else {
            self.append(resource, false, &mut text);
        }
        self.respond(text)
    }

    /// Responds with an encoded resource or list.
    fn respond(&self, body: impl IntoResponse) -> Response {
        ([(header::CONTENT_TYPE, self.content_type())], body).into_response()
    }

    /// Returns the content type of what this encodes.
    pub(crate) fn content_type(&self) -> &'static str {
        match self.format {
            ResponseFormat::Cbor => cbor::CONTENT_TYPE,
            ResponseFormat::Protobuf | ResponseFormat::ProtobufMetadata => protobuf::CONTENT_TYPE,
            _ => "application/json",
        }
    }

    /// Returns a document as it is encoded in protobuf or CBOR.
    pub(crate) fn binary_document<'d>(&self, document: &'d Value) -> Cow<'d, Value> {
        let document = self.presentation.render(document, &self.kind);
        match self.format {
            ResponseFormat::ProtobufMetadata => Cow::Owned(json!(only_metadata(&document))),
            _ => document,
        }
    }

    /// Returns the items of a list in protobuf.
    ///
    /// # Errors
    /// 500 for a stored document that does not fit its kind.
    pub(crate) fn protobuf_items(&self, resources: &[Arc<Resource>]) -> Result<Vec<u8>, Failure> {
        let mut items = Vec::new();
        for resource in resources {
            self.append_protobuf_item(resource, &mut items).map_err(|error| not_encoded(&error))?;
        }
        Ok(items)
    }

    fn append_protobuf_item(&self, resource: &Resource, items: &mut Vec<u8>) -> Result<(), protobuf::Error> {
        protobuf::append_item(&self.item_kind(), &self.binary_document(resource.document()), items)
    }

    /// Returns what stands before the items of a list in protobuf, which have so many bytes.
    ///
    /// # Errors
    /// 500 for metadata that no list has.
    pub(crate) fn protobuf_list_head(&self, metadata: &Value, items_bytes: usize) -> Result<Vec<u8>, Failure> {
        protobuf::list_head(&self.item_kind(), metadata, items_bytes).map_err(|error| not_encoded(&error))
    }

    /// Returns the kind of the items of a list.
    fn item_kind(&self) -> Cow<'_, Kind> {
        match self.format {
            ResponseFormat::Metadata | ResponseFormat::ProtobufMetadata => {
                Cow::Owned(Kind::new("meta.k8s.io", "v1", "PartialObjectMetadata"))
            }
            _ => Cow::Borrowed(&self.kind),
        }
    }

    /// Responds with a list of resources that are already in memory.
    pub(crate) fn list_response<'r>(
        &self,
        metadata: &Value,
        resources: impl Iterator<Item = &'r Resource>,
    ) -> Response {
        let mut text = self.list_head(metadata);
        resources.for_each(|resource| self.append_item(resource, &mut text));
        self.end_list(&mut text);
        self.respond(text)
    }

    /// Appends the end of a list.
    pub(crate) fn end_list(&self, text: &mut Vec<u8>) {
        match self.format {
            ResponseFormat::Cbor => text.push(cbor::LIST_END),
            ResponseFormat::Protobuf | ResponseFormat::ProtobufMetadata => text.extend(protobuf::ENVELOPE_END),
            _ => text.extend_from_slice(LIST_END),
        }
    }

    /// Appends a resource. A table has its columns, unless the client has them already.
    pub(crate) fn append(&self, resource: &Resource, knows_columns: bool, text: &mut Vec<u8>) {
        if matches!(self.format, ResponseFormat::Document) && self.is_as_stored(resource) {
            text.extend_from_slice(resource.text().as_bytes());
        } else {
            self.append_document(resource.document(), knows_columns, text);
        }
    }

    /// Appends a document that may differ from every stored one.
    pub(crate) fn append_document(&self, document: &Value, knows_columns: bool, text: &mut Vec<u8>) {
        let document = &*self.presentation.render(document, &self.kind);
        match &self.format {
            ResponseFormat::Cbor => cbor::append(document, text),
            ResponseFormat::Document | ResponseFormat::Protobuf => append_json(document, text),
            ResponseFormat::Metadata | ResponseFormat::ProtobufMetadata => append_json(&only_metadata(document), text),
            ResponseFormat::Table(table) => append_json(&table.of_one(document, knows_columns), text),
        }
    }

    /// Returns the text of a list before its first item, but for protobuf.
    pub(crate) fn list_head(&self, metadata: &Value) -> Vec<u8> {
        let (name, facts) = match &self.format {
            ResponseFormat::Table(table) => ("rows", json!(table.document(metadata, []).without_rows())),
            _ => {
                let kind = self.item_kind();
                let name = format!("{}List", kind.name);
                ("items", json!({ "kind": name, "apiVersion": kind.api_version(), "metadata": metadata }))
            }
        };
        if let (ResponseFormat::Cbor, Value::Object(facts)) = (&self.format, &facts) {
            return cbor::list_head(facts, name);
        }
        let mut text = Vec::with_capacity(LIST_BYTES);
        append_json(&facts, &mut text);
        // `LIST_END` closes the object.
        text.pop();
        text.extend_from_slice(format!(",\"{name}\":[").as_bytes());
        text
    }

    /// Appends an item of a list, and before it a comma unless it is the first one. The rows of a table are
    /// its items.
    pub(crate) fn append_item(&self, resource: &Resource, text: &mut Vec<u8>) {
        if self.format.is_protobuf() {
            // A list is measured before it is sent, so that this has not failed.
            drop(self.append_protobuf_item(resource, text));
            return;
        }
        let is_json = !matches!(self.format, ResponseFormat::Cbor);
        if is_json && text.last() != Some(&b'[') {
            text.push(b',');
        }
        match &self.format {
            ResponseFormat::Table(table) => {
                append_json(&table.row(&self.presentation.render(resource.document(), &self.kind)), text);
            }
            ResponseFormat::Document if self.is_typed && self.is_as_stored(resource) => {
                untyped::append(resource.text(), &self.kind, text);
            }
            ResponseFormat::Document | ResponseFormat::Cbor if self.is_typed => {
                let mut document = self.presentation.render(resource.document(), &self.kind).into_owned();
                untyped::remove(&mut document);
                match self.format {
                    ResponseFormat::Cbor => cbor::append(&document, text),
                    _ => append_json(&document, text),
                }
            }
            _ => self.append(resource, true, text),
        }
    }

    /// Returns whether the text of a resource in the store is its JSON here.
    fn is_as_stored(&self, resource: &Resource) -> bool {
        matches!(self.presentation, Presentation::Plain) && *resource.key().kind() == self.kind
    }

    /// Returns the object of a bookmark.
    pub(crate) fn bookmark(&self, revision: Revision, annotations: &Value) -> Value {
        let metadata = json!({ "resourceVersion": revision.to_string(), "annotations": annotations });
        json!({ "apiVersion": self.kind.api_version(), "kind": self.kind.name, "metadata": metadata })
    }

    /// Appends the object of a bookmark, which has only a revision and annotations.
    pub(crate) fn append_bookmark(&self, revision: Revision, annotations: &Value, text: &mut Vec<u8>) {
        let mark = self.bookmark(revision, annotations);
        match &self.format {
            ResponseFormat::Table(table) => {
                let mut named = mark.clone();
                named["metadata"]["name"] = "".into();
                // The annotations are in the object, so every policy includes it.
                let mut table = json!(table.of_one(&named, true));
                table["rows"][0]["object"] = json!(only_metadata(&mark));
                append_json(&table, text);
            }
            _ => self.append_document(&mark, true, text),
        }
    }
}

/// Appends a value as JSON.
pub(crate) fn append_json(value: &impl Serialize, text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("documents have texts as keys, and memory takes them");
}

/// Responds with protobuf. A stored document that does not fit its kind is the fault of the host.
fn protobuf_response(encoded: Result<Vec<u8>, protobuf::Error>) -> Response {
    match encoded {
        Ok(body) => ([(header::CONTENT_TYPE, protobuf::CONTENT_TYPE)], body).into_response(),
        Err(error) => not_encoded(&error).into_response(),
    }
}

fn not_encoded(error: &protobuf::Error) -> Failure {
    Failure::internal(format!("the answer cannot be encoded as protobuf: {error}"))
}
