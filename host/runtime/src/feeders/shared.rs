//! One watch of a kind for all feeders of a host that need it, whichever controllers they belong to.
//!
//! What the watch brings is kept for a short while, and each feeder reads it at its own position: nobody pushes, so a slow feeder holds
//! up no other. There is no task either: whoever finds nothing new reads on for all, and tells all at once when there is something. A
//! feeder that has fallen behind what is kept reads alone, from the store's own history, until it has caught up.
//!
//! Users are counted by what they hold: the last one that goes takes the watch with it, and the next one begins anew. Deliberately
//! absent: documents. The stores of today are their own cache.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use futures_util::FutureExt;
use homeostat_store::{Changes, Error, Event, Kind, Result, Revision, Scope, Store, Watch};
use parking_lot::Mutex;
use tokio::sync::{MutexGuard, Notify};

/// Events that are kept of a kind, at most.
pub(crate) const EVENTS_MAX: usize = 1024;
/// Bytes of documents that are kept of a kind, at most; but always the last event.
pub(crate) const BYTES_MAX: u64 = 4 << 20;
/// Events that are read on at once, before the others get to see them.
const BATCH: usize = 64;

/// The watches of a store, by kind. A kind's version does not count.
pub(crate) struct SharedWatches {
    store: Arc<dyn Store>,
    hubs: Mutex<HashMap<(String, String), Weak<SharedWatch>>>,
}

impl SharedWatches {
    pub(crate) fn of(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, hubs: Mutex::default() })
    }

    /// Returns the store that is watched.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Follows the changes of a kind, as [`Store::watch`] does. That it cannot be followed is told by the first event.
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
            // Nobody has begun: then it begins where the one who is furthest behind wants it.
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

/// What the users of one kind share.
struct SharedWatch {
    scope: Scope,
    /// Opened by the first user that waits for an event. Whoever holds it reads on for all. Nobody stands in line for it: who is told and
    /// does not come would hold up those behind.
    watch: tokio::sync::Mutex<Option<Watch>>,
    /// Told to all who wait, when there is something new or nobody reads on any more.
    news: Notify,
    recent: Mutex<EventBuffer>,
}

/// The last events of one kind.
struct EventBuffer {
    /// In the order of their revisions, without a gap.
    events: VecDeque<Event>,
    bytes: u64,
    /// Every event after this revision that was read is in `events`.
    since: Revision,
    /// The watch is of no use to newcomers: it has missed history, or the store was closed.
    ended: bool,
}

/// What comes after a position.
enum NextEvent {
    Event(Event),
    /// Nothing that was read yet.
    Pending,
    /// Something that is not kept any more.
    Evicted,
}

/// The one who reads on for all. When it goes, for whatever reason, all are told, and one of them takes its place.
struct WatchGuard<'a> {
    /// Let go first.
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
    /// Waits until there is something after `position`, and reads on for all if nobody else does. *Cancel safety*: what was read is kept
    /// for all.
    async fn read_on(&self, store: &Arc<dyn Store>, position: Revision) -> Result<()> {
        loop {
            let mut told = pin!(self.news.notified());
            // From here on nothing is missed, so this comes before looking.
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

    /// Waits for one event, and takes those that are there already with it.
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

/// One user's position.
struct SharedWatchReader {
    store: Arc<dyn Store>,
    hub: Arc<SharedWatch>,
    position: Revision,
    /// A watch of its own, as long as it is behind.
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
                        // Nobody else will ask for it; who comes now begins later, or reads alone for a while.
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
