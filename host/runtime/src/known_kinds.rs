//! Checks the kinds in the effects of guests, in two places: [`KnownKinds`] is a layer that admits only known
//! kinds, [`ValidatingStore`] is the store below the layers, which validates definitions of kinds.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::{Answer, Call, Effect, Effects, StoreError};
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Error, Key, Kind, Page, Query, Request, Resource, Revision, Scope, Store, StoreStatus, Subscription, View, Watch,
    Write, WriteResponse,
};
use serde_json::Value;

use crate::admission_chain::AdmissionChain;
use crate::host_kinds::{is_reserved, is_written_by_host_alone};
use crate::kinds::{kind_of, place};
use crate::{Kinds, Requester, definitions};

/// Admits only known kinds. Guests can name kinds that are declared and not reserved by the host. Namespaced
/// resources need a namespace, others must have none.
pub(crate) struct KnownKinds<E> {
    kinds: Arc<Kinds>,
    inner: E,
}

impl<E: Effects> KnownKinds<E> {
    pub(crate) fn new(kinds: Arc<Kinds>, inner: E) -> Self {
        Self { kinds, inner }
    }

    fn known(&self, kind: &Kind) -> Result<(), StoreError> {
        not_of_host(kind)?;
        if self.kinds.stores(kind) { Ok(()) } else { Err(self.unknown(kind)) }
    }

    /// Returns the error of an unknown kind. A server that defines its own kinds may only not have told them yet: then
    /// a `not-found` would be an answer about a resource.
    fn unknown(&self, kind: &Kind) -> StoreError {
        match self.kinds.defined_in(kind) {
            Some(store) => StoreError::Unavailable(format!("store {store} is not known to serve the kind {kind}")),
            None => StoreError::NotFound(format!("the kind {kind}")),
        }
    }

    /// Refuses a key that no resource can have. A `not-found` would be an answer about a resource, and a
    /// guest would clean up after it.
    fn key_fits(&self, key: &Key) -> Result<(), StoreError> {
        self.known(key.kind())?;
        match self.kinds.of(key.kind()).map(|info| info.namespaced) {
            Some(true) if key.namespace().is_empty() => {
                Err(StoreError::Invalid(format!("namespace: must not be empty, because {} is namespaced", key.kind())))
            }
            Some(false) if !key.namespace().is_empty() => {
                let reason = format!("namespace: must be empty, because {} is cluster-scoped", key.kind());
                Err(StoreError::Invalid(reason))
            }
            _ => Ok(()),
        }
    }

    fn fits(&self, write: &mut Write) -> Result<(), StoreError> {
        match write {
            Write::Create { document } => {
                let kind = self.document_fits(document)?;
                if self.kinds.is_ending(&kind) { Err(ending(&kind)) } else { Ok(()) }
            }
            Write::Update { document, .. } | Write::Apply { document, .. } | Write::ApplyStatus { document, .. } => {
                self.document_fits(document).map(drop)
            }
            Write::UpdateStatus { key, .. }
            | Write::PatchStatus { key, .. }
            | Write::Patch { key, .. }
            | Write::Delete { key, .. } => self.key_fits(key).and_then(|()| writable(key.kind())),
        }
    }

    fn document_fits(&self, document: &mut Value) -> Result<Kind, StoreError> {
        let invalid = |error: crate::Error| StoreError::Invalid(error.to_string());
        let kind = kind_of(document).map_err(invalid)?;
        not_of_host(&kind)?;
        writable(&kind)?;
        let info = self.kinds.stored(&kind).ok_or_else(|| self.unknown(&kind))?;
        place(document, &info).map_err(invalid)?;
        Ok(kind)
    }
}

/// Refuses the kinds that configure the host itself. A guest that could write them could grant itself
/// everything, and they contain the grants of others.
fn not_of_host(kind: &Kind) -> Result<(), StoreError> {
    if is_reserved(kind) {
        Err(StoreError::Forbidden(format!("the kind {kind} is reserved for the host, and no grant covers it")))
    } else {
        Ok(())
    }
}

/// Refuses writes of the kinds that a guest may read, and that the host alone writes.
fn writable(kind: &Kind) -> Result<(), StoreError> {
    if is_written_by_host_alone(kind) {
        Err(StoreError::Forbidden(crate::Error::ReadOnlyKind(kind.to_string()).to_string()))
    } else {
        Ok(())
    }
}

fn ending(kind: &Kind) -> StoreError {
    StoreError::NotFound(format!("the kind {kind}, whose definition is being deleted"))
}

#[async_trait]
impl<E: Effects> Effects for KnownKinds<E> {
    async fn perform(&self, call: &Call, mut effect: Effect) -> Answer {
        let refused = match &mut effect {
            Effect::Get { key, .. } => self.key_fits(key).err().map(|error| Answer::Resource(Err(error))),
            Effect::List { query, .. } => self.known(&query.kind).err().map(|error| Answer::Page(Err(error))),
            Effect::Follow { target } => self.key_fits(target).err().map(|error| Answer::Done(Err(error))),
            Effect::FollowAll { kind, .. } => self.known(kind).err().map(|error| Answer::Done(Err(error))),
            Effect::Write(write) => self.fits(write).err().map(|error| Answer::Written(Err(error))),
            _ => None,
        };
        match refused {
            Some(answer) => answer,
            None => self.inner.perform(call, effect).await,
        }
    }
}

/// The store as guests write to it: it validates definitions like those of people, and refuses those that are
/// malformed or contradict a declared kind. The admission plug-ins act for guests as for people.
pub(crate) struct ValidatingStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) kinds: Arc<Kinds>,
    pub(crate) admission: Arc<AdmissionChain>,
}

#[async_trait]
impl Store for ValidatingStore {
    async fn submit(&self, request: Request) -> homeostat_store::Result<WriteResponse> {
        let refused = |error| match error {
            crate::Error::Store(error) => error,
            error @ (crate::Error::TerminatingNamespace { .. } | crate::Error::Forbidden(_)) => {
                Error::Forbidden { what: "the write".to_owned(), reason: error.to_string() }
            }
            // A webhook that cannot be called can be called later.
            crate::Error::Rejected(status) if status["code"].as_u64() >= Some(500) => {
                Error::unavailable(status["message"].as_str().unwrap_or_default())
            }
            error @ crate::Error::Rejected(_) => {
                Error::Forbidden { what: "the write".to_owned(), reason: error.to_string() }
            }
            error => Error::NotFound { what: error.to_string().trim_end_matches(" not found").to_owned() },
        };
        self.admission.admit(&*self.store, &self.kinds, &request.write).await.map_err(refused)?;
        if !definitions::declares(&request.write)? {
            let requester = Requester::controller(&request.manager);
            let written = self.admission.submit(&self.store, &self.kinds, request, Some(&requester)).await;
            return written.map_err(refused);
        }
        definitions::write(&*self.store, &self.kinds, request).await.map_err(|error| match error {
            crate::Error::Store(error) => error,
            error => Error::Invalid { path: "spec".to_owned(), reason: error.to_string() },
        })
    }

    async fn get(&self, key: &Key) -> homeostat_store::Result<Arc<Resource>> {
        self.store.get(key).await
    }

    async fn get_view(&self, key: &Key, view: View) -> homeostat_store::Result<Arc<Resource>> {
        self.store.get_view(key, view).await
    }

    async fn get_live(&self, key: &Key) -> homeostat_store::Result<Arc<Resource>> {
        self.store.get_live(key).await
    }

    async fn list(&self, query: &Query) -> homeostat_store::Result<Page> {
        self.store.list(query).await
    }

    fn schemas(&self) -> Option<&Schemas> {
        self.store.schemas()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> homeostat_store::Result<Watch> {
        self.store.watch(scope, from).await
    }

    async fn revision(&self, scope: &Scope) -> homeostat_store::Result<Revision> {
        self.store.revision(scope).await
    }

    fn subscribe(&self, kind: &Kind, view: View) -> Subscription {
        self.store.subscribe(kind, view)
    }

    fn status(&self) -> Vec<StoreStatus> {
        self.store.status()
    }

    async fn close(&self) {
        self.store.close().await;
    }

    async fn kinds(&self) -> homeostat_store::Result<Vec<Kind>> {
        self.store.kinds().await
    }

    async fn dependents(&self, owner: &str) -> homeostat_store::Result<Vec<Arc<Resource>>> {
        self.store.dependents(owner).await
    }
}

#[cfg(test)]
mod tests;
