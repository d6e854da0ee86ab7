//! The kinds that controllers turn into one another: `GET /homeostat/v1/graph`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use homeostat_runtime::KindGraph;

use crate::state::Api;

/// Responds with the graph of all running controllers.
pub(crate) async fn answer(State(api): State<Arc<Api>>) -> Json<KindGraph> {
    Json(api.host.kind_graph())
}
