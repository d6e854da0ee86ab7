//! The `scale` part of a resource: how many of something are wanted, and how many there are.

use axum::Json;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use homeostat_runtime::{KindInfo, ScalePaths};
use homeostat_store::{Change, Key, Precondition, Resource, Write};
use serde_json::{Map, Value, json};

use crate::params::Params;
use crate::resources::{self, Ask};
use crate::router::Api;
use crate::status::Failure;

/// Answers one request about the scale of a resource.
pub(crate) async fn answer(
    api: &Api,
    info: &KindInfo,
    key: Key,
    ask: &Ask<'_>,
    params: &Params,
) -> Result<Response, Failure> {
    let paths = info.scale.as_ref().ok_or_else(|| Failure::not_found(format!("{} have no scale", info.plural)))?;
    let resource = api.host.store().get(&key).await?;
    let scale = document(&resource, paths);
    let wanted = match *ask.method {
        Method::GET => return Ok(Json(scale).into_response()),
        Method::PUT => ask.document()?,
        Method::PATCH => resources::patched(&scale, ask)?,
        _ => return Err(resources::not_allowed(ask)),
    };
    let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(0);
    let text = |pointer| wanted.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let revision =
        text("/metadata/resourceVersion").filter(|_| ask.method == Method::PUT).map(str::parse).transpose()?;
    let precondition = Precondition { uid: text("/metadata/uid").map(str::to_owned), revision };
    let change = Change::Merge(nested(&paths.spec, replicas.into()));
    let request = ask.request(Write::Patch { key, change, precondition }, params)?;
    let written = api.host.write(request).await?;
    Ok(Json(document(&written.resource, paths)).into_response())
}

/// Returns the scale of a resource.
fn document(resource: &Resource, paths: &ScalePaths) -> Value {
    let document = resource.document();
    let number = |pointer: &str| document.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let meta = |name: &str| document.pointer(&format!("/metadata/{name}"));
    let selector = paths.selector.as_deref().and_then(|pointer| document.pointer(pointer));
    let selector = match selector {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(selector)) => match_labels(selector),
        _ => String::new(),
    };
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": meta("name"), "namespace": meta("namespace"), "uid": meta("uid"),
            "resourceVersion": meta("resourceVersion"), "creationTimestamp": meta("creationTimestamp"),
        },
        "spec": { "replicas": number(&paths.spec) },
        "status": { "replicas": number(&paths.status), "selector": selector },
    })
}

fn match_labels(selector: &Map<String, Value>) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let terms = labels.filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)));
    terms.collect::<Vec<_>>().join(",")
}

/// Returns a document that has this value at a pointer, and nothing else.
fn nested(pointer: &str, value: Value) -> Value {
    pointer.rsplit('/').filter(|name| !name.is_empty()).fold(value, |inner, name| json!({ name: inner }))
}
