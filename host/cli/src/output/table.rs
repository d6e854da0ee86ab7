//! Tables without borders, in kubectl's format.

use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Width};

use super::plain;

/// Spaces between two columns.
const GAP: u16 = 3;

/// A table that is printed at once, or row by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The widths of printed columns, so that later rows align.
    widths: Vec<u16>,
}

impl Table {
    pub(crate) fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { header: header.into_iter().map(|name| plain(&name.into())).collect(), ..Self::default() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| plain(cell)).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the rows since the last call; the first call includes the header.
    pub(crate) fn take(&mut self) -> String {
        let is_first = self.widths.is_empty();
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if is_first {
            table.add_row(&self.header);
        }
        table.add_rows(self.rows.drain(..));
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, GAP));
            if let Some(width) = self.widths.get(at) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*width + GAP)));
            }
        }
        if is_first {
            self.widths = table.column_max_content_widths();
        }
        lines(&table)
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.clone().take())
    }
}

fn lines(table: &comfy_table::Table) -> String {
    if table.row_count() == 0 {
        return String::new();
    }
    table.trim_fmt().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests;
