//! The stores of the host, with their states and the rules that lead to them: `GET /homeostat/v1/stores`. A person
//! accepts the content of a store that was replaced: `POST /homeostat/v1/stores/NAME/accept`. A person moves a kind to
//! another store: `copy` and `prune` instead of `accept`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use homeostat_runtime::Stores;
use homeostat_store::moves::{MoveProgress, MoveStep};
use homeostat_store::routes::HOME;
use homeostat_store::{Availability, CacheState, CacheStatus, Kind, Obstacle, RequestCounts, StoreStatus};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::body;
use crate::client::Client;
use crate::state::Api;
use crate::status::{Failure, success};

/// How long a request waits for a step of a move.
const STEP_WAIT: Duration = Duration::from_secs(10);

/// Responds with the stores, the host's own first. Asks no server.
pub(crate) async fn answer(State(api): State<Arc<Api>>) -> Json<Value> {
    let stores = api.host.stores();
    let items: Vec<Value> = stores.whole().status().iter().map(|status| item(status, stores)).collect();
    Json(json!({ "items": items }))
}

/// The body of an acceptance.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptBody {
    /// The id of the content that is accepted, which `replacedBy` has.
    content: String,
}

/// Accepts the content that a store has now.
pub(crate) async fn accept(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let (body, _held) = body::read(body, &Client::of(&parts.extensions), &api.limits.bodies).await?;
    let AcceptBody { content } = serde_json::from_slice(&body)
        .map_err(|error| Failure::bad_request(format!("the body does not name the content to accept: {error}")))?;
    api.host.stores().accept_replacement(&name, &content).await?;
    Ok(success(None))
}

/// The body of a step of a move.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct MoveBody {
    /// The kind, whose version does not count.
    api_version: String,
    kind: String,
    #[serde(default)]
    dry_run: bool,
}

/// Copies the resources of a kind to a store, and holds the writes of the kind until the host ends.
pub(crate) async fn copy(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    step(&api, MoveStep::Copy(name.into()), request).await
}

/// Removes the resources of a kind from a store in which it does not live.
pub(crate) async fn prune(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    step(&api, MoveStep::Prune(name.into()), request).await
}

/// Starts a step of a move or joins it, and responds after [`STEP_WAIT`] at the latest. A client repeats the request
/// until the step is done.
async fn step(api: &Api, step: MoveStep, request: Request) -> Result<Json<Value>, Failure> {
    let (parts, body) = request.into_parts();
    let (body, _held) = body::read(body, &Client::of(&parts.extensions), &api.limits.bodies).await?;
    let MoveBody { api_version, kind, dry_run } = serde_json::from_slice(&body)
        .map_err(|error| Failure::bad_request(format!("the body does not name the kind to move: {error}")))?;
    let kind = Kind::parse(&api_version, &kind)?;
    if api.host.kinds().of(&kind).is_none() {
        return Err(Failure::not_found(format!("the host knows no kind {kind}")));
    }
    let mut progress = api.host.stores().start_move(&kind, step, dry_run)?;
    // An error here means that the step has panicked: the client asks again.
    drop(tokio::time::timeout(STEP_WAIT, progress.wait_for(|progress| progress.end.is_some())).await);
    let MoveProgress { resources, written, dependents, others, end } = progress.borrow().clone();
    let is_done = end.transpose()?.is_some();
    let counts = json!({ "done": is_done, "resources": resources, "written": written, "dependents": dependents, "others": others });
    Ok(Json(counts))
}

fn item(status: &StoreStatus, stores: &Stores) -> Value {
    let StoreStatus {
        name,
        storage,
        id,
        availability,
        revision,
        orders_all_kinds: _,
        collects_garbage,
        caches,
        cache_bytes_max: _,
        requests,
        notes,
    } = status;
    let name = if name.is_empty() { HOME } else { name };
    let mut item = Map::new();
    let mut set = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            item.insert(field.to_owned(), value);
        }
    };
    set("name", Some(name.into()));
    set("storage", Some((*storage).into()));
    set("state", Some(state(availability).into()));
    set("reason", status.health().err().map(|error| error.to_string().into()));
    set("since", since(availability).map(|since| since.to_string().into()));
    set("id", id.as_deref().map(Value::from));
    set("replacedBy", replacement(availability).map(Value::from));
    set("revision", revision.map(|revision| revision.to_string().into()));
    set("collectsGarbage", Some((*collects_garbage).into()));
    set("kinds", Some(patterns(name, stores).into()));
    set("caches", (!caches.is_empty()).then(|| caches.iter().map(cache).collect()));
    let RequestCounts { sent, retried, skipped } = requests;
    set("requests", (*sent > 0).then(|| json!({ "sent": sent, "retried": retried, "skipped": skipped })));
    set("notes", (!notes.is_empty()).then(|| json!(notes)));
    item.into()
}

/// Returns the cache of one kind.
fn cache(cache: &CacheStatus) -> Value {
    let CacheStatus { kind, view, state, users, resources, unreadable, bytes, revision, stale_lists, reason, obstacle } =
        cache;
    let (state, since) = match state {
        CacheState::Listing => ("Listing", None),
        CacheState::Synced => ("Synced", None),
        CacheState::Behind { since } => ("Behind", Timestamp::try_from(*since).ok()),
        CacheState::Full => ("Full", None),
    };
    json!({
        "kind": kind.to_string(), "view": view, "state": state, "since": since, "users": users, "resources": resources,
        "unreadable": unreadable, "bytes": bytes, "revision": revision.map(|revision| revision.to_string()), "staleLists": stale_lists,
        "reason": reason, "obstacle": obstacle.map(Obstacle::as_str),
    })
}

/// Returns the name of a state.
fn state(availability: &Availability) -> &'static str {
    match availability {
        Availability::Starting { .. } => "Starting",
        Availability::Ready => "Ready",
        Availability::Unhealthy { .. } => "Unhealthy",
        Availability::Away { .. } => "Away",
        Availability::Replaced { .. } => "Replaced",
        Availability::Closed => "Closed",
    }
}

/// Returns the id of the content by which the content of the store was replaced.
fn replacement(availability: &Availability) -> Option<&str> {
    match availability {
        Availability::Replaced { now, .. } => Some(now),
        _ => None,
    }
}

/// Returns when the store answered last, if it is away.
fn since(availability: &Availability) -> Option<Timestamp> {
    match availability {
        Availability::Away { since, .. } => Timestamp::try_from(*since).ok(),
        _ => None,
    }
}

/// Returns the patterns of the rules that lead to a store, in their order. The kinds without a rule are at home.
fn patterns(name: &str, stores: &Stores) -> Vec<String> {
    let rules = match stores {
        Stores::One(_) => &[],
        Stores::Routed(routed) => routed.routes().rules(),
    };
    rules.iter().filter(|rule| *rule.store == *name).map(|rule| rule.pattern.to_string()).collect()
}

#[cfg(test)]
mod tests;
