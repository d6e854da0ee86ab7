//! Watches of changes. A watch holds a position and pulls events. The store pushes nothing, so a slow watch
//! delays no other: it only [notifies](RevisionNotifier) the watches that wait for the next revision.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::{Error, Kind, Resource, Result, Revision};

/// Number of groups of waiting tasks.
const GROUPS: usize = 32;

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EventType {
    /// The resource was created.
    Added,
    /// The resource changed.
    Modified,
    /// The resource was deleted.
    Deleted,
}

/// One change of one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The kind of the change.
    pub kind: EventType,
    /// The resource after the change; its last state after a deletion. Has the revision of this event.
    pub resource: Arc<Resource>,
    /// The resource before the change; `None` when it was created.
    pub previous: Option<Arc<Resource>>,
    /// The revision of the store that this change made.
    pub revision: Revision,
}

impl Event {
    /// Returns an upper estimate of its memory with both resources, in bytes, see [`Resource::memory_bytes`].
    pub fn memory_bytes(&self) -> u64 {
        self.resource.memory_bytes() + self.previous.as_ref().map_or(0, |previous| previous.memory_bytes())
    }
}

/// The changes that a watch follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// Changes of one kind; its version is ignored.
    Kind(Kind),
    /// All changes.
    Everything,
}

impl Scope {
    /// Returns whether changes of resources of `kind` belong to this scope.
    pub fn includes(&self, kind: &Kind) -> bool {
        match self {
            Self::Kind(wanted) => wanted.same_type(kind),
            Self::Everything => true,
        }
    }
}

/// The source of events of a [`Watch`]. Stores have their own; a wrapper around a store can provide another.
#[async_trait]
pub trait Changes: Send + 'static {
    /// Waits for the next event. Implementations keep the promises of [`Watch::next`].
    ///
    /// # Errors
    /// As [`Watch::next`].
    async fn next(&mut self) -> Result<Event>;

    /// Returns the position of the watch. See [`Watch::position`].
    fn position(&self) -> Option<Revision> {
        None
    }
}

/// A watch of the changes of a store, from one revision on.
///
/// It delivers every event of the scope once, in the order of revisions, however slow the caller is, until
/// the store compacts its history.
pub struct Watch(Box<dyn Changes>);

impl Watch {
    /// Creates a watch from a source of events.
    pub fn new(changes: impl Changes) -> Self {
        Self(Box::new(changes))
    }

    /// Waits for the next event. Cancel safe: a dropped call loses no event.
    ///
    /// # Errors
    /// `Expired`: the watch was so slow that history was compacted past it; list again. `Unavailable`: the
    /// same call can be repeated, and resumes at the same position. `Closed`: the store was closed. A watch
    /// that kept up has received all events before that; one that was far behind can resume from its last
    /// event once the store is open again.
    pub async fn next(&mut self) -> Result<Event> {
        self.0.next().await
    }

    /// Returns a revision up to which every event of the scope has been delivered; `None` if that is unknown.
    /// It is later than the last delivered event if events outside the scope followed. A watch that starts
    /// there misses nothing.
    pub fn position(&self) -> Option<Revision> {
        self.0.position()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// A piece of a store's history.
#[derive(Debug)]
pub(crate) struct LogBatch {
    /// The events of the scope.
    pub(crate) events: Vec<Event>,
    /// The end of the read: every event up to and including this revision is in `events` or outside the
    /// scope.
    pub(crate) through: Revision,
}

/// The history of a store, as watches read it.
#[async_trait]
pub(crate) trait ChangeLog: Send + Sync + 'static {
    /// Adds a bounded number of events of the scope after a revision to `events`. Returns the end of the
    /// read, as [`LogBatch::through`]; `None` if part of that history is not in memory. Never waits for the
    /// disk: a thousand watches may read at once.
    fn recall(&self, scope: &Scope, after: Revision, events: &mut VecDeque<Event>) -> Option<Revision>;

    /// Reads a bounded piece after a revision, from memory or from disk. `through` is above `after` unless
    /// there is no later event.
    async fn read(&self, scope: &Scope, after: Revision) -> Result<LogBatch>;

    /// Returns the notifier of new revisions.
    fn tip(&self) -> &RevisionNotifier;

    /// Returns the error with which the log has ended, once its notifier is closed.
    fn end(&self) -> Error {
        Error::Closed
    }
}

/// A position in the history of a store.
pub(crate) struct WatchCursor {
    log: Arc<dyn ChangeLog>,
    group: WaitGroup,
    scope: Scope,
    position: Revision,
    pending: VecDeque<Event>,
}

impl WatchCursor {
    pub(crate) fn new(log: Arc<dyn ChangeLog>, scope: Scope, from: Revision) -> Self {
        Self { group: log.tip().join_group(), log, scope, position: from, pending: VecDeque::new() }
    }
}

#[async_trait]
impl Changes for WatchCursor {
    async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(event);
            }
            self.log.tip().wait_past(self.group, self.position).await.map_err(|_| self.log.end())?;
            // Position and pending events change together, after the await: a cancelled read is repeated.
            self.position = match self.log.recall(&self.scope, self.position, &mut self.pending) {
                Some(through) => through,
                None => {
                    let LogBatch { events, through } = self.log.read(&self.scope, self.position).await?;
                    self.pending.extend(events);
                    through
                }
            };
        }
    }

    fn position(&self) -> Option<Revision> {
        Some(self.pending.front().map_or(self.position, |next| Revision(next.revision.0 - 1)))
    }
}

/// The current revision of a store, and the groups of tasks that wait for the next one.
///
/// Each waiting task belongs to one of a few groups, and a group is woken at once. The writer wakes the first
/// group, continues with more urgent work, and later wakes the remaining groups. Meanwhile each woken task
/// wakes one more group. So a thousand watches wake one another on their own threads. That costs a fraction
/// of waking each from another thread, and does not delay the writer. No wake-up depends on a woken task,
/// which may be slow or gone.
///
/// Deliberately absent: the change itself. Each woken task reads it at its own position.
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

    /// Publishes a new revision. [`RevisionNotifier::notify_first`] has to follow.
    pub(crate) fn publish(&self, revision: Revision) {
        self.revision.store(revision.0, Ordering::Release);
    }

    /// Wakes the first group. [`RevisionNotifier::notify_rest`] has to follow.
    pub(crate) fn notify_first(&self) {
        self.due.swap(0, Ordering::AcqRel);
        self.notify_next_group();
    }

    /// Publishes a new revision and wakes the first group. [`RevisionNotifier::notify_rest`] has to follow.
    pub(crate) fn advance(&self, revision: Revision) {
        self.publish(revision);
        self.notify_first();
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
