//! The current revision of a store, and notification of the tasks that wait for the next one.
//!
//! Each waiting task belongs to one of a few groups, and a group is woken at once. The writer wakes the first
//! group, continues with more urgent work, and later wakes the remaining groups. Meanwhile each woken task
//! wakes one more group. So a thousand watches wake one another on their own threads. That costs a fraction
//! of waking each from another thread, and does not delay the writer. No wake-up depends on a woken task,
//! which may be slow or gone.
//!
//! Deliberately absent: the change itself. Each woken task reads it at its own position.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::{Error, Result, Revision};

/// Number of groups.
const GROUPS: usize = 32;

/// The current revision of a store, and the groups of waiting tasks.
#[derive(Debug)]
pub(crate) struct RevisionNotifier {
    revision: AtomicU64,
    /// Set when the store has closed.
    closed: AtomicBool,
    groups: [Notify; GROUPS],
    /// The first group that is not woken yet; `GROUPS` or more when all are. Modified only by atomic
    /// read-modify-write, so a thread that claims a group also sees every write made before the group became
    /// due.
    due: AtomicUsize,
    /// Number of tasks that ever joined a group.
    joined: AtomicUsize,
}

/// The group of a waiting task.
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

    /// Returns a group for one more task. The groups fill evenly.
    pub(crate) fn join_group(&self) -> WaitGroup {
        WaitGroup(self.joined.fetch_add(1, Ordering::Relaxed) % GROUPS)
    }

    /// Publishes a new revision and wakes the first group. [`RevisionNotifier::notify_rest`] has to follow.
    pub(crate) fn advance(&self, revision: Revision) {
        self.revision.store(revision.0, Ordering::Release);
        self.due.swap(0, Ordering::AcqRel);
        self.notify_next_group();
    }

    /// Wakes the remaining groups.
    pub(crate) fn notify_rest(&self) {
        while self.notify_next_group() {}
    }

    /// Marks the store as closed, and wakes all groups.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.due.swap(0, Ordering::AcqRel);
        self.notify_rest();
    }

    /// Waits until the revision is above `after`. Fails with `Closed` if it never will be. Cancel safe.
    pub(crate) async fn wait_past(&self, WaitGroup(group): WaitGroup, after: Revision) -> Result<()> {
        loop {
            // Registered before the check, so that no notification from here on is missed.
            let told = self.groups[group].notified();
            // Read before the revision: once the store is closed, its last revision is visible.
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

    /// Waits until the store has closed. Cancel safe.
    pub(crate) async fn closed(&self) {
        while self.wait_past(WaitGroup(0), Revision(u64::MAX)).await.is_ok() {}
    }

    /// Wakes one more group; returns false if all are awake.
    fn notify_next_group(&self) -> bool {
        // Most callers find no group left, and need not contend for the counter.
        if self.due.load(Ordering::Relaxed) >= GROUPS {
            return false;
        }
        let group = self.due.fetch_add(1, Ordering::AcqRel);
        self.groups.get(group).inspect(|group| group.notify_waiters()).is_some()
    }
}

#[cfg(test)]
mod tests;
