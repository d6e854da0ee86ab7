//! Tables: resources as rows, for kubectl, `homeostat get` and other clients that show them to people.
//!
//! The columns come from the kind's definition. Well-known kinds have those of kubectl. Every other kind has
//! its name and age, and its readiness if its resources can report it.

use std::borrow::Cow;

use homeostat_runtime::KindInfo;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::age;
use crate::presentation::{PartialObjectMetadata, only_metadata};

mod built_in;
mod cells;
mod columns;
mod host_kinds;

/// How much of the resource is included with its row.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) enum IncludeObjectPolicy {
    /// Only `metadata`.
    #[default]
    Metadata,
    /// The whole resource.
    Object,
    /// Nothing.
    None,
}

/// A column: its header, and the function for its cells.
struct TableColumn {
    name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    kind: &'static str,
    format: String,
    description: String,
    /// Columns with a priority of 1 or more are only shown in wide output.
    priority: i64,
    cell: Cell,
    /// Whether the cell is a timestamp, of which a row shows the time since then.
    is_age: bool,
}

/// Returns the cell of a document, usually a part of it.
type Cell = Box<dyn for<'d> Fn(&'d Value) -> Cow<'d, Value> + Send + Sync>;

/// The columns of one kind.
pub(crate) struct Table {
    columns: Vec<TableColumn>,
    /// That of the document, `meta.k8s.io/v1` or an older one with the same fields.
    api_version: &'static str,
    included: IncludeObjectPolicy,
    /// Whether the kind is built in. Its columns of ages have the type `string`, as in Kubernetes.
    is_built_in: bool,
    /// Returns the conditions of a row.
    conditions: fn(&Value) -> Vec<Value>,
    /// Ages are relative to this time, which is taken for each row.
    now: fn() -> Timestamp,
}

/// The `Table` document of Kubernetes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TableDocument<'d> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Value,
    /// `None` if the client has them already.
    column_definitions: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<Row<'d>>>,
}

impl TableDocument<'_> {
    /// Returns the table without its rows.
    pub(crate) fn without_rows(self) -> Self {
        Self { rows: None, ..self }
    }
}

/// A row, which borrows from its document.
#[derive(Serialize)]
pub(crate) struct Row<'d> {
    cells: Vec<Cow<'d, Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<RowObject<'d>>,
}

/// The object that is included with a row.
#[derive(Serialize)]
#[serde(untagged)]
enum RowObject<'d> {
    Metadata(PartialObjectMetadata<'d>),
    Whole(&'d Value),
}

impl Table {
    pub(crate) fn of(info: &KindInfo, included: IncludeObjectPolicy) -> Self {
        let is_of_pods = info.kind.group.is_empty() && info.kind.name == "Pod";
        Self {
            columns: columns::of(info),
            api_version: "meta.k8s.io/v1",
            included,
            is_built_in: info.built_in().is_some(),
            conditions: if is_of_pods { built_in::pods::row_conditions } else { |_| Vec::new() },
            now: Timestamp::now,
        }
    }

    /// Returns the table in the version before `v1`.
    pub(crate) fn in_beta(self) -> Self {
        Self { api_version: "meta.k8s.io/v1beta1", ..self }
    }

    /// Returns a table with these rows. `metadata` is that of the list.
    pub(crate) fn document<'d>(
        &self,
        metadata: &Value,
        documents: impl IntoIterator<Item = &'d Value>,
    ) -> TableDocument<'d> {
        TableDocument {
            kind: "Table",
            api_version: self.api_version,
            metadata: metadata.clone(),
            column_definitions: Some(self.columns.iter().map(|column| self.definition(column)).collect()),
            rows: Some(documents.into_iter().map(|document| self.row(document)).collect()),
        }
    }

    /// Returns a table with one row, without columns for clients that have them already.
    pub(crate) fn of_one<'d>(&self, document: &'d Value, knows_columns: bool) -> TableDocument<'d> {
        let metadata = json!({ "resourceVersion": document.pointer("/metadata/resourceVersion") });
        let table = self.document(&metadata, [document]);
        if knows_columns { TableDocument { column_definitions: None, ..table } } else { table }
    }

    /// Returns the row of a resource.
    pub(crate) fn row<'d>(&self, document: &'d Value) -> Row<'d> {
        let cell = |column: &TableColumn| {
            let cell = (column.cell)(document);
            if column.is_age { Cow::Owned(self.age(&cell)) } else { cell }
        };
        let object = match self.included {
            IncludeObjectPolicy::None => None,
            IncludeObjectPolicy::Object => Some(RowObject::Whole(document)),
            IncludeObjectPolicy::Metadata => Some(RowObject::Metadata(only_metadata(document))),
        };
        let conditions = (self.conditions)(document);
        Row { cells: self.columns.iter().map(cell).collect(), conditions, object }
    }

    /// Returns the time since a timestamp. One that is missing or invalid is null, or has the word of Kubernetes.
    fn age(&self, moment: &Value) -> Value {
        match moment.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
            Some(moment) => age::short((self.now)().as_second() - moment.as_second()).into(),
            None if self.is_built_in => "<unknown>".into(),
            None if moment.is_string() => "<invalid>".into(),
            None => Value::Null,
        }
    }

    fn definition(&self, column: &TableColumn) -> Value {
        let kind = if self.is_built_in && column.is_age { "string" } else { column.kind };
        json!({
            "name": column.name, "type": kind, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    }
}

#[cfg(test)]
mod tests;
