//! The columns of each kind.

use std::borrow::Cow;

use homeostat_runtime::{KindInfo, manifest};
use homeostat_store::definition;
use serde_json::Value;

use super::{Cell, TableColumn, built_in, cells, pods};

/// Returns the columns of a kind: those of its definition, else those of a well-known kind, else the general
/// ones.
pub(super) fn of(info: &KindInfo) -> Vec<TableColumn> {
    let columns = match (info.kind.group.as_str(), info.kind.name.as_str()) {
        _ if !info.columns.is_empty() => info.columns.iter().map(defined).collect(),
        ("apps", "Deployment") => deployment(),
        ("apps", "ReplicaSet") => replica_set(),
        ("", "Pod") => pods::columns(),
        ("", "Namespace") => vec![column("Status", "string", computed(cells::namespace_status)), age()],
        ("", "ConfigMap") => vec![column("Data", "string", computed(cells::data)), age()],
        // As in Kubernetes, the generated name of an event is the last column.
        ("", "Event") => return event(),
        (manifest::GROUP, manifest::KIND) => controller(),
        (manifest::GROUP, "ControllerRevision") => controller_revision(),
        (manifest::GROUP, manifest::HOST_KIND) => host(),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(),
        _ if info.built_in().is_some() => built_in::of(&info.kind),
        _ => general(info),
    };
    let name = TableColumn { cell: built_in::name(&info.kind), ..name(0) };
    std::iter::once(name).chain(columns).collect()
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

fn deployment() -> Vec<TableColumn> {
    vec![
        column("Ready", "string", computed(cells::ready_replicas)),
        column("Up-to-date", "integer", count("/status/updatedReplicas")),
        column("Available", "integer", count("/status/availableReplicas")),
        age(),
        wide("Containers", "string", computed(cells::container_names)),
        wide("Images", "string", computed(cells::container_images)),
        wide("Selector", "string", computed(cells::selector)),
    ]
}

fn replica_set() -> Vec<TableColumn> {
    vec![
        column("Desired", "integer", computed(|document| cells::desired_replicas(document).into())),
        column("Current", "integer", count("/status/replicas")),
        column("Ready", "integer", count("/status/readyReplicas")),
        age(),
        wide("Containers", "string", computed(cells::container_names)),
        wide("Images", "string", computed(cells::container_images)),
        wide("Selector", "string", computed(cells::selector)),
    ]
}

fn controller() -> Vec<TableColumn> {
    vec![
        column("State", "string", computed(cells::controller_state)),
        column("Manages", "string", computed(cells::managed_kind)),
        column("Revision", "integer", at("/status/revision")),
        column("Reconciles", "integer", count("/status/reconciles")),
        column("Failures", "integer", count("/status/failures")),
        column("Running", "integer", count("/status/counts/running")),
        column("Queued", "integer", computed(cells::queued)),
        column("Parked", "integer", count("/status/counts/parked")),
        column("Generation", "integer", count("/status/generation")),
        age(),
        wide("Concurrency", "integer", count("/status/concurrency")),
        wide("Digest", "string", computed(|document| cells::short_digest(document, "/status/digest"))),
        wide("Leases", "string", computed(cells::controller_leases)),
        wide("Message", "string", computed(cells::controller_message)),
    ]
}

fn controller_revision() -> Vec<TableColumn> {
    vec![
        column("Controller", "string", at("/spec/controller")),
        column("Revision", "integer", at("/spec/number")),
        age(),
        wide("Digest", "string", computed(|document| cells::short_digest(document, "/spec/digest"))),
    ]
}

/// Returns the columns of hosts, which `homeostat hosts` shows too.
fn host() -> Vec<TableColumn> {
    vec![
        column("This", "string", computed(cells::host_is_this)),
        column("State", "string", text_or_dash("/status/state")),
        column("Version", "string", text_or_dash("/status/version")),
        column("Leases", "string", computed(cells::host_leases)),
        wide("Address", "string", text_or_dash("/status/address")),
        wide("Processors", "string", computed(cells::host_processors)),
        wide("Load", "string", text_or_dash("/status/load")),
        wide("Identity", "string", text_or_dash("/status/identity")),
    ]
}

fn definition() -> Vec<TableColumn> {
    vec![
        // The timestamp itself, as kubectl shows it: a `date` would become an age.
        column("Created At", "string", at("/metadata/creationTimestamp")),
    ]
}

/// Where an event may have the time of its last occurrence.
const EVENT_TIMES: [&str; 4] = ["/series/lastObservedTime", "/lastTimestamp", "/firstTimestamp", "/eventTime"];

fn event() -> Vec<TableColumn> {
    vec![
        column("Last Seen", "date", first_of(&EVENT_TIMES)),
        column("Type", "string", at("/type")),
        column("Reason", "string", at("/reason")),
        column("Object", "string", computed(cells::involved_object)),
        wide("Subobject", "string", at("/involvedObject/fieldPath")),
        wide("Source", "string", computed(cells::event_source)),
        column("Message", "string", computed(|event| cells::text(event, "/message").trim().into())),
        wide("First Seen", "date", first_of(&["/firstTimestamp", "/eventTime"])),
        wide("Count", "string", first_of(&["/series/count", "/count"])),
        name(1),
    ]
}

/// Returns the columns of every other kind.
fn general(info: &KindInfo) -> Vec<TableColumn> {
    let ready = column("Ready", "string", computed(cells::ready_condition));
    if has_conditions(info.schema.as_ref()) { vec![ready, age()] } else { vec![age()] }
}

/// Returns whether resources with this schema can report conditions. Those without a schema can.
fn has_conditions(schema: Option<&Value>) -> bool {
    let Some(schema) = schema else { return true };
    let Some(status) = schema.pointer("/properties/status") else { return false };
    status.get("properties").is_none_or(|properties| properties.get("conditions").is_some())
}

/// Returns the column of the name. Clients find it by its format.
fn name(priority: i64) -> TableColumn {
    TableColumn {
        name: "Name".to_owned(),
        kind: "string",
        format: "name".to_owned(),
        description: "Name of the resource, unique in its namespace".to_owned(),
        priority,
        cell: at("/metadata/name"),
    }
}

pub(super) fn age() -> TableColumn {
    column("Age", "date", at("/metadata/creationTimestamp"))
}

pub(super) fn column(name: &str, kind: &'static str, cell: Cell) -> TableColumn {
    TableColumn { name: name.to_owned(), kind, format: String::new(), description: name.to_owned(), priority: 0, cell }
}

/// Returns a column of the wide table only.
pub(super) fn wide(name: &str, kind: &'static str, cell: Cell) -> TableColumn {
    TableColumn { priority: 1, ..column(name, kind, cell) }
}

pub(super) fn at(pointer: &'static str) -> Cell {
    Box::new(move |document| document.pointer(pointer).map_or(Cow::Owned(Value::Null), Cow::Borrowed))
}

/// Returns a cell of the first of several places that has a value.
fn first_of(pointers: &'static [&'static str]) -> Cell {
    Box::new(move |document| {
        let mut found = pointers.iter().filter_map(|pointer| document.pointer(pointer));
        found.find(|value| !value.is_null()).map_or(Cow::Owned(Value::Null), Cow::Borrowed)
    })
}

pub(super) fn text_or_none(pointer: &'static str) -> Cell {
    computed(move |document| cells::or_none(cells::text(document, pointer)))
}

fn text_or_dash(pointer: &'static str) -> Cell {
    computed(move |document| cells::or_dash(cells::text(document, pointer)))
}

pub(super) fn count(pointer: &'static str) -> Cell {
    computed(move |document| cells::number(document, pointer).into())
}

/// Returns a cell that is computed from the document.
pub(super) fn computed(cell: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Cell {
    Box::new(move |document| Cow::Owned(cell(document)))
}
