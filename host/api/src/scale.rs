//! The `scale` subresource: the desired and the actual number of replicas.

use axum::http::{Method, StatusCode};
use axum::response::Response;
use homeostat_builtin::json_types;
use homeostat_runtime::{ScalePaths, ScaleSource};
use homeostat_store::json_pointer::unescape;
use homeostat_store::schema::Reason;
use homeostat_store::{Change, Key, Precondition, Resource, Revision, Selector, Write};
use serde_json::{Value, json};

use crate::document_response::respond;
use crate::named_document::set_name;
use crate::request::ResourceRequest;
use crate::status::Failure;
use crate::write_refusals::patch_text;
use crate::write_warnings;

/// How often a patch of a scale is tried when other clients write the resource meanwhile.
const PATCH_TRIES: u32 = 5;

/// Answers one request about the scale of a resource.
pub(crate) async fn answer(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    let ResourceRequest { http, info, .. } = request;
    let source = info.scale.as_ref().ok_or_else(Failure::unknown_path)?;
    if let (ScaleSource::Fields(paths), true) = (source, *http.method == Method::PATCH && http.applies()) {
        return apply(request, key, paths).await;
    }
    let mut tries = PATCH_TRIES;
    loop {
        let (desired, patched) = match *http.method {
            Method::GET => return Ok(respond(StatusCode::OK, read(request, &key, source).await?)),
            Method::PUT => (scale_of(request, &key)?, None),
            Method::PATCH => {
                let change = http.change()?;
                let (desired, patched) = if let Some(desired) = desired_by(&change) {
                    (desired.clone(), None)
                } else {
                    let current = read(request, &key, source).await?;
                    (change.apply(&current)?, revision_of(&current)?)
                };
                if let Some(fault) = type_fault(&desired) {
                    return Err(Failure::bad_patch(&patch_text(request), &fault));
                }
                (desired, patched)
            }
            _ => return Err(http.not_allowed()),
        };
        // A patch was computed from this revision, so the write requires it.
        let revision = revision_of(&desired)?.or(patched);
        let precondition = Precondition { uid: text_at(&desired, "/metadata/uid").map(str::to_owned), revision };
        tries -= 1;
        match write(request, &key, source, replicas(&desired, key.name())?, precondition).await {
            Ok(scale) => return Ok(respond(StatusCode::OK, scale)),
            Err(failure) => {
                let is_outdated = patched.is_some() && revision == patched;
                if !(failure.is_conflict() && is_outdated && tries > 0) {
                    return Err(failure);
                }
            }
        }
    }
}

/// Applies a scale. The manager owns the desired number of replicas of the resource, and nothing else.
async fn apply(request: &ResourceRequest<'_>, key: Key, paths: &ScalePaths) -> Result<Response, Failure> {
    let scale = scale_of(request, &key)?;
    let manager = request.params.apply_manager()?;
    let replicas = replicas(&scale, key.name())?;
    // An apply creates no resource here.
    let current = request.http.api.host.store().get_live(&key).await?;
    let stated = |name: &str| text_at(&scale, &format!("/metadata/{name}"));
    let mut document = nested(&paths.spec, replicas.into());
    document["apiVersion"] = current.document()["apiVersion"].clone();
    document["kind"] = key.kind().name.clone().into();
    document["metadata"] = json!({
        "name": key.name(), "namespace": key.namespace(), "uid": stated("uid"), "resourceVersion": stated("resourceVersion"),
    });
    let write = request.write(Write::Apply { document, manager, force: request.params.forces() })?;
    let written = request.http.api.host.write_unreviewed(write).await?;
    request.http.warnings.add(write_warnings::of(request, None, &written));
    Ok(respond(StatusCode::OK, self::document(&written.resource, paths)))
}

/// Returns the body, which is a scale of the resource in the path.
fn scale_of(request: &ResourceRequest<'_>, key: &Key) -> Result<Value, Failure> {
    let mut scale = request.http.document()?;
    let text = |name: &str| scale[name].as_str().unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (_, kind) if !matches!(kind, "" | "Scale") => {
            let reason = format!("converting ({kind}) to (Scale): unknown conversion");
            return Err(Failure::bad_request(format!("{kind} cannot be handled as a Scale: {reason}")));
        }
        ("" | "autoscaling/v1", _) => {}
        (version, _) => {
            let reason = format!("no kind \"Scale\" is registered for version {version:?}");
            return Err(Failure::bad_request(format!(
                "Scale in version {version:?} cannot be handled as a Scale: {reason}"
            )));
        }
    }
    if text_at(&scale, "/metadata/namespace").is_some_and(|namespace| namespace != key.namespace()) {
        return Err(Failure::other_namespace());
    }
    if !scale["metadata"].is_object() {
        scale["metadata"] = json!({});
    }
    set_name(&mut scale, request.http.method, key.name())?;
    match type_fault(&scale) {
        Some(fault) if !request.http.applies() => {
            let words = "Scale in version \"v1\" cannot be handled as a Scale: ";
            Err(Failure::bad_request(format!("{words}{fault}")))
        }
        _ => Ok(scale),
    }
}

/// Returns why the desired number of replicas has a wrong type, in the words of Kubernetes.
fn type_fault(scale: &Value) -> Option<String> {
    let replicas = scale.pointer("/spec/replicas").filter(|replicas| !replicas.is_null())?;
    let found = match replicas {
        Value::Number(number) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => return None,
        Value::Number(number) => format!("number {number}"),
        other => json_types::type_name(other).to_owned(),
    };
    Some(format!("json: cannot unmarshal {found} into Go struct field ScaleSpec.spec.replicas of type int32"))
}

/// Returns a patch that is a whole scale by itself, as that of `kubectl scale`: it sets the number.
fn desired_by(change: &Change) -> Option<&Value> {
    match change {
        Change::Merge(patch) | Change::Strategic(patch) => {
            patch.pointer("/spec/replicas").filter(|replicas| replicas.is_number()).map(|_| patch)
        }
        Change::Json(_) => None,
    }
}

/// Reads the scale of a resource.
async fn read(request: &ResourceRequest<'_>, key: &Key, source: &ScaleSource) -> Result<Value, Failure> {
    let store = request.http.api.host.store();
    match source {
        ScaleSource::Fields(paths) => Ok(document(&*store.get_live(key).await?, paths)),
        ScaleSource::Server => Ok(store.scale(key).await?),
    }
}

/// Sets the desired number of replicas, and returns the scale.
async fn write(
    request: &ResourceRequest<'_>,
    key: &Key,
    source: &ScaleSource,
    replicas: u64,
    precondition: Precondition,
) -> Result<Value, Failure> {
    let host = &request.http.api.host;
    match source {
        ScaleSource::Fields(paths) => {
            let change = Change::Merge(nested(&paths.spec, replicas.into()));
            let write = request.write(Write::Patch { key: key.clone(), change, precondition })?;
            let written = host.write_unreviewed(write).await?;
            request.http.warnings.add(write_warnings::of(request, None, &written));
            Ok(document(&written.resource, paths))
        }
        ScaleSource::Server => {
            let scale = request.write_options()?.scale(key.clone(), replicas, precondition);
            Ok(host.store().update_scale(scale).await?)
        }
    }
}

/// Returns a text of a scale that is not empty.
fn text_at<'a>(scale: &'a Value, pointer: &str) -> Option<&'a str> {
    scale.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn revision_of(scale: &Value) -> Result<Option<Revision>, Failure> {
    Ok(text_at(scale, "/metadata/resourceVersion").map(str::parse).transpose()?)
}

/// Returns the desired number of replicas: 0 if the scale, of the resource with this name, does not state it.
fn replicas(scale: &Value, name: &str) -> Result<u64, Failure> {
    let stated = scale.pointer("/spec/replicas").filter(|replicas| !replicas.is_null());
    let number = |replicas: &Value| {
        replicas.as_u64().ok_or_else(|| {
            let detail = format!("{replicas}: must be greater than or equal to 0");
            Failure::invalid_of(("autoscaling", "Scale"), name, Reason::Invalid, "spec.replicas", &detail)
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
        Some(selector) => Selector::of_labels(selector).unwrap_or_default().labels_text(),
        None => String::new(),
    };
    let mut status = json!({ "replicas": number(&paths.status) });
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    // Kubernetes leaves this number out of a scale when it is 0.
    let desired = number(&paths.spec);
    let spec = if desired == 0 { json!({}) } else { json!({ "replicas": desired }) };
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": meta("name"), "namespace": meta("namespace"), "uid": meta("uid"),
            "resourceVersion": meta("resourceVersion"), "creationTimestamp": meta("creationTimestamp"),
        },
        "spec": spec,
        "status": status,
    })
}

/// Returns a document with only this value, at a JSON pointer.
fn nested(pointer: &str, value: Value) -> Value {
    pointer.rsplit('/').filter(|word| !word.is_empty()).fold(value, |inner, word| json!({ unescape(word): inner }))
}
