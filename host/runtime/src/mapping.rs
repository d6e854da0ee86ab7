//! Maps a changed resource to keys of the managed kind. Pure.
//!
//! A mapping yields a name, or a reference that can have a namespace of its own. Without one, the namespace of the
//! managed resource follows from the scopes of both kinds.
//!
//! * Both are namespaced: the key has the namespace of the changed resource.
//! * The managed kind is cluster-scoped: the key has no namespace.
//! * Only the managed kind is namespaced: there is no key, because its namespace is unknown.
//!
//! An owner that lives in another store names its own namespace, or shares that of the changed resource.
//!
//! A component with a mapping by name alone is refused when it is loaded if the last case holds.
//!
//! Deliberately absent: the guest's own `map`. It is a call into a sandbox, and a feeder of its own handles
//! its failures.

use homeostat_component::{KindDeclaration, Mapping};
use homeostat_store::{Key, Kind, Resource};
use reference::Reference;
use serde_json::Value;

mod reference;

/// Why a value is dropped that names nothing.
const NO_REFERENCE: &str = "a value that is no reference to a resource";

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

/// The keys that a changed resource maps to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MappedKeys {
    /// As many as the document names; the size of the document is their bound. A key can be there twice.
    pub keys: Vec<Key>,
    /// Why the first dropped value can be no key, without anything of its content; `None` if none was dropped.
    pub refusal: Option<String>,
}

/// Returns the keys of `managed` that a change of `changed` affects.
///
/// Empty for [`Mapping::Guest`]. The caller remembers the keys of the previous version and adds both: the
/// previous owner is affected as much as the new one.
pub fn keys(mapping: &Mapping, managed: &ManagedKind, changed: &Resource) -> MappedKeys {
    let home = changed.key().namespace();
    let mut mapped = MappedKeys::default();
    match mapping {
        Mapping::Owner => {
            let owners = changed.owners().iter().filter(|owner| owner.kind.same_type(&managed.kind));
            mapped.keys.extend(owners.filter_map(|owner| {
                let namespace = owner.far.as_ref().and_then(|far| far.namespace.as_deref());
                managed.named_from(namespace.unwrap_or(home), &owner.name)
            }));
        }
        Mapping::SameName => mapped.keys.extend(managed.named_from(home, changed.key().name())),
        Mapping::Label(label) => {
            let name = changed.label(label).filter(|name| !name.is_empty());
            mapped.keys.extend(name.and_then(|name| managed.named_from(home, name)));
        }
        Mapping::Annotation(annotation) => match changed.annotation(annotation) {
            Some(text) if text.starts_with(['[', '{']) => match serde_json::from_str(text) {
                Ok(value) => mapped.add_value(&value, managed, home),
                Err(_) => mapped.refuse(|| NO_REFERENCE.to_owned()),
            },
            Some(text) if !text.is_empty() => mapped.add(Reference::from_text(text), managed, home),
            _ => {}
        },
        Mapping::Field(pointer) => {
            if let Some(value) = changed.document().pointer(pointer) {
                mapped.add_value(value, managed, home);
            }
        }
        Mapping::Guest => {}
    }
    mapped
}

impl MappedKeys {
    /// Adds the keys of a reference, or of a list of references. Empty texts and nulls refer to nothing.
    fn add_value(&mut self, value: &Value, managed: &ManagedKind, home: &str) {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values.iter().filter(|value| !value.is_null() && *value != "") {
            self.add(Reference::from_value(value), managed, home);
        }
    }

    /// Adds the key of a reference from a resource in the namespace `home`, unless it refers to another kind.
    fn add(&mut self, reference: Option<Reference<'_>>, managed: &ManagedKind, home: &str) {
        let Some(reference) = reference else { return self.refuse(|| NO_REFERENCE.to_owned()) };
        if !reference.may_mean(&managed.kind) {
            return;
        }
        let namespace = reference.namespace.unwrap_or(if managed.namespaced { home } else { "" });
        let key = Key::new(managed.kind.clone(), namespace, reference.name);
        if let Some(refusal) = managed.refusal(&key) {
            self.refuse(|| refusal);
        } else if key.check().is_err() {
            self.refuse(|| NO_REFERENCE.to_owned());
        } else {
            self.keys.push(key);
        }
    }

    fn refuse(&mut self, refusal: impl FnOnce() -> String) {
        self.refusal.get_or_insert_with(refusal);
    }
}

#[cfg(test)]
mod tests;
