//! The kinds of owners that a document names without a group.

use std::sync::Weak;

use homeostat_store::{Kind, OwnerKinds};

use super::Kinds;

/// Resolves names by the registry, which itself refers to the stores that ask.
pub(crate) struct OwnerKindResolver(pub(crate) Weak<Kinds>);

impl OwnerKinds for OwnerKindResolver {
    fn named(&self, name: &str) -> Option<Kind> {
        self.0.upgrade()?.only(name)
    }

    fn known(&self) -> Vec<Kind> {
        self.0.upgrade().map(|kinds| kinds.with_resources()).unwrap_or_default()
    }
}

impl Kinds {
    /// Returns the one kind with this plural, singular, short name or name; `None` if there are several.
    pub(crate) fn only(&self, name: &str) -> Option<Kind> {
        let by_type = self.by_type.read();
        let mut called = by_type.values().filter(|info| info.is_called(name));
        called.next().filter(|_| called.next().is_none()).map(|info| info.kind.clone())
    }

    /// Returns the kinds that can have resources, in their storage versions.
    pub(crate) fn with_resources(&self) -> Vec<Kind> {
        let by_type = self.by_type.read();
        by_type.values().filter(|info| !info.keys_only).map(|info| info.kind.clone()).collect()
    }
}
