//! Puts resources into the rows of a table, as clients show them to people.
//!
//! The columns come from the kind's definition; well-known kinds have those that people know; everything else has its name and age.

use homeostat_runtime::KindInfo;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::negotiate::only_metadata;

mod columns;

/// What of a resource goes with its row.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) enum Included {
    /// `metadata` alone.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

/// A column: what stands above it, and what stands in it.
struct Column {
    name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    kind: &'static str,
    format: String,
    description: String,
    /// From 1 on, it is shown when somebody asks for more.
    priority: i64,
    cell: Cell,
}

type Cell = Box<dyn Fn(&Value) -> Value + Send + Sync>;

/// The columns of one kind.
pub(crate) struct Table {
    columns: Vec<Column>,
    included: Included,
    /// The moment that ages are counted to: that of each row.
    now: fn() -> Timestamp,
}

impl Table {
    pub(crate) fn of(info: &KindInfo, included: Included) -> Self {
        Self { columns: columns::of(info), included, now: Timestamp::now }
    }

    /// Returns a table with these rows. `metadata` is that of the list.
    pub(crate) fn document<'d>(&self, metadata: &Value, documents: impl IntoIterator<Item = &'d Value>) -> Value {
        let columns: Vec<Value> = self.columns.iter().map(definition).collect();
        let rows: Vec<Value> = documents.into_iter().map(|document| self.row(document)).collect();
        json!({ "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows })
    }

    /// Returns a table with one row and no columns: clients know them by then.
    pub(crate) fn further(&self, document: &Value) -> Value {
        let metadata = json!({ "resourceVersion": document.pointer("/metadata/resourceVersion") });
        let mut table = self.document(&metadata, [document]);
        table["columnDefinitions"] = Value::Null;
        table
    }

    fn row(&self, document: &Value) -> Value {
        let cells: Vec<Value> = self
            .columns
            .iter()
            .map(|column| {
                let cell = (column.cell)(document);
                if column.kind == "date" { self.age(&cell) } else { cell }
            })
            .collect();
        let object = match self.included {
            Included::None => Value::Null,
            Included::Object => document.clone(),
            Included::Metadata => only_metadata(document),
        };
        if object.is_null() { json!({ "cells": cells }) } else { json!({ "cells": cells, "object": object }) }
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

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}

#[cfg(test)]
mod tests;
