//! The hosts of a fleet and the leases that they hold: `GET /homeostat/v1/hosts`. A person gives all leases
//! of a host to other hosts: `POST /homeostat/v1/drain`, and ends that: `POST /homeostat/v1/uncordon`.
//!
//! With `host=NAME` another host of the fleet answers, through this one.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use homeostat_runtime::manifest;
use homeostat_store::Kind;
use serde::Deserialize;
use serde_json::json;

use crate::forwarder::Question;
use crate::negotiate::{ResponseFormat, response_format};
use crate::params;
use crate::state::Api;
use crate::status::{Failure, success};
use crate::table::{IncludeObjectPolicy, Table};

/// Selects the host that answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HostParams {
    /// Its name. By default the asked host.
    host: Option<String>,
}

/// Responds with the host and those that share stores with it, by identity, as they are now. Asks no store.
///
/// A table has the columns of the kind `Host`, whose resources follow within a few seconds. Another host responds with a
/// document.
pub(crate) async fn answer(State(api): State<Arc<Api>>, uri: Uri, headers: HeaderMap) -> Result<Response, Failure> {
    if let Some(response) = other_answer(&api, Method::GET, &uri, &headers).await? {
        return Ok(response);
    }
    let kind = Kind::parse(manifest::API_VERSION, manifest::HOST_KIND)?;
    let info = api.host.kinds().of(&kind).ok_or_else(|| Failure::internal(format!("there is no kind {kind}")))?;
    Ok(match response_format(&headers, false, || Table::of(&info, IncludeObjectPolicy::Metadata)) {
        ResponseFormat::Table(table) => Json(table.document(&json!({}), &api.host.host_documents())).into_response(),
        _ => Json(json!({ "items": api.host.hosts() })).into_response(),
    })
}

/// Starts to drain the host, and responds at once.
pub(crate) async fn drain(State(api): State<Arc<Api>>, uri: Uri, headers: HeaderMap) -> Result<Response, Failure> {
    set_drains(&api, true, &uri, &headers).await
}

/// Ends the drain of the host.
pub(crate) async fn uncordon(State(api): State<Arc<Api>>, uri: Uri, headers: HeaderMap) -> Result<Response, Failure> {
    set_drains(&api, false, &uri, &headers).await
}

async fn set_drains(api: &Api, drains: bool, uri: &Uri, headers: &HeaderMap) -> Result<Response, Failure> {
    if let Some(response) = other_answer(api, Method::POST, uri, headers).await? {
        return Ok(response);
    }
    api.host.set_drains(drains);
    Ok(success(None))
}

/// Returns the answer of the host that the request names; `None` if it is this one.
async fn other_answer(api: &Api, method: Method, uri: &Uri, headers: &HeaderMap) -> Result<Option<Response>, Failure> {
    let HostParams { host } = params::parse(uri)?;
    let Some(name) = host.map(|name| name.to_ascii_lowercase()) else { return Ok(None) };
    if name == api.host.name() {
        return Ok(None);
    }
    let unknown = || Failure::not_found(format!("no host {name:?} shares a store with host {:?}", api.host.name()));
    let other = api.host.other_host(&name).ok_or_else(unknown)?;
    if Question::is_forwarded(headers) {
        return Err(Failure::bad_request("a forwarded request names no other host"));
    }
    let question = Question::new(method, uri.path().to_owned(), Bytes::new(), headers);
    api.forwarder.ask_document(&other, &question).await.map(Some)
}
