//! What a `CustomResourceDefinition` (apiextensions.k8s.io/v1) says: the names of a kind, where it lives, and what each of its versions
//! looks like.
//!
//! Deliberately absent: conversion by a webhook, which is refused, and the status of definitions, which whoever declares kinds writes.

mod parse;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::jsonpath::JsonPath;
use crate::schema::Schema;
use crate::{Kind, Result};

/// A definition, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// API group, as `example.dev`.
    pub group: String,
    /// What the kind is called.
    pub names: Names,
    /// Whether resources live in namespaces.
    pub namespaced: bool,
    /// One or more; exactly one is stored.
    pub versions: Vec<Version>,
}

/// What a kind is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// As documents say it, as `Widget`.
    pub kind: String,
    /// What lists of it say, as `WidgetList`.
    pub list_kind: String,
    /// As it stands in addresses, as `widgets`.
    pub plural: String,
    /// As a person may say it, as `widget`.
    pub singular: String,
    /// Shorter names, as `wd`.
    pub short_names: Vec<String>,
    /// Groups of kinds that it is shown with, as `all`.
    pub categories: Vec<String>,
}

/// One version of a kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// As `v1`.
    pub name: String,
    /// Whether it can be asked for.
    pub served: bool,
    /// Whether documents are stored in it.
    pub storage: bool,
    /// What a client is to be warned of, when the version is deprecated.
    pub deprecation: Option<String>,
    /// What documents look like; `None` when the definition does not say.
    pub schema: Option<Schema>,
    /// Whether `status` is written on its own.
    pub has_status: bool,
    /// How the size of a resource is read and set, when it has one.
    pub scale: Option<Scale>,
    /// What tables show beside name and age.
    pub columns: Vec<PrinterColumn>,
    /// Fields that lists can be selected by.
    pub selectable_fields: Vec<JsonPath>,
}

/// Where the size of a resource stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// Below `.spec`: how many there should be.
    pub spec_replicas: JsonPath,
    /// Below `.status`: how many there are.
    pub status_replicas: JsonPath,
    /// Below `.spec` or `.status`: the label selector of what is counted, as text.
    pub label_selector: Option<JsonPath>,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct PrinterColumn {
    /// The heading.
    pub name: String,
    /// What the values are.
    pub column_type: ColumnType,
    /// How values are written, as `password`; empty when nothing is said.
    pub format: String,
    /// What the column says, for a person; may be empty.
    pub description: String,
    /// 0 is shown always, more in wide tables alone.
    pub priority: i32,
    /// Where the value stands.
    pub path: JsonPath,
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A text.
    String,
    /// True or false.
    Boolean,
    /// A time, shown as the age that it makes.
    Date,
}

impl Definition {
    /// Reads a definition.
    ///
    /// # Errors
    /// `Invalid` with the path of what is missing or wrong, `TooLarge`.
    pub fn parse(document: &Value) -> Result<Self> {
        parse::definition(document)
    }

    /// Returns the version that documents are stored in.
    ///
    /// # Panics
    /// When someone took the stored version out of [`Definition::versions`].
    pub fn stored(&self) -> &Version {
        self.versions.iter().find(|version| version.storage).expect("one version is stored, as was checked")
    }

    /// Returns a version by its name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Returns the kind in one of its versions.
    pub fn kind(&self, version: &Version) -> Kind {
        Kind::new(&self.group, &version.name, &self.names.kind)
    }
}

impl ColumnType {
    /// Returns what definitions and tables call it, as `integer`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Date => "date",
        }
    }
}
