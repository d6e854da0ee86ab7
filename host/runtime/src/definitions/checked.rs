//! The store as guests write to it: definitions are validated like those of people.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Error, Key, Kind, Page, Query, Request, Resource, Result, Revision, Scope, Store, Watch, WriteResponse,
};

use super::{declares, write};
use crate::Kinds;

/// A store that refuses definitions that are malformed or contradict a declared kind.
pub(crate) struct ValidatingStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) kinds: Arc<Kinds>,
}

#[async_trait]
impl Store for ValidatingStore {
    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        if !declares(&request.write)? {
            return self.store.submit(request).await;
        }
        write(&*self.store, &self.kinds, request).await.map_err(|error| match error {
            crate::Error::Store(error) => error,
            error => Error::Invalid { path: "spec".to_owned(), reason: error.to_string() },
        })
    }

    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.store.get(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.store.list(query).await
    }

    fn schemas(&self) -> &Schemas {
        self.store.schemas()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        self.store.watch(scope, from).await
    }

    fn revision(&self) -> Revision {
        self.store.revision()
    }

    fn id(&self) -> &str {
        self.store.id()
    }

    fn health(&self) -> Result<()> {
        self.store.health()
    }

    async fn close(&self) {
        self.store.close().await;
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.store.kinds().await
    }

    async fn dependents(&self, owner: &str) -> Result<Vec<Arc<Resource>>> {
        self.store.dependents(owner).await
    }
}
