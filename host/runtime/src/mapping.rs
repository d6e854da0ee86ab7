//! Maps a changed resource to keys of the managed kind. Pure.
//!
//! A mapping yields a name. The namespace of the managed resource follows from the scopes of both kinds.
//!
//! * Both are namespaced: the key has the namespace of the changed resource.
//! * The managed kind is cluster-scoped: the key has no namespace.
//! * Only the managed kind is namespaced: there is no key, because its namespace is unknown.
//!
//! An owner that lives in another store names its own namespace, or shares that of the changed resource.
//!
//! A component with a mapping of the last case is refused when it is loaded: only its own `map` can name the
//! namespace.
//!
//! Deliberately absent: the guest's own `map`. It is a call into a sandbox, and a feeder of its own handles
//! its failures.

use homeostat_component::{KindDeclaration, Mapping};
use homeostat_store::{Key, Kind, Resource};

/// The managed kind and its scope.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ManagedKind {
    /// Group, version and name.
    pub kind: Kind,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
}

impl ManagedKind {
    /// Returns the kind and scope of a declaration.
    pub fn of(declaration: &KindDeclaration) -> Self {
        Self { kind: declaration.kind.clone(), namespaced: declaration.namespaced }
    }

    /// Returns why no managed resource can have a key: its kind differs, or its namespace does not fit the scope.
    pub(crate) fn refusal(&self, key: &Key) -> Option<String> {
        let Self { kind, namespaced } = self;
        if !key.kind().same_type(kind) {
            Some(format!("a key of {}, not of {kind}", key.kind()))
        } else if *namespaced == key.namespace().is_empty() {
            Some(if *namespaced {
                format!("a key of {kind} without a namespace, but the kind is namespaced")
            } else {
                format!("a key of {kind} with a namespace, but the kind is cluster-scoped")
            })
        } else {
            None
        }
    }

    /// Returns the key of the managed resource that a resource in `namespace` refers to as `name`;
    /// `namespace` is empty for a cluster-scoped resource. Returns `None` if the namespace of the managed
    /// resource is unknown.
    pub fn named_from(&self, namespace: &str, name: &str) -> Option<Key> {
        match (self.namespaced, namespace) {
            (true, "") => None,
            (true, namespace) => Some(Key::new(self.kind.clone(), namespace, name)),
            (false, _) => Some(Key::new(self.kind.clone(), "", name)),
        }
    }
}

/// Returns the keys of `managed` that a change of `changed` affects.
///
/// Empty for [`Mapping::Guest`]. The caller remembers the keys of the previous version and adds both: the
/// previous owner is affected as much as the new one.
pub fn keys(mapping: &Mapping, managed: &ManagedKind, changed: &Resource) -> Vec<Key> {
    let named = |name: &str| managed.named_from(changed.key().namespace(), name);
    match mapping {
        Mapping::Owner => changed
            .owners()
            .iter()
            .filter(|owner| owner.kind.same_type(&managed.kind))
            .filter_map(|owner| {
                let namespace = owner.far.as_ref().and_then(|far| far.namespace.as_deref());
                managed.named_from(namespace.unwrap_or(changed.key().namespace()), &owner.name)
            })
            .collect(),
        Mapping::SameName => named(changed.key().name()).into_iter().collect(),
        Mapping::Label(label) => changed
            .labels()
            .filter(|(name, value)| name == label && !value.is_empty())
            .filter_map(|(_, value)| named(value))
            .collect(),
        Mapping::Field(pointer) => match changed.document().pointer(pointer) {
            Some(serde_json::Value::String(name)) if !name.is_empty() => named(name).into_iter().collect(),
            Some(serde_json::Value::Array(names)) => names
                .iter()
                .filter_map(|name| name.as_str())
                .filter(|name| !name.is_empty())
                .filter_map(named)
                .collect(),
            _ => Vec::new(),
        },
        Mapping::Guest => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
