//! Chooses the format of a response from the `Accept` header, and converts documents. Pure.

use std::borrow::Cow;

use axum::http::{HeaderMap, header};
use homeostat_store::Kind;
use serde::Serialize;
use serde_json::Value;

use crate::media_range::MediaRange;

/// A format of resources.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ResponseFormat {
    /// The whole document.
    Document,
    /// The rows of a table, for people.
    Table,
    /// Only `metadata`.
    Metadata,
}

/// Returns the first format in the `Accept` header that the server supports; by default, the whole document.
/// The order of the ranges counts, and their weights do not.
pub(crate) fn response_format(headers: &HeaderMap) -> ResponseFormat {
    ranges(headers).find_map(known).unwrap_or(ResponseFormat::Document)
}

/// Returns whether the client accepts aggregated discovery (`APIGroupDiscoveryList`, v2).
pub(crate) fn wants_all_groups(headers: &HeaderMap) -> bool {
    ranges(headers)
        .any(|range| range.parameter("as") == Some("APIGroupDiscoveryList") && range.parameter("v") == Some("v2"))
}

fn known(range: MediaRange<'_>) -> Option<ResponseFormat> {
    if !matches!(range.media, "application/json" | "application/*" | "*/*") {
        return None;
    }
    match (range.parameter("as"), range.parameter("g"), range.parameter("v")) {
        (None, ..) => Some(ResponseFormat::Document),
        (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Some(ResponseFormat::Table),
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => {
            Some(ResponseFormat::Metadata)
        }
        _ => None,
    }
}

fn ranges(headers: &HeaderMap) -> impl Iterator<Item = MediaRange<'_>> {
    MediaRange::all(headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()))
}

/// A document in the format [`ResponseFormat::Metadata`].
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OnlyMetadata<'d> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Option<&'d Value>,
}

/// Returns a document in the format [`ResponseFormat::Metadata`].
pub(crate) fn only_metadata(document: &Value) -> OnlyMetadata<'_> {
    OnlyMetadata { kind: "PartialObjectMetadata", api_version: "meta.k8s.io/v1", metadata: document.get("metadata") }
}

/// Returns a document in the requested version of its kind. Only `apiVersion` differs from the stored
/// document.
pub(crate) fn in_version<'d>(document: &'d Value, kind: &Kind) -> Cow<'d, Value> {
    let version = kind.api_version();
    if document["apiVersion"] == version {
        return Cow::Borrowed(document);
    }
    let mut document = document.clone();
    document["apiVersion"] = version.into();
    Cow::Owned(document)
}

#[cfg(test)]
mod tests;
