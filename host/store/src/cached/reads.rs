//! Reads: of a kind with a cache from the cache, and of any other kind from the server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::kind::{CachedKind, KindState, SyncedContents};
use super::own_writes::OwnWrite;
use super::shared_state::{SharedState, User};
use crate::listing::{self, ServerToken};
use crate::model::Path;
use crate::{
    CacheState, Changes, Error, Event, IndexTerm, Key, Kind, Page, Query, Resource, Result, Revision, Scope, View,
    Watch,
};

/// How long a list in one piece waits for own writes to arrive in the cache, before it shows them on top of
/// the cache.
const OWN_WRITES_WAIT: Duration = Duration::from_millis(100);

/// The answer of a cache to a read of one resource.
enum Lookup {
    /// The resource, `None` if there is none.
    Known(Option<Arc<Resource>>),
    /// The document of the resource cannot be read.
    Unreadable(Error),
    /// The server has to be asked.
    Ask,
    /// The cache does not know yet.
    Wait,
}

impl SharedState {
    /// As [`Store::get_view`](crate::Store::get_view).
    pub(super) async fn get(&self, key: &Key, view: View) -> Result<Arc<Resource>> {
        self.monitor.shows()?;
        let kind = self.kind(key.kind()).filter(|kind| kind.has(view));
        let Some(kind) = kind else { return self.get_live(key).await };
        let first = lookup(&kind.lock(), key);
        let found = match first {
            Lookup::Wait => {
                self.can_sync(&kind).await?;
                let what = format!("the newest state of {key}");
                let find = |state: &KindState| match lookup(state, key) {
                    Lookup::Wait => refusal(state).map(Err),
                    found => Some(Ok(found)),
                };
                kind.wait_for(self.options.read_wait_max, &what, find).await?
            }
            found => found,
        };
        match found {
            Lookup::Known(resource) => resource.ok_or_else(|| Error::not_found(key)),
            Lookup::Unreadable(error) => Err(error),
            Lookup::Ask | Lookup::Wait => self.get_live(key).await,
        }
    }

    /// As [`Store::get_live`](crate::Store::get_live). A later read from the cache does not go back before
    /// it.
    pub(super) async fn get_live(&self, key: &Key) -> Result<Arc<Resource>> {
        self.gate().await?;
        let path = Path::of(key);
        let kind = self.kind(key.kind());
        let (fence, shown) = kind.as_ref().map_or((None, None), |kind| {
            let state = kind.lock();
            (state.own.fence_of(&path), shown(&state, key))
        });
        let answer = self.answered(self.upstream.get(key).await);
        match (&answer, shown) {
            (Ok(resource), _) => self.record(key, OwnWrite::Put(resource.without_document())),
            (Err(Error::NotFound { .. }), Some(shown)) => {
                self.record(key, OwnWrite::Gone { last: shown.without_document(), at: None });
            }
            (Err(Error::NotFound { .. }), None) if !has_shown(kind.as_deref()) => self.record_absence(key).await?,
            (Err(Error::NotFound { .. }), None) => {}
            (Err(_), _) => return answer,
        }
        if let Some((kind, fence)) = kind.zip(fence) {
            kind.lock().own.remove_fence(&path, fence);
        }
        answer
    }

    /// Records that a resource is gone that no cache has shown.
    async fn record_absence(&self, key: &Key) -> Result<()> {
        let is_full = self.kind(key.kind()).is_some_and(|kind| !kind.lock().own.has_room());
        if is_full {
            return self.shown_revision(key.kind()).await.map(drop);
        }
        self.record_unknown(key);
        Ok(())
    }

    /// As [`Store::list`](crate::Store::list).
    pub(super) async fn list(&self, query: &Query) -> Result<Page> {
        self.monitor.shows()?;
        let kind = self.kind(&query.kind);
        match (&query.from, kind) {
            (Some(token), kind) if ServerToken::is_one(token) => {
                let page = self.list_live(query, kind.as_deref()).await?;
                self.record_page(kind.as_deref(), &page, query);
                Ok(page)
            }
            (Some(_), Some(kind)) => self.list_cached(&kind, query).await,
            (Some(token), None) => {
                listing::check_token(token)?;
                // The cache that gave the token is gone.
                Err(Error::Expired { oldest: self.server_revision(&query.kind).await? })
            }
            (None, Some(kind)) if !query.live && kind.answers(query) => self.list_cached(&kind, query).await,
            (None, kind) => {
                let page = self.list_live(query, kind.as_deref()).await?;
                self.record_page(kind.as_deref(), &page, query);
                Ok(page)
            }
        }
    }

    /// Makes later reads show at least what a list of the server showed. `kind` is the cache before the list.
    fn record_page(&self, kind: Option<&CachedKind>, page: &Page, query: &Query) {
        if query.at == Some(page.revision) {
            // Reads show the present.
            return;
        }
        let Some(kind) = kind.filter(|kind| has_shown(Some(kind))) else {
            return self.show(&query.kind, page.revision);
        };
        for resource in &page.items {
            self.record(resource.key(), OwnWrite::Put(resource.without_document()));
        }
        if query.from.is_none() {
            fence_missing(kind, query, page);
        }
    }

    /// Opens a watch for a user of a kind, as [`Store::watch`](crate::Store::watch).
    pub(super) async fn watch(&self, user: User, from: Revision) -> Result<Watch> {
        let contents = self.synced(&user.kind).await?.contents;
        let seen = {
            let locked = contents.lock_expired()?;
            if from < locked.oldest() {
                return Err(Error::Expired { oldest: locked.oldest() });
            }
            locked.newest()
        };
        let seen = seen.max(user.kind.lock().seen);
        if from > seen {
            let current = self.server_revision(&user.kind.kind).await?;
            if from > current {
                return Err(Error::FutureRevision { asked: from, current });
            }
        }
        let watch = contents.watch(Scope::Everything, from);
        Ok(Watch::new(CachedWatch { watch, _user: user }))
    }

    /// As [`Store::revision`](crate::Store::revision).
    pub(super) async fn revision(&self, scope: &Scope) -> Result<Revision> {
        let Scope::Kind(kind) = scope else { return Err(everything()) };
        self.monitor.shows()?;
        let Some(cached) = self.kind(kind) else { return self.shown_revision(kind).await };
        match self.synced(&cached).await {
            // The last user left a moment ago.
            Err(_) if cached.lock().is_removed => return self.shown_revision(kind).await,
            synced => drop(synced?),
        }
        if cached.lock().has_shown() == Some(false) {
            return self.shown_revision(kind).await;
        }
        own_writes_arrived(&cached, self.options.read_wait_max).await?;
        // The server may be ahead, but a watch from its revision would miss what reads do not show yet.
        Ok(self.synced(&cached).await?.contents.newest())
    }

    /// Returns the server's revision of a kind to a caller. Later reads are not before it: a watch from it would
    /// miss what they lack.
    async fn shown_revision(&self, kind: &Kind) -> Result<Revision> {
        let revision = self.server_revision(kind).await?;
        self.show(kind, revision);
        Ok(revision)
    }

    /// Asks the server for its revision of a kind.
    async fn server_revision(&self, kind: &Kind) -> Result<Revision> {
        self.gate().await?;
        let revision = self.answered(self.upstream.revision(kind).await)?;
        if let Some(cached) = self.kind(kind) {
            let mut state = cached.lock();
            state.seen = state.seen.max(revision);
        }
        Ok(revision)
    }

    /// Lists at the server. `kind` is the cache that records the answer: whole resources, if it has such.
    async fn list_live(&self, query: &Query, kind: Option<&CachedKind>) -> Result<Page> {
        self.gate().await?;
        let view = if kind.is_some_and(|kind| kind.has(View::Whole)) { View::Whole } else { query.view };
        let token = query.from.as_deref().map(ServerToken::parse).transpose()?;
        let from = match &token {
            Some(ServerToken { number, .. }) => Some(self.server_token(&query.kind, *number).await?),
            None => None,
        };
        let rest = token.and_then(|token| token.rest);
        let limit = rest.as_ref().map_or(query.limit, |rest| Some(rest.limit));
        let mut page = self.answered(self.upstream.list(&Query { from, limit, view, ..query.clone() }).await)?;
        if let Some(rest) = rest {
            rest.cut(&mut page);
        }
        let keep = |token: String| self.server_tokens().add(&query.kind, token).map(ServerToken::write);
        page.next = page.next.map(keep).transpose()?;
        Ok(page)
    }

    /// Returns the server's token of this number.
    ///
    /// # Errors
    /// `Expired` when it is not kept any more; `Invalid` for another number.
    async fn server_token(&self, kind: &Kind, number: u64) -> Result<String> {
        let kept = self.server_tokens().get(kind, number)?.map(str::to_owned);
        match kept {
            Some(token) => Ok(token),
            None => Err(Error::Expired { oldest: self.server_revision(kind).await? }),
        }
    }

    async fn list_cached(&self, kind: &CachedKind, query: &Query) -> Result<Page> {
        loop {
            let SyncedContents { id, contents } = match self.synced(kind).await {
                // The last user left a moment ago.
                Err(_) if kind.lock().is_removed && query.from.is_none() => return self.list_live(query, None).await,
                synced => synced?,
            };
            let shows_present = query.from.as_deref().is_none_or(listing::shows_present);
            if shows_present && kind.lock().has_shown() == Some(false) {
                if query.from.is_some() {
                    // The server cannot go on at a place that it did not name.
                    return Err(Error::Expired { oldest: self.server_revision(&query.kind).await? });
                }
                let page = self.list_live(query, Some(kind)).await?;
                self.record_page(Some(kind), &page, query);
                return Ok(page);
            }
            let newer = if shows_present { self.own_rows(kind, query).await? } else { Vec::new() };
            match contents.lock_expired() {
                Ok(contents) => {
                    let page = contents.list(query, &id, &self.declared_indexes(kind), newer);
                    drop(contents);
                    kind.charge_indexes();
                    return page;
                }
                Err(Error::Closed) => return Err(Error::Closed),
                // There are other contents now, or none yet.
                Err(_) => {}
            }
        }
    }

    /// Returns the terms of a kind that keep their index.
    fn declared_indexes(&self, kind: &CachedKind) -> Arc<[IndexTerm]> {
        self.upstream.schemas().map_or_else(|| Arc::from([]), |schemas| schemas.indexes_of(&kind.kind))
    }

    /// Waits for own writes to arrive in the cache. Returns those that did not.
    async fn own_rows(&self, kind: &CachedKind, query: &Query) -> Result<Vec<(Path, Option<Arc<Resource>>)>> {
        let unanswered = kind.lock().own.unanswered();
        for key in unanswered {
            match self.get_live(&key).await {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        // All pages of a list show one revision, so that pages cannot have later writes on top.
        let wait = if query.limit.is_some() { self.options.read_wait_max } else { OWN_WRITES_WAIT };
        let arrived = own_writes_arrived(kind, wait).await;
        if query.limit.is_some() {
            arrived?;
        }
        kind.wait_for(self.options.read_wait_max, "the newest state", |state| is_above_floor(state).then_some(Ok(())))
            .await?;
        Ok(kind.lock().own.rows())
    }

    /// Waits for the first list of a kind.
    async fn synced(&self, kind: &CachedKind) -> Result<SyncedContents> {
        let synced = kind.lock().synced.clone();
        if let Some(synced) = synced {
            return Ok(synced);
        }
        self.can_sync(kind).await?;
        let find = |state: &KindState| match &state.synced {
            Some(synced) => Some(Ok(synced.clone())),
            None => refusal(state).map(Err),
        };
        kind.wait_for(self.options.read_wait_max, "the first list", find).await
    }

    /// Returns whether it makes sense to wait for the cache of a kind.
    async fn can_sync(&self, kind: &CachedKind) -> Result<()> {
        let is_synced = kind.lock().synced.is_some();
        if is_synced { Ok(()) } else { self.gate().await }
    }
}

/// A watch that keeps the cache of its kind alive.
struct CachedWatch {
    watch: Watch,
    _user: User,
}

#[async_trait]
impl Changes for CachedWatch {
    async fn next(&mut self) -> Result<Event> {
        self.watch.next().await
    }

    fn position(&self) -> Option<Revision> {
        self.watch.position()
    }
}

/// Waits until the cache has the own writes so far, and all changes below the floor.
async fn own_writes_arrived(kind: &CachedKind, wait: Duration) -> Result<()> {
    let count = kind.lock().own.count();
    let has_all = |state: &KindState| (is_above_floor(state) && !state.own.has_pending(count)).then_some(Ok(()));
    kind.wait_for(wait, "own writes", has_all).await
}

/// Returns whether reads come from the cache of a kind.
fn has_shown(kind: Option<&CachedKind>) -> bool {
    kind.is_some_and(|kind| kind.lock().has_shown() == Some(true))
}

/// Returns the error for a scope of all kinds.
pub(super) fn everything() -> Error {
    Error::invalid("scope", "the kinds of this store have no common order; watch one kind")
}

/// Looks a resource up: own writes first, because they are newer than the contents.
fn lookup(state: &KindState, key: &Key) -> Lookup {
    if state.is_removed || state.own.fence_of(&Path::of(key)).is_some() {
        return Lookup::Ask;
    }
    let Some(synced) = &state.synced else { return Lookup::Wait };
    if state.has_shown() == Some(false) {
        return Lookup::Ask;
    }
    if !is_above_floor(state) {
        return Lookup::Wait;
    }
    let path = Path::of(key);
    match state.own.get(&path) {
        Some(OwnWrite::Put(resource)) => return Lookup::Known(Some(resource.without_document())),
        Some(OwnWrite::Gone { .. }) => return Lookup::Known(None),
        None => {}
    }
    if let Some(error) = state.unreadable.error(&path) {
        return Lookup::Unreadable(error);
    }
    match synced.contents.lock().map(|contents| contents.get(key)) {
        Ok(None) if state.unreadable.has_more() => Lookup::Ask,
        Ok(resource) => Lookup::Known(resource),
        Err(_) => Lookup::Wait,
    }
}

/// Returns what reads of a resource show now, if they show it.
fn shown(state: &KindState, key: &Key) -> Option<Arc<Resource>> {
    match state.own.get(&Path::of(key)) {
        Some(OwnWrite::Put(resource)) => Some(Arc::clone(resource)),
        Some(OwnWrite::Gone { .. }) => None,
        None => state.synced.as_ref()?.contents.lock().ok()?.get(key),
    }
}

/// Returns whether the contents have everything that reads have to show, except for single resources.
fn is_above_floor(state: &KindState) -> bool {
    state.synced.as_ref().is_some_and(|synced| synced.contents.newest() >= state.own.floor())
}

/// Returns the error of reads that would wait in vain.
fn refusal(state: &KindState) -> Option<Error> {
    if state.is_removed {
        return Some(Error::unavailable("the cache of the kind has just ended"));
    }
    let problem = state.problem.as_ref().filter(|_| state.synced.is_none())?;
    let is_final =
        state.state == CacheState::Full || matches!(problem, Error::Forbidden { .. } | Error::Unsupported { .. });
    is_final.then(|| problem.clone())
}

/// Makes later reads ask for resources that a cache has and a list of the server lacks.
fn fence_missing(kind: &CachedKind, query: &Query, page: &Page) {
    let synced = kind.lock().synced.clone();
    let Some(synced) = synced.filter(|_| page.next.is_none()) else { return };
    let rest = Query { limit: None, from: None, at: None, ..query.clone() };
    let Ok(cached) =
        synced.contents.lock_expired().and_then(|contents| contents.list(&rest, &synced.id, &[], Vec::new()))
    else {
        return;
    };
    let listed: BTreeSet<&Key> = page.items.iter().map(|resource| resource.key()).collect();
    let is_missing =
        |resource: &&Arc<Resource>| resource.revision() <= page.revision && !listed.contains(resource.key());
    // They were deleted, or do not match the query any more: only the server knows.
    let mut state = kind.lock();
    for resource in cached.items.iter().filter(is_missing) {
        if !state.own.has_room() {
            return state.own.raise_floor(page.revision);
        }
        state.own.fence(resource.key(), true);
    }
}
