//! The cache of one kind: the resources that the reflector of the kind has seen, and the newer states that
//! this host knows.

mod partial_list;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

pub(super) use self::partial_list::{ListRefusal, PartialList, StaleList};
use super::budget::{Budget, BudgetExceeded, Charge, bytes_of};
use super::own_writes::{OwnWrite, OwnWrites};
use super::read_watermark::ReadWatermark;
use super::unreadable::UnreadableDocuments;
use super::upstream::{CachedState, LastState, Start};
use crate::contents::{Contents, LockedContents, SharedContents};
use crate::history::Bounds;
use crate::model::{PackedText, Path};
use crate::{
    CacheState, CacheStatus, ClockAndIds, Error, Event, EventType, Key, Kind, Obstacle, Query, Resource, Revision, View,
};

/// The cache of one kind. One task, its reflector, changes the contents.
pub(crate) struct CachedKind {
    pub(super) kind: Kind,
    /// How much of each resource is kept: all of it, or its metadata.
    pub(super) view: View,
    clock: Arc<dyn ClockAndIds>,
    bounds: Bounds,
    budget: Arc<Budget>,
    state: Mutex<KindState>,
    /// Notified of every change of the state that a read may wait for.
    changed: watch::Sender<()>,
    /// Number of subscriptions and open watches. Changed under the lock of the store's table of kinds.
    pub(super) users: watch::Sender<usize>,
}

/// The state of a [`CachedKind`]. Its lock is taken before the lock of its contents.
pub(super) struct KindState {
    /// `None` before the first list.
    pub(super) synced: Option<SyncedContents>,
    charge: Charge,
    /// The memory of the indexes of the contents.
    index_charge: Charge,
    /// A text of this kind, with which the texts of its resources are compressed.
    pub(super) dictionary: Option<Arc<[u8]>>,
    pub(super) own: OwnWrites,
    /// The resources that the contents lack.
    pub(super) unreadable: UnreadableDocuments,
    /// A revision that the server has reached. Above the contents while the stream lags.
    pub(super) seen: Revision,
    /// How far reads have shown the kind without these contents. Reads ask the server until the contents are
    /// as far.
    shown: ReadWatermark,
    pub(super) state: CacheState,
    /// The last error, until the stream goes on.
    pub(super) problem: Option<Error>,
    stale_lists: u64,
    /// Whether the last list was older than what was seen before.
    pub(super) is_stale: bool,
    /// Whether the store has forgotten this cache: its last user left.
    pub(super) is_removed: bool,
}

/// The contents of a kind, from one full list on.
#[derive(Clone)]
pub(super) struct SyncedContents {
    /// The origin of continue tokens.
    pub(super) id: Arc<str>,
    pub(super) contents: Arc<SharedContents>,
}

impl CachedKind {
    /// Creates the cache of a kind that was shown so far before.
    pub(super) fn new(
        (kind, view): (Kind, View),
        clock: Arc<dyn ClockAndIds>,
        bounds: Bounds,
        budget: Arc<Budget>,
        shown: ReadWatermark,
    ) -> Arc<Self> {
        let state = KindState {
            synced: None,
            charge: budget.charge(),
            index_charge: budget.charge(),
            dictionary: None,
            own: OwnWrites::default(),
            unreadable: UnreadableDocuments::default(),
            seen: shown.revision,
            shown,
            state: CacheState::Listing,
            problem: None,
            stale_lists: 0,
            is_stale: false,
            is_removed: false,
        };
        let (changed, users) = (watch::Sender::new(()), watch::Sender::new(0));
        Arc::new(Self { kind, view, clock, bounds, budget, state: Mutex::new(state), changed, users })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, KindState> {
        self.state.lock().expect("no thread panics while holding the state")
    }

    /// Returns whether reads of this part of a resource can be answered here.
    pub(super) fn has(&self, view: View) -> bool {
        self.view == View::Whole || view != View::Whole
    }

    /// Returns whether a list can be answered here.
    pub(super) fn answers(&self, query: &Query) -> bool {
        let is_of_metadata = |(pointer, _): &(String, String)| pointer.starts_with("/metadata/");
        self.view == View::Whole || (query.view != View::Whole && query.selector.all_fields().all(is_of_metadata))
    }

    /// Returns the part of a resource that is kept.
    fn kept(&self, resource: &Resource) -> Arc<Resource> {
        if self.view == View::Whole { resource.without_document() } else { resource.without_content() }
    }

    /// Waits until `find` returns something. Cancel safe.
    ///
    /// # Errors
    /// `Unavailable` after `wait`, with `what` the call waited for and the last error of the reflector.
    pub(super) async fn wait_for<T>(
        &self,
        wait: Duration,
        what: &str,
        mut find: impl FnMut(&KindState) -> Option<crate::Result<T>>,
    ) -> crate::Result<T> {
        let mut changed = self.changed.subscribe();
        let found = async {
            loop {
                changed.borrow_and_update();
                if let Some(found) = find(&self.lock()) {
                    return found;
                }
                // The sender lives as long as this.
                let _ = changed.changed().await;
            }
        };
        match tokio::time::timeout(wait, found).await {
            Ok(found) => found,
            Err(_) => {
                let problem = self.lock().problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
                Err(Error::unavailable(format!("{what} of {} did not come within {wait:?}{problem}", self.kind)))
            }
        }
    }

    /// Returns the start of the next stream: `first` if there is no content yet.
    pub(super) fn next_start(&self, first: Start, needs_list: bool) -> Start {
        let state = self.lock();
        match &state.synced {
            None => first,
            Some(synced) if needs_list => Start::Now { not_before: Some(synced.contents.newest()) },
            Some(synced) => Start::After(synced.contents.newest()),
        }
    }

    /// Applies a creation or a change. One that the cache has already changes nothing.
    pub(super) fn apply_put(&self, resource: &Resource) -> Result<(), BudgetExceeded> {
        self.change(|state, contents| {
            let revision = resource.revision();
            if revision <= contents.newest() {
                return Ok(());
            }
            let path = Path::of(resource.key());
            state.unreadable.remove(&path);
            let previous = contents.stored(&path).cloned();
            let kind = if previous.is_some() { EventType::Modified } else { EventType::Added };
            state.commit(contents, Event { kind, resource: self.kept(resource), previous, revision })
        })
    }

    /// Applies a deletion. One that the cache has already changes nothing.
    pub(super) fn apply_delete(&self, key: &Key, last: &LastState, at: Revision) -> Result<(), BudgetExceeded> {
        self.change(|state, contents| {
            if at <= contents.newest() {
                return Ok(());
            }
            let path = Path::of(key);
            state.unreadable.remove(&path);
            if let LastState::Metadata(last) = last {
                state.commit_missed(contents, &path, &self.kept(last), at)?;
            }
            let Some(previous) = contents.stored(&path).cloned() else {
                contents.advance(at);
                return Ok(());
            };
            let resource = match last {
                LastState::Whole(last) => self.kept(last).at(at),
                LastState::Metadata(_) | LastState::Unknown => previous.at(at),
            };
            let event = Event { kind: EventType::Deleted, resource, previous: Some(previous), revision: at };
            state.commit(contents, event)
        })
    }

    /// Leaves out a resource whose document cannot be read. Watches are told that it is gone.
    pub(super) fn leave_out(&self, key: &Key, reason: &str, at: Revision) -> Result<(), BudgetExceeded> {
        self.change(|state, contents| {
            if at <= contents.newest() {
                return Ok(());
            }
            state.unreadable.insert(key, reason);
            let Some(previous) = contents.stored(&Path::of(key)).cloned() else {
                contents.advance(at);
                return Ok(());
            };
            let (kind, resource) = (EventType::Deleted, previous.at(at));
            state.commit(contents, Event { kind, resource, previous: Some(previous), revision: at })
        })
    }

    /// Returns the error of a write of a resource whose document cannot be read.
    pub(super) fn unreadable(&self, key: &Key) -> Option<Error> {
        let (state, path) = (self.lock(), Path::of(key));
        state.unreadable.error(&path).filter(|_| state.own.get(&path).is_none())
    }

    /// Returns what a person should know of documents that cannot be read.
    pub(super) fn unreadable_note(&self) -> Option<String> {
        self.lock().unreadable.describe()
    }

    /// Records that nothing else has happened up to a revision.
    pub(super) fn advance(&self, revision: Revision) -> Result<(), BudgetExceeded> {
        self.change(|_, contents| {
            contents.advance(revision);
            Ok(())
        })
    }

    /// Records that a stream goes on where another one ended.
    pub(super) fn reopened(&self) {
        // Nothing else can fail here.
        let _ = self.change(|_, _| Ok(()));
    }

    /// Records the error that ended a stream.
    pub(super) fn failed(&self, error: Error) {
        let mut state = self.lock();
        if state.state == CacheState::Synced {
            state.state = CacheState::Behind { since: self.clock.now() };
        }
        state.problem = Some(error);
        drop(state);
        self.changed.send_replace(());
    }

    /// Frees the contents. Open watches end with `error`, which gets the last revision of the contents.
    pub(super) fn end(&self, state_now: CacheState, error: impl FnOnce(Revision) -> Error) {
        let mut state = self.lock();
        state.shown = state.shown_so_far();
        state.end_contents(error);
        state.charge = self.budget.charge();
        state.index_charge = self.budget.charge();
        state.own = OwnWrites::default();
        state.state = state_now;
        drop(state);
        self.changed.send_replace(());
    }

    /// Frees the contents, after the last user has left. Returns how far the kind was shown.
    pub(super) fn remove(&self) -> ReadWatermark {
        self.lock().is_removed = true;
        self.end(CacheState::Listing, |newest| Error::Expired { oldest: newest });
        self.lock().shown
    }

    /// Records that the kind was shown so far without the cache.
    pub(super) fn show(&self, shown: ReadWatermark) {
        let mut state = self.lock();
        state.seen = state.seen.max(shown.revision);
        state.shown.add(shown);
    }

    /// Returns whether the server has to say how far it is before the cache can begin.
    pub(super) fn needs_revision(&self) -> bool {
        self.lock().shown.has_unknown
    }

    /// Records how far the server is, which is not before anything that was shown.
    pub(super) fn reached(&self, revision: Revision) {
        let mut state = self.lock();
        let shown = state.shown.revision.max(revision);
        (state.shown, state.seen) = (ReadWatermark::at(shown), state.seen.max(shown));
    }

    /// Forgets what was shown: the content of the server is another one.
    pub(super) fn forget_shown(&self) {
        let mut state = self.lock();
        (state.shown, state.seen, state.is_stale) = (ReadWatermark::default(), Revision::ZERO, false);
    }

    /// Returns whether reads of the cache show a resource.
    pub(super) fn has_resources(&self) -> bool {
        let state = self.lock();
        let contents = state.synced.as_ref().and_then(|synced| synced.contents.lock().ok());
        let is_gone = |path: &Path| matches!(state.own.get(path), Some(OwnWrite::Gone { .. }));
        state.own.has_resources()
            || contents.is_some_and(|contents| contents.all_stored().keys().any(|path| !is_gone(path)))
    }

    /// Records the state of a resource that the server told in an answer.
    pub(super) fn record(&self, path: Path, write: OwnWrite) {
        let write = match write {
            OwnWrite::Put(resource) => OwnWrite::Put(self.kept(&resource)),
            OwnWrite::Gone { last, at } => OwnWrite::Gone { last: self.kept(&last), at },
        };
        let mut state = self.lock();
        if let OwnWrite::Put(resource) = &write {
            state.seen = state.seen.max(resource.revision());
        }
        let contents = state.synced.as_ref().map(|synced| Arc::clone(&synced.contents));
        let contents = contents.as_ref().and_then(|contents| contents.lock().ok());
        let through = contents.as_ref().map_or(Revision::ZERO, |contents| contents.newest());
        let uid = contents.as_ref().and_then(|contents| contents.stored(&path)).map(|resource| resource.uid());
        state.own.record(path, write, through, uid);
    }

    /// Returns what the cache knows of a resource, for a write. Nothing unless it follows the server and has whole
    /// resources.
    pub(super) fn cached(&self, key: &Key) -> CachedState {
        if self.view != View::Whole {
            return CachedState::Unknown;
        }
        let state = self.lock();
        let path = Path::of(key);
        let Some(synced) = state.synced.as_ref().filter(|_| state.state == CacheState::Synced) else {
            return CachedState::Unknown;
        };
        let Ok(contents) = synced.contents.lock() else { return CachedState::Unknown };
        let is_behind = !state.shown.is_reached(contents.newest()) || state.own.floor() > contents.newest();
        if is_behind || state.own.fence_of(&path).is_some() {
            return CachedState::Unknown;
        }
        match state.own.get(&path) {
            Some(OwnWrite::Put(resource)) => {
                CachedState::Known { at: resource.revision(), resource: Some(resource.without_document()) }
            }
            Some(OwnWrite::Gone { at: Some(at), .. }) => CachedState::Known { resource: None, at: *at },
            Some(OwnWrite::Gone { at: None, .. }) => CachedState::Unknown,
            None if state.unreadable.has_more() && contents.stored(&path).is_none() => CachedState::Unknown,
            None => CachedState::Known { resource: contents.get(key), at: contents.newest() },
        }
    }

    /// Returns the state, for people and metrics.
    pub(super) fn status(&self) -> CacheStatus {
        let state = self.lock();
        let contents = state.synced.as_ref().and_then(|synced| synced.contents.lock().ok());
        CacheStatus {
            kind: self.kind.clone(),
            view: self.view,
            state: state.state,
            users: *self.users.borrow(),
            resources: contents.as_ref().map_or(0, |contents| contents.all_stored().len()),
            unreadable: state.unreadable.len(),
            bytes: state.charge.bytes() + state.index_charge.bytes(),
            revision: contents.map(|contents| contents.newest()),
            stale_lists: state.stale_lists,
            reason: state.problem.as_ref().map(ToString::to_string),
            obstacle: match (state.state, &state.problem) {
                (CacheState::Full, _) => Some(Obstacle::Full),
                (_, Some(Error::Forbidden { .. })) => Some(Obstacle::Forbidden),
                _ => None,
            },
        }
    }

    fn change(
        &self,
        change: impl FnOnce(&mut KindState, &mut LockedContents<'_>) -> Result<(), BudgetExceeded>,
    ) -> Result<(), BudgetExceeded> {
        let mut state = self.lock();
        let Some(SyncedContents { contents, .. }) = state.synced.clone() else { return Ok(()) };
        let Ok(mut contents) = contents.lock_expired() else { return Ok(()) };
        change(&mut state, &mut contents)?;
        self.heard(&mut state, &contents);
        Ok(())
    }

    /// Charges the memory of the indexes, after a list that may have built one.
    pub(super) fn charge_indexes(&self) {
        let mut state = self.lock();
        let Some(SyncedContents { contents, .. }) = state.synced.clone() else { return };
        if let Ok(contents) = contents.lock() {
            state.charge_indexes(&contents);
        }
    }

    /// Records that the contents follow the server.
    fn heard(&self, state: &mut KindState, contents: &Contents) {
        let newest = contents.newest();
        state.own.settle(newest, |path| contents.stored(path).map(|resource| resource.uid()));
        state.seen = state.seen.max(newest);
        state.state = CacheState::Synced;
        state.is_stale = false;
        state.problem = None;
        self.changed.send_replace(());
    }
}

impl KindState {
    /// Returns the dictionary of the kind, which the first resource makes.
    fn dictionary(&mut self, resource: &Resource) -> Arc<[u8]> {
        Arc::clone(self.dictionary.get_or_insert_with(|| PackedText::dictionary(resource.text())))
    }

    fn commit(&mut self, contents: &mut LockedContents<'_>, event: Event) -> Result<(), BudgetExceeded> {
        // The state before, as it is stored: packed too.
        let previous = contents.stored(&Path::of(event.resource.key())).cloned();
        let resource = event.resource.packed(&self.dictionary(&event.resource), previous.as_deref());
        let event = Event { resource, previous, ..event };
        let old = event.previous.as_deref().map_or(0, bytes_of);
        let new = if event.kind == EventType::Deleted { 0 } else { bytes_of(&event.resource) };
        self.charge.replace(old, new)?;
        contents.commit(event);
        self.charge_indexes(contents);
        Ok(())
    }

    /// Charges the memory of the indexes. If the budget has no room for it, the contents go on without indexes.
    fn charge_indexes(&mut self, contents: &Contents) {
        let (before, now) = (self.index_charge.bytes(), contents.terms().bytes());
        if before != now && self.index_charge.replace(before, now).is_err() {
            contents.terms().refuse();
            self.index_charge.release(before);
        }
    }

    /// Adds a resource that no delta has shown, because its deletion at `gone_at` overwrote it: reads may have shown
    /// it as an own write, or a client has created it, and both wait for its deletion.
    fn commit_missed(
        &mut self,
        contents: &mut LockedContents<'_>,
        path: &Path,
        last: &Arc<Resource>,
        gone_at: Revision,
    ) -> Result<(), BudgetExceeded> {
        let previous = contents.stored(path).cloned();
        let is_known = previous.as_ref().is_some_and(|previous| previous.uid() == last.uid());
        let revision = last.revision();
        if is_known || revision <= contents.newest() || revision >= gone_at {
            return Ok(());
        }
        let kind = if previous.is_some() { EventType::Modified } else { EventType::Added };
        self.commit(contents, Event { kind, resource: last.without_document(), previous, revision })
    }

    /// Returns whether the contents have everything that was shown without them; `None` before the first list.
    pub(super) fn has_shown(&self) -> Option<bool> {
        self.synced.as_ref().map(|synced| self.shown.is_reached(synced.contents.newest()))
    }

    /// Returns how far the kind was shown, by its contents and without them.
    fn shown_so_far(&self) -> ReadWatermark {
        let mut shown = self.shown;
        shown.add(self.own.shown());
        if let Some(synced) = &self.synced {
            shown.add(ReadWatermark::at(synced.contents.newest()));
        }
        shown
    }

    /// Removes the contents before it ends them, so that a read that finds them ended looks for others.
    fn end_contents(&mut self, error: impl FnOnce(Revision) -> Error) {
        self.unreadable = UnreadableDocuments::default();
        if let Some(SyncedContents { contents, .. }) = self.synced.take() {
            contents.end(error(contents.newest()));
        }
    }
}
