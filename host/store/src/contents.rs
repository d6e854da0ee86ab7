//! Resources in memory, in the order of their keys, with indexes by owner, label and field, and the recent
//! history.
//!
//! [`Contents`] is the state alone. [`SharedContents`] shares it between a store and its watches. A store in
//! memory has one for all kinds; a store that is far away has one for each kind that it keeps a cache of.

mod term_indexes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use async_trait::async_trait;

use self::term_indexes::TermIndexes;
use crate::history::{Bounds, History, check_start};
use crate::index::{self, ExaminedResources};
use crate::listing::changes_since::ChangesSinceCache;
use crate::listing::{self, PastRow, Start};
use crate::model::{Path, owner_prefix};
use crate::watch::{ChangeLog, LogBatch, RevisionNotifier, WatchCursor};
use crate::{
    ClockAndIds, Error, Event, EventType, IndexTerm, Key, Kind, Page, Query, Resource, Result, Revision, Scope, Watch,
};

/// Whether callers share the parsed documents of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Documents {
    /// They do. A document that was parsed once takes memory as long as its resource is stored.
    Shared,
    /// Each caller gets a copy, which shares the text alone. So the memory of the stored resources is that of
    /// their texts.
    Copied,
}

/// Resources and their recent history. Revisions of changes grow, and may have gaps.
///
/// Invariant: `owners` has one entry for every owner reference of every resource in `resources`.
pub(crate) struct Contents {
    resources: BTreeMap<Path, Arc<Resource>>,
    owners: BTreeSet<(Vec<u8>, Path)>,
    terms: TermIndexes,
    examined: ExaminedResources,
    history: History,
    /// Cache for the later pages of lists.
    changes_since: ChangesSinceCache,
    documents: Documents,
}

impl Contents {
    /// Creates contents without resources, as of a revision.
    pub(crate) fn new(at: Revision, bounds: Bounds, documents: Documents) -> Self {
        Self {
            resources: BTreeMap::new(),
            owners: BTreeSet::new(),
            terms: TermIndexes::default(),
            examined: ExaminedResources::default(),
            history: History::new(at, bounds),
            changes_since: ChangesSinceCache::default(),
            documents,
        }
    }

    /// Creates contents with these resources and no history, as of a revision.
    pub(crate) fn of(
        resources: BTreeMap<Path, Arc<Resource>>,
        at: Revision,
        bounds: Bounds,
        documents: Documents,
    ) -> Self {
        let mut contents = Self { resources, ..Self::new(at, bounds, documents) };
        for (path, resource) in &contents.resources {
            contents.owners.extend(owner_entries(resource, path));
        }
        contents
    }

    /// Returns the revision up to which every change is included.
    pub(crate) fn newest(&self) -> Revision {
        self.history.newest()
    }

    /// Returns the oldest revision from which the history can be read.
    pub(crate) fn oldest(&self) -> Revision {
        self.history.oldest()
    }

    /// Returns the stored resource, whose document is shared.
    pub(crate) fn stored(&self, path: &Path) -> Option<&Arc<Resource>> {
        self.resources.get(path)
    }

    /// Returns all stored resources, whose documents are shared, in the order of their keys.
    pub(crate) fn all_stored(&self) -> &BTreeMap<Path, Arc<Resource>> {
        &self.resources
    }

    /// Reads one resource.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Resource>> {
        self.resources.get(&Path::of(key)).map(|resource| self.give(resource))
    }

    /// Applies a change, whose revision is above [`Contents::newest`], and keeps it in the history.
    pub(crate) fn commit(&mut self, event: Event, now: SystemTime) {
        let path = Path::of(event.resource.key());
        if let Some(previous) = &event.previous {
            for entry in owner_entries(previous, &path) {
                self.owners.remove(&entry);
            }
        }
        let after = (event.kind != EventType::Deleted).then_some(&*event.resource);
        self.terms.change(&path, event.resource.key().kind(), event.previous.as_deref(), after);
        let bytes = event.resource.bytes() + event.previous.as_ref().map_or(0, |previous| previous.bytes());
        if event.kind == EventType::Deleted {
            self.resources.remove(&path);
        } else {
            self.owners.extend(owner_entries(&event.resource, &path));
            self.resources.insert(path, Arc::clone(&event.resource));
        }
        self.history.push(event, bytes, now);
    }

    /// Records that nothing has happened up to a revision. Does nothing if it is not above
    /// [`Contents::newest`].
    pub(crate) fn advance(&mut self, through: Revision) {
        self.history.advance(through);
    }

    /// Lists resources. `newer` replaces stored rows of the same paths on the first page. `declared` are the terms of
    /// the kind that keep their index.
    pub(crate) fn list(&self, query: &Query, id: &str, declared: &[IndexTerm], newer: Vec<PastRow>) -> Result<Page> {
        let start = Start::of(query, id, self.history.oldest())?;
        let now = self.history.newest();
        let revision = start.revision.unwrap_or(now);
        check_start(revision, self.history.oldest(), now)?;
        let (past, newer) = match start.revision {
            Some(since) => (Some(self.past_rows(&start, since, now)?), Vec::new()),
            None => (None, newer),
        };
        let is_exact = newer.is_empty();
        let newer = newer.into_iter().filter(|(path, _)| start.covers(path)).map(Ok);
        let past = newer.chain(past.into_iter().flatten());
        let by = (id, &self.examined);
        let page = if let Some(uid) = &query.selector.owner {
            let rows = self.owned(uid).filter(|(path, _)| start.covers(path));
            listing::page(query, by, revision, rows.map(Ok), past)
        } else {
            let mut indexes = self.terms.lock();
            match indexes.find(&query.kind, index::lookups(&query.selector), declared, &self.resources) {
                Some((index, values)) => {
                    let row = |path: &Path| Some((path.clone(), self.give(self.resources.get(path)?)));
                    let rows = index.paths(&values, &start).filter_map(|path| path.map(row).transpose());
                    listing::page(query, by, revision, rows, past)
                }
                None => listing::page(query, by, revision, self.rows(&start).map(Ok), past),
            }
        }?;
        if page.next.is_none() {
            self.changes_since.end(&start, revision);
        }
        // A write that the contents do not have yet may add or remove a row.
        let rows =
            |last: &Path| self.resources.range((Bound::Excluded(last), Bound::Excluded(&start.prefix.end()))).count();
        start.finish(query, page, |last| Ok(is_exact.then(|| rows(last) as u64)))
    }

    /// Returns the number of resources that lists have compared with their selectors.
    pub(crate) fn examined(&self) -> u64 {
        self.examined.get()
    }

    /// Returns the indexes by label and field.
    pub(crate) fn terms(&self) -> &TermIndexes {
        &self.terms
    }

    /// Returns the kinds that have resources, each once, with the version of its first resource.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        let mut from = Path(Vec::new());
        while let Some((_, resource)) = self.resources.range(from..).next() {
            let kind = resource.key().kind().clone();
            from = Path::prefix(&kind, None).end();
            kinds.push(kind);
        }
        kinds
    }

    /// Returns the resources that have an owner reference to this uid.
    pub(crate) fn dependents(&self, owner: &str) -> Vec<Arc<Resource>> {
        self.owned(owner).map(|(_, resource)| resource).collect()
    }

    /// Removes events that are too old.
    fn expire(&mut self, now: SystemTime) {
        self.history.expire(now);
    }

    /// Returns the rows that differed at the past revision of a list.
    fn past_rows(
        &self,
        start: &Start,
        since: Revision,
        now: Revision,
    ) -> Result<impl Iterator<Item = Result<PastRow>>> {
        let changed = self.changes_since.changes_up_to(
            start,
            since,
            now,
            |after: Revision, tell: &mut dyn FnMut(&[u8], Revision)| {
                for event in self.history.after(after)? {
                    tell(&Path::of(event.resource.key()).0, event.revision);
                }
                Ok(())
            },
        )?;
        Ok(changed.map(|changed| {
            let (path, revision) = changed?;
            let event = self.history.after(Revision(revision.0 - 1))?.next();
            Ok((path, event.and_then(|event| event.previous.as_ref().map(|previous| self.give(previous)))))
        }))
    }

    /// Returns the present rows of a list.
    fn rows(&self, start: &Start) -> impl Iterator<Item = (Path, Arc<Resource>)> {
        let (first, end) = start.range();
        let range = self.resources.range::<Path, _>((Bound::Excluded(first), Bound::Excluded(&end)));
        range.map(|(path, resource)| (path.clone(), self.give(resource)))
    }

    fn owned(&self, uid: &str) -> impl Iterator<Item = (Path, Arc<Resource>)> {
        let prefix = owner_prefix(uid);
        let entries = self.owners.range((prefix.clone(), Path(Vec::new()))..);
        entries
            .take_while(move |(owner, _)| *owner == prefix)
            .filter_map(|(_, path)| Some((path.clone(), self.give(self.resources.get(path)?))))
    }

    /// Returns a stored resource as callers get it.
    fn give(&self, resource: &Arc<Resource>) -> Arc<Resource> {
        match self.documents {
            Documents::Shared => Arc::clone(resource),
            Documents::Copied => resource.without_document(),
        }
    }

    /// Adds the events of a scope after a revision to `found`, as [`History::read`].
    fn read(&self, scope: &Scope, after: Revision, found: &mut impl Extend<Event>) -> Result<Revision> {
        if self.documents == Documents::Shared {
            return self.history.read(scope, after, found);
        }
        let mut events = Vec::new();
        let through = self.history.read(scope, after, &mut events)?;
        found.extend(events.into_iter().map(|event| Event {
            resource: self.give(&event.resource),
            previous: event.previous.as_ref().map(|previous| self.give(previous)),
            ..event
        }));
        Ok(through)
    }
}

/// Returns the entries of a resource in the index by owner.
fn owner_entries<'a>(resource: &'a Resource, path: &'a Path) -> impl Iterator<Item = (Vec<u8>, Path)> + use<'a> {
    resource.owners().iter().map(|owner| (owner_prefix(&owner.uid), path.clone()))
}

/// Contents that a store shares with its watches.
pub(crate) struct SharedContents {
    clock: Arc<dyn ClockAndIds>,
    state: Mutex<State>,
    /// Notified of every change, under the lock of the state.
    tip: RevisionNotifier,
}

struct State {
    contents: Contents,
    /// The error of all later calls, once the contents have ended.
    end: Option<Error>,
}

/// The locked contents.
pub(crate) struct LockedContents<'a> {
    state: MutexGuard<'a, State>,
    shared: &'a SharedContents,
}

impl std::ops::Deref for LockedContents<'_> {
    type Target = Contents;

    fn deref(&self) -> &Contents {
        &self.state.contents
    }
}

impl LockedContents<'_> {
    /// As [`Contents::commit`], and notifies the watches.
    pub(crate) fn commit(&mut self, event: Event) {
        let revision = event.revision;
        self.state.contents.commit(event, self.shared.clock.now());
        self.publish(revision);
    }

    /// As [`Contents::advance`], and notifies the watches.
    pub(crate) fn advance(&mut self, through: Revision) {
        if through > self.newest() {
            self.state.contents.advance(through);
            self.publish(through);
        }
    }

    /// Publishes a revision. Under the lock, so that revisions are published in order.
    fn publish(&self, revision: Revision) {
        self.shared.tip.advance(revision);
        self.shared.tip.notify_rest();
    }
}

impl SharedContents {
    pub(crate) fn new(contents: Contents, clock: Arc<dyn ClockAndIds>) -> Arc<Self> {
        let tip = RevisionNotifier::at(contents.newest());
        Arc::new(Self { clock, state: Mutex::new(State { contents, end: None }), tip })
    }

    /// Locks the contents, after removing expired events. Callers cannot observe whether they were removed on
    /// time or now.
    ///
    /// # Errors
    /// The error with which the contents have ended.
    pub(crate) fn lock_expired(&self) -> Result<LockedContents<'_>> {
        let mut locked = self.lock()?;
        locked.state.contents.expire(self.clock.now());
        Ok(locked)
    }

    /// Locks the contents.
    ///
    /// # Errors
    /// As [`SharedContents::lock_expired`].
    pub(crate) fn lock(&self) -> Result<LockedContents<'_>> {
        let state = self.lock_state();
        match &state.end {
            Some(error) => Err(error.clone()),
            None => Ok(LockedContents { state, shared: self }),
        }
    }

    /// Ends the contents: watches deliver the kept events and then this error, which all later calls get,
    /// too. Does nothing the second time.
    pub(crate) fn end(&self, error: Error) {
        self.lock_state().end.get_or_insert(error);
        self.tip.close();
    }

    /// Returns the revision up to which every change is included. Also works after the end.
    pub(crate) fn newest(&self) -> Revision {
        self.lock_state().contents.newest()
    }

    /// Returns whether the contents have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock_state().end.is_some()
    }

    /// Opens a watch from a revision, without checking that it can start there.
    pub(crate) fn watch(self: &Arc<Self>, scope: Scope, from: Revision) -> Watch {
        Watch::new(WatchCursor::new(Arc::clone(self) as Arc<dyn ChangeLog>, scope, from))
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while holding the state")
    }

    /// As [`Contents::read`], after removing expired events. Also works after the end.
    fn read_history(&self, scope: &Scope, after: Revision, found: &mut impl Extend<Event>) -> Result<Revision> {
        let mut state = self.lock_state();
        state.contents.expire(self.clock.now());
        state.contents.read(scope, after, found)
    }
}

#[async_trait]
impl ChangeLog for SharedContents {
    fn recall(&self, scope: &Scope, after: Revision, events: &mut VecDeque<Event>) -> Option<Revision> {
        self.read_history(scope, after, events).ok()
    }

    async fn read(&self, scope: &Scope, after: Revision) -> Result<LogBatch> {
        let mut events = Vec::new();
        let through = self.read_history(scope, after, &mut events)?;
        Ok(LogBatch { events, through })
    }

    fn tip(&self) -> &RevisionNotifier {
        &self.tip
    }

    fn end(&self) -> Error {
        self.lock_state().end.clone().unwrap_or(Error::Closed)
    }
}
