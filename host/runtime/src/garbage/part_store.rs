//! One of several stores, as its garbage collector sees it.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Error, Key, Kind, Page, Query, Request, Resource, Result, Revision, RoutedStore, Scope, Store, StorePart,
    StoreStatus, Subscription, View, Watch, WriteResponse,
};

use crate::fleet::OwnLease;

/// One of the stores of a host. It shows the resources of the kinds that live in it, and passes writes to it.
///
/// Resources have the form in which the store keeps them ([`homeostat_store::far_owner`]). Owners that live in another
/// store are not looked for here.
pub(super) struct PartStore {
    part: StorePart,
    all: Arc<RoutedStore>,
    /// `None` where no other host has the store.
    lease: Option<Arc<OwnLease>>,
}

impl PartStore {
    /// With a lease, every write is one of its holder.
    pub(super) fn new(part: StorePart, all: Arc<RoutedStore>, lease: Option<Arc<OwnLease>>) -> Self {
        Self { part, all, lease }
    }

    /// Returns all stores of the host.
    pub(super) fn all(&self) -> Arc<dyn Store> {
        Arc::clone(&self.all) as Arc<dyn Store>
    }

    /// Returns whether the resources of a kind live in this store.
    pub(super) fn has(&self, kind: &Kind) -> bool {
        self.all.part(kind).name == self.part.name
    }
}

#[async_trait]
impl Store for PartStore {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.part.store.get(key).await
    }

    async fn get_live(&self, key: &Key) -> Result<Arc<Resource>> {
        self.part.store.get_live(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.part.store.list(query).await
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        let kind = request.write.target()?.kind;
        if !self.has(&kind) {
            return Err(Error::invalid("kind", format!("{kind} does not live in store {}", self.part.name)));
        }
        match &self.lease {
            None => self.part.store.submit(request).await,
            Some(lease) => lease.submit(&*self.part.store, request).await,
        }
    }

    fn schemas(&self) -> Option<&Schemas> {
        self.part.store.schemas()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        self.part.store.watch(scope, from).await
    }

    async fn revision(&self, scope: &Scope) -> Result<Revision> {
        self.part.store.revision(scope).await
    }

    fn subscribe(&self, kind: &Kind, view: View) -> Subscription {
        self.part.store.subscribe(kind, view)
    }

    fn status(&self) -> Vec<StoreStatus> {
        self.part.store.status()
    }

    async fn close(&self) {
        self.part.store.close().await;
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        let kinds = self.part.store.kinds().await?;
        Ok(kinds.into_iter().filter(|kind| self.has(kind)).collect())
    }

    async fn dependents(&self, owner: &str) -> Result<Vec<Arc<Resource>>> {
        let dependents = self.part.store.dependents(owner).await?;
        Ok(dependents.into_iter().filter(|dependent| self.has(dependent.key().kind())).collect())
    }
}
