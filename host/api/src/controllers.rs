//! Requests that only controllers have: the queue and its keys, suspend, resume, undo, observed needs, and
//! the shadow report. Other hosts answer what this one does not know, because they hold leases of the controller.

use axum::Json;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use homeostat_component::NeedsSnapshot;
use homeostat_runtime::{ControllerStatus, Definition, QueueCounts, QueueEntry, manifest};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::forwarder::{Question, UnansweredHost};
use crate::key_verbs;
use crate::merged_documents;
use crate::request::RequestContext;
use crate::resources;
use crate::state::Api;
use crate::status::{self, Failure, success};

/// Keys of one queue in one response, by default and at most.
const ENTRIES: usize = 500;
const ENTRIES_MAX: usize = 10_000;
/// Keys of one queue that are searched for matches. The queue is locked meanwhile, for some tens of
/// milliseconds.
const LOOKED_AT_MAX: usize = 100_000;
/// The states of a key.
const STATES: [&str; 5] = ["waiting", "ready", "running", "dirty", "parked"];

/// Answers one request about controllers.
pub(crate) async fn answer(ask: &RequestContext<'_>) -> Result<Response, Failure> {
    let api = ask.api;
    match (ask.method, ask.target.name, ask.target.subresource) {
        (&Method::GET, Some(name), Some("queue")) => queue(ask, name).await,
        (&Method::GET, Some(name), Some("shadow")) => shadow(ask, name).await,
        (&Method::GET, Some(name), Some("needs")) => needs(ask, name).await,
        (&Method::POST, Some(name), Some("needs/forget")) => forget_needs(ask, name).await,
        (&Method::POST, Some(name), Some(part)) if key_verbs::is_verb(part) => key_verbs::answer(ask, name, part).await,
        (&Method::POST, Some(name), Some("suspend")) => suspend(ask, name, true).await,
        (&Method::POST, Some(name), Some("resume")) => suspend(ask, name, false).await,
        (&Method::POST, Some(name), Some("undo")) => undo(api, name, &ask.body).await,
        _ => resources::answer(ask).await,
    }
}

fn find(api: &Api, name: &str) -> Result<ControllerStatus, Failure> {
    let found = api.host.status(name);
    found.ok_or_else(|| Failure::not_found(format!("controllers.homeostat.dev \"{name}\" not found")))
}

/// Filters the keys of a queue.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct QueueParams {
    limit: Option<usize>,
    /// Only the key with this namespace and name.
    namespace: Option<String>,
    name: Option<String>,
    /// Only keys in these states, separated by commas. `running` includes dirty keys.
    state: Option<String>,
}

impl QueueParams {
    fn check(&self) -> Result<(), Failure> {
        let unknown = self.states().find(|state| !STATES.contains(state));
        unknown.map_or(Ok(()), |state| {
            Err(Failure::bad_request(format!("state: `{state}` is not one of {}", STATES.join(", "))))
        })
    }

    fn states(&self) -> impl Iterator<Item = &str> {
        self.state.iter().flat_map(|states| states.split(',')).map(str::trim)
    }

    fn is_everything(&self) -> bool {
        self.namespace.is_none() && self.name.is_none() && self.state.is_none()
    }

    fn wants(&self, entry: &QueueEntry) -> bool {
        let is = |state: &str| state == entry.state || (state == "running" && entry.state == "dirty");
        let in_state = self.state.is_none() || self.states().any(is);
        in_state
            && self.name.as_deref().is_none_or(|name| name == entry.key.name())
            && self.namespace.as_deref().is_none_or(|namespace| namespace == entry.key.namespace())
    }
}

/// Responds with the keys of a controller's queue, on all hosts that hold its leases.
async fn queue(ask: &RequestContext<'_>, name: &str) -> Result<Response, Failure> {
    let (api, params) = (ask.api, ask.params::<QueueParams>()?);
    params.check()?;
    let limit = params.limit.unwrap_or(ENTRIES).clamp(1, ENTRIES_MAX);
    let mut document = own_queue(api, name, &params, limit)?;
    let mut answers = api.ask_holders([name], ask.method, ask.uri, ask.headers).await;
    merged_documents::add_queues(&mut document, answers.documents(), limit);
    merged_documents::name_unanswered(&mut document, &answers.unanswered);
    Ok(Json(document).into_response())
}

/// Returns the keys of a controller's queue on this host.
fn own_queue(api: &Api, name: &str, params: &QueueParams, limit: usize) -> Result<Value, Failure> {
    let mut items = api.host.queue(name, if params.is_everything() { limit } else { LOOKED_AT_MAX })?;
    let counts = find(api, name)?.counts;
    let QueueCounts { waiting, ready, running, parked } = counts;
    // Keys come and go between the two reads.
    let unseen = (waiting + ready + running + parked).saturating_sub(items.len());
    items.retain(|entry| params.wants(entry));
    let found = items.len();
    items.truncate(limit);
    Ok(json!({
        "apiVersion": manifest::API_VERSION, "kind": "Queue", "metadata": { "name": name }, "counts": counts,
        "cut": cut(params, found - items.len(), unseen), "items": items,
    }))
}

/// Counts the keys that the response leaves out: matching keys, and keys that were not searched. Without a
/// filter every key matches.
fn cut(params: &QueueParams, matching: usize, unseen: usize) -> Value {
    if params.is_everything() {
        json!({ "wanted": matching + unseen, "notLookedAt": 0 })
    } else {
        json!({ "wanted": matching, "notLookedAt": unseen })
    }
}

/// The needs of a controller that another host has observed.
#[derive(Deserialize)]
struct HolderNeeds {
    seen: NeedsSnapshot,
}

/// Responds with the effects that a controller was observed to need, on all hosts that hold its leases, the kinds it
/// watches, and the imports of its component.
async fn needs(ask: &RequestContext<'_>, name: &str) -> Result<Response, Failure> {
    let host = &ask.api.host;
    let mut seen = host.needs(name)?.snapshot();
    let (imports, watched) = host
        .definition(name)
        .map(|Definition { component, grants, .. }| {
            (component.imports().to_vec(), grants.watch_needs(component.describe()))
        })
        .unwrap_or_default();
    let mut answers = ask.api.ask_holders([name], ask.method, ask.uri, ask.headers).await;
    for HolderNeeds { seen: more } in answers.documents() {
        seen.add(more);
    }
    let mut document = json!({
        "apiVersion": manifest::API_VERSION, "kind": "Needs", "metadata": { "name": name }, "imports": imports,
        "watched": watched, "seen": seen,
    });
    merged_documents::name_unanswered(&mut document, &answers.unanswered);
    Ok(Json(document).into_response())
}

/// Forgets the observed effects of a controller, on all hosts that hold its leases.
async fn forget_needs(ask: &RequestContext<'_>, name: &str) -> Result<Response, Failure> {
    ask.api.host.needs(name)?.clear();
    let answers = ask.api.ask_holders([name], ask.method, ask.uri, ask.headers).await;
    Ok(success_but(&answers.unanswered))
}

/// Responds with the full report of the current or last shadow version. The host that leads the rollouts of the
/// controller has it.
async fn shadow(ask: &RequestContext<'_>, name: &str) -> Result<Response, Failure> {
    let api = ask.api;
    if !Question::is_forwarded(ask.headers)
        && let Some(leader) = api.host.other_leader(name)?
    {
        let question = Question::new(Method::GET, ask.uri.path().to_owned(), Bytes::new(), ask.headers);
        return api.forwarder.ask_document(&leader, &question).await;
    }
    let report = api.host.shadow_report(name)?;
    let report = report.ok_or_else(|| Failure::not_found(format!("controller {name:?} has had no shadow version")))?;
    let metadata = json!({ "name": name });
    Ok(Json(json!({ "apiVersion": manifest::API_VERSION, "kind": "Shadow", "metadata": metadata, "report": report }))
        .into_response())
}

/// Suspends or resumes a controller. One with leases is suspended on all hosts that share stores with this one: each of
/// them may hold the leases next.
async fn suspend(ask: &RequestContext<'_>, name: &str, yes: bool) -> Result<Response, Failure> {
    let host = &ask.api.host;
    let (has_leases, is_forwarded) = (host.has_leases(name), Question::is_forwarded(ask.headers));
    if is_forwarded && !has_leases && host.status(name).is_some() {
        return Err(Failure::not_found(format!("controller {name:?} of host {:?} is another one", host.name())));
    }
    host.suspend_for_good(name, yes).await?;
    if !has_leases {
        return Ok(success(None));
    }
    let mut answers = ask.api.ask_all_hosts(ask.method, ask.uri, ask.headers).await;
    // Such a host does not have the controller.
    answers.unanswered.retain(|unanswered| unanswered.status != Some(StatusCode::NOT_FOUND));
    Ok(success_but(&answers.unanswered))
}

/// Responds that a change was made on all hosts but those that have not answered.
fn success_but(unanswered: &[UnansweredHost]) -> Response {
    let mut document = status::success_document();
    merged_documents::name_unanswered(&mut document, unanswered);
    Json(document).into_response()
}

/// The body of an undo.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct UndoBody {
    /// The revision to roll back to; by default, the one before the current.
    revision: Option<u64>,
}

async fn undo(api: &Api, name: &str, body: &[u8]) -> Result<Response, Failure> {
    let body: UndoBody = serde_json::from_slice(body)
        .map_err(|error| Failure::bad_request(format!("the body is not an undo request: {error}")))?;
    let revision = api.host.undo(name, body.revision).await?;
    Ok(success(Some(json!({ "revision": revision }))))
}

#[cfg(test)]
mod tests;
