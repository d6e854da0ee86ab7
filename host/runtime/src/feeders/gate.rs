//! Keeps workers back until every feeder that lists first has listed. Level-triggered: acting on half a list would delete the rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

/// The feeders that have not listed yet. Clones are one gate.
#[derive(Clone)]
pub(crate) struct Gate {
    waiting_for: Arc<watch::Sender<BTreeSet<Ticket>>>,
}

/// One feeder, each time that it is started anew.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Ticket {
    pub(crate) feeder: Arc<str>,
    pub(crate) round: u64,
}

impl Gate {
    /// Returns a gate that is open.
    pub(crate) fn new() -> Self {
        Self { waiting_for: Arc::new(watch::Sender::new(BTreeSet::new())) }
    }

    /// Shuts the gate until this feeder has listed, or is gone.
    pub(crate) fn wait_for(&self, ticket: Ticket) {
        self.waiting_for.send_if_modified(|waiting_for| waiting_for.insert(ticket));
    }

    /// Notes that a feeder has listed, or is gone.
    pub(crate) fn open(&self, ticket: &Ticket) {
        self.waiting_for.send_if_modified(|waiting_for| waiting_for.remove(ticket));
    }

    /// Returns who has not listed yet.
    pub(crate) fn waiting_for(&self) -> Vec<Arc<str>> {
        self.waiting_for.borrow().iter().map(|ticket| ticket.feeder.clone()).collect()
    }

    /// Waits until this feeder has listed, or is gone.
    pub(crate) async fn opened_by(&self, ticket: &Ticket) {
        self.until(|waiting_for| !waiting_for.contains(ticket)).await;
    }

    /// Waits until every feeder has listed.
    pub(crate) async fn opened(&self) {
        if !self.waiting_for.borrow().is_empty() {
            self.until(BTreeSet::is_empty).await;
        }
    }

    async fn until(&self, condition: impl FnMut(&BTreeSet<Ticket>) -> bool) {
        let mut receiver = self.waiting_for.subscribe();
        // The sender lives as long as `self`, so this ends only by success.
        drop(receiver.wait_for(condition).await);
    }
}
