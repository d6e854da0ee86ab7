//! The cells that are computed from a document. Pure.

use homeostat_store::Kind;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::age;

/// The characters of a digest that a table shows, as the log of a host does: the algorithm and twelve digits.
const SHORT_DIGEST: usize = "sha256:".len() + 12;

/// Returns the string at a JSON pointer; empty if it is missing.
pub(super) fn text<'d>(document: &'d Value, pointer: &str) -> &'d str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the number at a JSON pointer; 0 if it is missing.
pub(super) fn number(document: &Value, pointer: &str) -> u64 {
    document.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns the text, or `<none>` if it is empty.
pub(super) fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

/// Returns the elements of an array; none if it is missing.
pub(super) fn elements<'d>(document: &'d Value, pointer: &str) -> impl Iterator<Item = &'d Value> {
    document.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the desired number of replicas: one if the document does not state it.
pub(super) fn desired_replicas(document: &Value) -> u64 {
    document.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1)
}

/// Returns the ready and the desired number of replicas: `2/3`.
pub(super) fn ready_replicas(document: &Value) -> Value {
    format!("{}/{}", number(document, "/status/readyReplicas"), desired_replicas(document)).into()
}

pub(super) fn container_names(document: &Value) -> Value {
    each_container(document, "name")
}

pub(super) fn container_images(document: &Value) -> Value {
    each_container(document, "image")
}

/// Returns one field of every container, of a pod or of a pod template.
fn each_container(document: &Value, field: &str) -> Value {
    let containers = elements(document, "/spec/containers").chain(elements(document, "/spec/template/spec/containers"));
    let fields: Vec<&str> = containers.filter_map(|container| container[field].as_str()).collect();
    or_none(&fields.join(","))
}

/// Returns the labels of a selector: `a=b,c=d`.
pub(super) fn selector(document: &Value) -> Value {
    labels(document, "/spec/selector/matchLabels")
}

/// Returns the labels at a JSON pointer: `a=b,c=d`.
pub(super) fn labels(document: &Value, pointer: &str) -> Value {
    let labels = document.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    let texts: Vec<String> =
        labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    or_none(&texts.join(","))
}

/// Returns the phase of a namespace.
pub(super) fn namespace_status(document: &Value) -> Value {
    match text(document, "/status/phase") {
        _ if is_deleting(document) => "Terminating".into(),
        "" => "Active".into(),
        phase => phase.into(),
    }
}

pub(super) fn is_deleting(document: &Value) -> bool {
    document.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// Returns the number of entries of a `ConfigMap`.
pub(super) fn data(document: &Value) -> Value {
    let size = |name: &str| document.get(name).and_then(Value::as_object).map_or(0, Map::len);
    (size("data") + size("binaryData")).into()
}

/// Returns the kind and the name of the resource that an event is about: `deployment/web`.
pub(super) fn involved_object(document: &Value) -> Value {
    let (kind, name) = (text(document, "/involvedObject/kind"), text(document, "/involvedObject/name"));
    format!("{}/{name}", kind.to_lowercase()).into()
}

/// Returns the program that reported an event and where it runs: `kubelet, one`.
pub(super) fn event_source(document: &Value) -> Value {
    let first = |one, other| match text(document, one) {
        "" => text(document, other),
        found => found,
    };
    let program = first("/source/component", "/reportingComponent");
    match first("/source/host", "/reportingInstance") {
        "" => program.into(),
        place => format!("{program}, {place}").into(),
    }
}

/// Returns the status of the condition `Ready`: `True`, `False` or `Unknown`.
pub(super) fn ready_condition(document: &Value) -> Value {
    or_none(condition(document, "Ready").and_then(|ready| ready["status"].as_str()).unwrap_or_default())
}

pub(super) fn condition<'d>(document: &'d Value, name: &str) -> Option<&'d Value> {
    elements(document, "/status/conditions").find(|condition| condition["type"] == name)
}

/// Returns the state of a controller, with the duration of a running compilation.
pub(super) fn controller_state(document: &Value) -> Value {
    let state = text(document, "/status/state");
    if state.is_empty() {
        // No version runs yet.
        return or_none(rejection(document, "reason"));
    }
    let compiling = document.pointer("/status/compilingForMs").and_then(Value::as_u64).map(age::short_ms);
    match (compiling, state) {
        (None, state) => capitalised(state).into(),
        (Some(duration), "compiling") => format!("Compiling {duration}").into(),
        // The running version continues meanwhile.
        (Some(duration), state) => format!("{}, compiling {duration}", capitalised(state)).into(),
    }
}

/// Returns how many leases of a controller this host holds, and how many there are: `2/8`. `<none>` without leases.
pub(super) fn controller_leases(document: &Value) -> Value {
    let leases = document.pointer("/status/leases").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let held = leases.iter().filter(|lease| lease["isHeld"] == true).count();
    if leases.is_empty() { "<none>".into() } else { format!("{held}/{}", leases.len()).into() }
}

/// Returns the text, or `-` if it is empty.
pub(super) fn or_dash(text: &str) -> Value {
    if text.is_empty() { "-".into() } else { text.into() }
}

/// Returns whether a host is the one that shows it: `yes` or `-`.
pub(super) fn host_is_this(document: &Value) -> Value {
    let is_this = document.pointer("/status/isThis").is_some_and(|is_this| *is_this == true);
    or_dash(if is_this { "yes" } else { "" })
}

/// Returns the names of the leases of a host: `web/0-of-2,web/1-of-2`. The number of those that are not listed follows:
/// `+12`.
pub(super) fn host_leases(document: &Value) -> Value {
    let names: Vec<&str> = elements(document, "/status/leases").filter_map(|lease| lease["name"].as_str()).collect();
    let further = number(document, "/status/leaseCount").saturating_sub(names.len() as u64);
    let further = (further > 0).then(|| format!("+{further}"));
    or_dash(&names.into_iter().chain(further.as_deref()).collect::<Vec<_>>().join(","))
}

/// Returns the number of processors of a host, or `-` if it does not tell it.
pub(super) fn host_processors(document: &Value) -> Value {
    document.pointer("/status/processors").map_or_else(|| or_dash(""), |count| count.to_string().into())
}

/// Returns the message of a controller, or the reason why its definition is not loaded.
pub(super) fn controller_message(document: &Value) -> Value {
    match text(document, "/status/message") {
        "" => or_none(rejection(document, "message")),
        message => message.into(),
    }
}

/// Returns a member of the condition `Loaded` if it is false; empty otherwise.
fn rejection<'d>(document: &'d Value, member: &str) -> &'d str {
    let found = condition(document, "Loaded").filter(|condition| condition["status"] == "False");
    found.and_then(|condition| condition[member].as_str()).unwrap_or_default()
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Returns the kind that a controller manages, with its group: `deployment.apps`.
pub(super) fn managed_kind(document: &Value) -> Value {
    let kind = document.pointer("/status/manages").and_then(|kind| Kind::deserialize(kind).ok());
    match kind {
        Some(Kind { group, name, .. }) if group.is_empty() => name.to_lowercase().into(),
        Some(Kind { group, name, .. }) => format!("{}.{group}", name.to_lowercase()).into(),
        None => or_none(""),
    }
}

/// Returns the number of queued keys of a controller, due or not.
pub(super) fn queued(document: &Value) -> Value {
    number(document, "/status/counts/ready").saturating_add(number(document, "/status/counts/waiting")).into()
}

/// Returns the start of the digest at a JSON pointer.
pub(super) fn short_digest(document: &Value, pointer: &str) -> Value {
    or_none(&text(document, pointer).chars().take(SHORT_DIGEST).collect::<String>())
}
