//! A part of a [`RoutedStore`](super::RoutedStore) between which kinds can be moved.
//!
//! While a kind is moved, its writes are held: they end as `Unavailable`, with the reason. Revisions of a kind that was
//! moved here have the number of its moves in their upper bits. So a revision of the former store is never taken for
//! one of this store: a watch from it ends as `Expired`, and a write with it as `Conflict`.
//!
//! Deliberately absent: moves ([`crate::moves`]), and continue tokens, which name the content of their store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockReadGuard, watch};

use crate::catalog::Catalog;
use crate::moves::MovedKinds;
use crate::schema::Schemas;
use crate::{
    Change, Changes, Error, Event, EventSink, Key, Kind, Page, Precondition, Query, Request, Resource, Result,
    Revision, ScaleRequest, Scope, Store, StoreStatus, Subscription, View, Watch, Write, WriteResponse,
};

/// Revisions of a store are below two to this power: 17 million million.
const REVISION_BITS: u32 = 44;
/// Kinds share these gates, so that a move waits for few writes of other kinds.
const GATES: usize = 16;
/// A revision that no resource has.
const NEVER: Revision = Revision::ZERO;

/// A store whose kinds can be moved.
pub(crate) struct MovableStore {
    inner: Arc<dyn Store>,
    moved: Arc<MovedKinds>,
    holds: Arc<WriteHolds>,
}

/// The kinds whose writes are held.
#[derive(Default)]
struct WriteHolds {
    reasons: Mutex<Vec<(Kind, Arc<str>)>>,
    /// Read by each write while it is under way.
    gates: [RwLock<()>; GATES],
}

impl WriteHolds {
    fn lock(&self) -> MutexGuard<'_, Vec<(Kind, Arc<str>)>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate(&self, kind: &Kind) -> &RwLock<()> {
        let sum = kind.group.bytes().chain(kind.name.bytes()).fold(0_usize, |sum, byte| sum + usize::from(byte));
        &self.gates[sum % GATES]
    }

    /// Lets a write begin, once no step of a move stops it.
    ///
    /// # Errors
    /// `Unavailable` while the writes of the kind are held. Cancel safe.
    async fn enter(&self, kind: &Kind) -> Result<RwLockReadGuard<'_, ()>> {
        let guard = self.gate(kind).read().await;
        match self.lock().iter().find(|(held, _)| held.same_type(kind)) {
            Some((_, reason)) => Err(Error::unavailable(reason)),
            None => Ok(guard),
        }
    }

    fn set(&self, kind: &Kind, reason: Option<String>) {
        let mut reasons = self.lock();
        reasons.retain(|(held, _)| !held.same_type(kind));
        reasons.extend(reason.map(|reason| (kind.clone(), reason.into())));
    }
}

/// The writes of a kind are held while this lives, or until the host ends.
pub(crate) struct WriteHold {
    holds: Arc<WriteHolds>,
    kind: Kind,
    is_kept: bool,
}

impl WriteHold {
    /// WriteHolds the writes until the host ends.
    pub(crate) fn keep(mut self, reason: String) {
        self.is_kept = true;
        self.holds.set(&self.kind, Some(reason));
    }
}

impl Drop for WriteHold {
    fn drop(&mut self) {
        if !self.is_kept {
            self.holds.set(&self.kind, None);
        }
    }
}

impl MovableStore {
    pub(super) fn new(inner: Arc<dyn Store>, moved: Arc<MovedKinds>) -> Self {
        Self { inner, moved, holds: Arc::default() }
    }

    /// WriteHolds the writes of a kind. Returns when no earlier write is under way.
    pub(crate) async fn hold(&self, kind: &Kind, reason: String) -> WriteHold {
        self.holds.set(kind, Some(reason));
        let hold = WriteHold { holds: Arc::clone(&self.holds), kind: kind.clone(), is_kept: false };
        drop(self.holds.gate(kind).write().await);
        hold
    }

    fn offset(&self, kind: &Kind) -> RevisionOffset {
        RevisionOffset(self.moved.moves(kind) << REVISION_BITS)
    }
}

/// Returns the number that a store gave to a revision that callers saw.
pub(crate) fn store_revision(revision: Revision) -> u64 {
    revision.0 & ((1 << REVISION_BITS) - 1)
}

/// What is added to the revisions of a kind.
#[derive(Clone, Copy, PartialEq)]
struct RevisionOffset(u64);

impl RevisionOffset {
    const NONE: Self = Self(0);

    fn shown(self, revision: Revision) -> Revision {
        Revision(revision.0 + self.0)
    }

    fn resource(self, resource: Arc<Resource>) -> Arc<Resource> {
        if self == Self::NONE { resource } else { resource.at(self.shown(resource.revision())) }
    }

    fn error(self, error: Error) -> Error {
        match error {
            Error::Conflict { key, current } => {
                Error::Conflict { key, current: current.map(|current| self.shown(current)) }
            }
            Error::AlreadyExists { key, current } => Error::AlreadyExists { key, current: self.shown(current) },
            Error::Expired { oldest } => Error::Expired { oldest: self.shown(oldest) },
            Error::FutureRevision { asked, current } => {
                Error::FutureRevision { asked: self.shown(asked), current: self.shown(current) }
            }
            other => other,
        }
    }

    fn event(self, event: Event) -> Event {
        let Event { kind, resource, previous, revision } = event;
        let previous = previous.map(|previous| self.resource(previous));
        Event { kind, resource: self.resource(resource), previous, revision: self.shown(revision) }
    }

    /// Returns the revision of the store; `None` for one of a former store.
    fn stored(self, shown: Revision) -> Option<Revision> {
        if self == Self::NONE {
            // Some servers count in nanoseconds since 1970.
            return Some(shown);
        }
        (shown.0 >> REVISION_BITS == self.0 >> REVISION_BITS).then(|| Revision(store_revision(shown)))
    }

    fn precondition(self, precondition: &mut Precondition) {
        if let Some(revision) = &mut precondition.revision {
            *revision = self.stored(*revision).unwrap_or(NEVER);
        }
    }

    /// Replaces a revision in a document. What is no revision stays: the store refuses it.
    fn text(self, value: &mut Value) {
        if let Some(Ok(revision)) = value.as_str().filter(|text| !text.is_empty()).map(str::parse::<Revision>) {
            *value = json!(self.stored(revision).unwrap_or(NEVER).to_string());
        }
    }

    fn document(self, document: &mut Value) {
        if let Some(value) = document.pointer_mut("/metadata/resourceVersion") {
            self.text(value);
        }
    }

    /// Returns a scale, which shows a revision of its resource, with the revision that callers see.
    fn scale(self, mut scale: Value) -> Value {
        if let Some(value) = scale.pointer_mut("/metadata/resourceVersion")
            && let Some(Ok(revision)) = value.as_str().map(str::parse::<Revision>)
        {
            *value = json!(self.shown(revision).to_string());
        }
        scale
    }

    fn change(self, change: &mut Change) {
        let operations = match change {
            Change::Merge(patch) | Change::Strategic(patch) => return self.document(patch),
            Change::Json(operations) => operations,
        };
        for operation in operations.as_array_mut().into_iter().flatten() {
            let path = operation.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
            let Some(value) = operation.get_mut("value") else { continue };
            match path.as_str() {
                "/metadata/resourceVersion" => self.text(value),
                "/metadata" => value.get_mut("resourceVersion").into_iter().for_each(|value| self.text(value)),
                "" => self.document(value),
                _ => {}
            }
        }
    }

    fn write(self, write: &mut Write) {
        match write {
            Write::Create { document } | Write::Apply { document, .. } | Write::ApplyStatus { document, .. } => {
                self.document(document);
            }
            Write::Update { document, precondition } => {
                self.document(document);
                self.precondition(precondition);
            }
            Write::Patch { change, precondition, .. } => {
                self.change(change);
                self.precondition(precondition);
            }
            Write::PatchStatus { change, .. } => self.change(change),
            Write::UpdateStatus { precondition, .. } | Write::Delete { precondition, .. } => {
                self.precondition(precondition);
            }
        }
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
        let Page { items, revision, next } = match self.inner.list(query).await {
            // Another kind of store gave the continue token, before the move.
            Err(Error::Invalid { path, .. }) if offset != RevisionOffset::NONE && path == "continue" => {
                return Err(Error::Expired { oldest: offset.shown(Revision::ZERO) });
            }
            page => page.map_err(|error| offset.error(error))?,
        };
        let items = items.into_iter().map(|item| offset.resource(item)).collect();
        Ok(Page { items, revision: offset.shown(revision), next })
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
            status.notes.extend(self.holds.lock().iter().map(|(_, reason)| reason.to_string()));
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
            let offset = RevisionOffset(self.moved.moves(event.resource.key().kind()) << REVISION_BITS);
            return Ok(Event { revision: event.revision, ..offset.event(event) });
        };
        self.inner.next().await.map(|event| offset.event(event)).map_err(|error| offset.error(error))
    }

    fn position(&self) -> Option<Revision> {
        let offset = self.offset.unwrap_or(RevisionOffset::NONE);
        self.inner.position().map(|position| offset.shown(position))
    }
}
