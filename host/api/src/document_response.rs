//! Responses with a document that no store has, as a `Status` or a review. They are made as JSON, and sent in the format that the
//! client likes best.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use homeostat_builtin::{cbor, protobuf};
use serde_json::Value;

use crate::yaml_response;

/// A format of documents beside JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentFormat {
    Protobuf,
    Cbor,
    Yaml,
}

/// The document of a response.
#[derive(Clone)]
struct Document(Arc<Value>);

/// Responds with a document.
pub(crate) fn respond(code: StatusCode, document: Value) -> Response {
    let mut response = (code, Json(&document)).into_response();
    response.extensions_mut().insert(Document(Arc::new(document)));
    response
}

/// Writes the document of a response in this format, if any. Other responses, and documents that have no form in protobuf, stay
/// as they are.
pub(crate) fn encoded(mut response: Response, format: Option<DocumentFormat>) -> Response {
    let document = response.extensions_mut().remove();
    let (Some(format), Some(Document(document))) = (format, document) else { return response };
    let (content_type, body) = match format {
        DocumentFormat::Cbor => (cbor::CONTENT_TYPE, cbor::encode(&document)),
        DocumentFormat::Yaml => match yaml_response::encode(&document) {
            Some(body) => (yaml_response::CONTENT_TYPE, body),
            None => return response,
        },
        DocumentFormat::Protobuf => match protobuf::encode(&document) {
            Ok(body) => (protobuf::CONTENT_TYPE, body),
            Err(_) => return response,
        },
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.map(|_| Body::from(body))
}
