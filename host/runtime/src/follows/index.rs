//! An index of the followers by their targets: a change is compared only with the keys that can follow it.
//!
//! Each target has one place, or one for each value that its selector accepts. A changed resource is in a few places:
//! its key, its owners, its value of every term that a selector of its kind uses, and its kind. So the keys at
//! these places are all that can follow it; the caller compares their targets with the resource.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_store::{Key, Kind, LabelRequirement, Resource, Selector, selected_field};

use super::Target;

/// Bytes of a value that the index distinguishes. Longer values with the same beginning share a place.
const VALUE_BYTES_MAX: usize = 256;

/// A label or a field.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Term {
    /// The label of this name.
    Label(String),
    /// The string, number or boolean at this JSON pointer.
    Field(String),
}

impl Term {
    /// Returns the value of a resource, cut to the part that the index distinguishes.
    fn value_of(&self, resource: &Resource) -> Option<String> {
        match self {
            Self::Label(name) => resource.label(name).map(distinguished),
            Self::Field(pointer) => selected_field(resource, pointer).map(|text| distinguished(&text)),
        }
    }
}

/// Where a target is found.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Place {
    /// One resource.
    Resource(Key),
    /// The resources that have this owner.
    Owner(String),
    /// The resources that have this value of a label or field.
    Term(Term, String),
    /// All resources: the selector names no value.
    Kind,
}

/// The followers of one kind.
#[derive(Default)]
struct KindFollowers {
    at: BTreeMap<Place, BTreeSet<Key>>,
    /// The number of followers at the places of each term.
    terms: BTreeMap<Term, usize>,
}

/// The followers of all kinds.
#[derive(Default)]
pub(super) struct FollowerIndex {
    /// By group and name of the followed kind.
    by_type: BTreeMap<(String, String), KindFollowers>,
    /// The number of followers of each kind, in the version that they asked for.
    kinds: BTreeMap<Kind, usize>,
}

impl Target {
    /// Returns the number of places, at least 1.
    pub(super) fn place_count(&self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::All(_, selector) if selector.owner.is_some() => 1,
            Self::All(_, selector) => named_values(selector).map_or(1, |(_, values)| values.len().max(1) as u64),
        }
    }

    fn places(&self) -> Vec<Place> {
        let selector = match self {
            Self::One(key) => return vec![Place::Resource(key.clone())],
            Self::All(_, selector) => selector,
        };
        if let Some(owner) = &selector.owner {
            return vec![Place::Owner(owner.clone())];
        }
        match named_values(selector) {
            Some((term, values)) if !values.is_empty() => {
                values.iter().map(|value| Place::Term(term.clone(), distinguished(value))).collect()
            }
            _ => vec![Place::Kind],
        }
    }
}

/// Returns the first label or field that a selector names values for: each resource that it selects has one of them.
fn named_values(selector: &Selector) -> Option<(Term, &[String])> {
    let label = selector.labels.iter().find_map(|requirement| match requirement {
        LabelRequirement::Equals(name, value) => Some((name, std::slice::from_ref(value))),
        LabelRequirement::OneOf(name, values) => Some((name, values.as_slice())),
        LabelRequirement::NotEquals(..)
        | LabelRequirement::NoneOf(..)
        | LabelRequirement::Exists(_)
        | LabelRequirement::Absent(_)
        | LabelRequirement::GreaterThan(..)
        | LabelRequirement::LessThan(..) => None,
    });
    if let Some((name, values)) = label {
        return Some((Term::Label(name.clone()), values));
    }
    // An empty value also selects resources without the field.
    let (pointer, value) = selector.fields.iter().find(|(_, value)| !value.is_empty())?;
    Some((Term::Field(pointer.clone()), std::slice::from_ref(value)))
}

/// Cuts a value to the part that the index distinguishes.
fn distinguished(value: &str) -> String {
    value[..value.floor_char_boundary(VALUE_BYTES_MAX)].to_owned()
}

impl FollowerIndex {
    /// Adds the targets of a follower, which has none yet.
    pub(super) fn add(&mut self, follower: &Key, targets: &[Target]) {
        for target in targets {
            let followers = self.by_type.entry(type_of(target.kind())).or_default();
            for place in target.places() {
                if let Place::Term(term, _) = &place {
                    *followers.terms.entry(term.clone()).or_default() += 1;
                }
                followers.at.entry(place).or_default().insert(follower.clone());
            }
        }
        for kind in kinds(targets) {
            *self.kinds.entry(kind.clone()).or_default() += 1;
        }
    }

    /// Removes all targets of a follower.
    pub(super) fn remove(&mut self, follower: &Key, targets: &[Target]) {
        for target in targets {
            let id = type_of(target.kind());
            let Some(followers) = self.by_type.get_mut(&id) else { continue };
            for place in target.places() {
                if let Place::Term(term, _) = &place {
                    subtract(&mut followers.terms, term);
                }
                if let Some(keys) = followers.at.get_mut(&place) {
                    keys.remove(follower);
                    if keys.is_empty() {
                        followers.at.remove(&place);
                    }
                }
            }
            if followers.at.is_empty() {
                self.by_type.remove(&id);
            }
        }
        for kind in kinds(targets) {
            subtract(&mut self.kinds, kind);
        }
    }

    /// Returns the keys that can follow a resource.
    pub(super) fn candidates(&self, resource: &Resource) -> BTreeSet<&Key> {
        let Some(followers) = self.by_type.get(&type_of(resource.key().kind())) else { return BTreeSet::new() };
        let mut places = vec![Place::Resource(resource.key().clone()), Place::Kind];
        places.extend(resource.owners().iter().map(|owner| Place::Owner(owner.uid.clone())));
        let value = |term: &Term| Some(Place::Term(term.clone(), term.value_of(resource)?));
        places.extend(followers.terms.keys().filter_map(value));
        places.iter().filter_map(|place| followers.at.get(place)).flatten().collect()
    }

    /// Returns the keys that follow anything of a kind, in any version.
    pub(super) fn of_kind(&self, kind: &Kind) -> BTreeSet<Key> {
        let followers = self.by_type.get(&type_of(kind));
        followers.into_iter().flat_map(|followers| followers.at.values().flatten()).cloned().collect()
    }

    /// Returns the followed kinds, each once.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.keys()
    }

    /// Returns whether any key follows a kind, in this version.
    pub(super) fn has_kind(&self, kind: &Kind) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Returns whether nothing is followed.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_type.is_empty() && self.kinds.is_empty()
    }
}

fn type_of(kind: &Kind) -> (String, String) {
    (kind.group.clone(), kind.name.clone())
}

/// Returns the kinds of some targets, each once.
fn kinds(targets: &[Target]) -> BTreeSet<&Kind> {
    targets.iter().map(Target::kind).collect()
}

/// Subtracts one, and removes a count of zero.
fn subtract<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
