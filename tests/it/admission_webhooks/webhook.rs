//! A webhook of a case.

use serde_json::{Value, json};

use crate::review_server::ReviewServer;

/// A webhook for all writes of lamps in the namespace of its case, with some fields of its own.
pub(super) struct Webhook {
    is_mutating: bool,
    path: &'static str,
    fields: Value,
}

pub(super) fn mutating(path: &'static str) -> Webhook {
    Webhook { is_mutating: true, path, fields: json!({}) }
}

pub(super) fn validating(path: &'static str) -> Webhook {
    Webhook { is_mutating: false, path, fields: json!({}) }
}

impl Webhook {
    pub(super) fn with(self, fields: &Value) -> Self {
        Self { fields: fields.clone(), ..self }
    }

    /// Returns the configuration for a case.
    pub(super) fn configuration(&self, server: &ReviewServer, case: &str, number: usize) -> Value {
        let mut webhook = json!({
            "name": format!("{}.light.dev", self.path), "clientConfig": server.client_config(self.path),
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 10,
            "rules": [{ "operations": ["*"], "apiGroups": ["light.dev"], "apiVersions": ["*"], "resources": ["*/*"] }],
            "namespaceSelector": { "matchLabels": { "case": "CASE" } },
        });
        let fields = webhook.as_object_mut().unwrap();
        fields.extend(self.fields.as_object().cloned().unwrap());
        let webhook: Value =
            serde_json::from_str(&webhook.to_string().replace("\"CASE\"", &format!("{case:?}"))).unwrap();
        json!({ "metadata": { "name": format!("{case}-{number}") }, "webhooks": [webhook] })
    }

    pub(super) fn plural(&self) -> &'static str {
        if self.is_mutating { "mutatingwebhookconfigurations" } else { "validatingwebhookconfigurations" }
    }
}
