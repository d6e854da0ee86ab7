//! The table of `homeostat get`: the columns that the host chose for a kind, and its rows. Pure.

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

use crate::client::ApiResource;
use crate::document::text;
use crate::output::table::Table;

/// A column of the host's table. The cells of a row are in the same order.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Column {
    name: String,
    /// `name` for the column with the name of the resource.
    #[serde(default)]
    format: String,
    /// Columns with a priority of 1 or more are only shown in wide output.
    #[serde(default)]
    priority: i64,
}

/// Returns the columns of the host's table; `None` for an event of a watch that has sent them before.
///
/// # Errors
/// When the answer is no table.
pub(super) fn columns(table: &Value) -> anyhow::Result<Option<Vec<Column>>> {
    const NO_TABLE: &str = "the host's answer is not a table: is it a Homeostat host of this version?";
    anyhow::ensure!(table["kind"] == "Table", NO_TABLE);
    Option::deserialize(&table["columnDefinitions"]).context(NO_TABLE)
}

/// How the rows of a kind are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<'k> {
    /// Also the columns of wide output.
    pub(super) is_wide: bool,
    /// A first column with the namespace.
    pub(super) has_namespace: bool,
    /// The kind that qualifies each name; `None` for plain names.
    pub(super) kind: Option<&'k ApiResource>,
}

/// The rows of one kind, printed as they arrive.
pub(super) struct Rows<'k> {
    layout: Layout<'k>,
    columns: Vec<Column>,
    table: Table,
}

impl<'k> Rows<'k> {
    pub(super) fn new(layout: Layout<'k>, columns: Vec<Column>) -> Self {
        let namespace = layout.has_namespace.then(|| "NAMESPACE".to_owned());
        let shown = columns.iter().filter(|column| layout.shows(column));
        let header: Vec<String> = namespace.into_iter().chain(shown.map(|column| column.name.to_uppercase())).collect();
        Self { layout, columns, table: Table::new(header) }
    }

    /// Adds a row of the host's table. Missing cells are `<none>`.
    pub(super) fn add(&mut self, row: &Value) {
        let namespace = self.layout.has_namespace.then(|| text(row, "/object/metadata/namespace").to_owned());
        let shown = self.columns.iter().enumerate().filter(|(_, column)| self.layout.shows(column));
        let cells = shown.map(|(at, column)| self.layout.cell(column, &row["cells"][at]));
        self.table.row(namespace.into_iter().chain(cells).collect());
    }

    /// Returns the rows since the last call; the first call includes the header.
    pub(super) fn take(&mut self) -> String {
        self.table.take()
    }
}

impl Layout<'_> {
    /// A name that must have its kind is shown in any case.
    fn shows(&self, column: &Column) -> bool {
        self.is_wide || column.priority == 0 || (column.format == "name" && self.kind.is_some())
    }

    fn cell(&self, column: &Column, value: &Value) -> String {
        let cell = match value {
            Value::Null => "<none>".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match self.kind {
            Some(kind) if column.format == "name" => kind.qualified_name(&cell),
            _ => cell,
        }
    }
}

#[cfg(test)]
mod tests;
