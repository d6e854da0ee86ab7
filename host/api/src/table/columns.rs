//! The columns of each kind.

use std::borrow::Cow;

use homeostat_runtime::{KindInfo, manifest};
use homeostat_store::definition;
use serde_json::{Value, json};

use super::{Cell, TableColumn};

/// Returns the columns of a kind, the name first.
pub(super) fn of(info: &KindInfo) -> Vec<TableColumn> {
    let mut columns = vec![TableColumn {
        name: "Name".to_owned(),
        kind: "string",
        format: "name".to_owned(),
        description: "Name of the resource, unique in its namespace".to_owned(),
        priority: 0,
        cell: at("/metadata/name"),
    }];
    if info.columns.is_empty() {
        columns.extend(well_known(info));
        columns.push(column("Age", "date", 0, at("/metadata/creationTimestamp")));
    } else {
        columns.extend(info.columns.iter().map(defined));
    }
    columns
}

/// Returns a column of a definition. If its path finds several values, the cell has all of them, separated by
/// commas.
fn defined(stated: &definition::PrinterColumn) -> TableColumn {
    let path = stated.path.clone();
    let cell: Cell = Box::new(move |document| match path.evaluate(document)[..] {
        [] => Cow::Owned(Value::Null),
        [value] => Cow::Borrowed(value),
        ref several => Cow::Owned(several.iter().map(|value| text(value)).collect::<Vec<_>>().join(",").into()),
    });
    TableColumn {
        name: stated.name.clone(),
        kind: stated.column_type.name(),
        format: stated.format.clone(),
        description: stated.description.clone(),
        priority: i64::from(stated.priority),
        cell,
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the columns that kubectl shows for well-known kinds.
fn well_known(info: &KindInfo) -> Vec<TableColumn> {
    match (info.kind.group.as_str(), info.kind.name.as_str()) {
        ("apps", "Deployment") => vec![
            column("Ready", "string", 0, made(ready)),
            column("Up-to-date", "integer", 0, count("/status/updatedReplicas")),
            column("Available", "integer", 0, count("/status/availableReplicas")),
        ],
        ("apps", "ReplicaSet") => vec![
            column("Desired", "integer", 0, made(|document| replicas(document).into())),
            column("Current", "integer", 0, count("/status/replicas")),
            column("Ready", "integer", 0, count("/status/readyReplicas")),
        ],
        ("", "Pod") => vec![
            column("Status", "string", 0, at("/status/phase")),
            column("IP", "string", 1, at("/status/podIP")),
            column("Node", "string", 1, at("/spec/nodeName")),
        ],
        (manifest::GROUP, manifest::KIND) => vec![
            column("State", "string", 0, at("/status/state")),
            column("Revision", "integer", 0, at("/status/revision")),
            column("Reconciles", "integer", 0, count("/status/reconciles")),
            column("Failures", "integer", 0, count("/status/failures")),
        ],
        (manifest::GROUP, "ControllerRevision") => vec![
            column("Controller", "string", 0, at("/spec/controller")),
            column("Revision", "integer", 0, at("/spec/number")),
            column("Digest", "string", 1, at("/spec/digest")),
        ],
        ("", "Namespace") => vec![column("Status", "string", 0, made(phase))],
        ("", "ConfigMap") => vec![column("Data", "integer", 0, made(data))],
        ("", "Event") => vec![
            column("Last Seen", "date", 0, at("/lastTimestamp")),
            column("Type", "string", 0, at("/type")),
            column("Reason", "string", 0, at("/reason")),
            column("Object", "string", 0, made(object)),
            column("Message", "string", 0, at("/message")),
        ],
        _ => vec![],
    }
}

fn column(name: &str, kind: &'static str, priority: i64, cell: Cell) -> TableColumn {
    TableColumn { name: name.to_owned(), kind, format: String::new(), description: name.to_owned(), priority, cell }
}

fn at(pointer: &'static str) -> Cell {
    Box::new(move |document| document.pointer(pointer).map_or(Cow::Owned(Value::Null), Cow::Borrowed))
}

/// Returns a cell that is computed from the document.
fn made(cell: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Cell {
    Box::new(move |document| Cow::Owned(cell(document)))
}

fn count(pointer: &'static str) -> Cell {
    made(move |document| number(document, pointer).unwrap_or(0).into())
}

fn number(document: &Value, pointer: &str) -> Option<u64> {
    document.pointer(pointer).and_then(Value::as_u64)
}

/// Returns the desired number of replicas: one if the document does not state it.
fn replicas(document: &Value) -> u64 {
    number(document, "/spec/replicas").unwrap_or(1)
}

fn ready(document: &Value) -> Value {
    json!(format!("{}/{}", number(document, "/status/readyReplicas").unwrap_or(0), replicas(document)))
}

fn phase(document: &Value) -> Value {
    let deleting = document.pointer("/metadata/deletionTimestamp").is_some();
    json!(if deleting { "Terminating" } else { "Active" })
}

fn data(document: &Value) -> Value {
    let size = |name: &str| document.get(name).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    json!(size("data") + size("binaryData"))
}

fn object(document: &Value) -> Value {
    let text = |pointer| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    json!(format!("{}/{}", text("/involvedObject/kind").to_lowercase(), text("/involvedObject/name")))
}
