//! Keeps workers back until every feeder that lists first has listed. Level-triggered: acting on half a list would delete the rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

/// The names of feeders that have not listed yet. Clones are one gate.
#[derive(Clone)]
pub(crate) struct Gate {
    waiting_for: Arc<watch::Sender<BTreeSet<Arc<str>>>>,
}

impl Gate {
    /// Returns a gate that waits for these feeders.
    pub(crate) fn new(waiting_for: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { waiting_for: Arc::new(watch::Sender::new(waiting_for.into_iter().collect())) }
    }

    /// Notes that one feeder has listed.
    pub(crate) fn open(&self, name: &str) {
        self.waiting_for.send_if_modified(|waiting_for| waiting_for.remove(name));
    }

    /// Returns who has not listed yet.
    pub(crate) fn waiting_for(&self) -> Vec<Arc<str>> {
        self.waiting_for.borrow().iter().cloned().collect()
    }

    /// Waits until every feeder has listed.
    pub(crate) async fn opened(&self) {
        let mut receiver = self.waiting_for.subscribe();
        // The sender lives as long as `self`, so this ends only by success.
        drop(receiver.wait_for(BTreeSet::is_empty).await);
    }
}
