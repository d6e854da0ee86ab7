//! How controllers and their revisions are presented: live status is merged into the stored one, and header
//! values are redacted.

use std::borrow::Cow;

use axum::Json;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use homeostat_runtime::manifest::HIDDEN;
use homeostat_runtime::{Host, KindInfo, manifest};
use homeostat_store::{Kind, Resource};
use serde_json::{Value, json};

use crate::negotiate::{ResponseFormat, in_version, only_metadata, response_format};
use crate::params::Params;
use crate::request::RequestContext;
use crate::table::Table;

/// The annotation in which `kubectl apply` keeps the whole document.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How the resources of one kind are presented.
pub(crate) enum Presentation {
    /// Unchanged.
    Plain,
    /// As controllers of this host: with live status, and header values redacted.
    Controllers(Host),
    /// As controller revisions: header values redacted.
    Revisions,
}

impl Presentation {
    /// Returns how resources of a kind are presented.
    pub(crate) fn of(info: &KindInfo, host: &Host) -> Self {
        match name(&info.kind) {
            Some("Controller") => Self::Controllers(host.clone()),
            Some("ControllerRevision") => Self::Revisions,
            _ => Self::Plain,
        }
    }

    /// Returns whether the same stored document may look different a moment later.
    pub(crate) fn is_volatile(&self) -> bool {
        matches!(self, Self::Controllers(_))
    }

    /// Returns the stored JSON text of a resource, if it is presented unchanged in the requested version of
    /// its kind.
    pub(crate) fn as_stored<'r>(&self, resource: &'r Resource, spoken: &Kind) -> Option<&'r str> {
        let is_as_stored = matches!(self, Self::Plain) && resource.key().kind() == spoken;
        is_as_stored.then(|| resource.text())
    }

    /// Returns a document as it is presented.
    pub(crate) fn render<'d>(&self, document: Cow<'d, Value>) -> Cow<'d, Value> {
        match self {
            Self::Plain => document,
            Self::Revisions => Cow::Owned(redact(document.into_owned())),
            Self::Controllers(host) => {
                let mut document = redact(document.into_owned());
                overlay_live_status(&mut document, host);
                Cow::Owned(document)
            }
        }
    }
}

/// Returns the name of a kind that needs redaction.
fn name(kind: &Kind) -> Option<&str> {
    let is_such = kind.group == manifest::GROUP && matches!(kind.name.as_str(), "Controller" | "ControllerRevision");
    is_such.then_some(kind.name.as_str())
}

/// Returns a resource of any kind with header values redacted.
pub(crate) fn redacted<'d>(document: &'d Value, kind: &Kind) -> Cow<'d, Value> {
    if name(kind).is_some() { Cow::Owned(redact(document.clone())) } else { Cow::Borrowed(document) }
}

/// Redacts header values, which are usually credentials. Header names and names of secrets stay.
fn redact(mut document: Value) -> Value {
    for spec in ["/spec/grants/http", "/spec/spec/grants/http"] {
        let grants = document.pointer_mut(spec).and_then(Value::as_array_mut);
        for grant in grants.into_iter().flatten() {
            let headers = grant.get_mut("headers").and_then(Value::as_object_mut);
            for (_, source) in headers.into_iter().flatten() {
                if let Some(value) = source.get_mut("value") {
                    *value = HIDDEN.into();
                }
            }
        }
    }
    let annotation = document.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(LAST_APPLIED));
    if let Some(annotation) = annotation {
        // An annotation that does not parse is redacted as a whole.
        let applied = annotation.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        *annotation = applied.map_or_else(|| HIDDEN.into(), |applied| redact(applied).to_string().into());
    }
    document
}

/// Merges the live status of a controller into the stored one.
fn overlay_live_status(document: &mut Value, host: &Host) {
    let Some(name) = document.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned) else { return };
    let (running, compiling) = (host.status(&name), host.compiling(&name));
    if running.is_none() && compiling.is_none() {
        return;
    }
    if !document["status"].is_object() {
        document["status"] = json!({});
    }
    if let Some(compiling) = compiling {
        document["status"]["compilingForMs"] = u64::try_from(compiling.as_millis()).unwrap_or(u64::MAX).into();
    }
    let Some(Value::Object(live)) = running.map(|status| json!(status)) else {
        document["status"]["state"] = "compiling".into();
        return;
    };
    if document.pointer("/status/rollout/phase").is_some_and(|phase| phase == "shadow")
        && let Some(report) = host.shadow_report(&name).ok().flatten()
    {
        document["status"]["rollout"]["shadow"] = json!(report.brief());
    }
    for (name, value) in live {
        // The stored `lastSwap` also has the reason, so the live one does not replace it.
        if name != "lastSwap" || document["status"]["lastSwap"].is_null() {
            document["status"][name] = value;
        }
    }
}

/// Responds with one resource, in the requested format.
pub(crate) fn resource_response(
    info: &KindInfo,
    resource: &Resource,
    ask: &RequestContext<'_>,
    params: &Params,
) -> Response {
    let dress = Presentation::of(info, ask.host);
    let document = || dress.render(in_version(resource.document(), &info.kind));
    match response_format(ask.headers) {
        ResponseFormat::Table => {
            let metadata = json!({ "resourceVersion": resource.revision().to_string() });
            Json(Table::of(info, params.included()).document(&metadata, [&*document()])).into_response()
        }
        ResponseFormat::Metadata => Json(only_metadata(&document())).into_response(),
        ResponseFormat::Document => match dress.as_stored(resource, &info.kind) {
            Some(text) => ([(header::CONTENT_TYPE, "application/json")], text.to_owned()).into_response(),
            None => Json(document()).into_response(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_are_redacted_everywhere_in_a_document() {
        let spec = json!({
            "grants": {
                "resources": [{ "kinds": ["Pod"], "verbs": ["get"] }],
                "http": [{
                    "urls": ["https://a.example/*"],
                    "headers": { "authorization": { "value": "Bearer hush" }, "x-token": { "secret": "token" } },
                }],
            },
        });
        let applied = json!({ "spec": spec }).to_string();
        let metadata = json!({ "name": "a", "annotations": { LAST_APPLIED: applied, "note": "stays" } });
        for document in [json!({ "metadata": metadata, "spec": spec }), json!({ "spec": { "spec": spec } })] {
            let told = redact(document);
            assert!(!told.to_string().contains("hush"), "{told}");
            assert!(told.to_string().contains("\"x-token\":{\"secret\":\"token\"}"), "{told}");
            assert!(told.to_string().contains("\"kinds\":[\"Pod\"]"), "{told}");
        }
        assert_eq!(
            redact(json!({ "metadata": { "annotations": { LAST_APPLIED: "{hush" } } }))["metadata"]["annotations"]
                [LAST_APPLIED],
            HIDDEN
        );
    }
}
