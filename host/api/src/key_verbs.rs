//! Verbs on one key of a controller's queue: `POST …/controllers/NAME/queue/VERB`, with the key as the body.
//!
//! The response is the controller's queue, reduced to this key after the verb; empty if the key is no longer
//! queued. If another host holds the lease of the key, that host answers.

use std::time::Duration;

use axum::Json;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use homeostat_runtime::{Delay, KeyVerb, Priority, manifest};
use homeostat_store::{Key, Kind};
use serde::Deserialize;
use serde_json::json;

use crate::forwarder::Question;
use crate::request::RequestContext;
use crate::status::Failure;

/// The subresources of a controller that are verbs on keys.
const VERBS: [&str; 5] = ["queue/enqueue", "queue/retry", "queue/cancel", "queue/postpone", "queue/expedite"];

/// The maximum delay, the same as for guests.
const AFTER_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// A key, and the arguments of the verb.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyBody {
    api_version: String,
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
    /// The delay in milliseconds: for `enqueue`, where the default is 0, and for `postpone`.
    after_ms: Option<u64>,
    /// The priority band: for `enqueue`, where the default is `normal`.
    priority: Option<String>,
    /// Whether no event makes the key due earlier: for `enqueue` with a delay.
    #[serde(default)]
    hold: bool,
}

/// Returns whether a subresource of a controller is a verb on a key.
pub(crate) fn is_verb(part: &str) -> bool {
    VERBS.contains(&part)
}

/// Applies a verb to a key, where its lease is held.
pub(crate) async fn answer(ask: &RequestContext<'_>, controller: &str, part: &str) -> Result<Response, Failure> {
    let api = ask.api;
    let body: KeyBody = serde_json::from_slice(&ask.body)
        .map_err(|error| Failure::bad_request(format!("the body is not a key: {error}")))?;
    let verb = body.verb(part)?;
    let key = Key::new(Kind::parse(&body.api_version, &body.kind)?, &body.namespace, &body.name);
    if !Question::is_forwarded(ask.headers)
        && let Some(holder) = api.host.other_holder_of(controller, &key)?
    {
        let question = Question::new(Method::POST, ask.uri.path().to_owned(), ask.body.clone(), ask.headers);
        return api.forwarder.ask_document(&holder, &question).await;
    }
    let entry = api.host.act_on(controller, &key, verb)?;
    let metadata = json!({ "name": controller });
    let items: Vec<_> = entry.into_iter().collect();
    let document =
        json!({ "apiVersion": manifest::API_VERSION, "kind": "Queue", "metadata": metadata, "items": items });
    Ok(Json(document).into_response())
}

impl KeyBody {
    fn verb(&self, part: &str) -> Result<KeyVerb, Failure> {
        let after = self.after()?;
        let priority = self.priority.as_deref().map(priority).transpose()?;
        match (part, after, priority) {
            ("queue/enqueue", None, _) if self.hold => Err(Failure::bad_request("afterMs: `hold` needs a delay")),
            ("queue/enqueue", after, priority) => Ok(KeyVerb::Enqueue {
                delay: Delay { after: after.unwrap_or_default(), hold: self.hold },
                priority: priority.unwrap_or_default(),
            }),
            _ if self.hold => Err(Failure::bad_request("hold is only for `enqueue`")),
            ("queue/postpone", Some(delay), None) => Ok(KeyVerb::Postpone(delay)),
            ("queue/postpone", None, None) => Err(Failure::bad_request("afterMs: `postpone` needs a delay")),
            ("queue/retry", None, None) => Ok(KeyVerb::Retry),
            ("queue/cancel", None, None) => Ok(KeyVerb::Cancel),
            ("queue/expedite", None, None) => Ok(KeyVerb::Expedite),
            _ => Err(Failure::bad_request(
                "afterMs is only for `enqueue` and `postpone`, and priority only for `enqueue`",
            )),
        }
    }

    fn after(&self) -> Result<Option<Duration>, Failure> {
        let after = self.after_ms.map(Duration::from_millis);
        if after.is_some_and(|after| after > AFTER_MAX) {
            return Err(Failure::bad_request("afterMs: at most 365 days"));
        }
        Ok(after)
    }
}

fn priority(word: &str) -> Result<Priority, Failure> {
    let named = Priority::ALL.into_iter().find(|priority| priority.as_str() == word);
    named.ok_or_else(|| {
        let words = Priority::ALL.map(Priority::as_str).join(", ");
        Failure::bad_request(format!("priority: {word:?} is not one of {words}"))
    })
}

#[cfg(test)]
mod tests;
