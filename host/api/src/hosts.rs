//! The hosts of a fleet and the leases that they hold: `GET /homeostat/v1/hosts`. A person gives all leases of this host
//! to other hosts: `POST /homeostat/v1/drain`, and ends that: `POST /homeostat/v1/uncordon`.
//!
//! Deliberately absent: the drain of another host. Each host answers for itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use crate::state::Api;
use crate::status::success;

/// Responds with this host and those that share stores with it, by identity. Asks no server.
pub(crate) async fn answer(State(api): State<Arc<Api>>) -> Json<Value> {
    Json(json!({ "items": api.host.hosts() }))
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
