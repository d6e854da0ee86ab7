//! Events as resources, where clients look for them: those of the host's log are written to the store, beside those of
//! clients, and each is deleted some time after its last occurrence.
//!
//! Only where `Event` is a built-in kind of the host's own store. The log stays the host's own view: it is complete within
//! its bound, and is lost at a restart; the resources stay.
//!
//! Source: the flag `--event-ttl` of kube-apiserver, and the names that client-go gives to events.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, stream};
use homeostat_store::{
    Change, Event as StoreEvent, EventType, Key, Kind, Precondition, Propagation, Resource, Revision, Scope, Write,
};
use homeostat_workqueue::Next;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::events::{Event, EventFilter};
use crate::native_controller::{self, NativeReconciler};

/// The wait between two writes of what the log has gained. A repeated event is written once in it.
const PAUSE: Duration = Duration::from_millis(250);
/// Events that are written after one wait, at most: of each controller, and of all. The log has the others.
const OF_CONTROLLER_MAX: usize = 25;
const OF_ALL_MAX: usize = 200;
/// Concurrent writes: they share the store's syncs.
const WRITES_MAX: usize = 16;
/// The wait after a failed deletion.
const RETRY: Duration = Duration::from_secs(5);

/// Writes the events of the log, and deletes old ones, until the host ends.
pub(crate) async fn run(context: Arc<Context>, events_max: usize, ttl: Duration, end: CancellationToken) {
    if !context.kinds.has_built_in_schema(&events()) || context.stores.is_far(&events()) {
        return;
    }
    let (store, queue) = (context.store.clone(), native_controller::queue(RETRY, RETRY, None));
    let live = Mutex::new(LiveEvents { events_max, ..LiveEvents::default() });
    let expiry = Arc::new(EventExpiry { context: context.clone(), ttl, live });
    let expire = native_controller::run(expiry, store, queue, None, end.clone());
    let write = async {
        let _ = end.run_until_cancelled(write_log(&context)).await;
    };
    tokio::join!(expire, write);
}

fn events() -> Kind {
    Kind::new("", "v1", "Event")
}

/// Writes new and repeated events of the log. Events are for people, so a failed write is not repeated.
async fn write_log(context: &Context) {
    let log = &context.events;
    let mut after = 0;
    loop {
        log.changed(after).await;
        sleep(PAUSE).await;
        let found = log.list(&EventFilter { after, ..EventFilter::default() });
        let written = after;
        after = found.last().map_or(after, |event| event.sequence);
        let writes = bounded(found).map(|event| async move {
            if let Err(error) = write(context, &event, written).await {
                tracing::debug!(%error, reason = event.reason, "an event was not written");
            }
        });
        stream::iter(writes).buffer_unordered(WRITES_MAX).collect::<()>().await;
    }
}

/// Returns the events that are written: the first of each controller, so that one which floods the log loses its own.
fn bounded(found: Vec<Event>) -> impl Iterator<Item = Event> {
    let mut counts = HashMap::<Arc<str>, usize>::new();
    let of_controller = move |event: &Event| {
        let count = counts.entry(Arc::clone(&event.controller)).or_default();
        *count += 1;
        *count <= OF_CONTROLLER_MAX
    };
    found.into_iter().filter(of_controller).take(OF_ALL_MAX)
}

/// Writes an event: a change of its resource, if it was written before.
async fn write(context: &Context, event: &Event, written: u64) -> Result<(), crate::Error> {
    let mut document = context.events.document(event);
    let key = Key::new(events(), text(&document, "/metadata/namespace"), text(&document, "/metadata/name"));
    if event.first_sequence <= written {
        let change = json!({ "count": event.count, "lastTimestamp": event.last_seen });
        let write = Write::Patch { key, change: Change::Merge(change), precondition: Precondition::default() };
        match context.store.write(write).await {
            Err(homeostat_store::Error::NotFound { .. }) => {}
            written => return Ok(written.map(drop)?),
        }
    }
    if let Some(metadata) = document.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
        metadata.retain(|name, _| matches!(name.as_str(), "name" | "namespace"));
    }
    if let Some(regarding) = &event.key
        && let Ok(resource) = context.store.get(regarding).await
    {
        document["involvedObject"]["uid"] = resource.uid().into();
    }
    let write = Write::Create { document };
    context.admission.namespaces.check(&*context.store, &context.kinds, &write).await?;
    context.store.write(write).await?;
    Ok(())
}

fn text<'d>(document: &'d serde_json::Value, pointer: &str) -> &'d str {
    document.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// Deletes events that are old, or too many.
struct EventExpiry {
    context: Arc<Context>,
    ttl: Duration,
    live: Mutex<LiveEvents>,
}

/// The events in the store, by the revision of their last change.
#[derive(Default)]
struct LiveEvents {
    events_max: usize,
    by_revision: BTreeMap<Revision, Key>,
    revisions: HashMap<Key, Revision>,
    /// Events above the bound.
    surplus: HashSet<Key>,
}

impl LiveEvents {
    /// Takes over a change. Returns the event that is one too many.
    fn change(&mut self, event: &StoreEvent) -> Option<Key> {
        let key = event.resource.key();
        if let Some(before) = self.revisions.remove(key) {
            self.by_revision.remove(&before);
        }
        if event.kind == EventType::Deleted {
            self.surplus.remove(key);
            return None;
        }
        let revision = event.resource.revision();
        self.revisions.insert(key.clone(), revision);
        self.by_revision.insert(revision, key.clone());
        if self.by_revision.len() <= self.events_max {
            return None;
        }
        let (_, oldest) = self.by_revision.pop_first()?;
        self.revisions.remove(&oldest);
        self.surplus.insert(oldest.clone());
        Some(oldest)
    }
}

impl NativeReconciler for EventExpiry {
    type Item = Key;
    const NAME: &'static str = "events";
    const CONCURRENCY_MAX: usize = WRITES_MAX;

    fn scope(&self) -> Option<Scope> {
        Some(Scope::Kind(events()))
    }

    fn items(&self, event: &StoreEvent) -> Vec<Key> {
        let surplus = self.live.lock().change(event);
        let changed = (event.kind != EventType::Deleted).then(|| event.resource.key().clone());
        changed.into_iter().chain(surplus).collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, String> {
        let event = match self.context.store.get(key).await {
            Ok(event) => event,
            Err(homeostat_store::Error::NotFound { .. }) => return Ok(Next::Done),
            Err(error) => return Err(error.to_string()),
        };
        let is_surplus = self.live.lock().surplus.remove(key);
        let left = self.ttl.saturating_sub(age(&event));
        if !is_surplus && !left.is_zero() {
            return Ok(Next::After(left));
        }
        let precondition = Precondition { uid: Some(event.uid().to_owned()), revision: None };
        let write =
            Write::Delete { key: key.clone(), precondition, propagation: Propagation::Background, grace_seconds: None };
        match self.context.store.write(write).await {
            Ok(_) | Err(homeostat_store::Error::NotFound { .. } | homeostat_store::Error::Conflict { .. }) => {
                Ok(Next::Done)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns the time since the last occurrence of an event, or since it was created if that is later: a client may report
/// what happened long ago.
fn age(event: &Resource) -> Duration {
    let document = event.document();
    let moments = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    let last = moments.iter().filter_map(|pointer| text(document, pointer).parse::<Timestamp>().ok()).max();
    let last = last.map_or(SystemTime::UNIX_EPOCH, SystemTime::from);
    SystemTime::now().duration_since(last).unwrap_or_default()
}

#[cfg(test)]
mod tests;
