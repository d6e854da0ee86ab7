//! The columns of each kind. Pure.

use jiff::Timestamp;
use serde_json::Value;

use crate::client::ApiResource;
use crate::output::age;

/// One column of a kind's table.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Only in the wide table.
    is_wide: bool,
    cell: fn(&Value, Timestamp) -> String,
}

impl Column {
    /// Returns the cell of one resource.
    pub(crate) fn cell(&self, document: &Value, now: Timestamp) -> String {
        (self.cell)(document, now)
    }
}

const fn column(name: &'static str, cell: fn(&Value, Timestamp) -> String) -> Column {
    Column { name, is_wide: false, cell }
}

const fn wide(name: &'static str, cell: fn(&Value, Timestamp) -> String) -> Column {
    Column { name, is_wide: true, cell }
}

const AGE: Column = column("AGE", |document, now| age::since(text(document, "/metadata/creationTimestamp"), now));
const READY: Column = column("READY", |document, _| condition(document, "Ready").unwrap_or_else(|| "-".to_owned()));
const CONTAINERS: Column = wide("CONTAINERS", |document, _| each_container(document, "name"));
const IMAGES: Column = wide("IMAGES", |document, _| each_container(document, "image"));
const SELECTOR: Column = wide("SELECTOR", |document, _| pairs(document.pointer("/spec/selector/matchLabels")));

const DEPLOYMENT: &[Column] = &[
    column("READY", |document, _| {
        let wanted = document.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
        format!("{}/{wanted}", number(document, "/status/readyReplicas"))
    }),
    column("UP-TO-DATE", |document, _| number(document, "/status/updatedReplicas")),
    column("AVAILABLE", |document, _| number(document, "/status/availableReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REPLICA_SET: &[Column] = &[
    column("DESIRED", |document, _| {
        document.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1).to_string()
    }),
    column("CURRENT", |document, _| number(document, "/status/replicas")),
    column("READY", |document, _| number(document, "/status/readyReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const POD: &[Column] = &[
    column("READY", |document, _| {
        let containers = document.pointer("/spec/containers").and_then(Value::as_array).map_or(0, Vec::len);
        let is_ready = |status: &&Value| status["ready"] == true;
        let ready = match document.pointer("/status/containerStatuses").and_then(Value::as_array) {
            Some(statuses) => statuses.iter().filter(is_ready).count(),
            // A kubelet that reports no containers may still report the pod.
            None if condition(document, "Ready").as_deref() == Some("True") => containers,
            None => 0,
        };
        format!("{ready}/{containers}")
    }),
    column("STATUS", |document, _| pod_status(document)),
    column("RESTARTS", |document, _| {
        let statuses = document.pointer("/status/containerStatuses").and_then(Value::as_array);
        statuses.into_iter().flatten().filter_map(|status| status["restartCount"].as_u64()).sum::<u64>().to_string()
    }),
    AGE,
    wide("IP", |document, _| or_none(text(document, "/status/podIP"))),
    wide("NODE", |document, _| or_none(text(document, "/spec/nodeName"))),
    IMAGES,
];

const CONTROLLER: &[Column] = &[
    column("STATE", |document, _| controller_state(document)),
    column("MANAGES", |document, _| kind(document.pointer("/status/manages"))),
    column("RECONCILES", |document, _| number(document, "/status/reconciles")),
    column("FAILURES", |document, _| number(document, "/status/failures")),
    column("RUNNING", |document, _| number(document, "/status/counts/running")),
    column("QUEUED", |document, _| {
        let count = |state| document.pointer(state).and_then(Value::as_u64).unwrap_or(0);
        (count("/status/counts/ready") + count("/status/counts/waiting")).to_string()
    }),
    column("PARKED", |document, _| number(document, "/status/counts/parked")),
    column("GENERATION", |document, _| number(document, "/status/generation")),
    wide("CONCURRENCY", |document, _| number(document, "/status/concurrency")),
    // Shortened as in `run` and `dev`.
    wide("DIGEST", |document, _| text(document, "/status/digest").chars().take("sha256:".len() + 12).collect()),
    wide("MESSAGE", |document, _| {
        let message = text(document, "/status/message");
        if message.is_empty() { loaded(document, "message").to_owned() } else { message.to_owned() }
    }),
];

const NAMESPACE: &[Column] = &[
    column("STATUS", |document, _| {
        let phase = text(document, "/status/phase");
        if phase.is_empty() { "Active".to_owned() } else { phase.to_owned() }
    }),
    AGE,
];

const DEFINITION: &[Column] = &[
    column("KIND", |document, _| text(document, "/spec/names/kind").to_owned()),
    column("CREATED AT", |document, _| text(document, "/metadata/creationTimestamp").to_owned()),
];

/// Returns the columns of a kind, without the name. Other kinds have readiness, if some resource reports it,
/// and age.
pub(crate) fn of(known: &ApiResource, items: &[&Value], is_wide: bool) -> Vec<Column> {
    let columns = match (known.group(), known.name()) {
        ("apps", "Deployment") => DEPLOYMENT,
        ("apps", "ReplicaSet") => REPLICA_SET,
        ("", "Pod") => POD,
        ("", "Namespace") => NAMESPACE,
        ("homeostat.dev", "Controller") => CONTROLLER,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => DEFINITION,
        _ if items.iter().any(|item| condition(item, "Ready").is_some()) => &[READY, AGE],
        _ => &[AGE],
    };
    columns.iter().filter(|column| is_wide || !column.is_wide).copied().collect()
}

/// Returns the status of a condition: `True`, `False` or `Unknown`.
pub(crate) fn condition(document: &Value, name: &str) -> Option<String> {
    let conditions = document.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == name)?;
    found["status"].as_str().map(str::to_owned)
}

/// Returns the state of a controller, with the duration of a running compilation.
fn controller_state(document: &Value) -> String {
    let state = text(document, "/status/state");
    if state.is_empty() {
        // Nothing runs yet.
        return loaded(document, "reason").to_owned();
    }
    let Some(compiling) = document.pointer("/status/compilingForMs").and_then(Value::as_u64) else {
        return capitalised(state);
    };
    let for_so_long = age::short_ms(compiling);
    match state {
        "compiling" => format!("Compiling {for_so_long}"),
        // The running version continues meanwhile.
        state => format!("{}, compiling {for_so_long}", capitalised(state)),
    }
}

/// Returns a member of the `Loaded` condition; empty if it is missing.
fn loaded<'d>(document: &'d Value, member: &str) -> &'d str {
    let conditions = document.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let found =
        conditions.into_iter().find(|condition| condition["type"] == "Loaded" && condition["status"] == "False");
    found.and_then(|condition| condition[member].as_str()).unwrap_or_default()
}

/// Returns a kind with its group, for example `deployment.apps`.
pub(crate) fn kind(kind: Option<&Value>) -> String {
    let Some(kind) = kind else { return String::new() };
    let (name, group) =
        (kind["name"].as_str().unwrap_or_default().to_lowercase(), kind["group"].as_str().unwrap_or_default());
    if group.is_empty() { name } else { format!("{name}.{group}") }
}

/// Formats a map as `a=b,c=d`; `<none>` if it is empty.
fn pairs(map: Option<&Value>) -> String {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    let texts: Vec<String> =
        entries.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    or_none(&texts.join(","))
}

/// Returns the string at a JSON pointer; empty if it is missing.
pub(crate) fn text<'d>(document: &'d Value, pointer: &str) -> &'d str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the word with a capital first letter.
pub(crate) fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn number(document: &Value, pointer: &str) -> String {
    document.pointer(pointer).and_then(Value::as_u64).unwrap_or(0).to_string()
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text.to_owned() }
}

/// Returns one field of every container, of a pod or of a pod template.
fn each_container(document: &Value, field: &str) -> String {
    let containers =
        document.pointer("/spec/containers").or_else(|| document.pointer("/spec/template/spec/containers"));
    let containers = containers.and_then(Value::as_array).into_iter().flatten();
    let fields: Vec<&str> = containers.filter_map(|container| container[field].as_str()).collect();
    or_none(&fields.join(","))
}

/// Returns the status of a pod in one word: `Terminating`, the reason that a container waits, or its phase.
fn pod_status(document: &Value) -> String {
    if document.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return "Terminating".to_owned();
    }
    let statuses = document.pointer("/status/containerStatuses").and_then(Value::as_array);
    let reason = |status: &Value| {
        let waits = status.pointer("/state/waiting/reason").or_else(|| status.pointer("/state/terminated/reason"));
        waits.and_then(Value::as_str).map(str::to_owned)
    };
    if let Some(reason) = statuses.into_iter().flatten().find_map(reason) {
        return reason;
    }
    let phase = text(document, "/status/phase");
    if phase.is_empty() { "Pending".to_owned() } else { phase.to_owned() }
}

#[cfg(test)]
mod tests;
