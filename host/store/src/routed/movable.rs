//! A part of a [`RoutedStore`](super::RoutedStore) between which kinds can be moved.
//!
//! While a kind is moved, its writes are held: they end as `Unavailable`, with the reason. Revisions of a kind that was
//! moved here have an offset ([`RevisionOffset`]). So a revision of the former store is never taken for one
//! of this store: a watch from it ends as `Expired`, and a write with it as `Conflict`.
//!
//! Deliberately absent: moves ([`crate::moves`]), and continue tokens, which name the content of their store.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::watch;

use super::write_holds::{WriteHold, WriteHolds};
use crate::catalog::Catalog;
use crate::moved_kinds::{MovedKinds, RevisionOffset};
use crate::schema::Schemas;
use crate::{
    Changes, Error, Event, EventSink, Key, Kind, LeaseStore, Page, Query, Request, Resource, Result, Revision,
    ScaleRequest, Scope, Store, StoreStatus, Subscription, View, Watch, WriteResponse,
};

/// A store whose kinds can be moved.
pub(crate) struct MovableStore {
    inner: Arc<dyn Store>,
    moved: Arc<MovedKinds>,
    holds: Arc<WriteHolds>,
}

impl MovableStore {
    pub(super) fn new(inner: Arc<dyn Store>, moved: Arc<MovedKinds>) -> Self {
        Self { inner, moved, holds: Arc::default() }
    }

    /// Holds the writes of a kind. Returns when no earlier write is under way.
    pub(crate) async fn hold(&self, kind: &Kind, reason: String) -> WriteHold {
        self.holds.hold(kind, reason).await
    }

    fn offset(&self, kind: &Kind) -> RevisionOffset {
        self.moved.offset(kind)
    }
}

#[async_trait]
impl Store for MovableStore {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        Ok(self.offset(key.kind()).resource(self.inner.get(key).await?))
    }

    async fn get_view(&self, key: &Key, view: View) -> Result<Arc<Resource>> {
        Ok(self.offset(key.kind()).resource(self.inner.get_view(key, view).await?))
    }

    async fn get_live(&self, key: &Key) -> Result<Arc<Resource>> {
        Ok(self.offset(key.kind()).resource(self.inner.get_live(key).await?))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let offset = self.offset(&query.kind);
        let expired = || Error::Expired { oldest: offset.shown(Revision::ZERO) };
        let at_stored;
        let query = match query.at {
            Some(shown) if offset != RevisionOffset::NONE => {
                at_stored = Query { at: Some(offset.stored(shown).ok_or_else(expired)?), ..query.clone() };
                &at_stored
            }
            _ => query,
        };
        let Page { items, revision, next, remaining } = match self.inner.list(query).await {
            // Another kind of store gave the continue token, before the move.
            Err(Error::Invalid { path, .. }) if offset != RevisionOffset::NONE && path == "continue" => {
                return Err(expired());
            }
            page => page.map_err(|error| offset.error(error))?,
        };
        let items = items.into_iter().map(|item| offset.resource(item)).collect();
        Ok(Page { items, revision: offset.shown(revision), next, remaining })
    }

    async fn submit(&self, mut request: Request) -> Result<WriteResponse> {
        if request.is_move {
            return self.inner.submit(request).await;
        }
        let kind = request.write.target()?.kind;
        let _guard = self.holds.enter(&kind).await?;
        let offset = self.offset(&kind);
        if offset == RevisionOffset::NONE {
            return self.inner.submit(request).await;
        }
        offset.write(&mut request.write);
        let written = self.inner.submit(request).await.map_err(|error| offset.error(error))?;
        Ok(WriteResponse { resource: offset.resource(written.resource), ..written })
    }

    async fn scale(&self, key: &Key) -> Result<Value> {
        Ok(self.offset(key.kind()).scale(self.inner.scale(key).await?))
    }

    async fn update_scale(&self, mut request: ScaleRequest) -> Result<Value> {
        let _guard = self.holds.enter(request.key.kind()).await?;
        let offset = self.offset(request.key.kind());
        offset.precondition(&mut request.precondition);
        Ok(offset.scale(self.inner.update_scale(request).await.map_err(|error| offset.error(error))?))
    }

    fn schemas(&self) -> Option<&Schemas> {
        self.inner.schemas()
    }

    fn manager_prefix(&self) -> String {
        self.inner.manager_prefix()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        let Scope::Kind(kind) = &scope else {
            // Its order is that of the store. Only the resources have the revisions that callers see.
            let inner = self.inner.watch(scope, from).await?;
            return Ok(Watch::new(MovableWatch { inner, offset: None, moved: Arc::clone(&self.moved) }));
        };
        let offset = self.offset(kind);
        let Some(from) = offset.stored(from) else {
            return Err(Error::Expired { oldest: offset.shown(Revision::ZERO) });
        };
        let inner = self.inner.watch(scope, from).await.map_err(|error| offset.error(error))?;
        if offset == RevisionOffset::NONE {
            return Ok(inner);
        }
        Ok(Watch::new(MovableWatch { inner, offset: Some(offset), moved: Arc::clone(&self.moved) }))
    }

    async fn revision(&self, scope: &Scope) -> Result<Revision> {
        let offset = if let Scope::Kind(kind) = scope { self.offset(kind) } else { RevisionOffset::NONE };
        Ok(offset.shown(self.inner.revision(scope).await?))
    }

    fn subscribe(&self, kind: &Kind, view: View) -> Subscription {
        self.inner.subscribe(kind, view)
    }

    fn watched_view(&self, kind: &Kind) -> View {
        self.inner.watched_view(kind)
    }

    fn status(&self) -> Vec<StoreStatus> {
        let mut status = self.inner.status();
        if let Some(status) = status.first_mut() {
            status.notes.extend(self.holds.reasons());
        }
        status
    }

    fn health(&self) -> Result<()> {
        self.inner.health()
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    async fn verify_content(&self) -> Result<Option<String>> {
        self.inner.verify_content().await
    }

    async fn accept_replacement(&self, content: &str) -> Result<()> {
        self.inner.accept_replacement(content).await
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.inner.kinds().await
    }

    fn catalog(&self) -> Option<watch::Receiver<Arc<Catalog>>> {
        self.inner.catalog()
    }

    fn event_sink(&self) -> Option<Arc<dyn EventSink>> {
        self.inner.event_sink()
    }

    fn leases(&self) -> Option<Arc<dyn LeaseStore>> {
        self.inner.leases()
    }

    async fn dependents(&self, owner: &str) -> Result<Vec<Arc<Resource>>> {
        let found = self.inner.dependents(owner).await?;
        Ok(found.into_iter().map(|resource| self.offset(resource.key().kind()).resource(resource)).collect())
    }
}

/// A watch whose resources have the revisions that callers see.
struct MovableWatch {
    inner: Watch,
    /// `None` for a watch of all kinds.
    offset: Option<RevisionOffset>,
    moved: Arc<MovedKinds>,
}

#[async_trait]
impl Changes for MovableWatch {
    async fn next(&mut self) -> Result<Event> {
        let Some(offset) = self.offset else {
            let event = self.inner.next().await?;
            let offset = self.moved.offset(event.resource.key().kind());
            return Ok(Event { revision: event.revision, ..offset.event(event) });
        };
        self.inner.next().await.map(|event| offset.event(event)).map_err(|error| offset.error(error))
    }

    fn position(&self) -> Option<Revision> {
        let offset = self.offset.unwrap_or(RevisionOffset::NONE);
        self.inner.position().map(|position| offset.shown(position))
    }
}
