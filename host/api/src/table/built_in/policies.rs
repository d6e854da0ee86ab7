//! The columns of the kinds that decide on requests: admission, roles, certificates, quotas and priorities.
//!
//! Source: `pkg/printers/internalversion/printers.go` of Kubernetes, and for API services
//! `pkg/registry/apiservice/etcd/etcd.go` of `k8s.io/kube-aggregator`.

use serde_json::Value;

use crate::age as ages;
use crate::table::TableColumn;
use crate::table::cells::{condition, elements, plain, text};
use crate::table::columns::{age, column, computed, count, length, switch, text_at, text_or, text_or_none, wide};

pub(super) fn webhooks() -> Vec<TableColumn> {
    vec![column("Webhooks", "integer", length("/webhooks")), age()]
}

pub(super) fn validating_policy() -> Vec<TableColumn> {
    vec![column("Validations", "integer", length("/spec/validations")), parameter_kind(), age()]
}

pub(super) fn mutating_policy() -> Vec<TableColumn> {
    vec![column("Mutations", "integer", length("/spec/mutations")), parameter_kind(), age()]
}

pub(super) fn policy_binding() -> Vec<TableColumn> {
    vec![
        column("PolicyName", "string", text_at("/spec/policyName")),
        column("ParamRef", "string", computed(parameter)),
        age(),
    ]
}

pub(super) fn role_binding() -> Vec<TableColumn> {
    let role =
        |binding: &Value| format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name")).into();
    let subjects = |kind: &'static str| {
        computed(move |binding: &Value| {
            let name = |subject: &Value| match kind {
                "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
                _ => text(subject, "/name").to_owned(),
            };
            let of_kind = elements(binding, "/subjects").filter(|subject| subject["kind"] == kind);
            of_kind.map(name).collect::<Vec<_>>().join(", ").into()
        })
    };
    vec![
        column("Role", "string", computed(role)),
        age(),
        wide("Users", "string", subjects("User")),
        wide("Groups", "string", subjects("Group")),
        wide("ServiceAccounts", "string", subjects("ServiceAccount")),
    ]
}

pub(super) fn certificate_signing_request() -> Vec<TableColumn> {
    let duration = |request: &Value| match request.pointer("/spec/expirationSeconds").and_then(Value::as_i64) {
        Some(seconds) => ages::short(seconds).into(),
        None => "<none>".into(),
    };
    vec![
        age(),
        column("SignerName", "string", text_or_none("/spec/signerName")),
        column("Requestor", "string", text_at("/spec/username")),
        column("RequestedDuration", "string", computed(duration)),
        column("Condition", "string", computed(request_state)),
    ]
}

pub(super) fn resource_quota() -> Vec<TableColumn> {
    vec![
        column("Request", "string", computed(|document| quota(document, false))),
        column("Limit", "string", computed(|document| quota(document, true))),
        age(),
    ]
}

pub(super) fn priority_class() -> Vec<TableColumn> {
    vec![
        column("Value", "integer", count("/value")),
        column("Global-Default", "boolean", switch("/globalDefault")),
        age(),
        column("PreemptionPolicy", "string", text_at("/preemptionPolicy")),
    ]
}

pub(super) fn flow_schema() -> Vec<TableColumn> {
    let dangles = |schema: &Value| condition(schema, "Dangling").map_or("?", |found| text(found, "/status")).into();
    vec![
        column("PriorityLevel", "string", text_at("/spec/priorityLevelConfiguration/name")),
        column("MatchingPrecedence", "string", count("/spec/matchingPrecedence")),
        column("DistinguisherMethod", "string", text_or("/spec/distinguisherMethod/type", "<none>")),
        age(),
        column("MissingPL", "string", computed(dangles)),
    ]
}

pub(super) fn priority_level() -> Vec<TableColumn> {
    let queuing = |field: &'static str| {
        let value = move |level: &Value| {
            let queuing = level.pointer("/spec/limited/limitResponse/queuing")?;
            Some(queuing.get(field).cloned().unwrap_or_else(|| 0.into()))
        };
        computed(move |level| value(level).unwrap_or_else(|| "<none>".into()))
    };
    vec![
        column("Type", "string", text_at("/spec/type")),
        column("NominalConcurrencyShares", "string", text_or("/spec/limited/nominalConcurrencyShares", "<none>")),
        column("Queues", "string", queuing("queues")),
        column("HandSize", "string", queuing("handSize")),
        column("QueueLengthLimit", "string", queuing("queueLengthLimit")),
        age(),
    ]
}

pub(super) fn api_service() -> Vec<TableColumn> {
    let server = |service: &Value| match service.pointer("/spec/service") {
        Some(server) => format!("{}/{}", text(server, "/namespace"), text(server, "/name")).into(),
        None => "Local".into(),
    };
    let is_available = |service: &Value| {
        let Some(found) = condition(service, "Available") else { return "Unknown".into() };
        match (text(found, "/status"), text(found, "/reason")) {
            (status, "") | (status @ "True", _) => status.into(),
            (status, reason) => format!("{status} ({reason})").into(),
        }
    };
    vec![column("Service", "string", computed(server)), column("Available", "string", computed(is_available)), age()]
}

fn parameter_kind() -> TableColumn {
    let kind = |policy: &Value| match policy.pointer("/spec/paramKind") {
        Some(kind) => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")).into(),
        None => "<unset>".into(),
    };
    column("ParamKind", "string", computed(kind))
}

/// Returns the parameter of a binding: `default/web`, or `*/web` if the reference has no namespace.
fn parameter(binding: &Value) -> Value {
    let Some(reference) = binding.pointer("/spec/paramRef") else { return "<unset>".into() };
    match (text(reference, "/namespace"), text(reference, "/name"), reference.get("selector")) {
        (_, "", Some(selector)) => go_selector(selector).into(),
        (_, "", None) => "<unset>".into(),
        ("", name, _) => format!("*/{name}").into(),
        (namespace, name, _) => format!("{namespace}/{name}").into(),
    }
}

/// Returns a label selector as Go prints the struct.
fn go_selector(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", plain(value))).collect();
    let requirement = |expression: &Value| {
        let values: Vec<&str> = elements(expression, "/values").filter_map(Value::as_str).collect();
        let (key, operator) = (text(expression, "/key"), text(expression, "/operator"));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
    };
    let expressions: String = elements(selector, "/matchExpressions").map(requirement).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn request_state(request: &Value) -> Value {
    let has = |name| condition(request, name).is_some();
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if text(request, "/status/certificate").is_empty() { "" } else { ",Issued" };
    format!("{decision}{failed}{issued}").into()
}

/// Returns the used and the allowed amounts of a quota: `pods: 1/10`.
fn quota(document: &Value, limits: bool) -> Value {
    let hard = document.pointer("/status/hard").and_then(Value::as_object);
    let of_kind = hard.into_iter().flatten().filter(|(name, _)| name.starts_with("limits.") == limits);
    let shown = of_kind.map(|(name, most)| {
        let used = document["status"]["used"][name.as_str()].as_str().unwrap_or("0");
        format!("{name}: {used}/{}", plain(most))
    });
    shown.collect::<Vec<_>>().join(", ").into()
}
