//! The kinds that a store knows: the storage version of each, the schemas of its versions, and its indexes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

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
    /// Whether a schema with rules in CEL was registered.
    have_rules: AtomicBool,
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
    converts: bool,
    /// By version; versions without a schema included.
    schemas: BTreeMap<String, SchemaSource>,
}

/// The schema of one version.
#[derive(Debug, Clone)]
enum SchemaSource {
    /// It is here; `None` if there is none.
    Declared(Option<Arc<Schema>>),
    /// It is parsed when it is used first.
    BuiltIn(Arc<BuiltInSchema>),
}

/// The schema of a built-in kind. Most hosts use few of them.
#[derive(Debug)]
struct BuiltInSchema {
    kind: Kind,
    load: fn(&Kind) -> Option<Schema>,
    loaded: OnceLock<Option<Arc<Schema>>>,
}

impl SchemaSource {
    fn schema(&self) -> Option<Arc<Schema>> {
        match self {
            Self::Declared(schema) => schema.clone(),
            Self::BuiltIn(schema) => schema.loaded.get_or_init(|| (schema.load)(&schema.kind).map(Arc::new)).clone(),
        }
    }
}

/// The storage version of a kind, and the schema of one of its versions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VersionSchema {
    /// The storage version, for documents of all versions; `None` if each document keeps its own version.
    pub stored: Option<String>,
    /// Whether the versions of the kind differ in more than their `apiVersion`, so that a document changes its version by
    /// a conversion alone.
    pub converts: bool,
    /// The schema of the written version.
    pub schema: Option<Arc<Schema>>,
    /// The schema of the storage version, if another one is written whose documents are stored with another `apiVersion`
    /// alone.
    pub stored_schema: Option<Arc<Schema>>,
}

impl Schemas {
    /// Registers a kind. The version of `stored` is the storage version. `versions` has every version, each
    /// with its optional schema.
    pub fn set(&self, stored: &Kind, versions: impl IntoIterator<Item = (String, Option<Schema>)>) {
        self.set_versions(stored, versions, false);
    }

    /// As [`Schemas::set`], for a kind whose documents change their version by a conversion alone. A write in another
    /// version than that of the stored document is refused, unless it was decided and converted before
    /// ([`Request::is_planned`](crate::Request::is_planned)).
    pub fn set_converted(&self, stored: &Kind, versions: impl IntoIterator<Item = (String, Option<Schema>)>) {
        self.set_versions(stored, versions, true);
    }

    fn set_versions(
        &self,
        stored: &Kind,
        versions: impl IntoIterator<Item = (String, Option<Schema>)>,
        converts: bool,
    ) {
        let versions: Vec<_> = versions.into_iter().collect();
        if versions.iter().any(|(_, schema)| schema.as_ref().is_some_and(Schema::has_rules)) {
            self.0.have_rules.store(true, Ordering::Release);
        }
        let declared = |schema: Option<Schema>| SchemaSource::Declared(schema.map(Arc::new));
        let schemas = versions.into_iter().map(|(version, schema)| (version, declared(schema))).collect();
        self.insert(stored, Versions { stored: stored.version.clone(), converts, schemas });
    }

    /// Returns whether a schema with rules in CEL was registered, so that most hosts look no further.
    pub(crate) fn have_rules(&self) -> bool {
        self.0.have_rules.load(Ordering::Acquire)
    }

    /// Registers a built-in kind, with the function that returns its schema when a write needs it first.
    pub fn set_built_in(&self, kind: &Kind, load: fn(&Kind) -> Option<Schema>) {
        let schema = BuiltInSchema { kind: kind.clone(), load, loaded: OnceLock::new() };
        let schemas = BTreeMap::from([(kind.version.clone(), SchemaSource::BuiltIn(Arc::new(schema)))]);
        self.insert(kind, Versions { stored: kind.version.clone(), converts: false, schemas });
    }

    fn insert(&self, kind: &Kind, versions: Versions) {
        self.0.by_type.write().unwrap_or_else(PoisonError::into_inner).insert(by_type(kind), versions);
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
        let Some(Versions { stored, converts, schemas }) = kinds.get(&by_type(kind)) else {
            return VersionSchema::default();
        };
        let schema = schemas.get(&kind.version).or_else(|| schemas.get(stored)).cloned();
        let is_other = !converts && *stored != kind.version && schemas.contains_key(&kind.version);
        let stored_schema = schemas.get(stored).filter(|_| is_other).cloned();
        let (stored, converts) = (Some(stored.clone()), *converts);
        // A schema is parsed without the lock.
        drop(kinds);
        let [schema, stored_schema] = [schema, stored_schema].map(|schema| schema.and_then(|schema| schema.schema()));
        VersionSchema { stored, converts, schema, stored_schema }
    }

    /// Returns only this kind, with this version as its storage version: to decide a write in a version that is not
    /// stored.
    #[must_use]
    pub fn in_version(&self, kind: &Kind) -> Self {
        let one = Self::default();
        let schema = SchemaSource::Declared(self.of(kind).schema);
        let schemas = BTreeMap::from([(kind.version.clone(), schema)]);
        one.insert(kind, Versions { stored: kind.version.clone(), converts: false, schemas });
        one.0.have_rules.store(self.have_rules(), Ordering::Release);
        one
    }
}

fn by_type(kind: &Kind) -> (String, String) {
    (kind.group.clone(), kind.name.clone())
}
