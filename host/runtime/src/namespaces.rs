//! Namespaces: whether one exists before something is created in it.
//!
//! Source: the admission plug-in `NamespaceLifecycle` of Kubernetes.

use std::collections::HashSet;
use std::str::FromStr;

use homeostat_store::{Key, Kind, Store, Target, Write};
use parking_lot::RwLock;
use serde_json::Value;

use crate::error::found;
use crate::{Error, Kinds, Stores};

/// Namespaces that are remembered to exist. Others are read from the store each time.
const REMEMBERED_MAX: usize = 100_000;

/// Whether resources can be created in a namespace that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NamespacePolicy {
    /// A namespace must exist first, as in Kubernetes.
    Existing,
    /// Any name is a namespace.
    #[default]
    Any,
}

impl FromStr for NamespacePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "existing" => Ok(Self::Existing),
            "any" => Ok(Self::Any),
            _ => Err("it must be `existing` or `any`".to_owned()),
        }
    }
}

impl std::fmt::Display for NamespacePolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Existing => "existing",
            Self::Any => "any",
        })
    }
}

/// The namespaces that are known to exist.
pub(crate) struct Namespaces {
    policy: NamespacePolicy,
    stores: Stores,
    known: RwLock<HashSet<String>>,
}

impl Namespaces {
    pub(crate) fn new(policy: NamespacePolicy, stores: Stores) -> Self {
        Self { policy, stores, known: RwLock::default() }
    }

    /// Checks that the namespace of a resource that a write may create exists, and is not being deleted.
    ///
    /// # Errors
    /// [`Error::MissingNamespace`], [`Error::TerminatingNamespace`]; [`Error::Store`].
    pub(crate) async fn check(&self, store: &dyn Store, kinds: &Kinds, write: &Write) -> Result<(), Error> {
        let (document, applies) = match write {
            Write::Create { document } => (document, false),
            Write::Apply { document, .. } => (document, true),
            Write::Delete { key, .. } if key.kind().same_type(&namespaces()) => {
                // The next creation in it looks at its state.
                self.forget(key.name());
                return Ok(());
            }
            _ => return Ok(()),
        };
        let namespace = document.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        let is_checked = self.policy == NamespacePolicy::Existing && kinds.has_built_in_schema(&namespaces());
        if !is_checked || namespace.is_empty() || self.known.read().contains(namespace) {
            return Ok(());
        }
        // Another store has namespaces of its own, or none. A document that does not name its kind is refused later.
        let Ok(Target { kind, name, .. }) = write.target() else { return Ok(()) };
        if self.stores.is_far(&kind) {
            return Ok(());
        }
        let existing = found(store.get(&key(namespace)).await)?;
        if existing.as_ref().is_some_and(|found| !found.is_deleting()) {
            let mut known = self.known.write();
            if known.len() < REMEMBERED_MAX {
                known.insert(namespace.to_owned());
            }
            return Ok(());
        }
        let name = name.unwrap_or_default();
        if applies && found(store.get(&Key::new(kind.clone(), namespace, &name)).await)?.is_some() {
            return Ok(());
        }
        if existing.is_none() {
            return Err(Error::MissingNamespace(namespace.to_owned()));
        }
        let plural = kinds.of(&kind).map_or_else(|| kind.name.to_lowercase(), |info| info.plural);
        let group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
        let resource = format!("{plural}{group} {name:?}");
        Err(Error::TerminatingNamespace { resource, namespace: namespace.to_owned() })
    }

    pub(crate) fn policy(&self) -> NamespacePolicy {
        self.policy
    }

    /// Forgets a namespace that was deleted, or is being deleted.
    pub(crate) fn forget(&self, name: &str) {
        self.known.write().remove(name);
    }
}

/// Returns the kind of namespaces.
pub(crate) fn namespaces() -> Kind {
    Kind::new("", "v1", "Namespace")
}

/// Returns the key of a namespace.
pub(crate) fn key(name: &str) -> Key {
    Key::new(namespaces(), "", name)
}
