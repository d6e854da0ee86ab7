//! A cluster as the upstream of a cached store: everything that is a request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use homeostat_store::cached::{
    CachedState, DeltaStream, Incarnation, KeyLocks, Start, Upstream, UpstreamResponse, jitter,
};
use homeostat_store::{
    Change, Error, Key, Kind, LeaseStore, Page, Query, Request, RequestCounts, Resource, Result, Revision,
    ScaleRequest, View,
};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::{MutexGuard, Notify, watch};
use tokio::task::AbortHandle;

use crate::catalog::{Catalog, Discovery, REFRESH_INTERVAL_MIN, ServedKind};
use crate::document::UnreadableDocument;
use crate::errors::RequestError;
use crate::follow::machine::ListStrategy;
use crate::follow::{KindStream, Subject};
use crate::lease::{ClusterLeases, LeaseNamespace};
use crate::requests::{Call, Requests};
use crate::settings::ClusterSettings;
use crate::{path, read, write};

/// Kinds, and resources, about which something is remembered.
const KINDS_MAX: usize = 4096;

/// A cluster. [`open`](crate::open) puts a cache in front of it.
pub struct Cluster {
    settings: ClusterSettings,
    pub(crate) requests: Arc<Requests>,
    discovery: Arc<Discovery>,
    /// Asks for a new reading of the catalog.
    stale: Arc<Notify>,
    facts: Arc<Mutex<KindFacts>>,
    key_locks: KeyLocks,
    leases: Arc<LeaseNamespace>,
    /// The task that reads the catalog again and again.
    refresh: Mutex<Option<AbortHandle>>,
}

/// Facts about kinds that this host keeps from earlier answers of the server.
#[derive(Default)]
struct KindFacts {
    strategies: BTreeMap<Kind, ListStrategy>,
    /// The kinds whose strategic merge patches are computed here.
    computed: BTreeSet<Kind>,
    /// Resources whose documents could not be read, with the revisions that were told.
    unreadable: BTreeMap<Key, Revision>,
}

impl Cluster {
    /// Creates the upstream. Nothing is sent before [`Upstream::connect`].
    pub fn new(settings: ClusterSettings) -> Self {
        let requests = Arc::new(Requests::new(&settings));
        Self {
            discovery: Arc::new(Discovery::new(Arc::clone(&requests))),
            leases: Arc::new(LeaseNamespace::new(&settings, Arc::clone(&requests))),
            requests,
            settings,
            stale: Arc::default(),
            facts: Arc::default(),
            key_locks: KeyLocks::default(),
            refresh: Mutex::default(),
        }
    }

    /// Returns the kinds that the server serves, and their changes. Empty before the first contact.
    pub fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.discovery.watch()
    }

    pub(crate) async fn served(&self, kind: &Kind) -> Result<ServedKind> {
        self.discovery.find(kind).await
    }

    pub(crate) fn manager_prefix(&self) -> &str {
        &self.settings.manager_prefix
    }

    pub(crate) fn event_interval(&self) -> Duration {
        self.settings.event_interval
    }

    /// Waits until this host writes a resource no more: many writes of it at once make the server refuse most of
    /// them, again and again.
    ///
    /// # Errors
    /// `Unavailable` when no earlier write has ended for the longest wait for an answer. Nothing was sent then.
    pub(crate) async fn write_lock(&self, key: &Key) -> Result<MutexGuard<'_, ()>> {
        let lock = self.key_locks.lock_within(key, self.settings.deadline).await;
        lock.ok_or_else(|| Error::unavailable(format!("{key} was not written: earlier writes of it are not answered")))
    }

    /// Returns the namespace to which lists and watches of a kind are limited.
    pub(crate) fn namespace_of(&self, served: &ServedKind) -> Option<&str> {
        self.settings.namespace.as_deref().filter(|_| served.namespaced)
    }

    /// Returns the error of a request about a resource.
    pub(crate) fn failed(&self, verb: &str, key: &Key, failure: RequestError) -> Error {
        match failure.status() {
            Some(status) if status.is_about_kind() => self.not_served(key.kind()),
            Some(status) if status.is_about_other(key.name()) => {
                Error::NotFound { what: format!("{:?}", status.message) }
            }
            _ => failure.about_key(verb, key),
        }
    }

    /// Returns the error of a kind that the server served a moment ago, and has the catalog read again.
    pub(crate) fn not_served(&self, kind: &Kind) -> Error {
        self.stale.notify_one();
        Error::unavailable(format!("the server does not serve the kind {kind}"))
    }

    /// Returns whether a change of a kind is computed here, because the server does not know its form.
    pub(crate) fn is_computed(&self, change: &Change, kind: &Kind) -> bool {
        matches!(change, Change::Strategic(_)) && self.facts().computed.contains(kind)
    }

    /// Computes strategic merge patches of a kind here from now on.
    pub(crate) fn compute_from_now_on(&self, kind: &Kind) {
        let mut facts = self.facts();
        if facts.computed.len() >= KINDS_MAX {
            facts.computed.clear();
        }
        facts.computed.insert(kind.clone());
    }

    /// Tells, once for each revision, that a list leaves out a resource.
    pub(crate) fn tell_unreadable(&self, UnreadableDocument { key, at, reason }: &UnreadableDocument) {
        let mut facts = self.facts();
        if facts.unreadable.len() >= KINDS_MAX {
            facts.unreadable.clear();
        }
        if facts.unreadable.insert(key.clone(), *at) != Some(*at) {
            tracing::warn!(store = &*self.settings.name, %key, reason = ?reason, "a list leaves out a resource");
        }
    }

    fn facts(&self) -> std::sync::MutexGuard<'_, KindFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recorder(&self) -> crate::follow::StrategyRecorder {
        let facts = Arc::clone(&self.facts);
        Box::new(move |kind, strategy| {
            let mut facts = facts.lock().unwrap_or_else(PoisonError::into_inner);
            if facts.strategies.len() >= KINDS_MAX {
                facts.strategies.clear();
            }
            facts.strategies.insert(kind.clone(), strategy);
        })
    }

    /// Makes a write, which has to end in time where the settings say so.
    async fn within_deadline<T, F: Future<Output = Result<T>>>(
        &self,
        write: impl FnOnce(Option<Instant>) -> F,
    ) -> Result<T> {
        let Some(limit) = self.settings.write_deadline else { return write(None).await };
        let until = Instant::now() + limit;
        let late =
            || Error::unavailable(format!("the write did not end within {limit:?}; it may have been carried out"));
        tokio::time::timeout_at(until.into(), write(Some(until))).await.unwrap_or_else(|_| Err(late()))
    }

    /// Starts the task that reads the catalog again and again, unless it runs.
    fn start_refresh(&self) {
        let mut refresh = self.refresh.lock().unwrap_or_else(PoisonError::into_inner);
        if refresh.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (discovery, stale) = (Arc::clone(&self.discovery), Arc::clone(&self.stale));
        let interval = self.settings.catalog_interval;
        let task = tokio::spawn(async move {
            loop {
                let wait = interval.mul_f64(0.8 + 0.4 * jitter());
                // Either way the catalog is read: the wait has ended, or a caller asked.
                let _ = tokio::time::timeout(wait, stale.notified()).await;
                if let Err(error) = discovery.refresh(REFRESH_INTERVAL_MIN).await {
                    tracing::debug!(%error, "the kinds of a cluster could not be read again");
                }
            }
        });
        *refresh = Some(task.abort_handle());
    }

    /// Returns the id of the content: the uid of a namespace that each cluster has and no client deletes.
    /// `None` where the host may not read it, which it asks first: a request that is refused is an alarm in the
    /// logs of the cluster.
    async fn content_id(&self) -> Result<Option<String>> {
        let attributes = json!({"verb": "get", "version": "v1", "resource": "namespaces", "name": "kube-system"});
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes}});
        let body = Some(("application/json", Bytes::from(review.to_string())));
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned();
        let may_read =
            self.read_pointer(Call::with_body("review", Method::POST, path, body), "/status/allowed").await?;
        if may_read != Some(Value::Bool(true)) {
            return Ok(None);
        }
        let call = Call::get("get", "/api/v1/namespaces/kube-system".to_owned());
        let uid = self.read_pointer(call, "/metadata/uid").await?;
        Ok(uid.and_then(|uid| uid.as_str().map(str::to_owned)))
    }

    /// Returns a field of an answer; `None` where the server refuses the request.
    async fn read_pointer(&self, call: Call, pointer: &str) -> Result<Option<Value>> {
        match self.requests.send(call).await {
            Ok(answer) => {
                let document: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                Ok(document.pointer(pointer).cloned())
            }
            Err(RequestError::Refused(status)) if status.code < 429 => Ok(None),
            Err(failure) => Err(failure.about("the id of the cluster")),
        }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("name", &self.settings.name).finish_non_exhaustive()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(task) = self.refresh.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

#[async_trait]
impl Upstream for Cluster {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn storage(&self) -> &'static str {
        "kubernetes"
    }

    fn collects_garbage(&self) -> bool {
        true
    }

    fn manager(&self, manager: &str) -> String {
        format!("{}{manager}", self.settings.manager_prefix)
    }

    async fn connect(&self) -> Result<Incarnation> {
        self.discovery.refresh(Duration::ZERO).await?;
        self.start_refresh();
        Ok(Incarnation { id: self.content_id().await?, at: None })
    }

    async fn ping(&self) -> Result<()> {
        match self.requests.send(Call::get("ping", "/readyz".to_owned())).await {
            // A server that refuses is there, unless it refuses the credentials.
            Err(RequestError::Refused(status)) if status.code < 500 && status.code != 401 => Ok(()),
            answer => answer.map(|_| ()).map_err(|failure| failure.about("ping")),
        }
    }

    async fn open(&self, kind: &Kind, view: View, start: Start) -> Result<Box<dyn DeltaStream>> {
        let served = self.served(kind).await?;
        if !served.verbs.watch {
            let reason = "the server only lists it".to_owned();
            return Err(Error::Unsupported { what: format!("watch of {kind}"), reason });
        }
        let version = served.version(&kind.version).to_owned();
        let collection = path::collection(&served, &version, self.namespace_of(&served))?;
        let strategy = self.facts().strategies.get(&served.kind).copied().unwrap_or_default();
        let subject = Subject { served, version, collection, labels: None, view };
        Ok(Box::new(KindStream::open(Arc::clone(&self.requests), subject, start, strategy, self.recorder()).await?))
    }

    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        read::get(self, key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        read::list(self, query).await
    }

    async fn revision(&self, kind: &Kind) -> Result<Revision> {
        read::revision(self, kind).await
    }

    async fn submit(&self, request: Request, cached: CachedState) -> Result<UpstreamResponse> {
        self.within_deadline(|until| write::submit(self, request, cached, until)).await
    }

    async fn scale(&self, key: &Key) -> Result<Value> {
        read::scale(self, key).await
    }

    async fn update_scale(&self, request: ScaleRequest) -> Result<Value> {
        self.within_deadline(|until| write::scale::update(self, request, until)).await
    }

    fn catalog(&self) -> Option<watch::Receiver<Arc<Catalog>>> {
        Some(Self::catalog(self))
    }

    fn leases(&self) -> Option<Arc<dyn LeaseStore>> {
        Some(Arc::new(ClusterLeases(Arc::clone(&self.leases))))
    }

    fn counts(&self) -> RequestCounts {
        self.requests.counts()
    }

    async fn close(&self) {
        self.requests.close();
        if let Some(task) = self.refresh.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}
