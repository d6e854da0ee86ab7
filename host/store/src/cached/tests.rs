//! Tests against a server in this process with faults, on a paused clock.

mod away;
mod backoff;
mod begin;
mod full;
mod leases;
mod memory;
mod metadata;
mod own_writes;
mod random;
mod replaced;
mod server;
mod streams;
mod unreadable;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use self::server::{Server, kind};
use super::{CachedStore, Options};
use crate::{CacheState, CacheStatus, Event, Store, StoreStatus, Subscription, View, Watch};

/// A store in front of a server.
fn open(server: &Arc<Server>) -> CachedStore {
    open_with(server, Options::default())
}

fn open_with(server: &Arc<Server>, options: Options) -> CachedStore {
    CachedStore::start(Arc::clone(server) as Arc<dyn super::Upstream>, options)
}

/// Opens a store and subscribes to widgets.
async fn subscribed(server: &Arc<Server>) -> (CachedStore, Subscription) {
    let store = open(server);
    let subscription = store.subscribe(&kind("Widget"), View::Whole);
    wait_for(|| cache(&store).state == CacheState::Synced).await;
    (store, subscription)
}

fn status(store: &CachedStore) -> StoreStatus {
    let mut status = store.status();
    assert_eq!(status.len(), 1);
    status.remove(0)
}

/// Returns the state of the cache of widgets.
fn cache(store: &CachedStore) -> CacheStatus {
    let caches = status(store).caches;
    caches.into_iter().find(|cache| cache.kind.name == "Widget").expect("somebody uses widgets")
}

/// Waits for a condition, for at most ten minutes of virtual time.
async fn wait_for(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(600), "the condition never holds");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn next(watch: &mut Watch) -> Event {
    let next = tokio::time::timeout(Duration::from_secs(600), watch.next()).await;
    next.expect("an event comes").expect("the watch goes on")
}
