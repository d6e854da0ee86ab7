//! The state that the next decisions are based on: changes that are not applied to the pages yet, and
//! recently written resources, which need not be read from the pages.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::codec::LogRow;
use crate::model::{PackedText, Path};
use crate::{Event, EventType, Kind, Resource, Revision};

/// Unapplied changes at most, plus those of one batch.
pub(super) const CHANGES_MAX: usize = 4096;
/// Their total size at most, plus one batch, in bytes of the documents before and after each change.
pub(super) const BYTES_MAX: u64 = 16 << 20;

/// A decided change.
#[derive(Debug, Clone)]
pub(super) struct UnappliedChange {
    pub(super) path: Path,
    pub(super) event: Event,
}

impl UnappliedChange {
    /// Returns its log row, without the document before the change.
    pub(super) fn row(&self) -> LogRow<'_> {
        let Self { path, event } = self;
        LogRow { kind: event.kind, path: &path.0, document: event.resource.text().as_bytes(), previous: Cow::default() }
    }

    /// Returns its size with the document before the change, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.row().length() + self.event.previous.as_ref().map_or(0, |previous| previous.bytes())
    }
}

/// Total size of applied changes whose resources stay cached, in bytes of the documents before and after each
/// change. The resources are compressed, so most take less memory.
pub(super) const RECENT_BYTES_MAX: u64 = 32 << 20;
/// Kinds with a text that the resources of the kind are compressed with. Those of further kinds stay as they are.
pub(super) const DICTIONARIES_MAX: usize = 64;

/// Changes that are synced together.
#[derive(Debug, Default)]
pub(super) struct ChangeBatch {
    /// In the order of revisions.
    pub(super) changes: Vec<UnappliedChange>,
    /// The end of the history to compact after these changes.
    pub(super) compacted: Revision,
}

/// The unapplied changes with their resulting resources, and the resources of the latest applied changes.
///
/// The writer makes every change to the store, so a cached resource equals that in the pages, as long as
/// nothing fails.
///
/// Invariant: `latest` has the last entry of each path in `recent` and `order`, and nothing else.
#[derive(Debug, Default)]
pub(super) struct UnappliedChanges {
    /// By path: the revision of the last change, and the resource after it; `None` if it was deleted. The text of a
    /// resource is compressed once its change is applied.
    latest: HashMap<Path, (Revision, Option<Arc<Resource>>)>,
    /// Unapplied changes in the order of revisions, with the size of each.
    order: VecDeque<(Revision, Path, u64)>,
    bytes: u64,
    /// As `order`, for the applied changes before those.
    recent: VecDeque<(Revision, Path, u64)>,
    recent_bytes: u64,
    /// A text of each kind.
    dictionaries: HashMap<Kind, Arc<[u8]>>,
}

impl UnappliedChanges {
    /// Returns the cached resource at a path; the inner `None` if it was deleted. The caller gets a copy of a
    /// compressed resource, and unpacks it for itself.
    pub(super) fn latest(&self, path: &Path) -> Option<Option<Arc<Resource>>> {
        let copy = |resource: &Arc<Resource>| {
            if resource.is_packed() { resource.without_document() } else { Arc::clone(resource) }
        };
        self.latest.get(path).map(|(_, resource)| resource.as_ref().map(copy))
    }

    /// Adds the next change.
    pub(super) fn add(&mut self, change: &UnappliedChange) {
        let UnappliedChange { path, event } = change;
        let resource = Some(&event.resource).filter(|_| event.kind != EventType::Deleted);
        self.latest.insert(path.clone(), (event.revision, resource.cloned()));
        let bytes = change.bytes();
        self.order.push_back((event.revision, path.clone(), bytes));
        self.bytes += bytes;
    }

    /// Records that the pages have the changes up to and including a revision.
    pub(super) fn mark_applied(&mut self, through: Revision) {
        while let Some(change) = self.order.pop_front_if(|(revision, ..)| *revision <= through) {
            self.bytes -= change.2;
            self.recent_bytes += change.2;
            self.pack(&change);
            self.recent.push_back(change);
        }
        while self.recent_bytes > RECENT_BYTES_MAX
            && let Some((revision, path, bytes)) = self.recent.pop_front()
        {
            self.recent_bytes -= bytes;
            if self.latest.get(&path).is_some_and(|(latest, _)| *latest == revision) {
                self.latest.remove(&path);
            }
        }
    }

    /// Compresses the resource after a change, if no later change has replaced it.
    fn pack(&mut self, (revision, path, _): &(Revision, Path, u64)) {
        let Some((latest, Some(resource))) = self.latest.get_mut(path) else { return };
        if latest != revision {
            return;
        }
        let kind = resource.key().kind();
        if !self.dictionaries.contains_key(kind) && self.dictionaries.len() < DICTIONARIES_MAX {
            self.dictionaries.insert(kind.clone(), PackedText::dictionary(resource.text()));
        }
        if let Some(dictionary) = self.dictionaries.get(kind) {
            *resource = resource.packed(dictionary, None);
        }
    }

    /// Clears the cache.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns whether the writer should wait for the checkpointer.
    pub(super) fn is_full(&self) -> bool {
        self.order.len() >= CHANGES_MAX || self.bytes >= BYTES_MAX
    }
}
