//! Keeps workers back until every feeder that lists first has listed. Level-triggered: acting on half a list would delete the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// The feeders that have not listed yet, each with why it failed last. Clones are one gate.
#[derive(Clone)]
pub(crate) struct Gate {
    waiting_for: Arc<watch::Sender<WaitingFor>>,
}

type WaitingFor = BTreeMap<Ticket, Option<String>>;

/// One feeder, each time that it is started anew.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Ticket {
    pub(crate) feeder: Arc<str>,
    pub(crate) round: u64,
}

impl Gate {
    /// Returns a gate that is open.
    pub(crate) fn new() -> Self {
        Self { waiting_for: Arc::new(watch::Sender::new(WaitingFor::new())) }
    }

    /// Shuts the gate until this feeder has listed, or is gone.
    pub(crate) fn wait_for(&self, ticket: Ticket) {
        self.waiting_for.send_if_modified(|waiting_for| waiting_for.insert(ticket, None).is_none());
    }

    /// Notes that a feeder has listed, or is gone.
    pub(crate) fn open(&self, ticket: &Ticket) {
        self.waiting_for.send_if_modified(|waiting_for| waiting_for.remove(ticket).is_some());
    }

    /// Notes why a feeder has not listed.
    pub(crate) fn failed(&self, ticket: &Ticket, error: &str) {
        self.waiting_for.send_if_modified(|waiting_for| {
            if let Some(failed) = waiting_for.get_mut(ticket) {
                *failed = Some(error.to_owned());
            }
            false
        });
    }

    /// Returns who has not listed yet, with why it failed.
    pub(crate) fn waiting_for(&self) -> Vec<Arc<str>> {
        let say = |(ticket, failed): (&Ticket, &Option<String>)| match failed {
            Some(error) => format!("{} (which failed: {error})", ticket.feeder).into(),
            None => ticket.feeder.clone(),
        };
        self.waiting_for.borrow().iter().map(say).collect()
    }

    /// Waits until this feeder has listed, or is gone.
    pub(crate) async fn opened_by(&self, ticket: &Ticket) {
        self.until(|waiting_for| !waiting_for.contains_key(ticket)).await;
    }

    /// Returns whether every feeder has listed.
    pub(crate) fn is_open(&self) -> bool {
        self.waiting_for.borrow().is_empty()
    }

    /// Waits until every feeder has listed.
    pub(crate) async fn opened(&self) {
        if !self.is_open() {
            self.until(WaitingFor::is_empty).await;
        }
    }

    async fn until(&self, condition: impl FnMut(&WaitingFor) -> bool) {
        let mut receiver = self.waiting_for.subscribe();
        // The sender lives as long as `self`, so this ends only by success.
        drop(receiver.wait_for(condition).await);
    }
}
