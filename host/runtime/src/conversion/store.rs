//! A store that shows and takes kinds with a conversion in every served version.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::catalog::Catalog;
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Error, EventSink, EventType, Key, Kind, LeaseStore, Page, Query, Request, Resource, Result, Revision, ScaleRequest,
    Scope, Selector, Store, StoreStatus, Subscription, View, Watch, Write, WriteResponse,
};
use serde_json::Value;

use super::converter::KindConverter;
use super::converters::Converters;
use super::watch::ConvertedWatch;
use super::write;

/// A store in whose answers a kind with a conversion has the version of the key, query or scope. Every other call goes to
/// the store behind it unchanged.
pub(crate) struct ConvertingStore {
    inner: Arc<dyn Store>,
    converters: Arc<Converters>,
}

impl ConvertingStore {
    pub(crate) fn new(inner: Arc<dyn Store>, converters: Arc<Converters>) -> Self {
        Self { inner, converters }
    }

    /// Returns the converter of a kind, if the kind has this version.
    fn converter(&self, kind: &Kind) -> Option<Arc<KindConverter>> {
        self.converters.of(kind).filter(|converter| converter.knows(&kind.version))
    }

    async fn in_version(&self, kind: &Kind, resource: Arc<Resource>) -> Result<Arc<Resource>> {
        if resource.key().kind().version == kind.version {
            return Ok(resource);
        }
        let Some(converter) = self.converter(kind) else { return Ok(resource) };
        let converted = converter.convert(&kind.version, vec![Arc::clone(&resource)]).await?;
        Ok(converted.into_iter().next().unwrap_or(resource))
    }
}

/// Takes the conditions out of a selector that only hold for fields in the version of the caller.
fn take_fields(selector: &mut Selector) -> Selector {
    let is_of_version = |(pointer, _): &(String, String)| !pointer.starts_with("/metadata/");
    let (fields, kept) = std::mem::take(&mut selector.fields).into_iter().partition(is_of_version);
    let (unequal_fields, kept_unequal) =
        std::mem::take(&mut selector.unequal_fields).into_iter().partition(is_of_version);
    (selector.fields, selector.unequal_fields) = (kept, kept_unequal);
    Selector { fields, unequal_fields, ..Selector::default() }
}

#[async_trait]
impl Store for ConvertingStore {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.in_version(key.kind(), self.inner.get(key).await?).await
    }

    async fn get_view(&self, key: &Key, view: View) -> Result<Arc<Resource>> {
        let resource = self.inner.get_view(key, view).await?;
        if view == View::Whole { self.in_version(key.kind(), resource).await } else { Ok(resource) }
    }

    async fn get_live(&self, key: &Key) -> Result<Arc<Resource>> {
        self.in_version(key.kind(), self.inner.get_live(key).await?).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let converter = self.converter(&query.kind).filter(|_| query.view == View::Whole);
        let Some(converter) = converter else { return self.inner.list(query).await };
        query.selector.validate()?;
        let (version, mut asked) = (&query.kind.version, query.clone());
        let is_stored = version == converter.stored();
        let later = if is_stored { Selector::default() } else { take_fields(&mut asked.selector) };
        let page = self.inner.list(&asked).await?;
        let mut items = converter.convert(version, page.items).await?;
        items.retain(|resource| later.matches(resource));
        Ok(Page { items, ..page })
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        let converts = !request.is_move && !self.converters.is_empty();
        let target = if converts { request.write.target().ok() } else { None };
        let converter = target.and_then(|target| Some((self.converter(&target.kind)?, target.kind)));
        let Some((converter, kind)) = converter else { return self.inner.submit(request).await };
        if matches!(request.write, Write::Delete { .. }) {
            let written = self.inner.submit(request).await?;
            if written.change == Some(EventType::Deleted) {
                return Ok(written);
            }
            return Ok(WriteResponse { resource: self.in_version(&kind, written.resource).await?, ..written });
        }
        if request.is_planned {
            return write::submit_planned(&*self.inner, &converter, request).await;
        }
        if kind.version == converter.stored() {
            match self.inner.submit(request.clone()).await {
                Err(Error::OtherVersion { .. }) => {}
                written => return written,
            }
        }
        write::submit(&*self.inner, &self.converters, request).await
    }

    async fn scale(&self, key: &Key) -> Result<Value> {
        self.inner.scale(key).await
    }

    async fn update_scale(&self, request: ScaleRequest) -> Result<Value> {
        self.inner.update_scale(request).await
    }

    fn schemas(&self) -> Option<&Schemas> {
        self.inner.schemas()
    }

    fn server_validates(&self) -> bool {
        self.inner.server_validates()
    }

    fn manager_prefix(&self) -> String {
        self.inner.manager_prefix()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        let kind = match &scope {
            Scope::Kind(kind) if self.inner.watched_view(kind) == View::Whole => Some(kind.clone()),
            _ => None,
        };
        let watch = self.inner.watch(scope, from).await?;
        Ok(match kind {
            Some(kind) => Watch::new(ConvertedWatch::new(watch, Arc::clone(&self.converters), kind)),
            None => watch,
        })
    }

    async fn revision(&self, scope: &Scope) -> Result<Revision> {
        self.inner.revision(scope).await
    }

    fn subscribe(&self, kind: &Kind, view: View) -> Subscription {
        self.inner.subscribe(kind, view)
    }

    fn watched_view(&self, kind: &Kind) -> View {
        self.inner.watched_view(kind)
    }

    fn status(&self) -> Vec<StoreStatus> {
        self.inner.status()
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

    fn catalog(&self) -> Option<tokio::sync::watch::Receiver<Arc<Catalog>>> {
        self.inner.catalog()
    }

    fn event_sink(&self) -> Option<Arc<dyn EventSink>> {
        self.inner.event_sink()
    }

    fn leases(&self) -> Option<Arc<dyn LeaseStore>> {
        self.inner.leases()
    }

    async fn dependents(&self, owner: &str) -> Result<Vec<Arc<Resource>>> {
        self.inner.dependents(owner).await
    }
}
