//! The columns of each kind, and what columns are made with.

use std::borrow::Cow;

use homeostat_runtime::{KindInfo, manifest};
use homeostat_store::definition::{self, ColumnType};
use serde_json::Value;

use super::cells::{condition, labels, or_none, text};
use super::{Cell, TableColumn, built_in, host_kinds};

/// Returns the columns of a kind: those of its definition, else those of a well-known kind, else the general ones.
pub(super) fn of(info: &KindInfo) -> Vec<TableColumn> {
    let (group, name) = (info.kind.group.as_str(), info.kind.name.as_str());
    // As in Kubernetes, the generated name of an event is the last column.
    if let ("" | "events.k8s.io", "Event") = (group, name) {
        return built_in::events::columns();
    }
    let columns = if info.columns.is_empty() {
        let known = if group == manifest::GROUP { host_kinds::of(name) } else { built_in::of(&info.kind) };
        known.unwrap_or_else(|| general(info))
    } else {
        info.columns.iter().map(defined).collect()
    };
    let name = TableColumn { cell: built_in::name(&info.kind), ..name_column(0) };
    std::iter::once(name).chain(columns).collect()
}

/// Returns a column of a definition. If its path finds several values, the cell has the first one.
fn defined(stated: &definition::PrinterColumn) -> TableColumn {
    let (path, column_type) = (stated.path.clone(), stated.column_type);
    let cell: Cell = Box::new(move |document| match path.evaluate(document).first() {
        Some(value) => shown(value, column_type),
        None => Cow::Owned(Value::Null),
    });
    let kind = stated.column_type.name();
    TableColumn {
        name: stated.name.clone(),
        kind,
        format: stated.format.clone(),
        description: stated.description.clone(),
        priority: i64::from(stated.priority),
        cell,
        is_age: kind == "date",
    }
}

/// Returns the cell of a value in a column of a definition. In a column of texts each value is a text; in others, a value of
/// another type is absent.
///
/// Source: `pkg/registry/customresource/tableconvertor` of `k8s.io/apiextensions-apiserver`.
fn shown(value: &Value, column_type: ColumnType) -> Cow<'_, Value> {
    Cow::Owned(match (column_type, value) {
        (ColumnType::String | ColumnType::Date, Value::String(_))
        | (ColumnType::Number, Value::Number(_))
        | (ColumnType::Boolean, Value::Bool(_)) => return Cow::Borrowed(value),
        (ColumnType::String, Value::Null) => "<no value>".into(),
        (ColumnType::String, other) => other.to_string().into(),
        (ColumnType::Integer, Value::Number(number)) => {
            let whole = number.as_i64().or_else(|| number.as_f64().map(|number| number as i64));
            whole.map_or(Value::Null, Value::from)
        }
        _ => Value::Null,
    })
}

/// Returns the columns of every other kind.
fn general(info: &KindInfo) -> Vec<TableColumn> {
    if info.built_in().is_some() {
        return vec![age()];
    }
    let status = |document: &Value| condition(document, "Ready").map(|ready| text(ready, "/status").to_owned());
    let ready = column("Ready", "string", computed(move |document| or_none(&status(document).unwrap_or_default())));
    if has_conditions(info.schema.as_ref()) { vec![ready, age()] } else { vec![age()] }
}

/// Returns whether resources with this schema can report conditions. Those without a schema can.
fn has_conditions(schema: Option<&Value>) -> bool {
    let Some(schema) = schema else { return true };
    let Some(status) = schema.pointer("/properties/status") else { return false };
    status.get("properties").is_none_or(|properties| properties.get("conditions").is_some())
}

/// Returns the column of the name. Clients find it by its format.
pub(super) fn name_column(priority: i64) -> TableColumn {
    TableColumn {
        format: "name".to_owned(),
        description: "Name of the resource, unique in its namespace".to_owned(),
        priority,
        ..column("Name", "string", at("/metadata/name"))
    }
}

/// Returns the column of the time since the creation.
pub(super) fn age() -> TableColumn {
    age_since("Age", at("/metadata/creationTimestamp"))
}

/// Returns a column of the time since the timestamp in a cell.
pub(super) fn age_since(name: &str, cell: Cell) -> TableColumn {
    TableColumn { is_age: true, ..column(name, "date", cell) }
}

/// Returns the column that Kubernetes shows of kinds without columns of their own: the timestamp itself.
pub(super) fn created_at() -> TableColumn {
    column("Created At", "date", at("/metadata/creationTimestamp"))
}

pub(super) fn column(name: &str, kind: &'static str, cell: Cell) -> TableColumn {
    let (name, description) = (name.to_owned(), name.to_owned());
    TableColumn { name, kind, format: String::new(), description, priority: 0, cell, is_age: false }
}

/// Returns a column of the wide table only.
pub(super) fn wide(name: &str, kind: &'static str, cell: Cell) -> TableColumn {
    TableColumn { priority: 1, ..column(name, kind, cell) }
}

/// Returns a cell of a value; null if it is missing.
pub(super) fn at(pointer: &'static str) -> Cell {
    Box::new(move |document| document.pointer(pointer).map_or(Cow::Owned(Value::Null), Cow::Borrowed))
}

/// Returns a cell of the first of several places that has a value; null if none has.
pub(super) fn first_at(pointers: &'static [&'static str]) -> Cell {
    Box::new(move |document| {
        let mut found = pointers.iter().filter_map(|pointer| document.pointer(pointer));
        found.find(|value| !value.is_null()).map_or(Cow::Owned(Value::Null), Cow::Borrowed)
    })
}

/// Returns a cell of a value; empty if it is missing.
pub(super) fn text_at(pointer: &'static str) -> Cell {
    text_or(pointer, "")
}

/// Returns a cell of a value; another text if it is missing.
pub(super) fn text_or(pointer: &'static str, other: &'static str) -> Cell {
    Box::new(move |document| document.pointer(pointer).map_or_else(|| Cow::Owned(other.into()), Cow::Borrowed))
}

pub(super) fn text_or_none(pointer: &'static str) -> Cell {
    computed(move |document| or_none(text(document, pointer)))
}

/// Returns a cell of a number; 0 if it is missing.
pub(super) fn count(pointer: &'static str) -> Cell {
    Box::new(move |document| {
        document.pointer(pointer).filter(|value| value.is_number()).map_or_else(|| Cow::Owned(0.into()), Cow::Borrowed)
    })
}

/// Returns a cell of a switch; `false` if it is missing.
pub(super) fn switch(pointer: &'static str) -> Cell {
    computed(move |document| document.pointer(pointer).is_some_and(|value| *value == true).into())
}

/// Returns a cell of the number of elements of an array.
pub(super) fn length(pointer: &'static str) -> Cell {
    computed(move |document| document.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len).into())
}

/// Returns a cell of labels.
pub(super) fn labels_at(pointer: &'static str) -> Cell {
    computed(move |document| labels(document, pointer))
}

/// Returns a cell that is computed from the document.
pub(super) fn computed(cell: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Cell {
    Box::new(move |document| Cow::Owned(cell(document)))
}
