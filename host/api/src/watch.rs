//! Follows resources: one JSON document per line, until the client leaves, the time is over or the server stops.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use homeostat_runtime::KindInfo;
use homeostat_store::{Event, EventType, Resource, Revision, Scope, Selector, Watch};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::params::Params;
use crate::router::Api;
use crate::serve::stop;
use crate::status::Failure;

/// The longest watch, in seconds. A client asks again then.
const WATCH_S_MAX: u64 = 24 * 3600;

/// Answers a watch: from the revision asked for, or from everything that is there now.
pub(crate) async fn answer(
    api: &Api,
    info: &KindInfo,
    namespace: Option<&str>,
    params: &Params,
) -> Result<Response, Failure> {
    let selector = params.selector(namespace)?;
    let mut pending = VecDeque::new();
    let after = match params.after()? {
        Some(revision) if !params.wants_initial_events() => revision,
        _ => initial(api, info, &selector, params, &mut pending).await?,
    };
    let watch = api.host.store().watch(Scope::Kind(info.kind.clone()), after).await?;
    let time = Duration::from_secs(params.timeout_seconds.unwrap_or(WATCH_S_MAX).min(WATCH_S_MAX));
    let following = Following {
        watch,
        selector,
        pending,
        stopped: api.stopped.clone(),
        end: Instant::now() + time,
        is_over: false,
    };
    let lines = stream::unfold(following, async |mut following| {
        Some((Ok::<_, Infallible>(following.next().await?), following))
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response())
}

/// Puts everything that is there now in front of the watch; returns the revision at which that was.
async fn initial(
    api: &Api,
    info: &KindInfo,
    selector: &Selector,
    params: &Params,
    pending: &mut VecDeque<Bytes>,
) -> Result<Revision, Failure> {
    let query = homeostat_store::Query { selector: selector.clone(), ..homeostat_store::Query::all(info.kind.clone()) };
    let page = api.host.store().list(&query).await?;
    pending.extend(page.items.iter().map(|resource| line("ADDED", resource.document())));
    if params.wants_initial_events() {
        let metadata = json!({
            "resourceVersion": page.revision.to_string(),
            "annotations": { "k8s.io/initial-events-end": "true" },
        });
        let mark = json!({ "apiVersion": info.kind.api_version(), "kind": info.kind.name, "metadata": metadata });
        pending.push_back(line("BOOKMARK", &mark));
    }
    Ok(page.revision)
}

/// One watch of one client.
struct Following {
    watch: Watch,
    selector: Selector,
    pending: VecDeque<Bytes>,
    stopped: tokio::sync::watch::Receiver<bool>,
    end: Instant,
    /// An error was told, and nothing comes after it.
    is_over: bool,
}

impl Following {
    /// Returns the next line; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(line) = self.pending.pop_front() {
            return Some(line);
        }
        while !self.is_over {
            let event = tokio::select! {
                () = stop(&self.stopped) => return None,
                () = tokio::time::sleep_until(self.end) => return None,
                event = self.watch.next() => event,
            };
            match event {
                Ok(event) => {
                    if let Some((word, resource)) = seen(&event, &self.selector) {
                        return Some(told(word, resource, event.revision));
                    }
                }
                Err(error) => {
                    self.is_over = true;
                    return Some(line("ERROR", &Failure::from(error).document()));
                }
            }
        }
        None
    }
}

/// Returns what an event is to somebody who sees only what the selector matches: a resource that leaves it is deleted for them.
fn seen<'e>(event: &'e Event, selector: &Selector) -> Option<(&'static str, &'e Resource)> {
    let before = event.previous.as_deref().filter(|resource| selector.matches(resource));
    let after = match event.kind {
        EventType::Deleted => None,
        EventType::Added | EventType::Modified => Some(&*event.resource).filter(|resource| selector.matches(resource)),
    };
    match (before, after) {
        (None, None)
            if event.kind == EventType::Deleted && event.previous.is_none() && selector.matches(&event.resource) =>
        {
            Some(("DELETED", &event.resource))
        }
        (None, None) => None,
        (None, Some(after)) => Some(("ADDED", after)),
        (Some(_), Some(after)) => Some(("MODIFIED", after)),
        (Some(_), None) => Some(("DELETED", &event.resource)),
    }
}

/// Returns the line of an event. Its resource has the revision of the event, so that a client can go on from there.
fn told(word: &str, resource: &Resource, revision: Revision) -> Bytes {
    if resource.revision() == revision {
        return line(word, resource.document());
    }
    let mut document = resource.document().clone();
    document["metadata"]["resourceVersion"] = revision.to_string().into();
    line(word, &document)
}

fn line(word: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{word}\",\"object\":{object}}}\n").into()
}

#[cfg(test)]
mod tests;
