//! Puts resources into the rows of a table, as clients show them to people.
//!
//! The columns come from the kind's definition; well-known kinds have those that people know; everything else has its name and age.

use std::borrow::Cow;

use homeostat_runtime::KindInfo;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::negotiate::{OnlyMetadata, only_metadata};

mod columns;

/// What of a resource goes with its row.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) enum IncludeObjectPolicy {
    /// `metadata` alone.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

/// A column: what stands above it, and what stands in it.
struct TableColumn {
    name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    kind: &'static str,
    format: String,
    description: String,
    /// From 1 on, it is shown when somebody asks for more.
    priority: i64,
    cell: Cell,
}

/// Finds what stands in a column, which is a part of the document as a rule.
type Cell = Box<dyn for<'d> Fn(&'d Value) -> Cow<'d, Value> + Send + Sync>;

/// The columns of one kind.
pub(crate) struct Table {
    columns: Vec<TableColumn>,
    included: IncludeObjectPolicy,
    /// The moment that ages are counted to: that of each row.
    now: fn() -> Timestamp,
}

/// A table as clients read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TableDocument<'d> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Value,
    /// `None` where clients know them.
    column_definitions: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<Row<'d>>>,
}

impl TableDocument<'_> {
    /// Returns what stands beside the rows.
    pub(crate) fn without_rows(self) -> Self {
        Self { rows: None, ..self }
    }
}

/// A row, which borrows what it shows.
#[derive(Serialize)]
pub(crate) struct Row<'d> {
    cells: Vec<Cow<'d, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<RowObject<'d>>,
}

/// What goes with a row.
#[derive(Serialize)]
#[serde(untagged)]
enum RowObject<'d> {
    Metadata(OnlyMetadata<'d>),
    Whole(&'d Value),
}

impl Table {
    pub(crate) fn of(info: &KindInfo, included: IncludeObjectPolicy) -> Self {
        Self { columns: columns::of(info), included, now: Timestamp::now }
    }

    /// Returns a table with these rows. `metadata` is that of the list.
    pub(crate) fn document<'d>(
        &self,
        metadata: &Value,
        documents: impl IntoIterator<Item = &'d Value>,
    ) -> TableDocument<'d> {
        TableDocument {
            kind: "Table",
            api_version: "meta.k8s.io/v1",
            metadata: metadata.clone(),
            column_definitions: Some(self.columns.iter().map(definition).collect()),
            rows: Some(documents.into_iter().map(|document| self.row(document)).collect()),
        }
    }

    /// Returns a table with one row and no columns: clients know them by then.
    pub(crate) fn without_columns<'d>(&self, document: &'d Value) -> TableDocument<'d> {
        let metadata = json!({ "resourceVersion": document.pointer("/metadata/resourceVersion") });
        TableDocument { column_definitions: None, ..self.document(&metadata, [document]) }
    }

    /// Returns the row of a resource.
    pub(crate) fn row<'d>(&self, document: &'d Value) -> Row<'d> {
        let cell = |column: &TableColumn| {
            let cell = (column.cell)(document);
            if column.kind == "date" { Cow::Owned(self.age(&cell)) } else { cell }
        };
        let object = match self.included {
            IncludeObjectPolicy::None => None,
            IncludeObjectPolicy::Object => Some(RowObject::Whole(document)),
            IncludeObjectPolicy::Metadata => Some(RowObject::Metadata(only_metadata(document))),
        };
        Row { cells: self.columns.iter().map(cell).collect(), object }
    }

    /// Returns how long ago a moment was, in two units at most, as `5m3s`, `3h7m` or `12d`.
    fn age(&self, moment: &Value) -> Value {
        let Some(moment) = moment.as_str().and_then(|text| text.parse::<Timestamp>().ok()) else {
            return Value::Null;
        };
        let seconds = (self.now)().duration_since(moment).as_secs().max(0);
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
        let pair = |first: i64, unit: &str, second: i64, below: &str| {
            if second == 0 { format!("{first}{unit}") } else { format!("{first}{unit}{second}{below}") }
        };
        let text = match seconds {
            0..120 => format!("{seconds}s"),
            120..600 => pair(minutes, "m", seconds % 60, "s"),
            600..10_800 => format!("{minutes}m"),
            10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
            28_800..172_800 => format!("{hours}h"),
            172_800..691_200 => pair(days, "d", hours % 24, "h"),
            _ => format!("{days}d"),
        };
        text.into()
    }
}

fn definition(column: &TableColumn) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}

#[cfg(test)]
mod tests;
