//! The columns of the kinds of `homeostat.dev`, and their cells.

use homeostat_runtime::manifest;
use homeostat_store::Kind;
use serde::Deserialize;
use serde_json::Value;

use super::cells::{condition, elements, number, or_none, text};
use super::columns::{age, at, column, computed, count, wide};
use super::{Cell, TableColumn};
use crate::age as ages;

/// The characters of a digest that a table shows, as the log of a host does: the algorithm and twelve digits.
const SHORT_DIGEST: usize = "sha256:".len() + 12;

/// Returns the columns of a kind of `homeostat.dev`, besides the name; `None` for one that has only general ones.
pub(super) fn of(kind: &str) -> Option<Vec<TableColumn>> {
    Some(match kind {
        manifest::KIND => controller(),
        "ControllerRevision" => controller_revision(),
        manifest::HOST_KIND => host(),
        _ => return None,
    })
}

fn controller() -> Vec<TableColumn> {
    vec![
        column("State", "string", computed(controller_state)),
        column("Manages", "string", computed(managed_kind)),
        column("Revision", "integer", at("/status/revision")),
        column("Reconciles", "integer", count("/status/reconciles")),
        column("Failures", "integer", count("/status/failures")),
        column("Running", "integer", count("/status/counts/running")),
        column("Queued", "integer", computed(queued)),
        column("Parked", "integer", count("/status/counts/parked")),
        column("Generation", "integer", count("/status/generation")),
        age(),
        wide("Concurrency", "integer", count("/status/concurrency")),
        wide("Digest", "string", computed(|document| short_digest(document, "/status/digest"))),
        wide("Leases", "string", computed(controller_leases)),
        wide("Message", "string", computed(controller_message)),
    ]
}

fn controller_revision() -> Vec<TableColumn> {
    vec![
        column("Controller", "string", at("/spec/controller")),
        column("Revision", "integer", at("/spec/number")),
        age(),
        wide("Digest", "string", computed(|document| short_digest(document, "/spec/digest"))),
    ]
}

/// Returns the columns of hosts, which `homeostat hosts` shows too.
fn host() -> Vec<TableColumn> {
    vec![
        column("This", "string", computed(host_is_this)),
        column("State", "string", text_or_dash("/status/state")),
        column("Version", "string", text_or_dash("/status/version")),
        column("Leases", "string", computed(host_leases)),
        wide("Address", "string", text_or_dash("/status/address")),
        wide("Processors", "string", computed(host_processors)),
        wide("Load", "string", text_or_dash("/status/load")),
        wide("Identity", "string", text_or_dash("/status/identity")),
    ]
}

fn text_or_dash(pointer: &'static str) -> Cell {
    computed(move |document| or_dash(text(document, pointer)))
}

/// Returns the state of a controller, with the duration of a running compilation.
fn controller_state(document: &Value) -> Value {
    let state = text(document, "/status/state");
    if state.is_empty() {
        // No version runs yet.
        return or_none(rejection(document, "reason"));
    }
    let compiling = document.pointer("/status/compilingForMs").and_then(Value::as_u64).map(ages::short_ms);
    match (compiling, state) {
        (None, state) => capitalised(state).into(),
        (Some(duration), "compiling") => format!("Compiling {duration}").into(),
        // The running version continues meanwhile.
        (Some(duration), state) => format!("{}, compiling {duration}", capitalised(state)).into(),
    }
}

/// Returns how many leases of a controller this host holds, and how many there are: `2/8`. `<none>` without leases.
fn controller_leases(document: &Value) -> Value {
    let leases = document.pointer("/status/leases").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let held = leases.iter().filter(|lease| lease["isHeld"] == true).count();
    if leases.is_empty() { "<none>".into() } else { format!("{held}/{}", leases.len()).into() }
}

/// Returns the text, or `-` if it is empty.
fn or_dash(text: &str) -> Value {
    if text.is_empty() { "-".into() } else { text.into() }
}

/// Returns whether a host is the one that shows it: `yes` or `-`.
fn host_is_this(document: &Value) -> Value {
    let is_this = document.pointer("/status/isThis").is_some_and(|is_this| *is_this == true);
    or_dash(if is_this { "yes" } else { "" })
}

/// Returns the names of the leases of a host: `web/0-of-2,web/1-of-2`. The number of those that are not listed follows:
/// `+12`.
fn host_leases(document: &Value) -> Value {
    let names: Vec<&str> = elements(document, "/status/leases").filter_map(|lease| lease["name"].as_str()).collect();
    let further = number(document, "/status/leaseCount").saturating_sub(names.len() as u64);
    let further = (further > 0).then(|| format!("+{further}"));
    or_dash(&names.into_iter().chain(further.as_deref()).collect::<Vec<_>>().join(","))
}

/// Returns the number of processors of a host, or `-` if it does not tell it.
fn host_processors(document: &Value) -> Value {
    document.pointer("/status/processors").map_or_else(|| or_dash(""), |count| count.to_string().into())
}

/// Returns the message of a controller, or the reason why its definition is not loaded.
fn controller_message(document: &Value) -> Value {
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
fn managed_kind(document: &Value) -> Value {
    let kind = document.pointer("/status/manages").and_then(|kind| Kind::deserialize(kind).ok());
    match kind {
        Some(Kind { group, name, .. }) if group.is_empty() => name.to_lowercase().into(),
        Some(Kind { group, name, .. }) => format!("{}.{group}", name.to_lowercase()).into(),
        None => or_none(""),
    }
}

/// Returns the number of queued keys of a controller, due or not.
fn queued(document: &Value) -> Value {
    number(document, "/status/counts/ready").saturating_add(number(document, "/status/counts/waiting")).into()
}

/// Returns the start of the digest at a JSON pointer.
fn short_digest(document: &Value, pointer: &str) -> Value {
    or_none(&text(document, pointer).chars().take(SHORT_DIGEST).collect::<String>())
}
