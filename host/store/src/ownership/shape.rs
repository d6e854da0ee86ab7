//! Which parts of a value have their own owners: by the schema of its kind, and by the fixed shape of
//! metadata.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::PathElement;
use crate::schema::{ListType, Schema};

/// Levels of a document with their own owners; a deeper value has owners as a whole. Keeps `managedFields`
/// below the nesting limit of documents.
const LEVELS_MAX: usize = 80;

/// The shape of a value at one path of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    form: ShapeKind<'a>,
    level: usize,
    /// The schema of the parent object names this field. Such a field exists only through its content.
    declared: bool,
    /// An object has this field even where its document lacks it.
    always_present: bool,
}

#[derive(Debug, Clone, Copy)]
enum ShapeKind<'a> {
    Document(Option<&'a Schema>),
    Metadata,
    Finalizers,
    OwnerReferences,
    /// A single value, with one owner.
    Single,
    Known(&'a Schema),
    /// No schema: the fields of an object have their own owners, and a list has one owner.
    Unknown,
}

/// The parts of a value.
pub(super) enum Parts<'v> {
    /// A single value.
    Single,
    /// Fields, each with its own owners.
    Fields(&'v Map<String, Value>),
    /// Items, each with its own owners and its identity. The identities are distinct.
    Items(Vec<(PathElement, &'v Value)>),
}

/// Why the items of a list cannot be told apart.
pub(super) enum ItemKeyError {
    /// An item has no identity.
    Item {
        /// The item, from 0.
        at: usize,
        /// Its field, if one is the cause.
        field: Option<String>,
        /// The reason.
        reason: &'static str,
    },
    /// Two items have the same identity.
    Duplicate(PathElement),
}

enum List<'a> {
    Single,
    Set,
    Map(Vec<&'a str>),
}

impl<'a> Shape<'a> {
    /// Returns the shape of a whole document.
    pub(super) fn document(schema: Option<&'a Schema>) -> Self {
        Self { form: ShapeKind::Document(schema), level: 0, declared: true, always_present: true }
    }

    /// Returns whether the value exists only through its content, unless it is empty.
    pub(super) fn is_declared(self) -> bool {
        self.declared
    }

    /// Returns whether an object has this field even where its document lacks it.
    pub(super) fn is_always_present(self) -> bool {
        self.always_present
    }

    /// Returns the shape of a field of an object; `None` for a field without owners.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        let known = |schema: Option<&'a Schema>| {
            schema.map_or((ShapeKind::Unknown, false), |found| (ShapeKind::Known(found), true))
        };
        let (form, declared) = match self.form {
            ShapeKind::Document(schema) => match name {
                "apiVersion" | "kind" => return None,
                "metadata" => (ShapeKind::Metadata, true),
                _ => known(schema.and_then(|schema| schema.field(name))),
            },
            ShapeKind::Metadata => match name {
                "creationTimestamp"
                | "deletionGracePeriodSeconds"
                | "deletionTimestamp"
                | "generation"
                | "managedFields"
                | "name"
                | "namespace"
                | "resourceVersion"
                | "selfLink"
                | "uid" => return None,
                "finalizers" => (ShapeKind::Finalizers, true),
                "ownerReferences" => (ShapeKind::OwnerReferences, true),
                "annotations" | "labels" => (ShapeKind::Unknown, true),
                _ => (ShapeKind::Unknown, false),
            },
            ShapeKind::Known(schema) => known(schema.field(name)),
            ShapeKind::Finalizers | ShapeKind::OwnerReferences | ShapeKind::Single | ShapeKind::Unknown => {
                (ShapeKind::Unknown, false)
            }
        };
        let always_present = matches!(form, ShapeKind::Known(schema) if schema.is_always_present());
        Some(Self { form, level: self.level + 1, declared, always_present })
    }

    /// Returns the shape of the items of a list.
    pub(super) fn items(self) -> Self {
        let form = match self.form {
            ShapeKind::OwnerReferences => ShapeKind::Single,
            ShapeKind::Known(schema) => schema.items().map_or(ShapeKind::Unknown, ShapeKind::Known),
            _ => ShapeKind::Unknown,
        };
        Self { form, level: self.level + 1, declared: false, always_present: false }
    }

    /// Returns the key fields of list items.
    pub(super) fn keys(self) -> Vec<&'a str> {
        if let List::Map(keys) = self.list() { keys } else { Vec::new() }
    }

    /// Splits a value into its parts. A list whose items cannot be told apart is a single value.
    pub(super) fn parts(self, value: &Value) -> Parts<'_> {
        match value {
            Value::Object(fields) if self.has_fields() => Parts::Fields(fields),
            Value::Array(items) => match self.elements(items) {
                Some(Ok(elements)) => Parts::Items(elements.into_iter().zip(items).collect()),
                Some(Err(_)) | None => Parts::Single,
            },
            _ => Parts::Single,
        }
    }

    /// Returns whether the fields of an object have their own owners.
    pub(super) fn has_fields(self) -> bool {
        let single = match self.form {
            ShapeKind::Single => true,
            // What a built-in kind keeps as it is written is a single value.
            ShapeKind::Known(schema) => schema.is_atomic_map() || (schema.is_typed() && schema.is_open()),
            _ => false,
        };
        !single && self.level < LEVELS_MAX
    }

    /// Returns the identities of the items of a list; `None` when the list is a single value.
    pub(super) fn elements(self, items: &[Value]) -> Option<Result<Vec<PathElement>, ItemKeyError>> {
        let identify: &dyn Fn(usize, &Value) -> Result<PathElement, ItemKeyError> = match self.list() {
            List::Single => return None,
            List::Set => &scalar,
            List::Map(keys) => &move |at, item| keyed(at, item, &keys, |key| self.key_default(key)),
        };
        let mut found = BTreeMap::new();
        let mut elements = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let element = match identify(at, item) {
                Ok(element) => element,
                Err(misfit) => return Some(Err(misfit)),
            };
            if found.insert(element.clone(), ()).is_some() {
                return Some(Err(ItemKeyError::Duplicate(element)));
            }
            elements.push(element);
        }
        Some(Ok(elements))
    }

    /// Returns the value of a key field that an item lacks, if it has a default.
    fn key_default(self, key: &str) -> Option<&'a Value> {
        let ShapeKind::Known(schema) = self.form else { return None };
        schema.items()?.field(key)?.default_value()
    }

    /// Returns whether a list here is a single value.
    pub(super) fn is_atomic_list(self) -> bool {
        matches!(self.list(), List::Single)
    }

    fn list(self) -> List<'a> {
        if self.level >= LEVELS_MAX {
            return List::Single;
        }
        match self.form {
            ShapeKind::Finalizers => List::Set,
            ShapeKind::OwnerReferences => List::Map(vec!["uid"]),
            ShapeKind::Known(schema) => match schema.list_type() {
                ListType::Atomic => List::Single,
                ListType::Set => List::Set,
                ListType::Map(keys) if keys.is_empty() => List::Single,
                ListType::Map(keys) => List::Map(keys.iter().map(String::as_str).collect()),
            },
            ShapeKind::Document(_) | ShapeKind::Metadata | ShapeKind::Single | ShapeKind::Unknown => List::Single,
        }
    }
}

fn scalar(at: usize, item: &Value) -> Result<PathElement, ItemKeyError> {
    match item {
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(PathElement::value(item)),
        _ => Err(ItemKeyError::Item {
            at,
            field: None,
            reason: "must be a string, a number or a boolean: the list is a set",
        }),
    }
}

fn keyed<'a>(
    at: usize,
    item: &Value,
    keys: &[&str],
    default: impl Fn(&str) -> Option<&'a Value>,
) -> Result<PathElement, ItemKeyError> {
    let Value::Object(fields) = item else {
        return Err(ItemKeyError::Item { at, field: None, reason: "must be an object" });
    };
    let mut known = BTreeMap::new();
    for key in keys {
        match fields.get(*key).or_else(|| default(key)) {
            Some(value @ (Value::Bool(_) | Value::Number(_) | Value::String(_))) => known.insert(*key, value),
            Some(Value::Array(_) | Value::Object(_)) => {
                let reason = "must be a string, a number or a boolean: it identifies the items of the list";
                return Err(ItemKeyError::Item { at, field: Some((*key).to_owned()), reason });
            }
            Some(Value::Null) | None => {
                let reason = "must be set: it identifies the items of the list";
                return Err(ItemKeyError::Item { at, field: Some((*key).to_owned()), reason });
            }
        };
    }
    Ok(PathElement::key(&known))
}
