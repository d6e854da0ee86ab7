//! Controllers, as resources that are read, and their queues.
//!
//! A controller is changed where it comes from, in its manifest; what can be done here are the things that a person does to a
//! running one: suspend, resume, retry a key, forget what was seen of its needs.

use axum::Json;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use homeostat_component::{Grants, HeaderSource, Needs};
use homeostat_runtime::{ControllerState, ControllerStatus, Counts, QueueEntry};
use homeostat_store::{Key, Kind};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::resources::Ask;
use crate::router::Api;
use crate::status::Failure;

pub(crate) const GROUP: &str = "homeostat.dev";
pub(crate) const PLURAL: &str = "controllers";
const API_VERSION: &str = "homeostat.dev/v1alpha1";

/// Keys of one queue in one answer, unless the request says otherwise, and at most.
const ENTRIES: usize = 500;
const ENTRIES_MAX: usize = 10_000;
/// Keys of one queue that are looked at for those that are wanted. The queue stands still meanwhile, for some tens of milliseconds.
const LOOKED_AT_MAX: usize = 100_000;
/// What the state of a key can be.
const STATES: [&str; 5] = ["waiting", "ready", "running", "dirty", "parked"];

/// Answers one request about controllers.
pub(crate) async fn answer(api: &Api, ask: &Ask<'_>) -> Result<Response, Failure> {
    if ask.target.namespace.is_some() || ask.target.version != "v1alpha1" {
        return Err(Failure::not_found("controllers are homeostat.dev/v1alpha1 and do not live in namespaces"));
    }
    match (ask.method, ask.target.name, ask.target.part) {
        (&Method::GET, None, None) => Ok(list(api)),
        (&Method::GET, Some(name), None) => Ok(Json(document(api, &find(api, name)?)).into_response()),
        (&Method::GET, Some(name), Some("queue")) => queue(api, name, &ask.params()?),
        (&Method::GET, Some(name), Some("needs")) => Ok(needs(name, &*api.host.needs(name)?)),
        (&Method::POST, Some(name), Some("needs/forget")) => {
            api.host.needs(name)?.forget();
            Ok(done())
        }
        (&Method::POST, Some(name), Some("queue/retry")) => retry(api, name, &ask.body),
        (&Method::POST, Some(name), Some("suspend")) => suspend(api, name, true).await,
        (&Method::POST, Some(name), Some("resume")) => suspend(api, name, false).await,
        (_, _, None) => Err(Failure::method_not_allowed(
            "controllers are only read here: they come from the folder that `homeostat run` or `homeostat dev` was given",
        )),
        (_, _, Some(part)) => Err(Failure::not_found(format!("there is no {} of {part} of a controller", ask.method))),
    }
}

fn find(api: &Api, name: &str) -> Result<ControllerStatus, Failure> {
    let found = api.host.controllers().into_iter().find(|status| status.name == name);
    found.ok_or_else(|| Failure::not_found(format!("controllers.homeostat.dev \"{name}\" not found")))
}

fn list(api: &Api) -> Response {
    let items: Vec<Value> = api.host.controllers().iter().map(|status| document(api, status)).collect();
    let metadata = json!({ "resourceVersion": "" });
    Json(json!({ "apiVersion": API_VERSION, "kind": "ControllerList", "metadata": metadata, "items": items }))
        .into_response()
}

/// Returns a controller as a document: what it was given, and how it is. Values of headers that the host adds are hidden.
fn document(api: &Api, status: &ControllerStatus) -> Value {
    let spec = api.host.definition(&status.name).map(|definition| {
        json!({
            "component": { "digest": definition.component.digest().to_string() },
            "config": definition.config, "grants": masked(definition.grants), "limits": definition.limits,
            "concurrency": status.concurrency, "suspend": definition.suspend,
        })
    });
    let mut facts = json!(status);
    facts["conditions"] = json!([condition(status)]);
    json!({ "apiVersion": API_VERSION, "kind": "Controller", "metadata": { "name": status.name }, "spec": spec, "status": facts })
}

/// Hides the values of headers: they are credentials more often than not. Names, and names of secrets, stay.
fn masked(mut grants: Grants) -> Grants {
    let sources = grants.http.iter_mut().flat_map(|grant| grant.headers.values_mut());
    for source in sources {
        if let HeaderSource::Value(text) = source {
            *text = "***".to_owned();
        }
    }
    grants
}

fn condition(status: &ControllerStatus) -> Value {
    let (ready, reason) = match status.state {
        ControllerState::Ready => ("True", "Ready"),
        ControllerState::Starting => ("False", "Starting"),
        ControllerState::Syncing => ("False", "Syncing"),
        ControllerState::Suspended => ("False", "Suspended"),
        ControllerState::Stopping => ("False", "Stopping"),
    };
    json!({ "type": "Ready", "status": ready, "reason": reason, "message": status.message.clone().unwrap_or_default() })
}

/// Which keys of a queue are wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct QueueParams {
    limit: Option<usize>,
    /// Only the key with this namespace and name.
    namespace: Option<String>,
    name: Option<String>,
    /// Only keys in these states, with commas between them. Dirty keys are running ones too.
    state: Option<String>,
}

impl QueueParams {
    fn check(&self) -> Result<(), Failure> {
        let unknown = self.states().find(|state| !STATES.contains(state));
        unknown.map_or(Ok(()), |state| {
            Err(Failure::bad_request(format!("state: `{state}` is none of {}", STATES.join(", "))))
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

fn queue(api: &Api, name: &str, params: &QueueParams) -> Result<Response, Failure> {
    params.check()?;
    let limit = params.limit.unwrap_or(ENTRIES).clamp(1, ENTRIES_MAX);
    let mut items = api.host.queue(name, if params.is_everything() { limit } else { LOOKED_AT_MAX })?;
    let counts = find(api, name)?.counts;
    let Counts { waiting, ready, running, parked } = counts;
    // Between the two looks, keys come and go.
    let unseen = (waiting + ready + running + parked).saturating_sub(items.len());
    items.retain(|entry| params.wants(entry));
    let found = items.len();
    items.truncate(limit);
    let document = json!({
        "apiVersion": API_VERSION, "kind": "Queue", "metadata": { "name": name }, "counts": counts,
        "cut": cut(params, found - items.len(), unseen), "items": items,
    });
    Ok(Json(document).into_response())
}

/// Says what is not in an answer: keys that are wanted, and keys that nobody looked at, which may be. Of a whole queue, all are wanted.
fn cut(params: &QueueParams, wanted: usize, unseen: usize) -> Value {
    if params.is_everything() {
        json!({ "wanted": wanted + unseen, "notLookedAt": 0 })
    } else {
        json!({ "wanted": wanted, "notLookedAt": unseen })
    }
}

/// A key as a request names it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyBody {
    api_version: String,
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
}

fn retry(api: &Api, name: &str, body: &[u8]) -> Result<Response, Failure> {
    let body: KeyBody = serde_json::from_slice(body)
        .map_err(|error| Failure::bad_request(format!("the body is not a key: {error}")))?;
    let KeyBody { api_version, kind, namespace, name: key } = body;
    api.host.retry(name, &Key::new(Kind::parse(&api_version, &kind)?, &namespace, &key))?;
    Ok(done())
}

/// Answers with what a controller was seen to ask for.
fn needs(name: &str, needs: &Needs) -> Response {
    let metadata = json!({ "name": name });
    Json(json!({ "apiVersion": API_VERSION, "kind": "Needs", "metadata": metadata, "seen": needs.seen() }))
        .into_response()
}

async fn suspend(api: &Api, name: &str, yes: bool) -> Result<Response, Failure> {
    api.host.suspend(name, yes)?;
    Ok(Json(document(api, &find(api, name)?)).into_response())
}

fn done() -> Response {
    Json(json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" })).into_response()
}

#[cfg(test)]
mod tests;
