//! How a change of one resource becomes keys of the managed kind. Pure.
//!
//! A mapping gives a name. Where the managed resource of that name lives follows from the scopes of both kinds:
//!
//! | changed resource | managed kind | the key is |
//! |---|---|---|
//! | in a namespace | in namespaces | in the namespace of the changed resource |
//! | in a namespace | outside of namespaces | outside of namespaces |
//! | outside of namespaces | outside of namespaces | outside of namespaces |
//! | outside of namespaces | in namespaces | none: nothing says in which namespace |
//!
//! A component with a mapping of the last row is refused when it is loaded: only its own `map` can name the namespace.
//!
//! The guest's own `map` is not here: it is a call into a sandbox, and has a feeder of its own for its failures.

use homeostat_component::{KindDeclaration, Mapping};
use homeostat_store::{Key, Kind, Resource};

/// The kind whose keys are wanted, and where its resources live.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ManagedKind {
    /// Group, version and name.
    pub kind: Kind,
    /// Whether its resources live in namespaces.
    pub namespaced: bool,
}

impl ManagedKind {
    /// Returns what a declaration says.
    pub fn of(declaration: &KindDeclaration) -> Self {
        Self { kind: declaration.kind.clone(), namespaced: declaration.namespaced }
    }

    /// Returns the key of the managed resource that a resource in `namespace` (empty: outside of namespaces) calls `name`; `None` when
    /// nothing says in which namespace it lives.
    pub fn named_from(&self, namespace: &str, name: &str) -> Option<Key> {
        match (self.namespaced, namespace) {
            (true, "") => None,
            (true, namespace) => Some(Key::new(self.kind.clone(), namespace, name)),
            (false, _) => Some(Key::new(self.kind.clone(), "", name)),
        }
    }

    /// Returns whether a key of this kind lies where its resources live: with a namespace, or without one.
    pub fn has_place_of(&self, key: &Key) -> bool {
        self.namespaced != key.namespace().is_empty()
    }
}

/// Returns the keys of `managed` that `changed` matters to.
///
/// Empty for [`Mapping::Guest`]. The caller keeps the answer for the version before, and adds both: the owner that was left
/// matters as much as the new one.
pub fn keys(mapping: &Mapping, managed: &ManagedKind, changed: &Resource) -> Vec<Key> {
    let named = |name: &str| managed.named_from(changed.key().namespace(), name);
    match mapping {
        Mapping::Owner => changed
            .owners()
            .iter()
            .filter(|owner| owner.kind.same_type(&managed.kind))
            .filter_map(|owner| named(&owner.name))
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
