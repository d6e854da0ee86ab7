//! The states that this host knows better than the cache of a kind: its acknowledged writes and its reads
//! past the cache, until the cache has caught up with them. Pure.
//!
//! * An [`OwnWrite`] is the state of one resource after a write or a live read. Reads prefer it to the cache.
//!   It is forgotten as soon as the cache has it.
//! * A fence marks a resource whose state is unknown, because the answer to a write was lost. Reads of it ask
//!   the server until one of them was answered.
//! * The floor is a revision for which all reads of the kind wait. It replaces entries beyond a bound here.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::read_watermark::ReadWatermark;
use crate::model::Path;
use crate::{Key, Kind, Resource, Revision};

/// Resources that are known better than the cache knows them. A write is refused while there are as many.
pub(crate) const WRITES_MAX: usize = 65_536;
/// Total size of their documents, in bytes.
pub(crate) const BYTES_MAX: u64 = 16 << 20;
/// Fenced resources. A write is refused while there are as many.
pub(crate) const FENCES_MAX: usize = 1024;

/// The state of a resource that is newer than that of the cache.
#[derive(Debug, Clone)]
pub(crate) enum OwnWrite {
    /// The resource, at its revision.
    Put(Arc<Resource>),
    /// The resource is gone.
    Gone {
        /// Its last known state. The revision is that of the deletion, or an earlier one.
        last: Arc<Resource>,
        /// The revision of the deletion; `None` when the server did not tell.
        at: Option<Revision>,
    },
}

/// A fenced resource.
#[derive(Debug, Clone)]
struct Fence {
    key: Key,
    number: u64,
    /// Whether a write of it may have happened without an answer. Otherwise the cache is just known to be
    /// old.
    is_unanswered: bool,
}

/// The state of a fence, to remove the fence that was seen and no later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FenceNumber(u64);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    writes: BTreeMap<Path, (u64, OwnWrite)>,
    /// The paths of `writes` with a known revision, by that revision.
    by_revision: BTreeSet<(Revision, Path)>,
    /// The paths of `writes` without one.
    without_revision: BTreeSet<Path>,
    fences: BTreeMap<Path, Fence>,
    /// Size of the documents of `writes`, in bytes.
    bytes: u64,
    floor: Revision,
    /// Numbers writes and fences.
    count: u64,
}

impl OwnWrite {
    /// Returns the revision from which a cache has this state.
    fn at(&self) -> Option<Revision> {
        match self {
            Self::Put(resource) => Some(resource.revision()),
            Self::Gone { at, .. } => *at,
        }
    }

    /// Returns whether this is a document of another version of a kind. What is gone has none.
    pub(super) fn has_other_version(&self, kind: &Kind) -> bool {
        matches!(self, Self::Put(resource) if resource.key().kind().version != kind.version)
    }

    /// Returns a revision at which this state was not older than others of a lower revision.
    pub(super) fn order(&self) -> Revision {
        match self {
            Self::Put(resource) => resource.revision(),
            Self::Gone { last, at } => at.unwrap_or(last.revision()),
        }
    }

    /// Returns how far this state shows its kind.
    pub(super) fn shown(&self) -> ReadWatermark {
        ReadWatermark { revision: self.order(), has_unknown: self.at().is_none() }
    }

    fn resource(&self) -> &Arc<Resource> {
        match self {
            Self::Put(resource) | Self::Gone { last: resource, .. } => resource,
        }
    }

    fn bytes(&self) -> u64 {
        self.resource().bytes()
    }

    /// Returns whether a cache that has every change up to `through`, and this uid at the path, has this
    /// state.
    fn is_in(&self, through: Revision, cached_uid: Option<&str>) -> bool {
        match self {
            Self::Put(resource) => through >= resource.revision(),
            Self::Gone { at: Some(at), .. } => through >= *at,
            Self::Gone { last, at: None } => through >= last.revision() && cached_uid != Some(last.uid()),
        }
    }

    /// Returns whether this state is newer than the other one of the same path.
    fn supersedes(&self, other: &Self) -> bool {
        let is_same_uid = match (self, other) {
            (Self::Gone { last, .. }, Self::Put(resource)) => resource.uid() == last.uid(),
            // A uid does not come back.
            (Self::Put(resource), Self::Gone { last, .. }) if resource.uid() == last.uid() => return false,
            _ => false,
        };
        is_same_uid || self.order() >= other.order()
    }
}

impl OwnWrites {
    /// Records a state, unless a newer one is recorded or the cache has it: the cache has every change up to
    /// `through`, and `cached_uid` at the path.
    pub(crate) fn record(&mut self, path: Path, write: OwnWrite, through: Revision, cached_uid: Option<&str>) {
        if write.is_in(through, cached_uid) {
            return;
        }
        if self.writes.get(&path).is_some_and(|(_, before)| !write.supersedes(before)) {
            return;
        }
        self.forget(&path);
        let is_full = self.bytes + write.bytes() > BYTES_MAX || self.writes.len() >= WRITES_MAX;
        if let Some(at) = write.at().filter(|_| is_full) {
            self.floor = self.floor.max(at);
            return;
        }
        self.bytes += write.bytes();
        match write.at() {
            Some(at) => self.by_revision.insert((at, path.clone())),
            None => self.without_revision.insert(path.clone()),
        };
        self.count += 1;
        self.writes.insert(path, (self.count, write));
    }

    /// Forgets the states that the cache has: every change up to `through`, and the uids that `cached_uid`
    /// tells.
    pub(crate) fn settle<'a>(&mut self, through: Revision, cached_uid: impl Fn(&Path) -> Option<&'a str>) {
        while let Some((at, path)) = self.by_revision.first()
            && *at <= through
        {
            let path = path.clone();
            self.forget(&path);
        }
        let is_seen =
            |path: &&Path| self.writes.get(*path).is_none_or(|(_, write)| write.is_in(through, cached_uid(path)));
        let seen: Vec<Path> = self.without_revision.iter().filter(is_seen).cloned().collect();
        seen.iter().for_each(|path| self.forget(path));
    }

    /// Returns the state of a resource that is newer than that of the cache.
    pub(crate) fn get(&self, path: &Path) -> Option<&OwnWrite> {
        self.writes.get(path).map(|(_, write)| write)
    }

    /// Returns the states of all resources that are newer than those of the cache, in the order of their
    /// paths; `None` for a resource that is gone.
    pub(crate) fn rows(&self) -> Vec<(Path, Option<Arc<Resource>>)> {
        let row = |(path, (_, write)): (&Path, &(u64, OwnWrite))| match write {
            OwnWrite::Put(resource) => (path.clone(), Some(resource.without_document())),
            OwnWrite::Gone { .. } => (path.clone(), None),
        };
        self.writes.iter().map(row).collect()
    }

    /// Returns whether one of the states is that of a resource that is there.
    pub(crate) fn has_resources(&self) -> bool {
        self.writes.values().any(|(_, write)| matches!(write, OwnWrite::Put(_)))
    }

    /// Returns the resources that were written or deleted after `after`, and until `until`.
    pub(crate) fn between(&self, after: Revision, until: Revision) -> impl Iterator<Item = (&Path, &Arc<Resource>)> {
        let is_between = move |write: &OwnWrite| after < write.order() && write.order() <= until;
        self.writes
            .iter()
            .filter(move |(_, (_, write))| is_between(write))
            .map(|(path, (_, write))| (path, write.resource()))
    }

    /// Returns the number of states recorded so far, for [`OwnWrites::has_pending`].
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether the cache misses one of the first `count` recorded states.
    pub(crate) fn has_pending(&self, count: u64) -> bool {
        self.writes.values().any(|(number, _)| *number <= count)
    }

    /// Returns how far reads of these states, and of fenced resources, have shown the kind.
    pub(super) fn shown(&self) -> ReadWatermark {
        let last = self.by_revision.last().map_or(Revision::ZERO, |(revision, _)| *revision);
        let has_unanswered = self.fences.values().any(|fence| fence.is_unanswered);
        ReadWatermark {
            revision: self.floor.max(last),
            has_unknown: has_unanswered || !self.without_revision.is_empty(),
        }
    }

    /// Returns the revision that the cache must have for any read.
    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// Makes all reads wait until the cache has a revision.
    pub(crate) fn raise_floor(&mut self, revision: Revision) {
        self.floor = self.floor.max(revision);
    }

    /// Returns whether one more write can be recorded and fenced. Otherwise it must not be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.writes.len() < WRITES_MAX && self.fences.len() < FENCES_MAX
    }

    /// Fences a resource. Beyond [`FENCES_MAX`] it fences only unanswered writes,
    /// which are bounded by those that are under way.
    pub(crate) fn fence(&mut self, key: &Key, is_unanswered: bool) {
        let path = Path::of(key);
        let was_unanswered = self.fences.get(&path).is_some_and(|fence| fence.is_unanswered);
        let has_room = is_unanswered || self.fences.contains_key(&path) || self.fences.len() < FENCES_MAX;
        if has_room {
            self.count += 1;
            let fence = Fence { key: key.clone(), number: self.count, is_unanswered: is_unanswered || was_unanswered };
            self.fences.insert(path, fence);
        }
    }

    /// Returns the fence of a resource.
    pub(crate) fn fence_of(&self, path: &Path) -> Option<FenceNumber> {
        self.fences.get(path).map(|fence| FenceNumber(fence.number))
    }

    /// Returns the resources with unanswered writes.
    pub(crate) fn unanswered(&self) -> Vec<Key> {
        self.fences.values().filter(|fence| fence.is_unanswered).map(|fence| fence.key.clone()).collect()
    }

    /// Returns some of the fenced resources.
    pub(crate) fn fenced(&self, count_max: usize) -> Vec<Key> {
        self.fences.values().take(count_max).map(|fence| fence.key.clone()).collect()
    }

    /// Removes a fence, unless the resource was fenced again since.
    pub(crate) fn remove_fence(&mut self, path: &Path, seen: FenceNumber) {
        if self.fence_of(path) == Some(seen) {
            self.fences.remove(path);
        }
    }

    fn forget(&mut self, path: &Path) {
        if let Some((_, write)) = self.writes.remove(path) {
            self.bytes -= write.bytes();
            match write.at() {
                Some(at) => self.by_revision.remove(&(at, path.clone())),
                None => self.without_revision.remove(path),
            };
        }
    }
}
