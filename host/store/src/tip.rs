//! How far a store has come, and who waits for it to come further.
//!
//! Whoever waits belongs to one of a few groups, and a group is told at once. Who changes the store tells the first group, goes on with what is
//! more urgent, and then tells whatever groups are left; meanwhile each one who was told tells another group. So a thousand watches are told on
//! the threads on which they run, which costs a fraction of waking each from another thread, and the change is not held up by them. Nobody
//! depends on who was told: that one may be long in coming, or gone.
//!
//! Deliberately absent: what has changed. Whoever was told reads it at his own position.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::{Error, Result, Revision};

/// In how many groups those who wait are told.
const GROUPS: usize = 32;

/// How far a store has come.
#[derive(Debug)]
pub(crate) struct RevisionNotifier {
    revision: AtomicU64,
    /// There will be no more.
    closed: AtomicBool,
    groups: [Notify; GROUPS],
    /// The first group that was not told yet; beyond the last one when all were. Only ever changed by reading and writing at once, so that
    /// who takes a group from it has seen every change that was made before that group became due.
    due: AtomicUsize,
    /// How many have a place in a group, or had one.
    joined: AtomicUsize,
}

/// A place in a group, for one who will wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitGroup(usize);

impl RevisionNotifier {
    pub(crate) fn at(revision: Revision) -> Self {
        Self {
            revision: AtomicU64::new(revision.0),
            closed: AtomicBool::new(false),
            groups: std::array::from_fn(|_| Notify::new()),
            due: AtomicUsize::new(GROUPS),
            joined: AtomicUsize::new(0),
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns a place for one more. The groups fill evenly.
    pub(crate) fn join_group(&self) -> WaitGroup {
        WaitGroup(self.joined.fetch_add(1, Ordering::Relaxed) % GROUPS)
    }

    /// Notes that the store has come to a revision, and begins to tell those who wait. [`RevisionNotifier::finish`] has to follow.
    pub(crate) fn advance(&self, revision: Revision) {
        self.revision.store(revision.0, Ordering::Release);
        self.due.swap(0, Ordering::AcqRel);
        self.notify_next_group();
    }

    /// Tells all those who wait and were not told yet.
    pub(crate) fn notify_rest(&self) {
        while self.notify_next_group() {}
    }

    /// Notes that the store has ended, and tells all those who wait.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.due.swap(0, Ordering::AcqRel);
        self.notify_rest();
    }

    /// Waits until the store has come further than `after`. `Closed` when it never will. Cancel safe.
    pub(crate) async fn wait_past(&self, WaitGroup(group): WaitGroup, after: Revision) -> Result<()> {
        loop {
            // Before looking: whatever is told from here on is not missed.
            let told = self.groups[group].notified();
            // In this order: at the end, all that came before it is seen.
            let is_closed = self.is_closed();
            if self.revision() > after {
                return Ok(());
            }
            if is_closed {
                return Err(Error::Closed);
            }
            told.await;
            self.notify_next_group();
        }
    }

    /// Waits until the store has ended. Cancel safe.
    pub(crate) async fn closed(&self) {
        while self.wait_past(WaitGroup(0), Revision(u64::MAX)).await.is_ok() {}
    }

    /// Tells one more group; returns whether there was one.
    fn notify_next_group(&self) -> bool {
        // Most who ask find nothing to do, and need not take the number from others who ask.
        if self.due.load(Ordering::Relaxed) >= GROUPS {
            return false;
        }
        let group = self.due.fetch_add(1, Ordering::AcqRel);
        self.groups.get(group).inspect(|group| group.notify_waiters()).is_some()
    }
}

#[cfg(test)]
mod tests;
