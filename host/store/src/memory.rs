//! A store in memory; its resources are lost when the process ends. For tests, simulations and experiments.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use async_trait::async_trait;

use crate::history::{Bounds, History, check_start};
use crate::listing::changes_since::ChangesSinceCache;
use crate::listing::{self, PastRow, Start};
use crate::model::{Path, owner_prefix};
use crate::schema::Schemas;
use crate::semantics::{self, Decision, WritePlan};
use crate::watch::{ChangeLog, LogBatch, RevisionNotifier, WatchCursor};
use crate::{
    ClockAndIds, Error, Event, EventType, Key, Kind, Options, Page, Query, Request, Resource, Result, Revision, Scope,
    Store, Watch, WriteResponse,
};

/// A store in memory.
pub struct MemoryStore {
    id: String,
    schemas: Schemas,
    shared: Arc<SharedState>,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("id", &self.id).finish_non_exhaustive()
    }
}

/// State shared by the store and its watches.
struct SharedState {
    clock: Arc<dyn ClockAndIds>,
    state: Mutex<State>,
    /// Notified of every change, under the lock of the state.
    tip: RevisionNotifier,
}

/// Invariant: `owners` has one entry for every owner reference of every resource in `resources`.
struct State {
    resources: BTreeMap<Path, Arc<Resource>>,
    owners: BTreeSet<(Vec<u8>, Path)>,
    history: History,
    /// Cache for the later pages of lists.
    changes_since: ChangesSinceCache,
    closed: bool,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new(options: Options) -> Self {
        let bounds = Bounds::of(&options);
        let source = options.clock;
        let state = State {
            resources: BTreeMap::new(),
            owners: BTreeSet::new(),
            history: History::new(Revision::ZERO, bounds),
            changes_since: ChangesSinceCache::default(),
            closed: false,
        };
        Self {
            id: source.uid(),
            schemas: Schemas::default(),
            shared: Arc::new(SharedState {
                clock: source,
                state: Mutex::new(state),
                tip: RevisionNotifier::at(Revision::ZERO),
            }),
        }
    }
}

impl State {
    fn commit(&mut self, performed: WritePlan, kind: EventType, now: SystemTime) {
        let WritePlan { key, previous, decision, unknown_fields: _ } = performed;
        let path = Path::of(&key);
        let resource = Arc::clone(decision.resource());
        if let Some(previous) = &previous {
            for owner in previous.owners() {
                self.owners.remove(&(owner_prefix(&owner.uid), path.clone()));
            }
        }
        if let Decision::Put(resource) = decision {
            self.owners.extend(resource.owners().iter().map(|owner| (owner_prefix(&owner.uid), path.clone())));
            self.resources.insert(path, resource);
        } else {
            self.resources.remove(&path);
        }
        let revision = resource.revision();
        let bytes = resource.bytes() + previous.as_ref().map_or(0, |previous| previous.bytes());
        self.history.push(Event { kind, resource, previous, revision }, bytes, now);
    }

    fn list(&self, query: &Query, id: &str) -> Result<Page> {
        let start = Start::of(query, id, self.history.oldest())?;
        let now = self.history.newest();
        let revision = start.revision.unwrap_or(now);
        check_start(revision, self.history.oldest(), now)?;
        let past = match start.revision {
            Some(since) => Some(self.past_rows(&start, since, now)?),
            None => None,
        };
        let past = past.into_iter().flatten();
        let page = match &query.selector.owner {
            Some(uid) => {
                let rows = self.owned(uid).filter(|(path, _)| start.covers(path));
                listing::page(query, id, revision, rows.map(Ok), past)
            }
            None => listing::page(query, id, revision, self.rows(&start).map(Ok), past),
        }?;
        if page.next.is_none() {
            self.changes_since.end(&start, revision);
        }
        Ok(page)
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
            Ok((path, event.and_then(|event| event.previous.clone())))
        }))
    }

    /// Returns the present rows of a list.
    fn rows(&self, start: &Start) -> impl Iterator<Item = (Path, Arc<Resource>)> {
        let (first, end) = (start.after.as_ref().unwrap_or(&start.prefix).clone(), start.prefix.end());
        let range = self.resources.range((Bound::Excluded(first), Bound::Excluded(end)));
        range.map(|(path, resource)| (path.clone(), Arc::clone(resource)))
    }

    fn owned(&self, uid: &str) -> impl Iterator<Item = (Path, Arc<Resource>)> {
        let prefix = owner_prefix(uid);
        let entries = self.owners.range((prefix.clone(), Path(Vec::new()))..);
        entries
            .take_while(move |(owner, _)| *owner == prefix)
            .filter_map(|(_, path)| Some((path.clone(), Arc::clone(self.resources.get(path)?))))
    }
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while holding the state")
    }

    fn lock_open(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.closed { Err(Error::Closed) } else { Ok(state) }
    }

    /// As [`History::read`], after removing expired events. Also works after close.
    fn read_history(&self, scope: &Scope, after: Revision, found: &mut impl Extend<Event>) -> Result<Revision> {
        let mut state = self.lock();
        state.history.expire(self.clock.now());
        state.history.read(scope, after, found)
    }

    /// Locks an open store, after removing expired events. Callers cannot observe whether they were removed
    /// on time or now.
    fn lock_expired(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock_open()?;
        state.history.expire(self.clock.now());
        Ok(state)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.shared.lock_open()?.resources.get(&Path::of(key)).cloned().ok_or_else(|| Error::not_found(key))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.shared.lock_expired()?.list(query, &self.id)
    }

    fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        let mut state = self.shared.lock_expired()?;
        let revision = state.history.newest().next();
        let (dry_run, lookup) = (request.dry_run, |key: &Key| Ok(state.resources.get(&Path::of(key)).cloned()));
        let performed = semantics::plan_write(&*self.shared.clock, &self.schemas, request, revision, lookup)?;
        let (resource, change) = (Arc::clone(performed.decision.resource()), performed.event());
        let unknown = performed.unknown_fields.clone();
        if let Some(kind) = change.filter(|_| !dry_run) {
            state.commit(performed, kind, self.shared.clock.now());
            // Under the lock, so that revisions are published in order.
            self.shared.tip.advance(revision);
            self.shared.tip.notify_rest();
        }
        Ok(WriteResponse { resource, change, unknown_fields: unknown })
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        let state = self.shared.lock_expired()?;
        check_start(from, state.history.oldest(), state.history.newest())?;
        Ok(Watch::new(WatchCursor::new(Arc::clone(&self.shared) as Arc<dyn ChangeLog>, scope, from)))
    }

    fn revision(&self) -> Revision {
        self.shared.lock().history.newest()
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn health(&self) -> Result<()> {
        self.shared.lock_open().map(drop)
    }

    async fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.tip.close();
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        let state = self.shared.lock_open()?;
        let mut kinds = Vec::new();
        let mut from = Path(Vec::new());
        while let Some((_, resource)) = state.resources.range(from..).next() {
            let kind = resource.key().kind().clone();
            from = Path::prefix(&kind, None).end();
            kinds.push(kind);
        }
        Ok(kinds)
    }

    async fn dependents(&self, owner: &str) -> Result<Vec<Arc<Resource>>> {
        Ok(self.shared.lock_open()?.owned(owner).map(|(_, resource)| resource).collect())
    }
}

#[async_trait]
impl ChangeLog for SharedState {
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
}
