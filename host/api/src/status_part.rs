//! Writes of the status of a resource.

use std::collections::BTreeMap;

use axum::http::Method;
use axum::response::Response;
use homeostat_runtime::KindInfo;
use homeostat_store::json_pointer::escape;
use homeostat_store::{Change, Key, Write};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::named_document::{fill_in, precondition};
use crate::request::ResourceRequest;
use crate::resources::{PATCH_TRIES, change, namespace, patch_autoscaler, read, read_apply, write, write_named};
use crate::status::Failure;
use crate::token_request::in_seconds;

/// The conditions of a request for a certificate that only its approval changes.
const VERDICTS: [&str; 2] = ["Approved", "Denied"];

/// Replaces a status.
pub(crate) async fn update(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    if has_approval(request.info) {
        return write_certificate(request, key).await;
    }
    let mut document = request.http.document()?;
    fill_in(&mut document, request, namespace(&key), Some(key.name()))?;
    if request.info.built_in().is_some() {
        return write(request, Write::PatchStatus { key, change: replacement(&document) }).await;
    }
    let precondition = precondition(&document)?;
    let status = document.get("status").cloned().unwrap_or(Value::Null);
    write(request, Write::UpdateStatus { key, status, precondition }).await
}

/// Patches or applies a status. Of the rest of the body, only the metadata of a built-in kind counts.
pub(crate) async fn patch(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    if has_approval(request.info) {
        return write_certificate(request, key).await;
    }
    if request.http.applies() {
        let (document, manager, name) = read_apply(request, &key)?;
        let applied = Write::ApplyStatus { document, manager, force: request.params.forces() };
        return write_named(request, applied, name).await;
    }
    if request.http.has_autoscaler_version() {
        return patch_autoscaler(request, &key).await;
    }
    write(request, Write::PatchStatus { key, change: change(request)? }).await
}

/// Answers a request for the approval of a certificate: for the conditions in the status of the request for it.
pub(crate) async fn approval(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    match *request.http.method {
        Method::GET => read(request, &key).await,
        Method::PUT | Method::PATCH => write_certificate(request, key).await,
        _ => Err(request.http.not_allowed()),
    }
}

fn has_approval(info: &KindInfo) -> bool {
    info.built_in().is_some_and(|known| known.has("approval"))
}

/// Returns the change that replaces the status of a built-in kind. It changes metadata as well, and has the preconditions
/// that the metadata names.
pub(crate) fn replacement(document: &Value) -> Change {
    let empty =
        [("annotations", json!({})), ("finalizers", json!([])), ("labels", json!({})), ("ownerReferences", json!([]))];
    let metadata = &document["metadata"];
    let field =
        |(name, empty): (&str, Value)| (format!("/metadata/{name}"), metadata.get(name).cloned().unwrap_or(empty));
    let is_named = |name: &&str| metadata[*name].as_str().is_some_and(|text| !text.is_empty());
    let preconditions = ["resourceVersion", "uid"].into_iter().filter(is_named).map(|name| (name, Value::Null));
    let status = document.get("status").cloned().unwrap_or_else(|| json!({}));
    // The store names unknown fields, which it drops.
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    let others = document.as_object().into_iter().flatten().filter(|(name, _)| !known.contains(&name.as_str()));
    let others = others.map(|(name, value)| (format!("/{}", escape(name)), value.clone()));
    let fields =
        empty.into_iter().chain(preconditions).map(field).chain([("/status".to_owned(), status)]).chain(others);
    Change::Json(fields.map(|(path, value)| json!({ "op": "add", "path": path, "value": value })).collect())
}

/// Writes the status of a request for a certificate, or the part of it that is its approval. It tries again when others
/// write meanwhile, unless the client names a revision.
///
/// Source: `csrStatusStrategy` and `csrApprovalStrategy` of Kubernetes.
async fn write_certificate(request: &ResourceRequest<'_>, key: Key) -> Result<Response, Failure> {
    if request.http.applies() {
        let reason = "the status of a request for a certificate is not applied here: update or patch it";
        return Err(Failure::unsupported_media_type(reason));
    }
    let is_approval = request.http.target.subresource == Some("approval");
    let mut tries = PATCH_TRIES;
    loop {
        let current = request.http.api.host.store().get_live(&key).await?;
        let mut document = if *request.http.method == Method::PUT {
            let mut document = request.http.document()?;
            fill_in(&mut document, request, namespace(&key), Some(key.name()))?;
            document
        } else {
            change(request)?.apply(current.document())?
        };
        let old = current.status();
        let written = &document["status"];
        // The store refuses a status of another type, and conditions of another type.
        let has_conditions = written.get("conditions").is_none_or(|list| list.is_array() || list.is_null());
        if (written.is_object() || written.is_null()) && has_conditions {
            let mut status = if is_approval { approved(old, written) } else { issued(old, written) };
            set_times(&mut status, old);
            document["status"] = status;
        }
        let current_revision = current.revision().to_string();
        let named = document["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let is_ours = named.is_empty() || named == current_revision;
        if is_ours {
            document["metadata"]["resourceVersion"] = current_revision.into();
        }
        tries -= 1;
        match write(request, Write::PatchStatus { key: key.clone(), change: replacement(&document) }).await {
            Err(failure) if failure.is_conflict() && is_ours && tries > 0 => {}
            answer => return answer,
        }
    }
}

/// Sets the times of conditions that have none. A condition that stays as it was keeps the time at which it began.
fn set_times(status: &mut Value, old: &Value) {
    let now = in_seconds(Timestamp::now());
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let is_missing = |condition: &Value, field: &str| text(condition, field).is_empty();
    let before = old["conditions"].as_array().into_iter().flatten();
    let before = before.filter(|condition| !is_missing(condition, "lastTransitionTime"));
    let began = before.rev().map(|condition| {
        ((text(condition, "type"), text(condition, "status")), condition["lastTransitionTime"].clone())
    });
    // Of several conditions, the first counts.
    let began: BTreeMap<(String, String), Value> = began.collect();
    for condition in status["conditions"].as_array_mut().into_iter().flatten().filter(|condition| condition.is_object())
    {
        let began = began.get(&(text(condition, "type"), text(condition, "status"))).unwrap_or(&now).clone();
        for (field, time) in [("lastUpdateTime", now.clone()), ("lastTransitionTime", began)] {
            if is_missing(condition, field) {
                condition[field] = time;
            }
        }
    }
}

/// Returns the status after an approval, which changes the conditions alone.
fn approved(old: &Value, written: &Value) -> Value {
    let mut status = Some(old).filter(|old| old.is_object()).cloned().unwrap_or_else(|| json!({}));
    status["conditions"] = written.get("conditions").cloned().unwrap_or_else(|| json!([]));
    status
}

/// Returns the status after any other write, which changes no verdict.
fn issued(old: &Value, written: &Value) -> Value {
    let conditions = |status: &Value, are_verdicts: bool| {
        let all = status["conditions"].as_array().into_iter().flatten();
        let is_meant = |condition: &&Value| {
            condition["type"].as_str().is_some_and(|name| VERDICTS.contains(&name)) == are_verdicts
        };
        all.filter(is_meant).cloned().collect::<Vec<Value>>()
    };
    let mut status = Some(written).filter(|written| written.is_object()).cloned().unwrap_or_else(|| json!({}));
    status["conditions"] = [conditions(old, true), conditions(written, false)].concat().into();
    status
}
