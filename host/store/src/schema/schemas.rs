//! The kinds that a store knows: the storage version of each, the schemas of its versions, and its indexes.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use super::Schema;
use crate::{IndexTerm, Kind};

/// The known kinds. Clones share their content. The code that learns of a kind registers it with the store of
/// its resources.
#[derive(Debug, Clone, Default)]
pub struct Schemas(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    by_type: RwLock<ByType>,
    /// The declared indexes of each kind. An unknown kind has no entry, and a kind without indexes has
    /// an empty one.
    indexes: watch::Sender<DeclaredIndexes>,
}

/// The terms with an index, by group and name of the kind.
pub(crate) type DeclaredIndexes = BTreeMap<(String, String), Arc<[IndexTerm]>>;

/// By group and name of the kind.
type ByType = BTreeMap<(String, String), Versions>;

/// A kind in all of its versions.
#[derive(Debug, Clone)]
struct Versions {
    stored: String,
    /// By version; versions without a schema included.
    schemas: BTreeMap<String, Option<Arc<Schema>>>,
}

/// The storage version of a kind, and the schema of one of its versions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VersionSchema {
    /// The storage version, for documents of all versions; `None` if each document keeps its own version.
    pub stored: Option<String>,
    /// The schema of the written version.
    pub schema: Option<Arc<Schema>>,
}

impl Schemas {
    /// Registers a kind. The version of `stored` is the storage version. `versions` has every version, each
    /// with its optional schema.
    pub fn set(&self, stored: &Kind, versions: impl IntoIterator<Item = (String, Option<Schema>)>) {
        let schemas = versions.into_iter().map(|(version, schema)| (version, schema.map(Arc::new))).collect();
        let versions = Versions { stored: stored.version.clone(), schemas };
        self.0.by_type.write().unwrap_or_else(PoisonError::into_inner).insert(by_type(stored), versions);
    }

    /// Declares the indexes of a kind, in place of those declared before. A store keeps the first
    /// [`INDEX_TERMS_MAX`](crate::INDEX_TERMS_MAX) of them.
    pub fn set_indexes(&self, kind: &Kind, terms: &[IndexTerm]) {
        let terms = &terms[..terms.len().min(crate::INDEX_TERMS_MAX)];
        self.0.indexes.send_if_modified(|indexes| {
            let before = indexes.insert(by_type(kind), terms.into());
            before.as_deref() != Some(terms)
        });
    }

    /// Returns the declared indexes of a kind.
    pub fn indexes_of(&self, kind: &Kind) -> Arc<[IndexTerm]> {
        let indexes = self.0.indexes.borrow();
        if indexes.is_empty() {
            return Arc::from([]);
        }
        indexes.get(&by_type(kind)).map_or_else(|| Arc::from([]), Arc::clone)
    }

    /// Returns the declared indexes of all kinds, and their changes.
    pub(crate) fn indexes(&self) -> watch::Receiver<DeclaredIndexes> {
        self.0.indexes.subscribe()
    }

    /// Removes a kind, with all versions and indexes.
    pub fn forget(&self, kind: &Kind) {
        self.0.indexes.send_if_modified(|indexes| indexes.remove(&by_type(kind)).is_some());
        self.0.by_type.write().unwrap_or_else(PoisonError::into_inner).remove(&by_type(kind));
    }

    /// Returns the storage version of a kind and the schema of the given version. An unknown version is
    /// treated as the storage version.
    pub fn of(&self, kind: &Kind) -> VersionSchema {
        let kinds = self.0.by_type.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Versions { stored, schemas }) = kinds.get(&by_type(kind)) else { return VersionSchema::default() };
        let schema = schemas.get(&kind.version).or_else(|| schemas.get(stored));
        VersionSchema { stored: Some(stored.clone()), schema: schema.cloned().flatten() }
    }
}

fn by_type(kind: &Kind) -> (String, String) {
    (kind.group.clone(), kind.name.clone())
}
