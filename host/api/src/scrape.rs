//! The metrics endpoint, `GET /metrics`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::metrics::ExpositionFormat;
use crate::state::Api;
use crate::status::Failure;

/// Responds with all metrics, in the format that the client prefers.
pub(crate) async fn answer(State(api): State<Arc<Api>>, headers: HeaderMap) -> Result<Response, Failure> {
    let form = ExpositionFormat::choose(headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()));
    // With many controllers rendering takes long, so it runs on a blocking thread.
    let rendered = tokio::task::spawn_blocking(move || api.metrics.render(&api.host, form)).await;
    let text = rendered.map_err(|error| {
        let message = format!("the metrics could not be rendered: {error}");
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    })?;
    Ok(([(header::CONTENT_TYPE, form.content_type())], text).into_response())
}
