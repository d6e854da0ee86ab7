//! How a change of one resource becomes keys of the managed kind. Pure.
//!
//! The guest's own `map` is not here: it is a call into a sandbox, and has a feeder of its own for its failures.

use homeostat_component::Mapping;
use homeostat_store::{Key, Kind, Resource};

/// Returns the keys of `managed` that `changed` matters to.
///
/// Empty for [`Mapping::Guest`]. The caller keeps the answer for the version before, and adds both: the owner that was left
/// matters as much as the new one.
pub fn keys(mapping: &Mapping, managed: &Kind, changed: &Resource) -> Vec<Key> {
    let beside = |name: &str| Key::new(managed.clone(), changed.key().namespace(), name);
    match mapping {
        Mapping::Owner => changed
            .owners()
            .iter()
            .filter(|owner| owner.kind.same_type(managed))
            .map(|owner| beside(&owner.name))
            .collect(),
        Mapping::SameName => vec![beside(changed.key().name())],
        Mapping::Label(label) => changed
            .labels()
            .filter(|(name, value)| name == label && !value.is_empty())
            .map(|(_, value)| beside(value))
            .collect(),
        Mapping::Field(pointer) => match changed.document().pointer(pointer) {
            Some(serde_json::Value::String(name)) if !name.is_empty() => vec![beside(name)],
            Some(serde_json::Value::Array(names)) => {
                names.iter().filter_map(|name| name.as_str()).filter(|name| !name.is_empty()).map(beside).collect()
            }
            _ => Vec::new(),
        },
        Mapping::Guest => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
