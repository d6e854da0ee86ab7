//! The sync barrier: the first lists that a controller waits for, and which of its feeders fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// The sync barrier: workers wait until every feeder that lists first has listed. Reconciles are
/// level-triggered, and acting on half a list would delete the rest.
///
/// It also records which feeders fail, for the status. Clones share one barrier.
#[derive(Clone)]
pub(crate) struct SyncBarrier(Arc<BarrierState>);

struct BarrierState {
    feeders: watch::Sender<FeederStates>,
    /// True when no feeder is waited for. Updated together with `feeders`; read for every key, without their
    /// lock.
    has_synced: AtomicBool,
}

#[derive(Default)]
struct FeederStates {
    /// Feeders without a first list.
    unsynced: BTreeSet<FeederId>,
    /// Feeders that failed and have not recovered, with the error.
    failing: BTreeMap<FeederId, String>,
}

/// One run of a feeder.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FeederId {
    pub(crate) feeder: Arc<str>,
    pub(crate) round: u64,
}

impl SyncBarrier {
    /// Returns a barrier without feeders, which holds nothing back.
    pub(crate) fn new() -> Self {
        Self(Arc::new(BarrierState {
            feeders: watch::Sender::new(FeederStates::default()),
            has_synced: AtomicBool::new(true),
        }))
    }

    /// Closes the barrier until this feeder has listed or is gone.
    pub(crate) fn register(&self, ticket: FeederId) {
        self.0.feeders.send_if_modified(|feeders| {
            self.0.has_synced.store(false, Ordering::SeqCst);
            feeders.unsynced.insert(ticket)
        });
    }

    /// Records that a feeder has listed or is gone. It counts as healthy.
    pub(crate) fn mark_synced(&self, ticket: &FeederId) {
        self.0.feeders.send_if_modified(|feeders| {
            feeders.failing.remove(ticket);
            let listed = feeders.unsynced.remove(ticket);
            self.0.has_synced.store(feeders.unsynced.is_empty(), Ordering::SeqCst);
            listed
        });
    }

    /// Records the error of a feeder.
    pub(crate) fn mark_failed(&self, ticket: &FeederId, error: &str) {
        self.0.feeders.send_if_modified(|feeders| {
            feeders.failing.insert(ticket.clone(), error.to_owned());
            false
        });
    }

    /// Records that a feeder has recovered or is gone.
    pub(crate) fn mark_healthy(&self, ticket: &FeederId) {
        self.0.feeders.send_if_modified(|feeders| {
            feeders.failing.remove(ticket);
            false
        });
    }

    /// Returns the feeders without a first list, with their errors.
    pub(crate) fn unsynced(&self) -> Vec<Arc<str>> {
        let feeders = self.0.feeders.borrow();
        let say = |ticket: &FeederId| match feeders.failing.get(ticket) {
            Some(error) => format!("{} (which failed: {error})", ticket.feeder).into(),
            None => ticket.feeder.clone(),
        };
        feeders.unsynced.iter().map(say).collect()
    }

    /// Returns the failing feeders, with their errors.
    pub(crate) fn failing(&self) -> Vec<String> {
        let say = |(ticket, error): (&FeederId, &String)| format!("{} failed: {error}", ticket.feeder);
        self.0.feeders.borrow().failing.iter().map(say).collect()
    }

    /// Waits until this feeder has listed or is gone.
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
        // The sender lives as long as `self`, so the wait cannot fail.
        drop(receiver.wait_for(condition).await);
    }
}
