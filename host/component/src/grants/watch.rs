//! Decides which changes of resources a controller may see. Pure.
//!
//! A change reaches the guest as a key: `watch` discloses only the kind, namespace and name of a resource.
//! Some mappings disclose content of the document: the value of a label, an annotation or a field becomes a key,
//! and `mapper.map` gets the whole document. These also need a grant to read that document, by `get` or by
//! `list`.

use std::sync::Arc;

use homeostat_store::{Key, Kind, Selector};

use super::{AccessRequest, Grants, ResourceGrant, ResourceNeed, Verb, advice, covers_kind, pattern};
use crate::load_error::{LoadError, Reason};
use crate::spec::{ControllerSpec, KindDeclaration, Mapping};

/// The part of a changed resource that reaches the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disclosure {
    /// Its kind, namespace and name.
    Key,
    /// Content of its document.
    Content,
}

/// The verbs that allow reading a document. One of them suffices.
const READ: [Verb; 2] = [Verb::Get, Verb::List];

impl Disclosure {
    /// Returns what the set of matching resources discloses about their documents.
    pub fn of(selector: &Selector) -> Self {
        let Selector { namespace: _, labels, fields: _, unequal_fields: _, owner } = selector;
        let has_fields = selector.all_fields().next().is_some();
        if labels.is_empty() && !has_fields && owner.is_none() { Self::Key } else { Self::Content }
    }
}

impl Mapping {
    /// Returns the part of a changed resource that reaches the guest. An owner is of the managed kind, whose
    /// keys need a `watch` themselves.
    pub fn disclosure(&self) -> Disclosure {
        match self {
            Self::Owner | Self::SameName => Disclosure::Key,
            Self::Label(_) | Self::Annotation(_) | Self::Field(_) | Self::Guest => Disclosure::Content,
        }
    }
}

impl Grants {
    /// Returns whether a change of the resource `key` may reach the guest with this disclosure.
    pub fn discloses(&self, key: &Key, reveals: Disclosure) -> bool {
        let (namespace, name) = (Some(key.namespace()), Some(key.name()));
        let may = |verb| self.allows(&AccessRequest { verb, kind: key.kind(), namespace, name });
        may(Verb::Watch) && (reveals == Disclosure::Key || READ.into_iter().any(may))
    }

    /// Returns the part of these grants on which [`Grants::discloses`] depends for resources of these kinds.
    /// While it stays the same, so do the disclosed changes.
    #[must_use]
    pub fn for_kinds(&self, kinds: &[&Kind]) -> Self {
        let kept_to = self.limited_to.as_deref().map(|wanted| Arc::new(wanted.for_kinds(kinds)));
        let mut resources = Vec::new();
        for kind in kinds {
            for grant in self.resources.iter().filter(|grant| grant.is_about(kind)) {
                let verbs = [Verb::Watch, Verb::Get, Verb::List].into_iter().filter(|verb| grant.has(*verb));
                let (namespaces, names) = (grant.namespaces.clone(), grant.names.clone());
                let part = ResourceGrant { kinds: vec![kind_text(kind)], verbs: verbs.collect(), namespaces, names };
                if !part.verbs.is_empty() && !resources.contains(&part) {
                    resources.push(part);
                }
            }
        }
        Self { resources, limited_to: kept_to, ..Self::default() }
    }

    /// Checks that these grants cover all watches that a component declares.
    ///
    /// A watch that is granted for a part of its kind's resources is sufficient: the guest sees changes of
    /// that part.
    ///
    /// # Errors
    /// [`Reason::WatchWithoutGrant`] for each watch without any granted resource, with the lines that would
    /// grant it.
    pub fn check_watches(&self, spec: &ControllerSpec) -> Result<(), LoadError> {
        let managed =
            self.missing_verbs(&spec.manages, Disclosure::Key).map(|verbs| Reason::watch(None, &spec.manages, &verbs));
        let watches = spec.watches.iter().filter_map(|watch| {
            let verbs = self.missing_verbs(&watch.of, watch.mapping.disclosure())?;
            Some(Reason::watch(Some(&watch.name), &watch.of, &verbs))
        });
        let reasons: Vec<Reason> = managed.into_iter().chain(watches).collect();
        if reasons.is_empty() { Ok(()) } else { Err(LoadError { reasons }) }
    }

    /// Returns the grants among these that the declared watches need. [`Grants::learn`] must not drop them,
    /// even if no resource has changed meanwhile.
    pub fn watch_needs(&self, spec: &ControllerSpec) -> Vec<ResourceNeed> {
        let managed = std::iter::once((&spec.manages, Disclosure::Key));
        let watches = spec.watches.iter().map(|watch| (&watch.of, watch.mapping.disclosure()));
        let mut needs = Vec::new();
        for (declared, reveals) in managed.chain(watches).filter(|(declared, _)| !declared.keys_only) {
            let lines: Vec<&ResourceGrant> =
                self.resources.iter().filter(|grant| grant.is_about(&declared.kind)).collect();
            let read = READ.into_iter().find(|verb| lines.iter().any(|grant| grant.has(*verb)));
            let read = read.filter(|_| reveals == Disclosure::Content);
            for verb in [Verb::Watch].into_iter().chain(read) {
                let (namespace, name) = ("*".to_owned(), "*".to_owned());
                let need = ResourceNeed { verb, kind: kind_text(&declared.kind), namespace, name, asked: 1, denied: 0 };
                if !needs.contains(&need) {
                    needs.push(need);
                }
            }
        }
        needs
    }

    /// Returns the verbs that are missing for every resource of a kind; `None` if at least one resource is
    /// covered.
    fn missing_verbs(&self, declared: &KindDeclaration, reveals: Disclosure) -> Option<Vec<Verb>> {
        if declared.keys_only {
            // No resources of it are stored, so there is nothing to watch.
            return None;
        }
        let of_kind = |verbs: &[Verb]| -> Vec<&ResourceGrant> {
            let may =
                |grant: &&ResourceGrant| grant.is_about(&declared.kind) && verbs.iter().any(|verb| grant.has(*verb));
            self.resources.iter().filter(may).collect()
        };
        let watched = of_kind(&[Verb::Watch]).into_iter().filter(|grant| grant.can_cover(declared));
        let watched: Vec<_> = watched.collect();
        let read = of_kind(&READ);
        let is_read = |watched: &ResourceGrant| read.iter().any(|read| watched.overlaps(read, declared));
        if watched.is_empty() {
            return Some([&[Verb::Watch][..], if reveals == Disclosure::Content { &READ[..1] } else { &[] }].concat());
        }
        let is_told = reveals == Disclosure::Key || watched.into_iter().any(is_read);
        (!is_told).then(|| READ[..1].to_vec())
    }
}

impl ResourceGrant {
    fn is_about(&self, kind: &Kind) -> bool {
        self.kinds.iter().any(|pattern| covers_kind(pattern, kind))
    }

    fn has(&self, verb: Verb) -> bool {
        self.verbs.iter().any(|granted| *granted == Verb::Any || *granted == verb)
    }

    /// Returns whether this grant can cover some resource of a kind.
    fn can_cover(&self, declared: &KindDeclaration) -> bool {
        self.namespaces.iter().any(|namespace| can_be_of(namespace, declared.namespaced)) && !self.names.is_empty()
    }

    /// Returns whether both grants can cover the same resource of a kind.
    fn overlaps(&self, other: &Self, declared: &KindDeclaration) -> bool {
        let meet = |ours: &[String], theirs: &[String], is_meant: &dyn Fn(&str) -> bool| {
            let pairs = ours.iter().flat_map(|one| theirs.iter().map(move |other| (one, other)));
            pairs.into_iter().any(|(one, other)| is_meant(one) && is_meant(other) && pattern::overlap(one, other))
        };
        meet(&self.namespaces, &other.namespaces, &|namespace| can_be_of(namespace, declared.namespaced))
            && meet(&self.names, &other.names, &|_| true)
    }
}

impl Reason {
    fn watch(watch: Option<&String>, declared: &KindDeclaration, verbs: &[Verb]) -> Self {
        Self::WatchWithoutGrant {
            watch: watch.cloned(),
            kind: kind_text(&declared.kind),
            verbs: verbs.to_vec(),
            grant: advice::resources(&declared.kind, verbs),
        }
    }
}

/// Returns whether a namespace pattern can match resources of a kind with this scope.
fn can_be_of(namespace: &str, namespaced: bool) -> bool {
    if namespaced { !namespace.is_empty() } else { pattern::matches_glob(namespace, "") }
}

/// Returns a kind in the form of grants.
fn kind_text(kind: &Kind) -> String {
    if kind.group.is_empty() { kind.name.clone() } else { format!("{}/{}", kind.group, kind.name) }
}

#[cfg(test)]
mod tests;
