//! A server in this process, with faults.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::cached::{CachedState, Delta, DeltaStream, Incarnation, LastState, Start, Upstream, UpstreamResponse};
use crate::fixture;
pub(super) use crate::fixture::{demo_kind as kind, widget_key as key};
use crate::memory::MemoryStore;
use crate::{
    Error, Event, EventType, Key, Kind, Options, Page, Precondition, Propagation, Query, Request, RequestCounts,
    Resource, Result, Revision, ScaleRequest, Scope, Store, View, Watch, Write, WriteResponse,
};

/// The faults of the server, until they are changed.
#[derive(Clone, Default)]
pub(super) struct Faults {
    /// It does not answer, and its streams end.
    pub(super) away: bool,
    /// Streams deliver nothing.
    pub(super) lags: bool,
    /// Streams leave out changes that were overwritten before they were delivered.
    pub(super) skips_overwritten: bool,
    /// Writes are made, but not answered.
    pub(super) loses_answers: bool,
    /// Deletions are answered without their revision.
    pub(super) hides_deletions: bool,
    /// Streams cannot go on where another one ended.
    pub(super) forgets: bool,
    /// Reads and writes are answered once this is over.
    pub(super) holds_answers: bool,
    /// Lists show this, and their streams go on from there.
    pub(super) stale: Option<Past>,
    /// Streams deliver lists, and no changes.
    pub(super) holds_changes: bool,
    /// No stream can be opened, although everything else is answered.
    pub(super) refuses_streams: bool,
    /// The kind of this name cannot be opened.
    pub(super) forbids: Option<&'static str>,
    /// The document of the widget of this name cannot be read.
    pub(super) unreadable: Option<&'static str>,
    /// Streams that were opened before this number was reached have ended.
    pub(super) cuts: u64,
    /// Streams end after this number of deltas.
    pub(super) ends_after: Option<u64>,
}

/// A past state: resources and their revision.
pub(super) type Past = (Vec<Arc<Resource>>, Revision);

impl Faults {
    /// Returns a delta as a stream tells it.
    fn read(&self, delta: Delta) -> Delta {
        match delta {
            Delta::Listed(resource) | Delta::Put(resource) if self.unreadable == Some(resource.key().name()) => {
                Delta::Unreadable { key: resource.key().clone(), reason: "no".to_owned(), at: resource.revision() }
            }
            delta => delta,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connects: AtomicU64,
    pub(super) opens: AtomicU64,
    pub(super) lists: AtomicU64,
    pub(super) gets: AtomicU64,
    pub(super) submits: AtomicU64,
    /// Open streams.
    pub(super) streams: AtomicU64,
}

/// The server. Its resources are those of a store in memory.
pub(super) struct Server {
    content: Mutex<(Arc<MemoryStore>, Option<String>)>,
    pub(super) faults: watch::Sender<Faults>,
    pub(super) counts: Arc<Counts>,
}

struct ServerStream {
    /// The list, and changes that are not delivered yet.
    pending: VecDeque<Delta>,
    watch: Watch,
    faults: watch::Receiver<Faults>,
    cuts: u64,
    delivered: u64,
    counts: Arc<Counts>,
}

impl Server {
    pub(super) fn new() -> Arc<Self> {
        let content = (Arc::new(MemoryStore::new(Options::default())), Some("one".to_owned()));
        Arc::new(Self { content: Mutex::new(content), faults: watch::Sender::default(), counts: Arc::default() })
    }

    /// Returns the store of the server, for writes and reads of another client.
    pub(super) fn store(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.content.lock().expect("no test panics meanwhile").0)
    }

    /// Replaces the content by nothing.
    pub(super) fn empty(&self, id: Option<&str>) {
        let content = (Arc::new(MemoryStore::new(Options::default())), id.map(str::to_owned));
        *self.content.lock().expect("no test panics meanwhile") = content;
        self.cut();
    }

    /// Changes what goes wrong.
    pub(super) fn fault(&self, change: impl FnOnce(&mut Faults)) {
        self.faults.send_modify(change);
    }

    /// Ends all streams.
    pub(super) fn cut(&self) {
        self.fault(|faults| faults.cuts += 1);
    }

    pub(super) fn count(&self, of: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        of(&self.counts).load(Ordering::SeqCst)
    }

    /// An answer takes its time.
    async fn answer(&self) {
        tokio::task::yield_now().await;
        let mut faults = self.faults.subscribe();
        drop(faults.wait_for(|faults| !faults.holds_answers).await);
    }

    fn asked(&self, count: impl Fn(&Counts) -> &AtomicU64) -> Result<Arc<MemoryStore>> {
        count(&self.counts).fetch_add(1, Ordering::SeqCst);
        if self.faults.borrow().away { Err(Error::unavailable("the server is away")) } else { Ok(self.store()) }
    }
}

#[async_trait]
impl Upstream for Server {
    fn name(&self) -> &str {
        "cluster"
    }

    fn storage(&self) -> &'static str {
        "scripted"
    }

    async fn connect(&self) -> Result<Incarnation> {
        self.asked(|counts| &counts.connects)?;
        let content = self.content.lock().expect("no test panics meanwhile");
        Ok(Incarnation { id: content.1.clone(), at: Some(content.0.status()[0].revision.expect("it has one order")) })
    }

    async fn ping(&self) -> Result<()> {
        self.asked(|counts| &counts.connects).map(drop)
    }

    async fn open(&self, kind: &Kind, _: View, start: Start) -> Result<Box<dyn DeltaStream>> {
        let store = self.asked(|counts| &counts.opens)?;
        let faults = self.faults.borrow().clone();
        if faults.refuses_streams {
            return Err(Error::unavailable("the server does not open streams yet"));
        }
        if faults.forbids == Some(&*kind.name) {
            return Err(Error::Forbidden { what: format!("list of {kind}"), reason: "no".to_owned() });
        }
        let scope = Scope::Kind(kind.clone());
        let newest = store.revision(&scope).await?;
        let page = store.list(&Query::all(kind.clone())).await?;
        let listed = faults.stale.clone().unwrap_or((page.items, page.revision));
        let mut pending = VecDeque::new();
        let from = match start {
            Start::After(_) if faults.forgets => return Err(Error::Expired { oldest: newest }),
            Start::After(revision) => revision,
            // A cluster waits in vain, and says so.
            Start::Exactly(revision) if revision > newest => return Err(Error::unavailable("too large a revision")),
            Start::Exactly(revision) if revision != listed.1 => return Err(Error::Expired { oldest: newest }),
            Start::Exactly(_) | Start::Now { .. } => {
                let (items, at) = listed;
                pending.extend(items.into_iter().map(Delta::Listed));
                pending.push_back(Delta::ListEnd { at });
                at
            }
        };
        let watch = store.watch(scope, from).await?;
        self.counts.streams.fetch_add(1, Ordering::SeqCst);
        let (faults, counts) = (self.faults.subscribe(), Arc::clone(&self.counts));
        let cuts = faults.borrow().cuts;
        Ok(Box::new(ServerStream { pending, watch, faults, cuts, delivered: 0, counts }))
    }

    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        let found = self.asked(|counts| &counts.gets)?.get(key).await;
        self.answer().await;
        if self.faults.borrow().unreadable == Some(key.name()) { Err(Error::unreadable(key, "no")) } else { found }
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.asked(|counts| &counts.lists)?.list(query).await
    }

    async fn revision(&self, kind: &Kind) -> Result<Revision> {
        self.asked(|counts| &counts.lists)?.revision(&Scope::Kind(kind.clone())).await
    }

    async fn reached(&self) -> Result<Option<Revision>> {
        Ok(self.asked(|counts| &counts.lists)?.status()[0].revision)
    }

    async fn submit(&self, request: Request, _: CachedState) -> Result<UpstreamResponse> {
        let response = self.asked(|counts| &counts.submits)?.submit(request).await?;
        self.answer().await;
        let faults = self.faults.borrow().clone();
        if faults.loses_answers {
            return Err(Error::unavailable("the connection was reset"));
        }
        if !faults.hides_deletions || response.change != Some(EventType::Deleted) {
            return Ok(UpstreamResponse { at: Some(response.resource.revision()), response });
        }
        // The last state before the deletion, as a cluster answers.
        let before = Revision(response.resource.revision().0 - 1);
        let resource = response.resource.at(before);
        Ok(UpstreamResponse { response: WriteResponse { resource, ..response }, at: None })
    }

    async fn scale(&self, key: &Key) -> Result<Value> {
        Ok(scale(&*self.asked(|counts| &counts.gets)?.get(key).await?))
    }

    async fn update_scale(&self, request: ScaleRequest) -> Result<Value> {
        let store = self.asked(|counts| &counts.submits)?;
        let resized = resize(&*store, request.key.name(), request.replicas).await?;
        if self.faults.borrow().loses_answers {
            return Err(Error::unavailable("the connection was reset"));
        }
        Ok(scale(&resized))
    }

    fn counts(&self) -> RequestCounts {
        RequestCounts { sent: self.count(|counts| &counts.submits), ..RequestCounts::default() }
    }

    async fn close(&self) {}
}

#[async_trait]
impl DeltaStream for ServerStream {
    async fn next(&mut self) -> Result<Delta> {
        loop {
            let faults = self.faults.borrow_and_update().clone();
            if faults.away || faults.cuts > self.cuts || faults.ends_after == Some(self.delivered) {
                return Err(Error::unavailable("the stream was cut"));
            }
            let is_held = match self.pending.front() {
                Some(Delta::Listed(_) | Delta::ListEnd { .. }) | None => faults.lags,
                Some(_) => faults.lags || faults.holds_changes,
            };
            if !is_held && let Some(delta) = self.pending.pop_front() {
                self.delivered += 1;
                return Ok(faults.read(delta));
            }
            tokio::select! {
                biased;
                changed = self.faults.changed() => changed.map_err(|_| Error::Closed)?,
                event = self.watch.next() => self.add(event?, faults.skips_overwritten),
            }
        }
    }
}

impl ServerStream {
    fn add(&mut self, event: Event, skips_overwritten: bool) {
        if skips_overwritten {
            let is_other = |delta: &Delta| match delta {
                Delta::Put(earlier) => earlier.key() != event.resource.key(),
                _ => true,
            };
            self.pending.retain(is_other);
        }
        let previous = event.previous.clone();
        let mut delta = delta(event);
        if let (Delta::Deleted { last, .. }, Some(previous), true) = (&mut delta, previous, skips_overwritten) {
            *last = LastState::Metadata(previous.metadata_alone());
        }
        self.pending.push_back(delta);
    }
}

impl Drop for ServerStream {
    fn drop(&mut self) {
        self.counts.streams.fetch_sub(1, Ordering::SeqCst);
    }
}

fn delta(event: Event) -> Delta {
    let Event { kind, resource, previous: _, revision } = event;
    match kind {
        EventType::Added | EventType::Modified => Delta::Put(resource),
        EventType::Deleted => {
            Delta::Deleted { key: resource.key().clone(), last: LastState::Whole(resource), at: revision }
        }
    }
}

pub(super) fn widgets() -> Scope {
    Scope::Kind(kind("Widget"))
}

pub(super) fn widget(name: &str, size: u64) -> Value {
    let mut widget = fixture::widget(name, json!({"size": size}));
    widget["metadata"]["labels"] = json!({"size": size.to_string()});
    widget
}

pub(super) async fn create(store: &dyn Store, name: &str) -> Result<Arc<Resource>> {
    let written = store.write(Write::Create { document: widget(name, 0) }).await;
    written.map(|response| response.resource)
}

pub(super) async fn resize(store: &dyn Store, name: &str, size: u64) -> Result<Arc<Resource>> {
    let write = Write::Update { document: widget(name, size), precondition: Precondition::default() };
    store.write(write).await.map(|response| response.resource)
}

pub(super) async fn delete(store: &dyn Store, name: &str) -> Result<Arc<Resource>> {
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    let written = store.write(Write::Delete { key: key(name), precondition, propagation, grace_seconds: None }).await;
    written.map(|response| response.resource)
}

/// Returns the scale of a widget: its size.
fn scale(widget: &Resource) -> Value {
    let metadata = json!({"name": widget.key().name(), "resourceVersion": widget.revision().to_string()});
    json!({"kind": "Scale", "metadata": metadata, "spec": {"replicas": size(widget)}})
}

/// Returns the size of a resource.
pub(super) fn size(resource: &Resource) -> u64 {
    resource.document()["spec"]["size"].as_u64().expect("every widget has a size")
}

/// Returns the names and sizes of all widgets.
pub(super) async fn sizes(store: &dyn Store) -> Result<Vec<(String, u64)>> {
    let page = store.list(&Query::all(kind("Widget"))).await?;
    Ok(page.items.iter().map(|resource| (resource.key().name().to_owned(), size(resource))).collect())
}
