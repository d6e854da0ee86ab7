//! Webhooks: `POST /webhooks/CONTROLLER/FEEDER` hands a request to the feeder of a manifest.
//!
//! The senders have no token of this server. Each request proves with a secret of the webhook that its sender may add
//! keys, and may do nothing else. The body must be read before its signature can be checked, so webhooks have limiters of
//! their own: senders without the secret cannot take the permits of the API.
//!
//! Deliberately absent: other methods, answers with data, and any difference between a webhook that does not exist and a
//! wrong signature. A host that holds no lease of a key forwards the request to the host that does. A host that cannot
//! know yet, or reaches no such host, asks the sender to repeat the request later.

use std::collections::BTreeSet;

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use homeostat_runtime::feeder_definition::WebhookAuth;
use homeostat_runtime::feeders::webhook::{Delivery, WebhookEndpoint, WebhookError, WebhookRequest};
use serde_json::{Value, json};

use crate::body::{self, BodyLimits};
use crate::client::Client;
use crate::forwarder::{Question, UnansweredHost};
use crate::health;
use crate::limits;
use crate::state::Api;
use crate::status::Failure;

/// The prefix of the paths of webhooks.
const WEBHOOKS: &str = "/webhooks/";
/// Seconds after which a sender may repeat a request that was refused for now.
const RETRY_AFTER_S: u32 = 1;
/// The field of the answer to a forwarded request with the positions of the keys that the host has taken.
const TAKEN: &str = "taken";

/// Returns whether a path is that of a webhook.
pub(crate) fn is_webhook(path: &str) -> bool {
    path.starts_with(WEBHOOKS)
}

/// Answers a request to a webhook, within the limits of webhooks. `is_own` is false for a request that another host
/// forwarded to a host which is not this one.
pub(crate) async fn answer(api: &Api, request: Request, is_own: bool) -> Response {
    if !is_own {
        return refusal(WebhookError::NotHolder).into_response();
    }
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
    let endpoint = api.host.webhook(controller, feeder).ok_or_else(|| match health::why_unknown(api) {
        // The host may not have read its controllers yet.
        Some(_) => refusal(WebhookError::Unavailable),
        None => unauthenticated(),
    })?;
    let all = &api.limits.webhook_bodies;
    let limits = BodyLimits { bytes_max: endpoint.body_bytes_max().min(all.bytes_max), ..all.clone() };
    let (body, _held) = body::read(body, client, &limits).await?;
    let header = |name: &str| single(&parts.headers, name);
    let is_forwarded = Question::is_forwarded(&parts.headers);
    let asked = WebhookRequest { header: &header, body: &body, is_forwarded };
    let delivery = endpoint.deliver(&asked).await.map_err(refusal)?;
    if !delivery.elsewhere.is_empty() {
        forward(api, &endpoint, &parts, body, &delivery).await.map_err(refusal)?;
        endpoint.remember(&delivery);
    }
    let Delivery { keys, is_duplicate, taken, .. } = delivery;
    let mut answer = json!({ "keys": keys, "isDuplicate": is_duplicate });
    if is_forwarded {
        answer[TAKEN] = taken.into();
    }
    Ok(axum::Json(answer).into_response())
}

/// Forwards a request to the other hosts that hold leases of its keys. Each of them checks it again.
///
/// # Errors
/// [`WebhookError::NotTaken`] unless all keys are taken now.
async fn forward(
    api: &Api,
    endpoint: &WebhookEndpoint,
    parts: &Parts,
    body: Bytes,
    delivery: &Delivery,
) -> Result<(), WebhookError> {
    let question = Question::new(Method::POST, parts.uri.path().to_owned(), body, &parts.headers);
    let name = |header: &str| HeaderName::from_bytes(header.as_bytes()).ok();
    let question = match (endpoint.auth(), name(endpoint.auth().header())) {
        (WebhookAuth::Hmac { .. }, Some(name)) => question.with(name, &parts.headers),
        (WebhookAuth::Token { .. }, Some(name)) => question.with_secret(name, &parts.headers),
        (_, None) => question,
    };
    let question = match endpoint.dedupe_header().and_then(name) {
        Some(name) => question.with(name, &parts.headers),
        None => question,
    };
    let mut answers = api.forwarder.ask_all(&delivery.elsewhere, &question).await;
    let documents: Vec<Value> = answers.documents();
    if let Some(UnansweredHost { host, reason, .. }) = answers.unanswered.first() {
        return Err(WebhookError::NotTaken(format!("host {host:?}: {reason}")));
    }
    let mut taken: BTreeSet<u64> = delivery.taken.iter().map(|at| *at as u64).collect();
    let of_others = documents.iter().filter_map(|document| document[TAKEN].as_array()).flatten();
    taken.extend(of_others.filter_map(Value::as_u64));
    match delivery.keys {
        Some(keys) if !(0..keys as u64).all(|at| taken.contains(&at)) => {
            Err(WebhookError::NotTaken("the lease has moved meanwhile".to_owned()))
        }
        _ => Ok(()),
    }
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
        WebhookError::Full
        | WebhookError::InboxFull
        | WebhookError::NotHolder
        | WebhookError::NotTaken(_)
        | WebhookError::Unavailable => Failure::unavailable_for(RETRY_AFTER_S, message),
    }
}

/// Refuses a request to a webhook that does not exist, or without a valid signature or token.
fn unauthenticated() -> Failure {
    let message = "there is no such webhook, or the request has no valid signature or token";
    Failure::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
}
