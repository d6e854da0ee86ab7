//! Schemas of kinds, from Rust types.
//!
//! `#[derive(Resource)]` calls [`document`] for a type that also derives `JsonSchema`. A [`Kind`] that is implemented
//! by hand can call it from [`Kind::schema`].
//!
//! Only `describe` calls this code, once when the component is loaded. A guest without a schema does not contain it.

mod structural;
mod types;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::Kind;

/// Further names of a kind, for command lines. All are in lower case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Names {
    /// The singular, as `deployment`; empty for the kind's name in lower case.
    pub singular: &'static str,
    /// Shorter names, as `deploy`.
    pub short_names: &'static [&'static str],
    /// Categories of kinds that it is listed in, as `all`.
    pub categories: &'static [&'static str],
}

impl Names {
    /// Sets the singular.
    #[must_use]
    pub const fn singular(self, singular: &'static str) -> Self {
        Self { singular, ..self }
    }

    /// Sets the short names.
    #[must_use]
    pub const fn short_names(self, short_names: &'static [&'static str]) -> Self {
        Self { short_names, ..self }
    }

    /// Sets the categories.
    #[must_use]
    pub const fn categories(self, categories: &'static [&'static str]) -> Self {
        Self { categories, ..self }
    }

    /// Creates names without further ones.
    #[must_use]
    pub const fn new() -> Self {
        Self { singular: "", short_names: &[], categories: &[] }
    }
}

/// A column of the table that `kubectl get` and `homeostat get` print for a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean`, or `date` for a time that is shown as an age.
    pub column_type: &'static str,
    /// The path of the value, as `.status.phase`.
    pub json_path: &'static str,
    /// The description for a person; may be empty.
    pub description: &'static str,
    /// 0 is always shown. Columns of higher priority are shown in wide tables only.
    pub priority: i32,
}

impl Column {
    /// Creates a column that is always shown.
    #[must_use]
    pub const fn new(name: &'static str, column_type: &'static str, json_path: &'static str) -> Self {
        Self { name, column_type, json_path, description: "", priority: 0 }
    }

    /// Sets the description.
    #[must_use]
    pub const fn description(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    /// Sets the priority.
    #[must_use]
    pub const fn priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    fn document(&self) -> Value {
        let Self { name, column_type, json_path, description, priority } = self;
        let mut column = json!({ "name": name, "type": column_type, "jsonPath": json_path });
        if !description.is_empty() {
            column["description"] = (*description).into();
        }
        if *priority != 0 {
            column["priority"] = (*priority).into();
        }
        column
    }
}

/// Returns the structural schema of the documents of a kind, as text, from the schemas of its Rust types.
///
/// ```
/// use homeostat_sdk::prelude::*;
/// use homeostat_sdk::schema::{self, Column, Names};
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Monitor {
///     url: String,
/// }
///
/// impl Kind for Monitor {
///     const API_VERSION: &str = "demo.homeostat.dev/v1";
///     const NAME: &str = "Monitor";
///     const PLURAL: &str = "monitors";
///     type Status = ();
///
///     fn schema() -> Option<String> {
///         Some(schema::document::<Self>(Names::new(), &[Column::new("URL", "string", ".spec.url")]))
///     }
/// }
/// # assert!(Monitor::schema().is_some_and(|schema| schema.contains(r#""url":{"type":"string"}"#)));
/// ```
///
/// The rules for the parts of a type:
///
/// * An `Option` may be missing or `null`. A field with a serde default has that default in the schema, and the host
///   fills it in.
/// * Numbers have the formats `int32` and `int64`, with the bounds of their Rust type. The greatest `u64` in a document
///   is 2⁶³ − 1.
/// * The variants of an enum with fields are merged into one object, of which the document has one variant.
/// * A schema cannot express a value of several types, or one that contains itself. It accepts any value there, except
///   for a number or a string, which is `x-kubernetes-int-or-string`.
/// * Keywords of Kubernetes, and any others, come from `#[schemars(extend("x-kubernetes-..." = ...))]`.
#[must_use]
pub fn document<K>(names: Names, columns: &[Column]) -> String
where
    K: Kind + JsonSchema,
    K::Status: JsonSchema,
{
    whole(&of::<K>(), &of::<K::Status>(), K::FIELD, names, columns).to_string()
}

/// Returns the JSON Schema of one type, as far as possible without references.
fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

fn whole(spec: &Value, status: &Value, field: &str, names: Names, columns: &[Column]) -> Value {
    let mut spec = structural::of(spec);
    let description = spec.remove("description");
    let is_required = spec.contains_key("required");
    let mut properties = Map::new();
    properties.insert(field.to_owned(), spec.into());
    if status["type"] != "null" {
        properties.insert("status".to_owned(), structural::of(status).into());
    }
    let mut whole = json!({ "type": "object", "properties": properties });
    if is_required {
        whole["required"] = json!([field]);
    }
    if let Some(description) = description {
        whole["description"] = description;
    }
    let definition = definition(names, columns);
    if !definition.is_empty() {
        whole["x-homeostat-definition"] = definition.into();
    }
    whole
}

/// Returns the parts of a `CustomResourceDefinition` that the contract has no field for.
fn definition(names: Names, columns: &[Column]) -> Map<String, Value> {
    let Names { singular, short_names, categories } = names;
    let mut named = Map::new();
    if !singular.is_empty() {
        named.insert("singular".to_owned(), singular.into());
    }
    for (name, texts) in [("shortNames", short_names), ("categories", categories)] {
        if !texts.is_empty() {
            named.insert(name.to_owned(), json!(texts));
        }
    }
    let mut definition = Map::new();
    if !named.is_empty() {
        definition.insert("names".to_owned(), named.into());
    }
    if !columns.is_empty() {
        let columns: Vec<Value> = columns.iter().map(Column::document).collect();
        definition.insert("additionalPrinterColumns".to_owned(), columns.into());
    }
    definition
}

#[cfg(test)]
mod tests;
