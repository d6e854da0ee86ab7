//! Chooses the format of a response from the `Accept` header. Pure.

use axum::http::{HeaderMap, header};
use homeostat_builtin::{cbor, protobuf};

use crate::document_response::DocumentFormat;
use crate::media_range::MediaRange;
use crate::status::Failure;
use crate::table::Table;
use crate::yaml_response;

/// A format of resources.
pub(crate) enum ResponseFormat {
    /// The whole document.
    Document,
    /// The whole document of a built-in kind, in protobuf.
    Protobuf,
    /// The whole document, in CBOR.
    Cbor,
    /// Only `metadata`.
    Metadata,
    /// Only `metadata`, in protobuf. Each kind has this form.
    ProtobufMetadata,
    /// The rows of a table, for people.
    Table(Table),
}

impl ResponseFormat {
    /// Returns whether the format is protobuf.
    pub(crate) fn is_protobuf(&self) -> bool {
        matches!(self, Self::Protobuf | Self::ProtobufMetadata)
    }
}

/// Returns the format in the `Accept` header that the server supports and the client likes best; by default, the whole
/// document. Of equal weights, the first counts. `has_protobuf` tells whether the kind has a protobuf form;
/// `table` is called only for a table.
pub(crate) fn response_format(
    headers: &HeaderMap,
    has_protobuf: bool,
    table: impl FnOnce() -> Table,
) -> ResponseFormat {
    let range = best_range(headers, has_protobuf);
    if range.is_some_and(|range| is_cbor(&range)) {
        return ResponseFormat::Cbor;
    }
    if range.is_some_and(|range| is_protobuf(&range)) {
        return ResponseFormat::Protobuf;
    }
    if range.is_some_and(|range| is_protobuf_metadata(&range)) {
        return ResponseFormat::ProtobufMetadata;
    }
    match range.map(|range| (range.parameter("as"), range.parameter("v"))) {
        None | Some((None, _)) => ResponseFormat::Document,
        Some((Some("Table"), Some("v1beta1"))) => ResponseFormat::Table(table().in_beta()),
        Some((Some("Table"), _)) => ResponseFormat::Table(table()),
        Some((Some(_), _)) => ResponseFormat::Metadata,
    }
}

/// Returns the supported format that the client likes best; of equal weights, the first.
fn best_range(headers: &HeaderMap, has_protobuf: bool) -> Option<MediaRange<'_>> {
    let is_known = |range: &MediaRange<'_>| {
        is_supported(range) || is_cbor(range) || is_protobuf_metadata(range) || (has_protobuf && is_protobuf(range))
    };
    let known = MediaRange::all(headers).filter(|range| range.weight() > 0.0 && is_known(range));
    known.reduce(|best, range| if range.weight() > best.weight() { range } else { best })
}

/// Returns the format in which the client likes a whole document best; `None` for JSON.
pub(crate) fn document_format(headers: &HeaderMap) -> Option<DocumentFormat> {
    let best = best_range(headers, true)?;
    if is_protobuf(&best) {
        return Some(DocumentFormat::Protobuf);
    }
    if is_cbor(&best) {
        return Some(DocumentFormat::Cbor);
    }
    is_yaml(&best).then_some(DocumentFormat::Yaml)
}

/// Refuses a request that accepts no format of the server. A request without an `Accept` header accepts all.
pub(crate) fn check_accepted(headers: &HeaderMap, has_protobuf: bool) -> Result<(), Failure> {
    let is_any = headers.get_all(header::ACCEPT).iter().all(axum::http::HeaderValue::is_empty);
    let fits = |range: MediaRange<'_>| {
        is_supported(&range) || is_protobuf_metadata(&range) || (has_protobuf && is_protobuf(&range))
    };
    if is_any || MediaRange::all(headers).any(fits) {
        return Ok(());
    }
    Err(not_acceptable())
}

fn not_acceptable() -> Failure {
    let known = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    Failure::not_acceptable(format!("only the following media types are accepted: {known}"))
}

/// Refuses a request that accepts no whole document: the kind has neither tables nor metadata.
pub(crate) fn check_whole(headers: &HeaderMap) -> Result<(), Failure> {
    let mut ranges = MediaRange::all(headers).peekable();
    if ranges.peek().is_none() || ranges.any(|range| range.parameter("as").is_none()) {
        return Ok(());
    }
    Err(not_acceptable())
}

/// Refuses a watch that accepts nothing but YAML, which has no form for a stream.
pub(crate) fn check_stream(headers: &HeaderMap) -> Result<(), Failure> {
    let mut ranges = MediaRange::all(headers).filter(|range| range.weight() > 0.0).peekable();
    if ranges.peek().is_none() || ranges.any(|range| !is_yaml(&range)) {
        return Ok(());
    }
    let known = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    Err(Failure::not_acceptable(format!("only the following media types are accepted: {known}")))
}

fn is_yaml(range: &MediaRange<'_>) -> bool {
    range.media == yaml_response::CONTENT_TYPE
}

fn is_protobuf(range: &MediaRange<'_>) -> bool {
    range.media == protobuf::CONTENT_TYPE && range.parameter("as").is_none()
}

fn is_protobuf_metadata(range: &MediaRange<'_>) -> bool {
    range.media == protobuf::CONTENT_TYPE && is_metadata(range)
}

fn is_cbor(range: &MediaRange<'_>) -> bool {
    range.media == cbor::CONTENT_TYPE && range.parameter("as").is_none()
}

/// Returns whether the client accepts aggregated discovery (`APIGroupDiscoveryList`, v2).
pub(crate) fn wants_all_groups(headers: &HeaderMap) -> bool {
    MediaRange::all(headers)
        .any(|range| range.parameter("as") == Some("APIGroupDiscoveryList") && range.parameter("v") == Some("v2"))
}

fn is_supported(range: &MediaRange<'_>) -> bool {
    let is_known = range.parameter("as").is_none() || is_table(range) || is_metadata(range);
    is_known && (is_yaml(range) || matches!(range.media, "application/json" | "application/*" | "*/*"))
}

fn is_table(range: &MediaRange<'_>) -> bool {
    matches!(form(range), (Some("Table"), Some("meta.k8s.io"), Some("v1" | "v1beta1")))
}

fn is_metadata(range: &MediaRange<'_>) -> bool {
    let kinds = (Some("PartialObjectMetadata"), Some("PartialObjectMetadataList"));
    let (kind, group, version) = form(range);
    (kind == kinds.0 || kind == kinds.1) && group == Some("meta.k8s.io") && version == Some("v1")
}

/// Returns kind, group and version of the form in which a client wants resources.
fn form<'r>(range: &MediaRange<'r>) -> (Option<&'r str>, Option<&'r str>, Option<&'r str>) {
    (range.parameter("as"), range.parameter("g"), range.parameter("v"))
}

#[cfg(test)]
mod tests;
