//! A full list of a kind, from its first resource to the end, when it becomes the content of the cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CachedKind, KindState, SyncedContents};
use crate::cached::budget::{BudgetExceeded, Charge, bytes_of};
use crate::cached::replace::{ReplaceError, is_same, replace};
use crate::cached::unreadable::UnreadableDocuments;
use crate::cached::upstream::Start;
use crate::contents::{Contents, Documents, SharedContents};
use crate::model::Path;
use crate::{Error, Key, Resource, Revision};

/// A full list while it is read.
pub(in crate::cached) struct PartialList {
    /// With the bytes that each takes beside the cache.
    resources: BTreeMap<Path, (Arc<Resource>, u64)>,
    unreadable: UnreadableDocuments,
    charge: Charge,
    /// Whether a user asked for a past state. Reads ask the server until the cache has caught up.
    is_past: bool,
}

/// A list that is older than the cache, or has a resource in an older state, with the revisions of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cached) struct StaleList {
    pub(in crate::cached) cached: Revision,
    pub(in crate::cached) listed: Revision,
}

/// Why a list did not become the content of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cached) enum ListRefusal {
    Stale(StaleList),
    Full,
}

impl From<BudgetExceeded> for ListRefusal {
    fn from(_: BudgetExceeded) -> Self {
        Self::Full
    }
}

impl PartialList {
    /// Removes a resource.
    pub(in crate::cached) fn remove(&mut self, key: &Key) {
        let path = Path::of(key);
        self.unreadable.remove(&path);
        if let Some((_, bytes)) = self.resources.remove(&path) {
            self.charge.release(bytes);
        }
    }

    /// Leaves a resource out.
    pub(in crate::cached) fn leave_out(&mut self, key: &Key, reason: &str) {
        self.remove(key);
        self.unreadable.insert(key, reason);
    }
}

impl CachedKind {
    /// Returns an empty list, to be filled by a stream from `start`. If the cache has no contents yet, the first resource
    /// makes a new dictionary.
    pub(in crate::cached) fn begin_list(&self, start: Start) -> PartialList {
        let mut state = self.lock();
        if state.synced.is_none() {
            state.dictionary = None;
        }
        let charge = state.charge.further();
        let is_past = matches!(start, Start::Exactly(_));
        let unreadable = UnreadableDocuments::default();
        PartialList { resources: BTreeMap::new(), unreadable, charge, is_past }
    }

    /// Adds a resource to a list. A resource that the cache has already takes no further memory.
    pub(in crate::cached) fn add_listed(
        &self,
        list: &mut PartialList,
        resource: &Resource,
    ) -> Result<(), BudgetExceeded> {
        let path = Path::of(resource.key());
        let synced = self.lock().synced.clone();
        let cached = synced.and_then(|synced| synced.contents.lock().ok()?.stored(&path).cloned());
        let (kept, bytes) = match cached {
            Some(cached) if is_same(&cached, resource) => (cached, 0),
            before => {
                let kept = self.kept(resource);
                let dictionary = self.lock().dictionary(&kept);
                let packed = kept.packed(&dictionary, before.as_deref());
                let bytes = bytes_of(&packed);
                (packed, bytes)
            }
        };
        let before = list.resources.get(&path).map_or(0, |(_, bytes)| *bytes);
        list.charge.replace(before, bytes)?;
        list.unreadable.remove(&path);
        list.resources.insert(path, (kept, bytes));
        Ok(())
    }

    /// Makes a full list the content of the cache. The difference to the content before becomes events.
    pub(in crate::cached) fn end_list(&self, list: PartialList, at: Revision) -> Result<(), ListRefusal> {
        let PartialList { resources, unreadable, charge, is_past } = list;
        let rows: BTreeMap<_, _> = resources.into_iter().map(|(path, (resource, _))| (path, resource)).collect();
        let mut state = self.lock();
        if state.synced.is_none() && at < state.shown.revision && !is_past {
            let shown = state.shown.revision;
            return Err(state.refuse_stale(shown, at));
        }
        if let Some(SyncedContents { contents, .. }) = state.synced.clone()
            && let Ok(mut contents) = contents.lock_expired()
        {
            let cached = (contents.all_stored(), contents.newest());
            let shown = state.own.between(cached.1, at);
            match replace(cached, (&rows, at), shown) {
                Err(ReplaceError::Stale) => {
                    return Err(state.refuse_stale(contents.newest(), at));
                }
                Err(ReplaceError::WentBack { cached, listed }) => return Err(state.refuse_stale(cached, listed)),
                // The watches have to list again.
                Err(ReplaceError::Contradiction) => {}
                Ok(events) => {
                    drop(charge);
                    state.unreadable = unreadable;
                    for event in events {
                        state.commit(&mut contents, event)?;
                    }
                    contents.advance(at);
                    self.heard(&mut state, &contents);
                    return Ok(());
                }
            }
        }
        state.end_contents(|newest| Error::Expired { oldest: newest });
        // Resources that the former contents had were not charged to the list.
        drop(charge);
        (state.charge, state.unreadable) = (self.budget.charge(), unreadable);
        state.index_charge = self.budget.charge();
        state.charge.replace(0, rows.values().map(|resource| bytes_of(resource)).sum())?;
        let contents = Contents::of(rows, at, self.bounds, Documents::Copied);
        let contents = SharedContents::new(contents, Arc::clone(&self.clock));
        state.synced = Some(SyncedContents { id: self.clock.uid().into(), contents: Arc::clone(&contents) });
        if let Ok(contents) = contents.lock() {
            self.heard(&mut state, &contents);
        }
        Ok(())
    }
}

impl KindState {
    fn refuse_stale(&mut self, cached: Revision, listed: Revision) -> ListRefusal {
        self.stale_lists += 1;
        self.is_stale = true;
        ListRefusal::Stale(StaleList { cached, listed })
    }
}
