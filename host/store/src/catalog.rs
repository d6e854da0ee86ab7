//! The kinds that the server of a store serves by itself.
//!
//! Deliberately absent: schemas. A server that has kinds of its own validates their documents.

use crate::Kind;

/// Kinds of a catalog at most. A server with more of them shows the first ones, in the order of their groups and
/// names.
pub const KINDS_MAX: usize = 4096;

/// The kinds that a server serves, each once, by group and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    kinds: Vec<ServedKind>,
}

/// A kind that a server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedKind {
    /// The kind, in the version that the server prefers.
    pub kind: Kind,
    /// Every version in which the server serves it, preferred first.
    pub versions: Vec<String>,
    /// The name in URLs, as `deployments`.
    pub plural: String,
    /// The name of one resource, as `deployment`; may be empty.
    pub singular: String,
    /// Shorter names for people, as `deploy`.
    pub short_names: Vec<String>,
    /// The groups of kinds for people, as `all`.
    pub categories: Vec<String>,
    /// Whether the resources are in namespaces.
    pub namespaced: bool,
    /// What can be done with the resources.
    pub verbs: Verbs,
    /// Whether the status is written apart from the rest.
    pub status: bool,
    /// The versions in which the number of replicas can be read and written apart from the rest.
    pub scale_versions: Vec<String>,
}

/// What can be done with the resources of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is one verb of the server")]
pub struct Verbs {
    /// A resource can be read.
    pub get: bool,
    /// Resources can be listed.
    pub list: bool,
    /// Resources can be watched.
    pub watch: bool,
    /// A resource can be created.
    pub create: bool,
    /// A resource can be replaced.
    pub update: bool,
    /// A resource can be patched and applied.
    pub patch: bool,
    /// A resource can be deleted.
    pub delete: bool,
}

impl Verbs {
    /// Returns the verbs with these names; others are ignored.
    pub fn of(names: &[String]) -> Self {
        let has = |name: &str| names.iter().any(|one| one == name);
        Self {
            get: has("get"),
            list: has("list"),
            watch: has("watch"),
            create: has("create"),
            update: has("update"),
            patch: has("patch"),
            delete: has("delete"),
        }
    }
}

impl ServedKind {
    /// Returns a cluster-scoped kind without names, verbs and subresources, in one version.
    pub fn new(kind: Kind) -> Self {
        Self {
            versions: vec![kind.version.clone()],
            kind,
            plural: String::new(),
            singular: String::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: false,
            verbs: Verbs::default(),
            status: false,
            scale_versions: Vec::new(),
        }
    }

    /// Returns the version in which to read or write a resource: the wanted one if it is served.
    pub fn version<'a>(&'a self, wanted: &'a str) -> &'a str {
        if self.versions.iter().any(|one| one == wanted) { wanted } else { &self.kind.version }
    }

    /// Returns whether the number of replicas can be read and written apart from the rest, in this version.
    pub fn has_scale(&self, version: &str) -> bool {
        self.scale_versions.iter().any(|one| one == version)
    }

    fn order(&self) -> (&str, &str) {
        (&self.kind.group, &self.kind.name)
    }
}

impl Catalog {
    /// Returns the catalog of these kinds, or of the first [`KINDS_MAX`] of them.
    pub fn new(kinds: impl IntoIterator<Item = ServedKind>) -> Self {
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by(|one, other| one.order().cmp(&other.order()));
        if kinds.len() > KINDS_MAX {
            tracing::warn!(kinds = kinds.len(), "a server serves more kinds than a catalog has");
            kinds.truncate(KINDS_MAX);
        }
        Self { kinds }
    }

    /// Returns the kinds in the order of their groups and names.
    pub fn kinds(&self) -> impl Iterator<Item = &ServedKind> {
        self.kinds.iter()
    }

    /// Returns a kind; its version is ignored.
    pub fn find(&self, kind: &Kind) -> Option<&ServedKind> {
        let wanted = (kind.group.as_str(), kind.name.as_str());
        let at = self.kinds.binary_search_by(|one| one.order().cmp(&wanted)).ok()?;
        self.kinds.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_has_at_most_so_many_kinds() {
        let kind = |number: usize| ServedKind::new(Kind::new("demo.dev", "v1", format!("Kind{number:05}")));
        let catalog = Catalog::new((0..=KINDS_MAX).rev().map(kind));
        assert_eq!(catalog.kinds().count(), KINDS_MAX);
        assert!(catalog.find(&kind(0).kind).is_some(), "the first ones stay");
        assert_eq!(catalog.find(&kind(KINDS_MAX).kind), None);
    }
}
