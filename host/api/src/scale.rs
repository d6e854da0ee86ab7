//! The `scale` subresource: the desired and the actual number of replicas.

use axum::Json;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use homeostat_runtime::ScalePaths;
use homeostat_store::{Change, Key, Precondition, Resource, Write};
use serde_json::{Map, Value, json};

use crate::request::ResourceRequest;
use crate::status::Failure;

/// How often a patch of a scale is tried when other clients write the resource meanwhile.
const PATCH_TRIES: u32 = 5;

/// Answers one request about the scale of a resource.
pub(crate) async fn answer(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    let ResourceRequest { http, info, .. } = request;
    let paths = info.scale.as_ref().ok_or_else(|| Failure::not_found(format!("{} have no scale", info.plural)))?;
    let mut tries = PATCH_TRIES;
    loop {
        let resource = http.api.host.store().get_live(&key).await?;
        let scale = document(&resource, paths);
        let desired = match *http.method {
            Method::GET => return Ok(Json(scale).into_response()),
            Method::PUT => http.document()?,
            Method::PATCH => http.change()?.apply(&scale)?,
            _ => return Err(http.not_allowed()),
        };
        let text = |pointer| desired.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let required = text("/metadata/resourceVersion").map(str::parse).transpose()?;
        // A patch was computed from this revision, so the write requires it.
        let revision = if http.method == Method::PATCH { required.or(Some(resource.revision())) } else { required };
        let precondition = Precondition { uid: text("/metadata/uid").map(str::to_owned), revision };
        let change = Change::Merge(nested(&paths.spec, replicas(&desired)?.into()));
        let write = request.write(Write::Patch { key: key.clone(), change, precondition })?;
        tries -= 1;
        match http.api.host.write(write).await.map_err(Failure::from) {
            Ok(written) => return Ok(Json(document(&written.resource, paths)).into_response()),
            Err(failure) => {
                let is_outdated = http.method == Method::PATCH && revision == Some(resource.revision());
                if !(failure.is_conflict() && is_outdated && tries > 0) {
                    return Err(failure);
                }
            }
        }
    }
}

/// Returns the desired number of replicas: 0 if the scale does not state it.
fn replicas(scale: &Value) -> Result<u64, Failure> {
    let stated = scale.pointer("/spec/replicas").filter(|replicas| !replicas.is_null());
    let number = |replicas: &Value| {
        replicas.as_u64().ok_or_else(|| {
            homeostat_store::Error::Invalid {
                path: "spec.replicas".to_owned(),
                reason: "must be a whole number, 0 or more".to_owned(),
            }
            .into()
        })
    };
    stated.map_or(Ok(0), number)
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

/// Returns a document with only this value, at a JSON pointer.
fn nested(pointer: &str, value: Value) -> Value {
    let name = |word: &str| word.replace("~1", "/").replace("~0", "~");
    pointer.rsplit('/').filter(|word| !word.is_empty()).fold(value, |inner, word| json!({ name(word): inner }))
}
