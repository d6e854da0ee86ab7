//! Encodes the resources of a response: of a read, a list or a watch, each in every format.

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
}

impl ResourceEncoder {
    /// Returns an encoder for the requested format.
    pub(crate) fn of(request: &ResourceRequest<'_>) -> Self {
        let ResourceRequest { http, info, params } = request;
        let has_protobuf = info.built_in().is_some();
        let format = response_format(http.headers, has_protobuf, || Table::of(info, params.included()));
        if http.has_autoscaler_version() && matches!(format, ResponseFormat::Table(_)) {
            // The columns are those of the stored version.
            return Self { format, presentation: Presentation::Plain, kind: info.kind.clone() };
        }
        Self { format, ..Self::of_documents(request) }
    }

    /// Returns an encoder of whole documents. It ignores the format that the client requested.
    pub(crate) fn of_documents(request: &ResourceRequest<'_>) -> Self {
        if request.http.has_event_version() {
            let (presentation, kind) = (Presentation::Events, event_versions::kind());
            return Self { format: ResponseFormat::Document, presentation, kind };
        }
        if request.http.has_autoscaler_version() {
            let (presentation, kind) = (Presentation::Autoscalers, autoscaler::kind());
            return Self { format: ResponseFormat::Document, presentation, kind };
        }
        let presentation = Presentation::of(request.info, &request.http.api.host);
        Self { format: ResponseFormat::Document, presentation, kind: request.info.kind.clone() }
    }

    /// Returns whether a resource has the same encoding in each response. Otherwise it has columns, ages or
    /// live status.
    pub(crate) fn is_deterministic(&self) -> bool {
        !matches!(self.format, ResponseFormat::Table(_)) && !self.presentation.is_volatile()
    }

    /// Responds with one resource.
    pub(crate) fn response(&self, resource: &Resource) -> Response {
        if matches!(self.format, ResponseFormat::Protobuf) {
            let document = self.presentation.render(resource.document(), &self.kind);
            return protobuf_response(protobuf::encode(&document));
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

    /// Returns the content type of what this encodes, but for protobuf.
    pub(crate) fn content_type(&self) -> &'static str {
        if matches!(self.format, ResponseFormat::Cbor) { cbor::CONTENT_TYPE } else { "application/json" }
    }

    /// Responds with a list of resources in protobuf.
    pub(crate) fn protobuf_list_response<'r>(
        &self,
        metadata: &Value,
        resources: impl Iterator<Item = &'r Resource>,
    ) -> Response {
        let items = resources.map(|resource| self.presentation.render(resource.document(), &self.kind).into_owned());
        let list = json!({
            "kind": format!("{}List", self.kind.name), "apiVersion": self.kind.api_version(), "metadata": metadata,
            "items": items.collect::<Vec<Value>>(),
        });
        protobuf_response(protobuf::encode(&list))
    }

    /// Returns an encoder for JSON in place of protobuf.
    pub(crate) fn in_json(self) -> Self {
        Self { format: ResponseFormat::Document, ..self }
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
            _ => text.extend_from_slice(LIST_END),
        }
    }

    /// Appends a resource. A table has its columns, unless the client has them already.
    pub(crate) fn append(&self, resource: &Resource, knows_columns: bool, text: &mut Vec<u8>) {
        let is_as_stored =
            matches!((&self.format, &self.presentation), (ResponseFormat::Document, Presentation::Plain))
                && *resource.key().kind() == self.kind;
        if is_as_stored {
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
            ResponseFormat::Metadata => append_json(&only_metadata(document), text),
            ResponseFormat::Table(table) => append_json(&table.of_one(document, knows_columns), text),
        }
    }

    /// Returns the text of a list before its first item.
    pub(crate) fn list_head(&self, metadata: &Value) -> Vec<u8> {
        let list = |kind, api_version| json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata });
        let (name, facts) = match &self.format {
            ResponseFormat::Document | ResponseFormat::Protobuf | ResponseFormat::Cbor => {
                ("items", list(format!("{}List", self.kind.name), self.kind.api_version()))
            }
            ResponseFormat::Metadata => ("items", list("PartialObjectMetadataList".into(), "meta.k8s.io/v1".into())),
            ResponseFormat::Table(table) => ("rows", json!(table.document(metadata, []).without_rows())),
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
        let is_json = !matches!(self.format, ResponseFormat::Cbor);
        if is_json && text.last() != Some(&b'[') {
            text.push(b',');
        }
        match &self.format {
            ResponseFormat::Table(table) => {
                append_json(&table.row(&self.presentation.render(resource.document(), &self.kind)), text);
            }
            _ => self.append(resource, true, text),
        }
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
                // The annotations are in the object, so every policy includes it.
                let mut table = json!(table.of_one(&mark, true));
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
        Err(error) => Failure::internal(format!("the answer cannot be encoded as protobuf: {error}")).into_response(),
    }
}

/// Responds with JSON.
pub(crate) fn json_response(body: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
