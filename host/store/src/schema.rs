//! What the documents of a kind look like: a structural schema, as `CustomResourceDefinition`s carry it (OpenAPI v3).
//!
//! A schema says how parts of a document merge when several managers own them, what is filled in, what is left out, and what is refused.
//!
//! Deliberately absent: the rules of `x-kubernetes-validations`, which are written in a language of their own (CEL). They are read over,
//! and [`Schema::has_rules`] says that there are some.

mod check;
mod defaults;
mod format;
mod limits;
mod parse;
mod pattern;
mod prune;
mod schemas;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::Result;
use crate::path::Path;
use limits::Constraints;

pub use crate::violation::{Reason, VIOLATIONS_MAX, Violation};
pub use schemas::{Schemas, VersionSchema};

/// The schema of a value and of everything below it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// What the value has to be; `None` for anything.
    value_type: Option<ValueType>,
    nullable: bool,
    properties: BTreeMap<String, Schema>,
    /// The schema of every value of an object whose names are free.
    additional: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    list: ListType,
    atomic_map: bool,
    /// Whether fields that nothing is known of are kept. Source: `x-kubernetes-preserve-unknown-fields`.
    open: bool,
    /// Whether the value is a resource of its own. Source: `x-kubernetes-embedded-resource`.
    embedded: bool,
    default: Option<Value>,
    /// What else the value has to be; most have nothing of it.
    limits: Option<Box<Constraints>>,
    /// Whether there are rules that are not looked at, here or below.
    has_rules: bool,
    /// What the schema was read from; only the outermost has it.
    source: Option<Arc<Value>>,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// Source: `x-kubernetes-int-or-string`.
    IntegerOrString,
}

/// How the items of a list are told apart. Source: `x-kubernetes-list-type`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    /// The list is one value, with one owner.
    #[default]
    Atomic,
    /// Each item is a scalar of its own.
    Set,
    /// Each item is an object, known by the values of these fields.
    Map(Vec<String>),
}

impl Schema {
    /// Reads the `openAPIV3Schema` of a version of a `CustomResourceDefinition`.
    ///
    /// Keywords that are not known are read over, and so are formats. At most [`DOCUMENT_BYTES_MAX`](crate::DOCUMENT_BYTES_MAX) and
    /// [`DOCUMENT_DEPTH_MAX`](crate::DOCUMENT_DEPTH_MAX) levels of JSON, at most 256 different patterns.
    ///
    /// # Errors
    /// `Invalid` with the path inside of the schema, as `openAPIV3Schema.properties[spec].type`, when it is malformed or not structural;
    /// `TooLarge`.
    pub fn parse(source: &Value) -> Result<Self> {
        parse::parse(source)
    }

    /// Returns what the schema was read from; `None` for the schema of a part.
    pub fn source(&self) -> Option<&Value> {
        self.source.as_deref()
    }

    /// Returns whether there are `x-kubernetes-validations`, here or below: rules that nobody checks.
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// Fills in the defaults of the fields by which items of lists are known (`x-kubernetes-list-map-keys`), and nothing else.
    ///
    /// # Errors
    /// As [`Schema::set_defaults`].
    pub fn set_key_defaults(&self, resource: &mut Value) -> Result<()> {
        defaults::set_keys(self, resource)
    }

    /// Fills in what is missing and has a default. A null that is not allowed is missing.
    ///
    /// The value is a whole resource; its metadata is left alone. It is no deeper than documents may be.
    ///
    /// # Errors
    /// `TooLarge` when the defaults alone come to more than a document may have. The value is then half filled.
    pub fn set_defaults(&self, resource: &mut Value) -> Result<()> {
        defaults::set(self, resource, true)
    }

    /// Removes fields that nothing is known of, and returns the paths of the first [`VIOLATIONS_MAX`] of them.
    ///
    /// The value is a whole resource: `apiVersion`, `kind` and `metadata` stay, here and in embedded resources. It is no deeper than
    /// documents may be.
    pub fn prune(&self, resource: &mut Value) -> Vec<String> {
        prune::prune(self, resource, &Path::ROOT, true)
    }

    /// Returns what is wrong with a value, the first [`VIOLATIONS_MAX`] things; nothing when it is as it should be.
    ///
    /// The value is a whole resource, no deeper than documents may be.
    pub fn check(&self, resource: &Value) -> Vec<Violation> {
        check::check(self, resource, &Path::ROOT)
    }

    /// Returns a schema that everything fits.
    fn anything() -> Self {
        Self { nullable: true, open: true, ..Self::default() }
    }

    /// Prunes, fills in and checks a part of a resource that stands at `path`.
    pub(crate) fn admit(&self, value: &mut Value, path: &Path<'_>, is_resource: bool) -> Result<Vec<Violation>> {
        prune::prune(self, value, path, is_resource);
        defaults::set(self, value, is_resource)?;
        Ok(check::check(self, value, path))
    }

    /// Returns whether a field that nothing is known of stays.
    pub(crate) fn keeps_unknown(&self) -> bool {
        self.open || self.additional.is_some() || self.value_type != Some(ValueType::Object)
    }

    /// Returns the schema of a field of an object; `None` when nothing is known of it.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(self.additional.as_deref())
    }

    /// Returns the schema of the items of a list; `None` when nothing is known of them.
    pub fn items(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    /// Returns how the items of a list are told apart.
    pub fn list_type(&self) -> &ListType {
        &self.list
    }

    /// Returns whether an object is one value, with one owner. Source: `x-kubernetes-map-type: atomic`.
    pub fn is_atomic_map(&self) -> bool {
        self.atomic_map
    }
}

#[cfg(test)]
mod tests;
