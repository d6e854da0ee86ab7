//! A `CustomResourceDefinition` (apiextensions.k8s.io/v1): the names of a kind, its scope, and the schema of
//! each of its versions.
//!
//! Deliberately absent: the conversion itself, and the status of definitions, which the runtime writes.

mod conversion;
mod parse;
#[cfg(test)]
mod tests;
mod warnings;

use serde_json::Value;

use crate::jsonpath::JsonPath;
use crate::schema::Schema;
use crate::{IndexTerm, Kind, Result};
pub use conversion::{CONVERTER, Conversion, WebhookClient, WebhookTarget};
pub use warnings::{finalizer_warnings, format_warnings};

/// A validated definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// API group, as `example.dev`.
    pub group: String,
    /// The names of the kind.
    pub names: Names,
    /// Whether resources live in namespaces.
    pub namespaced: bool,
    /// One or more; exactly one is the storage version.
    pub versions: Vec<Version>,
    /// How documents get from one version to another.
    pub conversion: Conversion,
    /// The labels with an index, which [`INDEXED_LABELS`] names: at most 8, each once.
    pub indexed_labels: Vec<String>,
}

/// The annotation of a definition that names labels of its resources, separated by commas: stores keep an index of each,
/// so that a list by one of them costs as much as it returns. Selectable fields have an index without an annotation.
pub const INDEXED_LABELS: &str = "homeostat.dev/indexed-labels";

/// The names of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The `kind` of documents, as `Widget`.
    pub kind: String,
    /// The `kind` of lists, as `WidgetList`.
    pub list_kind: String,
    /// The plural in URLs, as `widgets`.
    pub plural: String,
    /// The singular for command lines, as `widget`.
    pub singular: String,
    /// Shorter names, as `wd`.
    pub short_names: Vec<String>,
    /// Categories of kinds that it is listed in, as `all`.
    pub categories: Vec<String>,
}

/// One version of a kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// The name, as `v1`.
    pub name: String,
    /// Whether the API serves it.
    pub served: bool,
    /// Whether it is the storage version.
    pub storage: bool,
    /// The deprecation warning for clients, when the version is deprecated.
    pub deprecation: Option<String>,
    /// The schema of documents; `None` when the definition has none.
    pub schema: Option<Schema>,
    /// Whether `status` is a subresource, written separately.
    pub has_status: bool,
    /// The scale subresource, if there is one.
    pub scale: Option<Scale>,
    /// The columns of tables beside name and age.
    pub columns: Vec<PrinterColumn>,
    /// Fields that field selectors can use. In the storage version, stores keep an index of each.
    pub selectable_fields: Vec<JsonPath>,
}

/// The fields of the scale subresource.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// Below `.spec`: the desired number of replicas.
    pub spec_replicas: JsonPath,
    /// Below `.status`: the current number of replicas.
    pub status_replicas: JsonPath,
    /// Below `.spec` or `.status`: the label selector of the counted resources, as text.
    pub label_selector: Option<JsonPath>,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct PrinterColumn {
    /// The heading.
    pub name: String,
    /// The type of the values.
    pub column_type: ColumnType,
    /// The format of the values, as `password`; empty if unspecified.
    pub format: String,
    /// The description of the column, for a person; may be empty.
    pub description: String,
    /// 0 is always shown; columns of higher priority are shown in wide tables only.
    pub priority: i32,
    /// The path of the value.
    pub path: JsonPath,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// An integer.
    Integer,
    /// A number.
    Number,
    /// A string.
    String,
    /// True or false.
    Boolean,
    /// A time, shown as its age.
    Date,
}

/// The keyword of a schema that has a [`Presentation`].
pub const PRESENTATION: &str = "x-homeostat-definition";

/// How clients name and show a kind: the parts of a definition that the schema of a component can have in its keyword
/// [`PRESENTATION`], in the form of a `CustomResourceDefinition`.
///
/// ```json
/// {"names": {"singular": "widget", "shortNames": ["wd"], "categories": ["all"]}, "additionalPrinterColumns": []}
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Presentation {
    /// The singular for command lines; `None` for the default.
    pub singular: Option<String>,
    /// Shorter names, as `wd`.
    pub short_names: Vec<String>,
    /// Categories of kinds that it is listed in, as `all`.
    pub categories: Vec<String>,
    /// The columns of tables beside name and age.
    pub columns: Vec<PrinterColumn>,
}

impl Presentation {
    /// Parses the presentation in a schema. Without the keyword, all of it is empty.
    ///
    /// # Errors
    /// `Invalid` with the path of the invalid field.
    pub fn of_schema(schema: &Value) -> Result<Self> {
        parse::presentation(schema)
    }
}

impl Definition {
    /// Parses a definition.
    ///
    /// # Errors
    /// `Invalid` with the path of the missing or invalid field, `TooLarge`.
    pub fn parse(document: &Value) -> Result<Self> {
        parse::definition(document)
    }

    /// Returns the storage version.
    ///
    /// # Panics
    /// When a caller has removed the storage version from [`Definition::versions`].
    pub fn stored(&self) -> &Version {
        self.versions.iter().find(|version| version.storage).expect("one version is stored, as was checked")
    }

    /// Returns the labels and fields with an index.
    pub fn indexes(&self) -> Vec<IndexTerm> {
        let labels = self.indexed_labels.iter().cloned().map(IndexTerm::Label);
        let fields = self.stored().selectable_fields.iter().filter_map(JsonPath::pointer).map(IndexTerm::Field);
        labels.chain(fields).collect()
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
    /// Returns its name in definitions and tables, as `integer`.
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
