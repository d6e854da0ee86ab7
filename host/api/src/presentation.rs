//! How documents are presented: in the requested version, in full or only their metadata. Controllers have live
//! status merged into the stored one. Header values of controllers and their revisions are redacted.

use std::borrow::Cow;
use std::sync::Arc;

use homeostat_builtin::autoscaler;
use homeostat_runtime::manifest::HIDDEN;
use homeostat_runtime::{Host, KindInfo, manifest};
use homeostat_store::Kind;
use homeostat_store::schema::Schema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::event_versions;

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
    /// As events of the group `events.k8s.io`.
    Events,
    /// As autoscalers in the version that is not stored.
    Autoscalers,
    /// With the defaults of their definition, which may have got them after a resource was written.
    Defaulted(Arc<Schema>),
    /// In a version of their definition that is not stored.
    OtherVersion {
        /// The schema of the storage version, whose defaults they have.
        stored: Arc<Schema>,
        /// The schema of the version, whose fields they have.
        shown: Arc<Schema>,
    },
}

impl Presentation {
    /// Returns how resources of a kind are presented.
    pub(crate) fn of(info: &KindInfo, host: &Host) -> Self {
        match name(&info.kind) {
            Some("Controller") => Self::Controllers(host.clone()),
            Some("ControllerRevision") => Self::Revisions,
            _ => Self::reshaped(info, host).unwrap_or(Self::Plain),
        }
    }

    fn reshaped(info: &KindInfo, host: &Host) -> Option<Self> {
        info.reshaped_since()?;
        let version = host.store().schemas()?.of(&info.kind);
        Some(match (version.stored_schema, version.schema?) {
            (Some(stored), shown) => Self::OtherVersion { stored, shown },
            (None, schema) => Self::Defaulted(schema),
        })
    }

    /// Returns whether the same stored document may look different a moment later.
    pub(crate) fn is_volatile(&self) -> bool {
        // Encoded events of a watch are shared by version, and both groups of events have the same versions.
        matches!(self, Self::Controllers(_) | Self::Events)
    }

    /// Returns a document as it is presented, in the version of `kind`.
    pub(crate) fn render<'d>(&self, document: &'d Value, kind: &Kind) -> Cow<'d, Value> {
        let document = in_version(document, kind);
        match self {
            Self::Plain => document,
            Self::Defaulted(schema) => {
                let mut defaulted = document.clone().into_owned();
                // Defaults that are too large for a document are left out.
                if schema.set_defaults(&mut defaulted).is_ok() { Cow::Owned(defaulted) } else { document }
            }
            Self::OtherVersion { stored, shown } => {
                let mut other = document.clone().into_owned();
                // Defaults that are too large for a document are left out.
                if stored.set_defaults(&mut other).is_err() {
                    other = document.into_owned();
                }
                shown.prune(&mut other);
                Cow::Owned(other)
            }
            Self::Events => Cow::Owned(event_versions::from_core(document.into_owned())),
            Self::Autoscalers => Cow::Owned(autoscaler::to_v1(document.into_owned())),
            Self::Revisions => Cow::Owned(redact(document.into_owned())),
            Self::Controllers(host) => {
                let mut document = redact(document.into_owned());
                overlay_live_status(&mut document, host);
                Cow::Owned(document)
            }
        }
    }
}

/// Returns a document with the `apiVersion` of the requested version of its kind.
fn in_version<'d>(document: &'d Value, kind: &Kind) -> Cow<'d, Value> {
    let version = kind.api_version();
    if document["apiVersion"] == version {
        return Cow::Borrowed(document);
    }
    let mut document = document.clone();
    document["apiVersion"] = version.into();
    Cow::Owned(document)
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

/// A document in the format [`ResponseFormat::Metadata`](crate::negotiate::ResponseFormat::Metadata).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartialObjectMetadata<'d> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Option<&'d Value>,
}

/// Returns only the metadata of a document.
pub(crate) fn only_metadata(document: &Value) -> PartialObjectMetadata<'_> {
    let metadata = document.get("metadata");
    PartialObjectMetadata { kind: "PartialObjectMetadata", api_version: "meta.k8s.io/v1", metadata }
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
            let shown = redact(document);
            assert!(!shown.to_string().contains("hush"), "{shown}");
            assert!(shown.to_string().contains("\"x-token\":{\"secret\":\"token\"}"), "{shown}");
            assert!(shown.to_string().contains("\"kinds\":[\"Pod\"]"), "{shown}");
        }
        assert_eq!(
            redact(json!({ "metadata": { "annotations": { LAST_APPLIED: "{hush" } } }))["metadata"]["annotations"]
                [LAST_APPLIED],
            HIDDEN
        );
    }
}
