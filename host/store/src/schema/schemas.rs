//! What a store knows of the kinds that it keeps: in which version they are stored, and what each version looks like.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::Schema;
use crate::Kind;

/// The kinds of which something is known. Clones are the same; whoever learns of a kind tells the store that keeps its resources.
#[derive(Debug, Clone, Default)]
pub struct Schemas(Arc<RwLock<ByType>>);

/// By group and name of the kind.
type ByType = BTreeMap<(String, String), Versions>;

/// A kind in all of its versions.
#[derive(Debug, Clone)]
struct Versions {
    stored: String,
    /// By version. One without a schema is there too.
    schemas: BTreeMap<String, Option<Arc<Schema>>>,
}

/// What is known of a kind, to somebody who writes in one of its versions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VersionSchema {
    /// The version that documents are stored in, whatever they were written in; `None` when each stays as it is written.
    pub stored: Option<String>,
    /// What documents of the version look like that is written.
    pub schema: Option<Arc<Schema>>,
}

impl Schemas {
    /// Sets all that is known of a kind: `stored` has the version that its documents are stored in, and each version that they can be
    /// written in may have a schema.
    pub fn set(&self, stored: &Kind, versions: impl IntoIterator<Item = (String, Option<Schema>)>) {
        let schemas = versions.into_iter().map(|(version, schema)| (version, schema.map(Arc::new))).collect();
        let versions = Versions { stored: stored.version.clone(), schemas };
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(by_type(stored), versions);
    }

    /// Forgets a kind, whatever its version.
    pub fn forget(&self, kind: &Kind) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&by_type(kind));
    }

    /// Returns what is known of a kind to somebody who writes in this version of it. A version of which nothing is known is taken for the
    /// one that is stored.
    pub fn of(&self, kind: &Kind) -> VersionSchema {
        let kinds = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Versions { stored, schemas }) = kinds.get(&by_type(kind)) else { return VersionSchema::default() };
        let schema = schemas.get(&kind.version).or_else(|| schemas.get(stored));
        VersionSchema { stored: Some(stored.clone()), schema: schema.cloned().flatten() }
    }
}

fn by_type(kind: &Kind) -> (String, String) {
    (kind.group.clone(), kind.name.clone())
}
