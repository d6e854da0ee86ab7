//! The table of `dev`. Pure: equal hosts give equal rows on every terminal.

use std::time::Duration;

use homeostat_runtime::{ControllerState, ControllerStatus};
use homeostat_store::{Kind, Resource};
use serde_json::Value;

use crate::output::table::Table;

/// Characters of a cell. Longer text is truncated.
const CELL_MAX: usize = 60;

const HEADER: [&str; 10] =
    ["CONTROLLER", "GEN", "STATE", "READY", "RUNNING", "WAITING", "PARKED", "RECONCILES", "FAILED", "LAST EVENT"];

/// One controller, and its last event.
pub(crate) struct ControllerRow {
    pub(crate) status: ControllerStatus,
    /// Empty if there is none.
    pub(crate) last_event: String,
    /// How long a newer component of it has been compiling.
    pub(crate) compiling: Option<Duration>,
}

/// A controller that does not run yet, and how long its component has been compiling.
pub(crate) type CompilingController = (String, Duration);

/// The resources of one managed kind.
pub(crate) struct KindRows {
    pub(crate) kind: Kind,
    /// The namespace and name, and a summary of the status.
    pub(crate) rows: Vec<(String, String)>,
    /// There are further resources.
    pub(crate) more: bool,
}

/// Formats a host: its controllers, then the resources that they manage.
pub(crate) fn render(
    controllers: &[ControllerRow],
    awaited: &[CompilingController],
    kinds: &[KindRows],
) -> Vec<String> {
    let mut table = Table::new(HEADER);
    controllers.iter().for_each(|row| table.row(controller(row)));
    for (name, since) in awaited {
        let cells = [name.clone(), "-".to_owned(), compiling(*since)].into_iter();
        table.row(cells.chain(HEADER[3..].iter().map(|_| String::new())).collect());
    }
    let mut rows = lines(&table);
    for KindRows { kind, rows: resources, more } in kinds.iter().filter(|kind| !kind.rows.is_empty()) {
        let mut table = Table::new([kind.name.to_uppercase(), "STATUS".to_owned()]);
        resources.iter().for_each(|(name, summary)| table.row(vec![name.clone(), cut(summary)]));
        rows.push(String::new());
        rows.extend(lines(&table));
        if *more {
            rows.push("…".to_owned());
        }
    }
    rows
}

fn lines(table: &Table) -> Vec<String> {
    table.to_string().lines().map(str::to_owned).collect()
}

fn controller(row: &ControllerRow) -> Vec<String> {
    let ControllerStatus { name, state, generation, counts, reconciles, failures, message, .. } = &row.status;
    let last = message.as_ref().unwrap_or(&row.last_event);
    let numbers = [counts.ready, counts.running, counts.waiting, counts.parked].map(|count| count.to_string());
    let state = state_name(*state);
    let state = row.compiling.map_or_else(|| state.to_owned(), |since| format!("{state}, {}", compiling(since)));
    let mut cells = vec![name.clone(), generation.to_string(), state];
    cells.extend(numbers);
    cells.extend([reconciles.to_string(), failures.to_string(), cut(last.lines().next().unwrap_or_default())]);
    cells
}

fn cut(cell: &str) -> String {
    match cell.char_indices().nth(CELL_MAX) {
        Some((end, _)) => format!("{}…", &cell[..end]),
        None => cell.to_owned(),
    }
}

fn compiling(since: Duration) -> String {
    format!("compiling {}s", since.as_secs())
}

/// Returns the name of a state for people.
pub(crate) fn state_name(state: ControllerState) -> &'static str {
    match state {
        ControllerState::Starting => "starting",
        ControllerState::Syncing => "syncing",
        ControllerState::Ready => "ready",
        ControllerState::Suspended => "suspended",
        ControllerState::Standby => "standby",
        ControllerState::Stopping => "stopping",
    }
}

/// Summarises the status of a resource, by common conventions of kinds.
pub(crate) fn summary(resource: &Resource) -> String {
    let text = status_text(resource.document());
    if resource.is_deleting() { format!("terminating, {text}") } else { text }
}

fn status_text(document: &Value) -> String {
    let Some(status) =
        document.get("status").filter(|status| status.as_object().is_some_and(|fields| !fields.is_empty()))
    else {
        return "no status".to_owned();
    };
    let number = |pointer: &str| document.pointer(pointer).and_then(Value::as_u64);
    if status.get("replicas").is_some() || status.get("readyReplicas").is_some() {
        let wanted = number("/spec/replicas").or_else(|| number("/status/replicas")).unwrap_or(1);
        return format!("{}/{wanted} ready", number("/status/readyReplicas").unwrap_or(0));
    }
    if let Some(phase) = status.get("phase").and_then(Value::as_str) {
        return phase.to_owned();
    }
    if let Some(text) = condition_text(&status["conditions"]) {
        return text;
    }
    let plain = status.as_object().into_iter().flatten().filter_map(|(name, value)| match value {
        Value::String(text) => Some(format!("{name}={text}")),
        Value::Bool(_) | Value::Number(_) => Some(format!("{name}={value}")),
        _ => None,
    });
    let plain: Vec<String> = plain.take(3).collect();
    if plain.is_empty() { "has a status".to_owned() } else { plain.join(" ") }
}

fn condition_text(conditions: &Value) -> Option<String> {
    let conditions = conditions.as_array()?;
    let text =
        |condition: &Value, field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is = |condition: &&Value, name: &str| text(condition, "type") == name;
    let main = ["Ready", "Available", "Succeeded"]
        .iter()
        .find_map(|name| conditions.iter().find(|condition| is(condition, name)));
    let condition = main.or(conditions.first())?;
    let (name, reason) = (text(condition, "type"), text(condition, "reason"));
    Some(match text(condition, "status").as_str() {
        "True" => name,
        _ if reason.is_empty() => format!("not {name}"),
        _ => format!("not {name}: {reason}"),
    })
}

#[cfg(test)]
mod tests;
