//! Events as resources of the core group, as clients look for them beside a resource. Read only: the host and its guests write them.
//!
//! They are kept in memory, bounded, and are gone after a restart. Selectors on `involvedObject.uid` match all: events are kept by name.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::Json;
use axum::body::Body;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use homeostat_component::Severity;
use homeostat_runtime::KindInfo;
use homeostat_runtime::events::{Event, EventFilter};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::negotiate::{Form, form};
use crate::params::Params;
use crate::resources::Ask;
use crate::router::Api;
use crate::serve::stop;
use crate::status::Failure;
use crate::table::Table;
use crate::watch::line;

pub(crate) const PLURAL: &str = "events";

/// The namespace of what lives outside of namespaces.
const DEFAULT_NAMESPACE: &str = "default";

/// Answers one request about events.
pub(crate) async fn answer(api: &Api, info: &KindInfo, ask: &Ask<'_>) -> Result<Response, Failure> {
    if ask.method != Method::GET {
        return Err(Failure::method_not_allowed("events are only read here: the host and its controllers write them"));
    }
    let params: Params = ask.params()?;
    let wanted = Wanted { namespace: ask.target.namespace.map(str::to_owned), fields: params.fields()? };
    let events = api.host.events();
    let found = |after| {
        let events = events.list(&EventFilter { controller: None, key: None, after }).into_iter();
        events.map(|event| (event.sequence, document(&event))).filter(|(_, document)| wanted.takes(document))
    };
    if let Some(name) = ask.target.name {
        let (_, document) = found(0)
            .find(|(_, document)| document["metadata"]["name"] == name)
            .ok_or_else(|| Failure::not_found(format!("events \"{name}\" not found")))?;
        return Ok(Json(document).into_response());
    }
    if params.is_watch() {
        let after = params.after()?.map_or(0, |revision| revision.0);
        return Ok(watch(api, wanted, after, &params));
    }
    let items: Vec<(u64, Value)> = found(0).collect();
    let revision = items.iter().map(|(sequence, _)| *sequence).max().unwrap_or(0);
    let metadata = json!({ "resourceVersion": revision.to_string() });
    let items = items.iter().map(|(_, document)| document);
    if form(ask.headers) == Form::Table {
        return Ok(Json(Table::of(info, params.included()).document(&metadata, items)).into_response());
    }
    let items: Vec<&Value> = items.collect();
    Ok(Json(json!({ "kind": "EventList", "apiVersion": "v1", "metadata": metadata, "items": items })).into_response())
}

/// Which events are wanted.
struct Wanted {
    namespace: Option<String>,
    fields: Vec<(String, String)>,
}

impl Wanted {
    fn takes(&self, document: &Value) -> bool {
        let in_namespace = |namespace: &String| document["metadata"]["namespace"] == namespace.as_str();
        let is = |(pointer, value): &(String, String)| {
            pointer == "/involvedObject/uid" || document.pointer(pointer).and_then(Value::as_str) == Some(value)
        };
        self.namespace.as_ref().is_none_or(in_namespace) && self.fields.iter().all(is)
    }
}

/// Returns an event as a resource.
fn document(event: &Event) -> Value {
    let Event { sequence, first_seen, last_seen, count, controller, key, severity, reason, message } = event;
    let (namespace, name, object) = match key {
        Some(key) => {
            let namespace = Some(key.namespace()).filter(|namespace| !namespace.is_empty());
            let object = json!({
                "apiVersion": key.kind().api_version(), "kind": key.kind().name, "namespace": namespace, "name": key.name(),
            });
            (namespace.unwrap_or(DEFAULT_NAMESPACE), key.name(), object)
        }
        None => {
            let object =
                json!({ "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "name": controller.as_ref() });
            (DEFAULT_NAMESPACE, controller.as_ref(), object)
        }
    };
    let kind = match severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": {
            "name": format!("{name}.{sequence:x}"), "namespace": namespace,
            "resourceVersion": sequence.to_string(), "creationTimestamp": first_seen,
        },
        "involvedObject": object, "reason": reason, "message": message, "type": kind,
        "source": { "component": controller.as_ref() }, "reportingComponent": controller.as_ref(), "reportingInstance": "",
        "firstTimestamp": first_seen, "lastTimestamp": last_seen, "count": count,
    })
}

fn watch(api: &Api, wanted: Wanted, after: u64, params: &Params) -> Response {
    let end = Instant::now() + params.watch_time();
    let (log, stopped) = (api.host.events(), api.stopped.clone());
    let state = (VecDeque::<Bytes>::new(), after);
    let lines = stream::unfold(state, move |(mut pending, mut after)| {
        let (log, stopped) = (log.clone(), stopped.clone());
        let takes = |document: &Value| wanted.takes(document);
        let fresh = |pending: &mut VecDeque<Bytes>, after: &mut u64| {
            for event in log.list(&EventFilter { controller: None, key: None, after: *after }) {
                *after = (*after).max(event.sequence);
                let document = document(&event);
                if takes(&document) {
                    pending.push_back(line(if event.count == 1 { "ADDED" } else { "MODIFIED" }, &document));
                }
            }
        };
        if pending.is_empty() {
            fresh(&mut pending, &mut after);
        }
        let next = pending.pop_front();
        let log = log.clone();
        async move {
            if let Some(line) = next {
                return Some((Ok::<_, Infallible>(line), (pending, after)));
            }
            tokio::select! {
                () = stop(&stopped) => None,
                () = tokio::time::sleep_until(end) => None,
                () = log.changed(after) => Some((Ok(Bytes::new()), (pending, after))),
            }
        }
    });
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response()
}
