//! The reviews that webhooks answer, and the checks of their answers. Pure.
//!
//! Source: `pkg/admission/plugin/webhook/request/admissionreview.go` and `errors/statuserror.go` of
//! `k8s.io/apiserver`, with their messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_store::Kind;
use serde_json::{Map, Value, json};

use super::reviewed_write::ReviewedWrite;

const KIND: &str = "AdmissionReview";
const GROUP: &str = "admission.k8s.io";

/// The verdict of a webhook.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    /// The operations of a JSON patch; empty if the webhook changes nothing.
    pub(super) patch: Vec<Value>,
    /// The `Status` of a refusal; `None` for an admission.
    pub(super) refusal: Option<Value>,
    /// Warnings for the client.
    pub(super) warnings: Vec<String>,
}

/// Returns the `request` of a review. `kind` is in the version in which the webhook is called, and so are the objects.
pub(super) fn request(uid: &str, write: &ReviewedWrite, kind: &Kind, object: Value, old_object: Value) -> Value {
    let of_kind = |kind: &Kind| json!({ "group": kind.group, "version": kind.version, "kind": kind.name });
    let of_resource = |kind: &Kind| json!({ "group": kind.group, "version": kind.version, "resource": write.plural });
    let mut request = json!({
        "uid": uid,
        "kind": of_kind(kind),
        "resource": of_resource(kind),
        "requestKind": of_kind(&write.kind),
        "requestResource": of_resource(&write.kind),
        "operation": write.operation,
        "userInfo": *write.user,
        "object": object,
        "oldObject": old_object,
        "dryRun": write.dry_run,
        "options": write.options,
    });
    let texts = [
        ("name", write.name.as_str()),
        ("namespace", write.namespace.as_str()),
        ("subResource", write.part_name()),
        ("requestSubResource", write.part_name()),
    ];
    for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        request[field] = text.into();
    }
    request
}

/// Returns the review of a request.
pub(super) fn review(version: &str, request: &Value) -> Vec<u8> {
    let review = json!({ "apiVersion": format!("{GROUP}/{version}"), "kind": KIND, "request": request });
    serde_json::to_vec(&review).expect("documents have texts as keys, and memory takes them")
}

/// Returns the verdict of an answer.
///
/// # Errors
/// The fault of the answer, as the end of a sentence about the webhook.
pub(super) fn verdict(answer: &[u8], uid: &str, version: &str, is_mutating: bool) -> Result<Verdict, String> {
    let invalid = |reason: String| format!("received invalid webhook response: {reason}");
    let not_json = |error| format!("failed to call webhook: the answer is not JSON: {error}");
    let answer: Value = serde_json::from_slice(answer).map_err(not_json)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (of, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
    if of != format!("{GROUP}/{version}") || kind != KIND {
        return Err(format!("failed to call webhook: expected {GROUP}/{version}, Kind={KIND}, got {of}, Kind={kind}"));
    }
    let response = &answer["response"];
    if !response.is_object() {
        return Err(invalid("webhook response was absent".to_owned()));
    }
    // Of `v1beta1`, Kubernetes does not check who answers what.
    if version == "v1" {
        let found = text(&response["uid"]);
        if found != uid {
            return Err(invalid(format!("expected response.uid={uid:?}, got {found:?}")));
        }
    }
    let patch = patch(response, version, is_mutating)?;
    let refusal = (response["allowed"] != true).then(|| response["status"].clone());
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(str::to_owned).collect();
    Ok(Verdict { patch, refusal, warnings })
}

/// Returns the operations of the patch in a response, whose bytes are in base64.
fn patch(response: &Value, version: &str, is_mutating: bool) -> Result<Vec<Value>, String> {
    let invalid = |reason: &str| Err(format!("received invalid webhook response: {reason}"));
    let patch = STANDARD.decode(response["patch"].as_str().unwrap_or_default());
    let patch = patch.map_err(|error| format!("failed to call webhook: response.patch: {error}"))?;
    let patch_type = response["patchType"].as_str();
    if version == "v1" {
        match (is_mutating, patch.is_empty(), patch_type) {
            (true, false, None) => return invalid("webhook returned response.patch but not response.patchType"),
            (true, true, Some(_)) => return invalid("webhook returned response.patchType but not response.patch"),
            (true, _, Some("")) => return invalid("webhook returned invalid response.patchType of \"\""),
            (false, false, _) => return invalid("validating webhook may not return response.patch"),
            (false, true, Some(_)) => return invalid("validating webhook may not return response.patchType"),
            _ => {}
        }
    }
    if patch.is_empty() || !is_mutating {
        return Ok(Vec::new());
    }
    let undecodable = |reason: String| format!("received undecodable patch in webhook response: {reason}");
    let patch: Vec<Value> = serde_json::from_slice(&patch).map_err(|error| undecodable(error.to_string()))?;
    let other = patch_type.filter(|patch_type| version == "v1" && *patch_type != "JSONPatch" && !patch.is_empty());
    other.map_or(Ok(patch), |other| Err(format!("unsupported patch type {other:?}")))
}

/// Returns the `Status` that a client gets for a refusal.
pub(super) fn denied(webhook: &str, status: &Value) -> Value {
    let mut status: Map<String, Value> = status.as_object().cloned().unwrap_or_default();
    let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (message, reason) = (text("message"), text("reason"));
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (message.is_empty(), reason.is_empty()) {
        (false, _) => format!("{denied}: {message}"),
        (true, false) => format!("{denied}: {reason}"),
        (true, true) => format!("{denied} without explanation"),
    };
    let code = status.get("code").and_then(Value::as_u64).filter(|code| (400..600).contains(code)).unwrap_or(400);
    for (field, value) in
        [("kind", json!("Status")), ("apiVersion", json!("v1")), ("metadata", json!({})), ("status", json!("Failure"))]
    {
        status.insert(field.to_owned(), value);
    }
    status.insert("message".to_owned(), message.into());
    status.insert("code".to_owned(), code.into());
    Value::Object(status)
}

/// Returns the `Status` of a failed call.
pub(super) fn internal(reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
        "message": format!("Internal error occurred: {reason}"), "details": { "causes": [{ "message": reason }] },
    })
}

/// Returns the `Status` of a dry run that a webhook does not support.
pub(super) fn without_dry_run(webhook: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "BadRequest", "code": 400,
        "message": format!("admission webhook {webhook:?} does not support dry run"),
    })
}

/// Returns the `Status` of a write that violates a policy.
pub(super) fn violated(write: &ReviewedWrite, message: &str, reason: &str) -> Value {
    let code = match reason {
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    let mut status = forbidden(write, name_of(write), message);
    status["reason"] = reason.into();
    status["code"] = code.into();
    status["details"]["causes"] = json!([{ "message": message }]);
    status
}

/// Returns the `Status` of a write that policies cannot mutate. As in Kubernetes, its code does not follow the reason.
pub(super) fn unmutated(write: &ReviewedWrite, messages: &[String], reason: &str) -> Value {
    let mut status = forbidden(write, name_of(write), "");
    status["message"] = messages.first().map(String::as_str).unwrap_or_default().into();
    status["reason"] = reason.into();
    status["details"]["causes"] = messages.iter().map(|message| json!({ "message": message })).collect();
    status
}

/// Returns the name of a written resource, as refusals tell it.
fn name_of(write: &ReviewedWrite) -> &str {
    let object = write.object.as_ref().map_or(&Value::Null, |object| &object["metadata"]);
    let of_object = ["name", "generateName"].iter().find_map(|field| object[*field].as_str());
    Some(write.name.as_str()).filter(|name| !name.is_empty()).or(of_object).unwrap_or("Unknown")
}

/// Returns the `Status` of a write whose match conditions cannot be evaluated.
pub(super) fn unmatched(write: &ReviewedWrite, reason: &str) -> Value {
    forbidden(write, &write.name, reason)
}

fn forbidden(write: &ReviewedWrite, name: &str, reason: &str) -> Value {
    let group = if write.kind.group.is_empty() { String::new() } else { format!(".{}", write.kind.group) };
    let what = format!("{}{group}", write.plural);
    let mut details = json!({ "name": name, "kind": write.plural });
    if !write.kind.group.is_empty() {
        details["group"] = write.kind.group.as_str().into();
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": format!("{what} {name:?} is forbidden: {reason}"), "details": details,
    })
}
