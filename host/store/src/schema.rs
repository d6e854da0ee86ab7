//! What the documents of a kind look like: a structural schema, as `CustomResourceDefinition`s carry it (OpenAPI v3).
//!
//! A schema says how parts of a document merge when several managers own them, what is filled in, what is left out, and what is refused.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::Kind;

/// The schema of a value and of everything below it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    properties: BTreeMap<String, Schema>,
    /// The schema of every value of an object whose names are free.
    additional: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    list: ListType,
    atomic_map: bool,
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

/// The schemas of the kinds that have one. Clones are the same; whoever learns of a kind tells the store that keeps its resources.
#[derive(Debug, Clone, Default)]
pub struct Schemas(Arc<RwLock<BTreeMap<(String, String), Arc<Schema>>>>);

impl Schemas {
    /// Sets the schema of a kind, whatever its version; `None` forgets it.
    pub fn set(&self, kind: &Kind, schema: Option<Schema>) {
        let name = (kind.group.clone(), kind.name.clone());
        let mut schemas = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match schema {
            Some(schema) => schemas.insert(name, Arc::new(schema)),
            None => schemas.remove(&name),
        };
    }

    /// Returns the schema of a kind, whatever its version.
    pub fn of(&self, kind: &Kind) -> Option<Arc<Schema>> {
        let schemas = self.0.read().unwrap_or_else(PoisonError::into_inner);
        schemas.get(&(kind.group.clone(), kind.name.clone())).cloned()
    }
}
