//! Keeps workers back until every feeder that lists first has listed. Level-triggered: acting on half a list would delete the rest.
//!
//! It knows too which feeders fail, for whoever asks how they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// The feeders that have not listed yet, and those that fail. Clones are one gate.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Shared>);

struct Shared {
    feeders: watch::Sender<Feeders>,
    /// Nobody is waited for. Changes with the feeders; read for every key, without their lock.
    is_open: AtomicBool,
}

#[derive(Default)]
struct Feeders {
    /// They have not listed yet.
    waiting_for: BTreeSet<Ticket>,
    /// They failed, and have not been well since: why.
    failing: BTreeMap<Ticket, String>,
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
        Self(Arc::new(Shared { feeders: watch::Sender::new(Feeders::default()), is_open: AtomicBool::new(true) }))
    }

    /// Shuts the gate until this feeder has listed, or is gone.
    pub(crate) fn wait_for(&self, ticket: Ticket) {
        self.0.feeders.send_if_modified(|feeders| {
            self.0.is_open.store(false, Ordering::SeqCst);
            feeders.waiting_for.insert(ticket)
        });
    }

    /// Notes that a feeder has listed, or is gone. It fails no more.
    pub(crate) fn open(&self, ticket: &Ticket) {
        self.0.feeders.send_if_modified(|feeders| {
            feeders.failing.remove(ticket);
            let listed = feeders.waiting_for.remove(ticket);
            self.0.is_open.store(feeders.waiting_for.is_empty(), Ordering::SeqCst);
            listed
        });
    }

    /// Notes why a feeder failed.
    pub(crate) fn failed(&self, ticket: &Ticket, error: &str) {
        self.0.feeders.send_if_modified(|feeders| {
            feeders.failing.insert(ticket.clone(), error.to_owned());
            false
        });
    }

    /// Notes that a feeder fails no more, or is not there any more to fail.
    pub(crate) fn well(&self, ticket: &Ticket) {
        self.0.feeders.send_if_modified(|feeders| {
            feeders.failing.remove(ticket);
            false
        });
    }

    /// Returns who has not listed yet, with why it failed.
    pub(crate) fn waiting_for(&self) -> Vec<Arc<str>> {
        let feeders = self.0.feeders.borrow();
        let say = |ticket: &Ticket| match feeders.failing.get(ticket) {
            Some(error) => format!("{} (which failed: {error})", ticket.feeder).into(),
            None => ticket.feeder.clone(),
        };
        feeders.waiting_for.iter().map(say).collect()
    }

    /// Returns who fails, with why.
    pub(crate) fn failing(&self) -> Vec<String> {
        let say = |(ticket, error): (&Ticket, &String)| format!("{} failed: {error}", ticket.feeder);
        self.0.feeders.borrow().failing.iter().map(say).collect()
    }

    /// Waits until this feeder has listed, or is gone.
    pub(crate) async fn opened_by(&self, ticket: &Ticket) {
        self.until(|feeders| !feeders.waiting_for.contains(ticket)).await;
    }

    /// Returns whether every feeder has listed.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_open.load(Ordering::SeqCst)
    }

    /// Waits until every feeder has listed.
    pub(crate) async fn opened(&self) {
        if !self.is_open() {
            self.until(|feeders| feeders.waiting_for.is_empty()).await;
        }
    }

    async fn until(&self, condition: impl FnMut(&Feeders) -> bool) {
        let mut receiver = self.0.feeders.subscribe();
        // The sender lives as long as `self`, so this ends only by success.
        drop(receiver.wait_for(condition).await);
    }
}
