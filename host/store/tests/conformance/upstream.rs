//! A server in this process, with which the suite runs on a `CachedStore`.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_conformance::at_once;
use homeostat_store::cached::{
    CachedState, Delta, DeltaStream, Incarnation, LastState, Start, Upstream, UpstreamResponse,
};
use homeostat_store::memory::MemoryStore;
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Error, Event, EventType, Key, Kind, Page, Query, Request, RequestCounts, Resource, Result, Revision, Scope, Store,
    View, Watch,
};
use tokio::time::{Duration, sleep};

/// A server whose resources are in a store in memory.
#[derive(Debug)]
pub(crate) struct MemoryServer {
    pub(crate) store: MemoryStore,
    /// Whether its streams come late, and leave out states that were overwritten meanwhile.
    pub(crate) is_late: bool,
}

#[async_trait]
impl Upstream for MemoryServer {
    fn name(&self) -> &str {
        ""
    }

    fn storage(&self) -> &'static str {
        "memory"
    }

    fn schemas(&self) -> Option<&Schemas> {
        self.store.schemas()
    }

    async fn connect(&self) -> Result<Incarnation> {
        Ok(Incarnation { id: self.store.status().swap_remove(0).id, at: None })
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn open(&self, kind: &Kind, _: View, start: Start) -> Result<Box<dyn DeltaStream>> {
        let scope = Scope::Everything;
        let page = self.store.list(&Query::all(kind.clone())).await?;
        let (from, listed) = match start {
            Start::Now { .. } => (page.revision, Some(page.items)),
            Start::After(from) => (from, None),
            Start::Exactly(from) => {
                let since = self.store.watch(scope.clone(), from).await?;
                (from, Some(state_before(page, since, kind).await?))
            }
        };
        let watch = self.store.watch(scope, from).await?;
        let mut deltas: VecDeque<Delta> = listed.iter().flatten().cloned().map(Delta::Listed).collect();
        deltas.extend(listed.is_some().then_some(Delta::ListEnd { at: from }));
        Ok(Box::new(MemoryStream { kind: kind.clone(), watch, deltas, is_late: self.is_late }))
    }

    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.store.get(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.store.list(query).await
    }

    async fn revision(&self, kind: &Kind) -> Result<Revision> {
        self.store.revision(&Scope::Kind(kind.clone())).await
    }

    async fn submit(&self, request: Request, _: CachedState) -> Result<UpstreamResponse> {
        let response = self.store.submit(request).await?;
        let at = Some(response.resource.revision());
        Ok(UpstreamResponse { response, at })
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.store.kinds().await
    }

    fn counts(&self) -> RequestCounts {
        RequestCounts::default()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

/// Takes the changes since a watch began back from a list.
async fn state_before(page: Page, mut since: Watch, kind: &Kind) -> Result<Vec<Arc<Resource>>> {
    let mut events = Vec::new();
    while since.position().is_none_or(|position| position < page.revision) {
        let Some(event) = at_once(&mut since).await else { break };
        events.push(event?);
    }
    let mut items = page.items;
    let of_list = |event: &Event| event.revision <= page.revision && event.resource.key().kind().same_type(kind);
    for event in events.into_iter().filter(of_list).rev() {
        items.retain(|item| item.key() != event.resource.key());
        items.extend(event.previous);
    }
    Ok(items)
}

/// The changes of one kind.
struct MemoryStream {
    kind: Kind,
    watch: Watch,
    deltas: VecDeque<Delta>,
    is_late: bool,
}

impl MemoryStream {
    fn delta(&self, event: Event) -> Delta {
        let Event { kind, resource, previous, revision: at } = event;
        if !resource.key().kind().same_type(&self.kind) {
            return Delta::Bookmark(at);
        }
        match kind {
            EventType::Added | EventType::Modified => Delta::Put(resource),
            EventType::Deleted => {
                let last = match previous {
                    Some(previous) if self.is_late => LastState::Metadata(previous.metadata_alone()),
                    _ => LastState::Whole(Arc::clone(&resource)),
                };
                Delta::Deleted { key: resource.key().clone(), last, at }
            }
        }
    }

    /// Adds a change. Late streams forget earlier changes of the resource.
    fn add(&mut self, event: Event) {
        let delta = self.delta(event);
        if self.is_late {
            self.deltas.retain(|earlier| key(earlier).is_none_or(|earlier| Some(earlier) != key(&delta)));
        }
        self.deltas.push_back(delta);
    }
}

/// Returns the resource that a delta changes.
fn key(delta: &Delta) -> Option<&Key> {
    match delta {
        Delta::Put(resource) => Some(resource.key()),
        Delta::Deleted { key, .. } | Delta::Unreadable { key, .. } => Some(key),
        Delta::Listed(_) | Delta::ListEnd { .. } | Delta::Bookmark(_) => None,
    }
}

#[async_trait]
impl DeltaStream for MemoryStream {
    async fn next(&mut self) -> Result<Delta> {
        if let Some(delta) = self.deltas.pop_front() {
            return Ok(delta);
        }
        let event = self.watch.next().await?;
        self.add(event);
        if self.is_late {
            // Cancelled or not, the event is kept.
            sleep(Duration::from_millis(2)).await;
            while let Some(event) = at_once(&mut self.watch).await {
                self.add(event?);
            }
        }
        self.deltas.pop_front().ok_or(Error::Closed)
    }
}
