//! Chooses the format of a response from the `Accept` header. Pure.

use axum::http::HeaderMap;

use crate::media_range::MediaRange;
use crate::table::Table;

/// A format of resources.
pub(crate) enum ResponseFormat {
    /// The whole document.
    Document,
    /// Only `metadata`.
    Metadata,
    /// The rows of a table, for people.
    Table(Table),
}

/// Returns the first format in the `Accept` header that the server supports; by default, the whole document.
/// The order of the ranges counts, and their weights do not. `table` is called only for a table.
pub(crate) fn response_format(headers: &HeaderMap, table: impl FnOnce() -> Table) -> ResponseFormat {
    match MediaRange::all(headers).find(is_supported).and_then(|range| range.parameter("as")) {
        None => ResponseFormat::Document,
        Some("Table") => ResponseFormat::Table(table()),
        Some(_) => ResponseFormat::Metadata,
    }
}

/// Returns whether the client accepts aggregated discovery (`APIGroupDiscoveryList`, v2).
pub(crate) fn wants_all_groups(headers: &HeaderMap) -> bool {
    MediaRange::all(headers)
        .any(|range| range.parameter("as") == Some("APIGroupDiscoveryList") && range.parameter("v") == Some("v2"))
}

fn is_supported(range: &MediaRange<'_>) -> bool {
    let format = (range.parameter("as"), range.parameter("g"), range.parameter("v"));
    let is_known = matches!(
        format,
        (None, ..)
            | (Some("Table" | "PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1"))
    );
    is_known && matches!(range.media, "application/json" | "application/*" | "*/*")
}

#[cfg(test)]
mod tests;
