//! Webhooks: `POST /webhooks/CONTROLLER/FEEDER` hands a request to the feeder of a manifest.
//!
//! The senders have no token of this server. Each request proves with a secret of the webhook that its sender may add
//! keys, and may do nothing else. The body must be read before its signature can be checked, so webhooks have limiters of
//! their own: senders without the secret cannot take the permits of the API.
//!
//! Deliberately absent: other methods, answers with data, and any difference between a webhook that does not exist and a
//! wrong signature. A host that cannot know yet, or holds no lease of the controller, asks the sender to repeat the
//! request later.

use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use homeostat_runtime::feeders::webhook::{Delivery, WebhookError, WebhookRequest};
use serde_json::json;

use crate::body::{self, BodyLimits};
use crate::client::Client;
use crate::health;
use crate::limits;
use crate::state::Api;
use crate::status::Failure;

/// The prefix of the paths of webhooks.
const WEBHOOKS: &str = "/webhooks/";
/// Seconds after which a sender may repeat a request that was refused for now.
const RETRY_AFTER_S: u32 = 1;

/// Returns whether a path is that of a webhook.
pub(crate) fn is_webhook(path: &str) -> bool {
    path.starts_with(WEBHOOKS)
}

/// Answers a request to a webhook, within the limits of webhooks.
pub(crate) async fn answer(api: &Api, request: Request) -> Response {
    let client = Client::of(request.extensions());
    match api.limits.webhooks.acquire(&client, 1).await {
        Ok(permit) => {
            let answer = limits::within(api.limits.answer_max, request, async |request| {
                deliver(api, &client, request).await.into_response()
            });
            limits::hold_until_sent(answer.await, permit)
        }
        Err(failure) => failure.into_response(),
    }
}

async fn deliver(api: &Api, client: &Client, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        return Err(Failure::method_not_allowed("a webhook takes POST alone"));
    }
    let names = parts.uri.path().strip_prefix(WEBHOOKS).and_then(|names| names.split_once('/'));
    let (controller, feeder) = names.ok_or_else(unauthenticated)?;
    let endpoint = api.host.webhook(controller, feeder).map_err(|error| match error {
        // The host may not have read its controllers yet.
        WebhookError::Unauthenticated if health::why_unknown(api).is_some() => refusal(WebhookError::Unavailable),
        error => refusal(error),
    })?;
    let all = &api.limits.webhook_bodies;
    let limits = BodyLimits { bytes_max: endpoint.body_bytes_max().min(all.bytes_max), ..all.clone() };
    let (body, _held) = body::read(body, client, &limits).await?;
    let header = |name: &str| single(&parts.headers, name);
    let delivered = endpoint.deliver(&WebhookRequest { header: &header, body: &body }).await.map_err(refusal)?;
    let Delivery { keys, is_duplicate } = delivered;
    Ok(axum::Json(json!({ "keys": keys, "isDuplicate": is_duplicate })).into_response())
}

/// Returns the value of a header that is there once, and is text.
fn single(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok().map(str::to_owned)
}

fn refusal(error: WebhookError) -> Failure {
    let message = error.to_string();
    match error {
        WebhookError::Unauthenticated => unauthenticated(),
        WebhookError::BadRequest(_) => Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message),
        WebhookError::Full | WebhookError::NotHolder | WebhookError::Unavailable => {
            Failure::unavailable_for(RETRY_AFTER_S, message)
        }
    }
}

/// Refuses a request to a webhook that does not exist, or without a valid signature or token.
fn unauthenticated() -> Failure {
    let message = "there is no such webhook, or the request has no valid signature or token";
    Failure::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
}
