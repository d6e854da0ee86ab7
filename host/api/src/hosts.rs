//! The hosts of a fleet and the leases that they hold: `GET /homeostat/v1/hosts`. A person gives all leases of this host
//! to other hosts: `POST /homeostat/v1/drain`, and ends that: `POST /homeostat/v1/uncordon`.
//!
//! Deliberately absent: the drain of another host. Each host answers for itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use homeostat_runtime::manifest;
use homeostat_store::Kind;
use serde_json::json;

use crate::negotiate::{ResponseFormat, response_format};
use crate::state::Api;
use crate::status::{Failure, success};
use crate::table::{IncludeObjectPolicy, Table};

/// Responds with this host and those that share stores with it, by identity, as they are now. Asks no server.
///
/// A table has the columns of the kind `Host`, whose resources follow within a few seconds.
pub(crate) async fn answer(State(api): State<Arc<Api>>, headers: HeaderMap) -> Result<Response, Failure> {
    let kind = Kind::parse(manifest::API_VERSION, manifest::HOST_KIND)?;
    let info = api.host.kinds().of(&kind).ok_or_else(|| Failure::internal(format!("there is no kind {kind}")))?;
    Ok(match response_format(&headers, || Table::of(&info, IncludeObjectPolicy::Metadata)) {
        ResponseFormat::Table(table) => Json(table.document(&json!({}), &api.host.host_documents())).into_response(),
        ResponseFormat::Document | ResponseFormat::Metadata => {
            Json(json!({ "items": api.host.hosts() })).into_response()
        }
    })
}

/// Starts to drain this host, and responds at once.
pub(crate) async fn drain(State(api): State<Arc<Api>>) -> Response {
    api.host.set_drains(true);
    success(None)
}

/// Ends the drain of this host.
pub(crate) async fn uncordon(State(api): State<Arc<Api>>) -> Response {
    api.host.set_drains(false);
    success(None)
}
