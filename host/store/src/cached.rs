//! A store that is far away, with a cache in this process.
//!
//! An [`Upstream`] is a server, told in requests. [`CachedStore`] is in front of it, and implements
//! [`Store`]:
//!
//! * While somebody subscribes to a kind or watches it, one task, its reflector, lists and watches the kind
//!   at the server and keeps a cache of it. All reads and watches of the kind share that cache. The cache
//!   ends some time after its last user.
//! * Reads of any other kind ask the server.
//! * The cache of a kind has whole resources, or their metadata alone ([`Options::routes`]). Then reads of whole
//!   resources ask the server, and watches tell metadata.
//! * A read never goes back: own writes and live reads are shown on top of the cache until the cache has
//!   them. A read of a resource whose write was not answered asks the server. So do all reads of a kind until
//!   its cache has reached what was shown before the cache began.
//! * While the server is away, reads show the cache and watches wait. When it comes back, streams go on where
//!   they ended. After a gap that is too long, a full list is turned into events.
//! * The content of a server that was emptied, restored or exchanged is not used until a person accepts it.
//!
//! Deliberately absent: protocols, addresses and credentials, which belong to the [`Upstream`]s; and persistence
//! of the cache.

mod availability;
mod backoff;
mod budget;
mod key_locks;
mod kind;
mod leases;
mod monitor;
mod options;
mod own_writes;
mod read_watermark;
mod reads;
mod reflector;
mod replace;
mod scale;
mod shared_state;
#[cfg(test)]
mod tests;
mod unchanged;
mod unreadable;
mod upstream;
mod writes;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use self::backoff::{ExponentialBackoff, jitter};
pub use self::key_locks::KeyLocks;
use self::leases::CachedLeases;
pub use self::options::{ContentRecord, KnownContent, Options, server_id};
use self::shared_state::{KINDS_MAX, SharedState, User};
pub use self::upstream::{CachedState, Delta, DeltaStream, Incarnation, LastState, Start, Upstream, UpstreamResponse};
use crate::catalog::Catalog;
use crate::schema::Schemas;
use crate::{
    Error, EventSink, Key, Kind, LeaseStore, Page, Query, Request, Resource, Result, Revision, ScaleRequest, Scope,
    Store, StoreStatus, Subscription, View, Watch, WriteResponse,
};

/// A store that is far away, with a cache in this process.
pub struct CachedStore {
    shared: Arc<SharedState>,
    /// Where the tasks run.
    runtime: Handle,
    /// The monitor of the server, and the reflectors of kinds. They end when this is dropped.
    tasks: Mutex<JoinSet<()>>,
    event_sink: Option<Arc<dyn EventSink>>,
}

impl std::fmt::Debug for CachedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedStore").field("name", &self.shared.upstream.name()).finish_non_exhaustive()
    }
}

impl CachedStore {
    /// Starts to contact the server. The store can be used at once: the first calls wait for the server.
    ///
    /// # Panics
    /// When called outside of a tokio runtime with time.
    pub fn start(upstream: Arc<dyn Upstream>, options: Options) -> Self {
        let shared = SharedState::new(upstream, options);
        let store = Self { shared, runtime: Handle::current(), tasks: Mutex::default(), event_sink: None };
        let shared = Arc::clone(&store.shared);
        store.spawn(async move { shared.monitor.run().await });
        let shared = Arc::clone(&store.shared);
        store.spawn(async move { shared.keep_progress().await });
        store
    }

    /// Sets where the server takes events.
    #[must_use]
    pub fn with_event_sink(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.event_sink = Some(sink);
        self
    }

    /// Adds a user of a kind, and starts the reflector for the first one.
    fn join(&self, kind: &Kind, first: Start) -> Option<User> {
        let user = self.shared.join(kind)?;
        if user.is_first {
            self.spawn(reflector::reflect(Arc::clone(&self.shared), Arc::clone(&user.kind), first));
        }
        Some(user)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(store = self.shared.upstream.name(), %error, "a task of the store failed");
            }
        }
        tasks.spawn_on(task, &self.runtime);
    }
}

impl Drop for CachedStore {
    fn drop(&mut self) {
        self.shared.close();
    }
}

#[async_trait]
impl Store for CachedStore {
    fn manager_prefix(&self) -> String {
        self.shared.upstream.manager("")
    }

    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.shared.get(key, View::Whole).await
    }

    async fn get_view(&self, key: &Key, view: View) -> Result<Arc<Resource>> {
        self.shared.get(key, view).await
    }

    async fn get_live(&self, key: &Key) -> Result<Arc<Resource>> {
        self.shared.get_live(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.shared.list(query).await
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        self.shared.submit(request).await
    }

    async fn scale(&self, key: &Key) -> Result<Value> {
        self.shared.scale(key).await
    }

    async fn update_scale(&self, request: ScaleRequest) -> Result<Value> {
        self.shared.update_scale(request).await
    }

    fn schemas(&self) -> Option<&Schemas> {
        self.shared.upstream.schemas()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        let Scope::Kind(kind) = scope else { return Err(reads::everything()) };
        self.shared.monitor.shows()?;
        let user = self.join(&kind, Start::Exactly(from));
        let user = user.ok_or_else(|| Error::unavailable(format!("{} kinds are watched already", KINDS_MAX)))?;
        self.shared.watch(user, from).await
    }

    async fn revision(&self, scope: &Scope) -> Result<Revision> {
        self.shared.revision(scope).await
    }

    fn subscribe(&self, kind: &Kind, _: View) -> Subscription {
        self.join(kind, Start::Now { not_before: None }).map_or_else(Subscription::none, Subscription::new)
    }

    fn watched_view(&self, kind: &Kind) -> View {
        self.shared.options.view(kind)
    }

    fn status(&self) -> Vec<StoreStatus> {
        vec![self.shared.status()]
    }

    async fn verify_content(&self) -> Result<Option<String>> {
        self.shared.verify_content().await
    }

    async fn accept_replacement(&self, content: &str) -> Result<()> {
        self.shared.monitor.accept(content, || self.shared.forget_shown()).await
    }

    async fn close(&self) {
        self.shared.record_progress().await;
        self.shared.close();
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
        self.shared.upstream.close().await;
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.shared.kinds_in_use().await
    }

    fn catalog(&self) -> Option<watch::Receiver<Arc<Catalog>>> {
        self.shared.upstream.catalog()
    }

    fn event_sink(&self) -> Option<Arc<dyn EventSink>> {
        self.event_sink.clone()
    }

    fn leases(&self) -> Option<Arc<dyn LeaseStore>> {
        let leases = self.shared.upstream.leases()?;
        Some(Arc::new(CachedLeases::new(leases, Arc::clone(&self.shared))))
    }
}
