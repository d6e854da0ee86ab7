//! How far reads of this host have shown kinds while the kinds had no cache. Pure.
//!
//! Reads of a kind without a cache ask the server, and writes show their answers. A cache that begins later comes
//! from a list, and the server of the list may lag. So the highest revision that was shown outlives each cache:
//! reads of a new cache ask the server until the cache has reached it.

use std::collections::BTreeMap;

use crate::Revision;

/// Kinds that are remembered. For any other kind, the server is asked how far it is.
const KINDS_MAX: usize = 4096;

/// The group and the name of a kind.
pub(super) type TypeName = (String, String);

/// How far reads have shown a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ReadWatermark {
    /// The highest revision that was shown.
    pub(super) revision: Revision,
    /// Whether a state was shown whose revision is unknown, as the absence of a resource. The server knows a revision
    /// that is not before it.
    pub(super) has_unknown: bool,
}

/// The watermarks of the kinds without a cache.
#[derive(Debug, Default)]
pub(super) struct ReadWatermarks {
    kinds: BTreeMap<TypeName, ReadWatermark>,
    /// Whether kinds were left out, because there were [`KINDS_MAX`] others.
    is_full: bool,
}

impl ReadWatermark {
    /// A state whose revision is unknown.
    pub(super) const UNKNOWN: Self = Self { revision: Revision::ZERO, has_unknown: true };

    /// Returns the state at a revision.
    pub(super) fn at(revision: Revision) -> Self {
        Self { revision, has_unknown: false }
    }

    /// Returns whether contents up to this revision have everything that was shown.
    pub(super) fn is_reached(self, newest: Revision) -> bool {
        !self.has_unknown && newest >= self.revision
    }

    /// Adds what was shown as well.
    pub(super) fn add(&mut self, other: Self) {
        self.revision = self.revision.max(other.revision);
        self.has_unknown |= other.has_unknown;
    }
}

impl ReadWatermarks {
    /// Adds what was shown of a kind.
    pub(super) fn add(&mut self, kind: TypeName, shown: ReadWatermark) {
        if shown == ReadWatermark::default() {
            return;
        }
        if self.kinds.len() < KINDS_MAX || self.kinds.contains_key(&kind) {
            self.kinds.entry(kind).or_default().add(shown);
        } else {
            self.is_full = true;
        }
    }

    /// Removes a kind whose cache begins, and returns how far it was shown.
    pub(super) fn take(&mut self, kind: &TypeName) -> ReadWatermark {
        let unknown = if self.is_full { ReadWatermark::UNKNOWN } else { ReadWatermark::default() };
        self.kinds.remove(kind).unwrap_or(unknown)
    }

    /// Returns the highest revision of all kinds.
    pub(super) fn highest(&self) -> Revision {
        self.kinds.values().map(|shown| shown.revision).max().unwrap_or(Revision::ZERO)
    }

    /// Forgets all: the content of the server is another one.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests;
