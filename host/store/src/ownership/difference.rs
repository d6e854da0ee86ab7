//! The fields of a document, and the fields in which two documents differ.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::{FieldSet, PathElement};
use super::shape::{Parts, Shape};

/// Returns the fields that a document names: its applier owns them.
///
/// Source: as in Kubernetes, an object that is declared by a schema is not named itself, unless it is empty.
pub(super) fn named(value: &Value, shape: Shape<'_>) -> FieldSet {
    collect(value, shape, false)
}

/// Returns the fields of a value, and every object and list above them: the manager that adds the value owns
/// them.
pub(super) fn everything(value: &Value, shape: Shape<'_>) -> FieldSet {
    collect(value, shape, true)
}

fn collect(value: &Value, shape: Shape<'_>, whole: bool) -> FieldSet {
    let mut found = FieldSet::default();
    let is_empty = match shape.parts(value) {
        Parts::Single => return FieldSet::itself(),
        Parts::Fields(fields) => {
            for (name, value) in fields {
                if let Some(shape) = shape.field(name) {
                    found.add(PathElement::Field(name.clone()), collect(value, shape, whole));
                }
            }
            fields.is_empty()
        }
        Parts::Items(items) => {
            for (element, value) in items {
                found.add(element, collect(value, shape.items(), whole));
            }
            false
        }
    };
    if whole || is_empty || !shape.is_declared() {
        found.add_itself();
    }
    found
}

/// Returns all fields of a document. The document itself and its metadata have no owners.
pub(super) fn all(document: &Value, shape: Shape<'_>) -> FieldSet {
    diff(&Value::Object(empty_document()), document, shape).gained
}

/// Returns a document without any owned field.
pub(super) fn empty_document() -> Map<String, Value> {
    Map::from_iter([("metadata".to_owned(), Value::Object(Map::new()))])
}

/// The fields in which two documents differ.
#[derive(Debug, Default)]
pub(super) struct FieldDiff {
    /// The topmost values that are new or have changed.
    pub(super) set: FieldSet,
    /// The topmost values that are gone.
    pub(super) removed: FieldSet,
    /// The set values and all fields below them: the writer owns them.
    pub(super) gained: FieldSet,
}

impl FieldDiff {
    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }

    fn add(&mut self, element: PathElement, part: Self) {
        let Self { set, removed, gained } = part;
        self.set.add(element.clone(), set);
        self.removed.add(element.clone(), removed);
        self.gained.add(element, gained);
    }

    fn set(value: &Value, shape: Shape<'_>) -> Self {
        Self { set: FieldSet::itself(), removed: FieldSet::default(), gained: everything(value, shape) }
    }

    fn removed() -> Self {
        Self { removed: FieldSet::itself(), ..Self::default() }
    }
}

/// Compares two values at the same path of two documents. Skips equal parts.
pub(super) fn diff(old: &Value, new: &Value, shape: Shape<'_>) -> FieldDiff {
    match (shape.parts(old), shape.parts(new)) {
        (Parts::Fields(old), Parts::Fields(new)) => differ_fields(old, new, shape),
        (Parts::Items(old), Parts::Items(new)) => differ_items(old.into_iter().collect(), new, shape.items()),
        _ if old == new => FieldDiff::default(),
        _ => FieldDiff::set(new, shape),
    }
}

fn differ_fields(old: &Map<String, Value>, new: &Map<String, Value>, shape: Shape<'_>) -> FieldDiff {
    let mut found = FieldDiff::default();
    for (name, new) in new {
        let Some(shape) = shape.field(name) else { continue };
        let part = match old.get(name) {
            Some(old) if old == new => continue,
            Some(old) => diff(old, new, shape),
            // The object had the field before.
            None if shape.is_always_present() => diff(&empty(new), new, shape),
            None => FieldDiff::set(new, shape),
        };
        found.add(PathElement::Field(name.clone()), part);
    }
    for (name, old) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        let Some(shape) = shape.field(name) else { continue };
        // The object still has the field.
        let part = if shape.is_always_present() { diff(old, &empty(old), shape) } else { FieldDiff::removed() };
        found.add(PathElement::Field(name.clone()), part);
    }
    found
}

fn differ_items(
    mut old: BTreeMap<PathElement, &Value>,
    new: Vec<(PathElement, &Value)>,
    shape: Shape<'_>,
) -> FieldDiff {
    let mut found = FieldDiff::default();
    for (element, new) in new {
        let part = old.remove(&element).map_or_else(|| FieldDiff::set(new, shape), |old| diff(old, new, shape));
        found.add(element, part);
    }
    for element in old.into_keys() {
        found.add(element, FieldDiff::removed());
    }
    found
}

/// Returns the empty value of the same type.
fn empty(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => Value::Bool(false),
        Value::Number(_) => 0.into(),
        Value::String(_) => Value::String(String::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        Value::Object(_) => Value::Object(Map::new()),
    }
}
