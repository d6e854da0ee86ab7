//! The replies of webhooks, by their paths.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::review_server::Reply;

/// Returns the reply of the webhook at a path to a review.
pub(super) fn reply(path: &str, review: &Value) -> Reply {
    let request = &review["request"];
    let mut answer = json!({
        "apiVersion": review["apiVersion"], "kind": review["kind"],
        "response": { "uid": request["uid"], "allowed": true },
    });
    let response = &mut answer["response"];
    match path {
        "html" => return Reply::Text("<html>".to_owned()),
        "failure" => return Reply::Failure(500),
        "silence" => return Reply::Silence,
        "absent" => drop(answer.as_object_mut().unwrap().remove("response")),
        "stranger" => response["uid"] = "x".into(),
        "other-kind" => answer["kind"] = "Other".into(),
        "other-version" => answer["apiVersion"] = "admission.k8s.io/v1beta1".into(),
        _ => *response = verdict(path, request, response.take()),
    }
    Reply::Review(answer)
}

fn verdict(path: &str, request: &Value, mut response: Value) -> Value {
    let object = &request["object"];
    let patch = match path {
        "warn" => {
            response["warnings"] = json!(["it is dark", "say \"light\""]);
            None
        }
        "deny" => {
            response["allowed"] = false.into();
            response["status"] = json!({ "code": 403, "reason": "Forbidden", "message": "no light" });
            None
        }
        "deny-silently" => {
            response["allowed"] = false.into();
            None
        }
        "deny-with-reason" => {
            response["allowed"] = false.into();
            response["status"] = json!({ "code": 200, "status": "Success", "reason": "Invalid" });
            None
        }
        "deny-with-details" => {
            response["allowed"] = false.into();
            let causes = json!([{ "reason": "FieldValueInvalid", "message": "too bright", "field": "spec.watts" }]);
            let details = json!({ "name": "x", "group": "light.dev", "kind": "Lamp", "causes": causes });
            response["status"] = json!({ "code": 422, "reason": "Invalid", "message": "dim it", "details": details });
            None
        }
        "color" if object["spec"].is_object() && object["spec"]["color"].is_null() => {
            Some(json!([{ "op": "add", "path": "/spec/color", "value": "red" }]))
        }
        "unknown-field" => Some(json!([{ "op": "add", "path": "/spec/shade", "value": "dark" }])),
        "too-bright" => Some(json!([{ "op": "add", "path": "/spec/watts", "value": 1000 }])),
        "rename" => Some(json!([{ "op": "replace", "path": "/metadata/name", "value": "other" }])),
        "status" => Some(json!([{ "op": "add", "path": "/status", "value": { "lit": true } }])),
        "no-change" => Some(json!([{ "op": "add", "path": "/kind", "value": object["kind"] }])),
        "impossible" => Some(json!([{ "op": "remove", "path": "/spec/none" }])),
        "count" => Some(counted(object, "count")),
        "count-too" => Some(counted(object, "count-too")),
        "untyped-patch" => {
            response["patch"] = STANDARD.encode("[]").into();
            return response;
        }
        "typed-nothing" => {
            response["patchType"] = "JSONPatch".into();
            return response;
        }
        "other-type" => {
            response["patchType"] = "MergePatch".into();
            response["patch"] = STANDARD.encode(r#"[{"op":"remove","path":"/spec"}]"#).into();
            return response;
        }
        "empty-patch" => {
            response["patchType"] = "MergePatch".into();
            response["patch"] = STANDARD.encode("[]").into();
            return response;
        }
        "unreadable" => {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = "%".into();
            return response;
        }
        "undecodable" => {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode("{").into();
            return response;
        }
        _ => None,
    };
    if let Some(patch) = patch {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = STANDARD.encode(patch.to_string()).into();
    }
    response
}

/// Returns a patch that counts the calls in a label.
fn counted(object: &Value, label: &str) -> Value {
    let labels = &object["metadata"]["labels"];
    let count = labels[label].as_str().and_then(|count| count.parse::<u32>().ok()).unwrap_or_default() + 1;
    if labels.is_null() {
        return json!([{ "op": "add", "path": "/metadata/labels", "value": { label: count.to_string() } }]);
    }
    json!([{ "op": "add", "path": format!("/metadata/labels/{label}"), "value": count.to_string() }])
}
