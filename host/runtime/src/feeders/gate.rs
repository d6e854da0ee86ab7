//! Keeps workers back until every feeder that lists first has listed. Level-triggered: acting on half a list would delete the rest.
//!
//! It knows too which feeders fail, for whoever asks how they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// The feeders that have not listed yet, and those that fail. Clones are one gate.
#[derive(Clone)]
pub(crate) struct SyncBarrier(Arc<BarrierState>);

struct BarrierState {
    feeders: watch::Sender<FeederStates>,
    /// Nobody is waited for. Changes with the feeders; read for every key, without their lock.
    has_synced: AtomicBool,
}

#[derive(Default)]
struct FeederStates {
    /// They have not listed yet.
    unsynced: BTreeSet<FeederId>,
    /// They failed, and have not been well since: why.
    failing: BTreeMap<FeederId, String>,
}

/// One feeder, each time that it is started anew.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FeederId {
    pub(crate) feeder: Arc<str>,
    pub(crate) round: u64,
}

impl SyncBarrier {
    /// Returns a gate that is open.
    pub(crate) fn new() -> Self {
        Self(Arc::new(BarrierState {
            feeders: watch::Sender::new(FeederStates::default()),
            has_synced: AtomicBool::new(true),
        }))
    }

    /// Shuts the gate until this feeder has listed, or is gone.
    pub(crate) fn register(&self, ticket: FeederId) {
        self.0.feeders.send_if_modified(|feeders| {
            self.0.has_synced.store(false, Ordering::SeqCst);
            feeders.unsynced.insert(ticket)
        });
    }

    /// Notes that a feeder has listed, or is gone. It fails no more.
    pub(crate) fn mark_synced(&self, ticket: &FeederId) {
        self.0.feeders.send_if_modified(|feeders| {
            feeders.failing.remove(ticket);
            let listed = feeders.unsynced.remove(ticket);
            self.0.has_synced.store(feeders.unsynced.is_empty(), Ordering::SeqCst);
            listed
        });
    }

    /// Notes why a feeder failed.
    pub(crate) fn mark_failed(&self, ticket: &FeederId, error: &str) {
        self.0.feeders.send_if_modified(|feeders| {
            feeders.failing.insert(ticket.clone(), error.to_owned());
            false
        });
    }

    /// Notes that a feeder fails no more, or is not there any more to fail.
    pub(crate) fn mark_healthy(&self, ticket: &FeederId) {
        self.0.feeders.send_if_modified(|feeders| {
            feeders.failing.remove(ticket);
            false
        });
    }

    /// Returns who has not listed yet, with why it failed.
    pub(crate) fn unsynced(&self) -> Vec<Arc<str>> {
        let feeders = self.0.feeders.borrow();
        let say = |ticket: &FeederId| match feeders.failing.get(ticket) {
            Some(error) => format!("{} (which failed: {error})", ticket.feeder).into(),
            None => ticket.feeder.clone(),
        };
        feeders.unsynced.iter().map(say).collect()
    }

    /// Returns who fails, with why.
    pub(crate) fn failing(&self) -> Vec<String> {
        let say = |(ticket, error): (&FeederId, &String)| format!("{} failed: {error}", ticket.feeder);
        self.0.feeders.borrow().failing.iter().map(say).collect()
    }

    /// Waits until this feeder has listed, or is gone.
    pub(crate) async fn wait_for_feeder(&self, ticket: &FeederId) {
        self.until(|feeders| !feeders.unsynced.contains(ticket)).await;
    }

    /// Returns whether every feeder has listed.
    pub(crate) fn has_synced(&self) -> bool {
        self.0.has_synced.load(Ordering::SeqCst)
    }

    /// Waits until every feeder has listed.
    pub(crate) async fn wait_for_sync(&self) {
        if !self.has_synced() {
            self.until(|feeders| feeders.unsynced.is_empty()).await;
        }
    }

    async fn until(&self, condition: impl FnMut(&FeederStates) -> bool) {
        let mut receiver = self.0.feeders.subscribe();
        // The sender lives as long as `self`, so this ends only by success.
        drop(receiver.wait_for(condition).await);
    }
}
