//! Responses in YAML, made of those in JSON.

use axum::body::{self, Body};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::status::Failure;

/// The content type of YAML.
pub(crate) const CONTENT_TYPE: &str = "application/yaml";

/// The most bytes of JSON that become YAML. The response is in memory as a whole, as text and as a tree.
const BYTES_MAX: usize = 8 << 20;

/// The responses that become YAML at once.
static CONVERSIONS: Semaphore = Semaphore::const_new(2);

/// Returns a document as YAML; `None` if it has no such form.
pub(crate) fn encode(document: &Value) -> Option<Vec<u8>> {
    serde_saphyr::to_string(document).ok().map(String::into_bytes)
}

/// Returns a response in JSON as YAML. Other responses, and those without a body, stay as they are.
///
/// A response of more than [`BYTES_MAX`] is refused with 406.
pub(crate) async fn converted(response: Response) -> Response {
    if response.headers().get(header::CONTENT_TYPE).is_none_or(|media| media != "application/json") {
        return response;
    }
    let Ok(_permit) = CONVERSIONS.acquire().await else { return response };
    let (mut parts, body) = response.into_parts();
    let Ok(json) = body::to_bytes(body, BYTES_MAX).await else {
        let reason = format!("a response of more than {} MiB has no YAML: accept application/json", BYTES_MAX >> 20);
        return Failure::not_acceptable(reason).into_response();
    };
    let yaml = serde_json::from_slice(&json).ok().and_then(|document| encode(&document));
    let Some(yaml) = yaml else { return Response::from_parts(parts, Body::from(json)) };
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(yaml))
}
