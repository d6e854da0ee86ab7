//! The targets: parsers of foreign bytes, by name.

use std::fmt;

use clap::ValueEnum;
use serde_json::Value;

use crate::targets::{
    apply, artifact, compiled, component, definition, document, file, fsck, json_patch, jsonpath, manifest, merge,
    name, pattern, request, schema, selector, token, write,
};

/// One target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// Documents of resources, created and updated
    Document,
    /// Sequences of writes, as guests send them
    Write,
    /// Label and field selectors, as text and as JSON
    Selector,
    /// Continue tokens of lists
    Token,
    /// JSON patches
    JsonPatch,
    /// Merge patches and strategic merge patches
    Merge,
    /// Server-side apply to documents with foreign `managedFields`
    Apply,
    /// JSON paths
    Jsonpath,
    /// Schemas, and documents that are defaulted, pruned and validated by them
    Schema,
    /// `CustomResourceDefinition`s
    Definition,
    /// Patterns of schemas
    Pattern,
    /// Names, revisions, label values and strings with a format
    Name,
    /// Store files: header, write-ahead log and pages
    File,
    /// Store files for fsck and restore
    Fsck,
    /// Components, up to their description of themselves
    Component,
    /// Files of compiled components
    Compiled,
    /// Manifests of controllers
    Manifest,
    /// Requests to the API: head, URL, headers, tokens and body
    Request,
    /// References, manifests of artifacts, and components with signatures
    Artifact,
}

/// Maximum characters of a value in a report.
const SHOWN_CHARS_MAX: usize = 400;

/// How a property held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// The input was accepted.
    Accepted,
    /// The input was refused with an error.
    Rejected,
}

/// The result of an input: how the property held, or why it did not.
pub(crate) type Outcome = Result<Acceptance, String>;

impl Target {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Write => "write",
            Self::Selector => "selector",
            Self::Token => "token",
            Self::JsonPatch => "json-patch",
            Self::Merge => "merge",
            Self::Apply => "apply",
            Self::Jsonpath => "jsonpath",
            Self::Schema => "schema",
            Self::Definition => "definition",
            Self::Pattern => "pattern",
            Self::Name => "name",
            Self::File => "file",
            Self::Fsck => "fsck",
            Self::Component => "component",
            Self::Compiled => "compiled",
            Self::Manifest => "manifest",
            Self::Request => "request",
            Self::Artifact => "artifact",
        }
    }

    /// Runs the target on the input and checks its property. The same input has the same outcome.
    pub(crate) fn judge(self, input: &[u8]) -> Outcome {
        match self {
            Self::Document => document::judge(input),
            Self::Write => write::judge(input),
            Self::Selector => selector::judge(input),
            Self::Token => token::judge(input),
            Self::JsonPatch => json_patch::judge(input),
            Self::Merge => merge::judge(input),
            Self::Apply => apply::judge(input),
            Self::Jsonpath => jsonpath::judge(input),
            Self::Schema => schema::judge(input),
            Self::Definition => definition::judge(input),
            Self::Pattern => pattern::judge(input),
            Self::Name => name::judge(input),
            Self::File => file::judge(input),
            Self::Fsck => fsck::judge(input),
            Self::Component => component::judge(input),
            Self::Compiled => compiled::judge(input),
            Self::Manifest => manifest::judge(input),
            Self::Request => request::judge(input),
            Self::Artifact => artifact::judge(input),
        }
    }
}

/// Checks that two values are equal.
///
/// # Errors
/// The property and both values.
pub(crate) fn same<T: PartialEq + fmt::Debug>(law: &str, one: &T, two: &T) -> Result<(), String> {
    let shown = |value: &T| format!("{value:?}").chars().take(SHOWN_CHARS_MAX).collect::<String>();
    if one == two { Ok(()) } else { Err(format!("{law}: {} and {}", shown(one), shown(two))) }
}

/// Checks a condition.
///
/// # Errors
/// The property.
pub(crate) fn must(law: &str, is_so: bool) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(law.to_owned()) }
}

/// Parses a JSON object and takes two of its fields; `None` for anything else. A missing field is null.
pub(crate) fn pair(input: &[u8], one: &str, two: &str) -> Option<(Value, Value)> {
    let mut value: Value = serde_json::from_slice(input).ok()?;
    let fields = value.as_object_mut()?;
    Some((fields.remove(one).unwrap_or_default(), fields.remove(two).unwrap_or_default()))
}

/// Returns whether a value is nested no deeper than a store accepts.
pub(crate) fn is_shallow(value: &Value) -> bool {
    depth(value) <= homeostat_store::DOCUMENT_DEPTH_MAX
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Returns the length of a value's JSON text.
pub(crate) fn bytes(value: &Value) -> usize {
    value.to_string().len()
}
