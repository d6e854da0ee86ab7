//! One watch of a kind, shared by all feeders of the host that need it.
//!
//! Recent events of the watch are buffered, and each feeder reads them at its own position, so a slow feeder
//! holds up no other. There is no task: a feeder without a new event reads the watch for all and then
//! notifies them. A feeder that has fallen behind the buffer reads the store's history with a watch of its
//! own until it has caught up.
//!
//! The watch is reference-counted: the last feeder drops it, and the next one opens a new one. Deliberately
//! absent: documents. The stores of today are their own cache.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use futures_util::FutureExt;
use homeostat_store::{Changes, Error, Event, Kind, Result, Revision, Scope, Store, Watch};
use parking_lot::Mutex;
use tokio::sync::{MutexGuard, Notify};

/// Maximum number of buffered events of a kind.
pub(crate) const EVENTS_MAX: usize = 1024;
/// Maximum bytes of buffered documents of a kind; the last event is always kept.
pub(crate) const BYTES_MAX: u64 = 4 << 20;
/// Events read in one batch before the other feeders see them.
const BATCH: usize = 64;

/// The shared watches of a store, by kind, regardless of the version.
pub(crate) struct SharedWatches {
    store: Arc<dyn Store>,
    hubs: Mutex<HashMap<(String, String), Weak<SharedWatch>>>,
}

impl SharedWatches {
    pub(crate) fn of(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, hubs: Mutex::default() })
    }

    /// Returns the watched store.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Watches the changes of a kind, as [`Store::watch`] does. The first event reports an error of opening
    /// the watch.
    pub(crate) fn watch(&self, kind: &Kind, from: Revision) -> Watch {
        Watch::new(SharedWatchReader {
            store: self.store.clone(),
            hub: self.hub(kind, from),
            position: from,
            alone: None,
        })
    }

    fn hub(&self, kind: &Kind, from: Revision) -> Arc<SharedWatch> {
        let mut hubs = self.hubs.lock();
        hubs.retain(|_, hub| hub.strong_count() > 0);
        let name = (kind.group.clone(), kind.name.clone());
        if let Some(hub) = hubs.get(&name).and_then(Weak::upgrade).filter(|hub| !hub.recent.lock().ended) {
            // The watch is not open yet, so it starts at the lowest requested position.
            if hub.watch.try_lock().is_ok_and(|watch| watch.is_none()) {
                let mut recent = hub.recent.lock();
                recent.since = recent.since.min(from);
            }
            return hub;
        }
        let recent = EventBuffer { events: VecDeque::new(), bytes: 0, since: from, ended: false };
        let scope = Scope::Kind(kind.clone());
        let (watch, news) = (tokio::sync::Mutex::default(), Notify::new());
        let hub = Arc::new(SharedWatch { scope, watch, news, recent: recent.into() });
        hubs.insert(name, Arc::downgrade(&hub));
        hub
    }
}

/// The state that the feeders of one kind share.
struct SharedWatch {
    scope: Scope,
    /// Opened by the first feeder that waits for an event. The feeder that holds the lock reads for all.
    /// Feeders do not queue for the lock: one that was woken and did not come would hold up the others.
    watch: tokio::sync::Mutex<Option<Watch>>,
    /// Notifies all waiting feeders of new events, and when the reading feeder stops.
    news: Notify,
    recent: Mutex<EventBuffer>,
}

/// The last events of one kind.
struct EventBuffer {
    /// In the order of their revisions, without gaps.
    events: VecDeque<Event>,
    bytes: u64,
    /// `events` has every event that was read after this revision.
    since: Revision,
    /// New feeders cannot use the watch: it has missed history, or the store was closed.
    ended: bool,
}

/// The event after a position.
enum NextEvent {
    Event(Event),
    /// No later event was read yet.
    Pending,
    /// A later event was evicted from the buffer.
    Evicted,
}

/// Held by the feeder that reads for all. When it is dropped, all feeders are notified, and another one takes
/// over.
struct WatchGuard<'a> {
    /// Dropped first.
    watch: MutexGuard<'a, Option<Watch>>,
    _tells: NotifyOnDrop<'a>,
}

struct NotifyOnDrop<'a>(&'a Notify);

impl Drop for NotifyOnDrop<'_> {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

impl SharedWatch {
    /// Waits for an event after `position`, and reads for all if no other feeder does. *Cancel safety*:
    /// events that were read stay buffered for all.
    async fn read_on(&self, store: &Arc<dyn Store>, position: Revision) -> Result<()> {
        loop {
            let mut told = pin!(self.news.notified());
            // Registered before checking the buffer, so that no notification is missed.
            told.as_mut().enable();
            if !matches!(self.recent.lock().after(position), NextEvent::Pending) {
                return Ok(());
            }
            let Ok(watch) = self.watch.try_lock() else {
                told.await;
                continue;
            };
            let mut reading = WatchGuard { watch, _tells: NotifyOnDrop(&self.news) };
            let read = self.read(store, &mut reading.watch).await;
            if matches!(&read, Err(error) if !matches!(error, Error::Unavailable { .. })) {
                self.recent.lock().ended = true;
            }
            read?;
        }
    }

    /// Waits for one event, and also takes those that are available at once.
    async fn read(&self, store: &Arc<dyn Store>, watch: &mut Option<Watch>) -> Result<()> {
        if watch.is_none() {
            let since = self.recent.lock().since;
            *watch = Some(store.watch(self.scope.clone(), since).await?);
        }
        let Some(watch) = watch else { return Ok(()) };
        let mut event = watch.next().await?;
        for _ in 1..BATCH {
            self.recent.lock().push(event);
            match watch.next().now_or_never() {
                Some(next) => event = next?,
                None => return Ok(()),
            }
        }
        self.recent.lock().push(event);
        Ok(())
    }
}

impl EventBuffer {
    fn push(&mut self, event: Event) {
        self.bytes += event.memory_bytes();
        self.events.push_back(event);
        while self.events.len() > EVENTS_MAX || (self.bytes > BYTES_MAX && self.events.len() > 1) {
            self.drop_first();
        }
    }

    fn drop_through(&mut self, revision: Revision) {
        while self.events.front().is_some_and(|event| event.revision <= revision) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(dropped) = self.events.pop_front() {
            self.bytes -= dropped.memory_bytes();
            self.since = dropped.revision;
        }
    }

    fn after(&self, position: Revision) -> NextEvent {
        if position < self.since {
            return NextEvent::Evicted;
        }
        let at = self.events.partition_point(|event| event.revision <= position);
        self.events.get(at).cloned().map_or(NextEvent::Pending, NextEvent::Event)
    }
}

/// The position of one feeder.
struct SharedWatchReader {
    store: Arc<dyn Store>,
    hub: Arc<SharedWatch>,
    position: Revision,
    /// A watch of its own, while it is behind the buffer.
    alone: Option<Watch>,
}

#[async_trait]
impl Changes for SharedWatchReader {
    async fn next(&mut self) -> Result<Event> {
        let event = loop {
            let after = self.hub.recent.lock().after(self.position);
            match after {
                NextEvent::Event(event) => {
                    self.alone = None;
                    if Arc::strong_count(&self.hub) == 1 {
                        // No other feeder needs the event; a new feeder starts later, or reads history for a
                        // while.
                        self.hub.recent.lock().drop_through(event.revision);
                    }
                    break event;
                }
                NextEvent::Pending => {
                    self.alone = None;
                    self.hub.read_on(&self.store, self.position).await?;
                }
                NextEvent::Evicted => break self.read_alone().await?,
            }
        };
        self.position = event.revision;
        Ok(event)
    }
}

impl SharedWatchReader {
    async fn read_alone(&mut self) -> Result<Event> {
        let watch = match &mut self.alone {
            Some(watch) => watch,
            none => none.insert(self.store.watch(self.hub.scope.clone(), self.position).await?),
        };
        watch.next().await
    }
}

#[cfg(test)]
mod tests;
