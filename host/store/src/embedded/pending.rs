//! What the next decisions are made on: the changes that are not in the pages yet, and resources that were written last, which need not be
//! asked for in the pages.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::codec::LogRow;
use crate::model::Path;
use crate::{Event, EventType, Resource, Revision};

/// Changes that are pending at most, but for those of one batch.
pub(super) const CHANGES_MAX: usize = 4096;
/// What they may come to, but for those of one batch, in bytes of both their documents.
pub(super) const BYTES_MAX: u64 = 16 << 20;

/// A change as it was decided.
#[derive(Debug, Clone)]
pub(super) struct UnappliedChange {
    pub(super) path: Path,
    pub(super) event: Event,
}

impl UnappliedChange {
    /// Returns its row, without the document before the change.
    pub(super) fn row(&self) -> LogRow<'_> {
        let Self { path, event } = self;
        LogRow { kind: event.kind, path: &path.0, document: event.resource.text().as_bytes(), previous: Cow::default() }
    }

    /// Returns what it comes to with the document before the change.
    pub(super) fn bytes(&self) -> u64 {
        self.row().length() + self.event.previous.as_ref().map_or(0, |previous| previous.bytes())
    }
}

/// What the changes may come to whose resources are kept although the pages have them, in bytes of both their documents.
pub(super) const RECENT_BYTES_MAX: u64 = 32 << 20;

/// Changes that are synced together.
#[derive(Debug, Default)]
pub(super) struct ChangeBatch {
    /// In the order of revisions.
    pub(super) changes: Vec<UnappliedChange>,
    /// The last change of which the history can be cut off after these.
    pub(super) compacted: Revision,
}

/// The changes that are pending, what they make of their resources, and the resources that were pending last.
///
/// Whoever decides makes every change there is, so what is kept is what the pages have, for as long as nothing fails.
///
/// Invariant: `latest` has the last entry of each path in `kept` and `order`, and nothing else.
#[derive(Debug, Default)]
pub(super) struct UnappliedChanges {
    /// By path: the revision of the last change, and the resource after it; `None` when it is gone.
    latest: HashMap<Path, (Revision, Option<Arc<Resource>>)>,
    /// Changes that are pending, in the order of revisions, with the bytes of each.
    order: VecDeque<(Revision, Path, u64)>,
    bytes: u64,
    /// As `order`, of changes before those: the pages have them.
    recent: VecDeque<(Revision, Path, u64)>,
    recent_bytes: u64,
}

impl UnappliedChanges {
    /// Returns the resource at a path, if one of the changes is about it; the inner `None` when it is gone.
    pub(super) fn latest(&self, path: &Path) -> Option<Option<&Arc<Resource>>> {
        self.latest.get(path).map(|(_, resource)| resource.as_ref())
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

    /// Notes that the pages have the changes up to and including a revision.
    pub(super) fn mark_applied(&mut self, through: Revision) {
        while let Some(change) = self.order.pop_front_if(|(revision, ..)| *revision <= through) {
            self.bytes -= change.2;
            self.recent_bytes += change.2;
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

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns whether no more should be decided before the pages have some of it.
    pub(super) fn is_full(&self) -> bool {
        self.order.len() >= CHANGES_MAX || self.bytes >= BYTES_MAX
    }
}
