//! Following changes: a watch holds a position and pulls; nobody pushes into it, so that a slow one holds up no one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::tip::{RevisionNotifier, WaitGroup};
use crate::{Kind, Resource, Result, Revision};

/// What happened to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EventType {
    /// It was created.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// One change of one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What happened.
    pub kind: EventType,
    /// The resource after the change; its last state when it is gone. Has the revision of this event.
    pub resource: Arc<Resource>,
    /// The resource before the change; `None` when it was created.
    pub previous: Option<Arc<Resource>>,
    /// The revision of the store that this change made.
    pub revision: Revision,
}

impl Event {
    /// Returns what it may take in memory with both resources, in bytes, see [`Resource::memory_bytes`].
    pub fn memory_bytes(&self) -> u64 {
        self.resource.memory_bytes() + self.previous.as_ref().map_or(0, |previous| previous.memory_bytes())
    }
}

/// Which changes a watch follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// Those of one kind; its version is ignored.
    Kind(Kind),
    /// All of them.
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

/// Where a [`Watch`] gets its events from. Stores have their own; a wrapper around a store can bring another.
#[async_trait]
pub trait Changes: Send + 'static {
    /// Waits for the next event. See [`Watch::next`], whose promises this keeps.
    ///
    /// # Errors
    /// As [`Watch::next`].
    async fn next(&mut self) -> Result<Event>;

    /// Returns how far it has come. See [`Watch::position`].
    fn position(&self) -> Option<Revision> {
        None
    }
}

/// Follows the changes of a store, from one revision on.
///
/// Every event of the scope comes, once, in the order of revisions, however slow the caller is, until the store cuts its history.
pub struct Watch(Box<dyn Changes>);

impl Watch {
    /// Makes a watch of anything that has events.
    pub fn new(changes: impl Changes) -> Self {
        Self(Box::new(changes))
    }

    /// Waits for the next event. Cancel safe: an event is lost only to a caller that received it.
    ///
    /// # Errors
    /// `Expired`: the watch was so slow that history was cut past it; list again. `Unavailable`: the same call can be made again, and
    /// goes on where it was. `Closed`: the store was closed. A watch that kept up has been given everything that happened before; one
    /// that was far behind goes on from its last event when the store is open again.
    pub async fn next(&mut self) -> Result<Event> {
        self.0.next().await
    }

    /// Returns a revision up to which every event of the scope has been delivered, later than that of the last one where others came between;
    /// `None` where that is not known. A watch can begin there and misses nothing.
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
    /// How far was looked: every event up to and including this revision is in `events` or outside of the scope.
    pub(crate) through: Revision,
}

/// A store's history, as a watch reads it.
#[async_trait]
pub(crate) trait ChangeLog: Send + Sync + 'static {
    /// Adds the events of the scope after a revision to `events`, a bounded piece, and returns how far was looked, as [`LogBatch::through`];
    /// `None` where that is not all in memory. Never waits for the disk: a thousand watches ask at once.
    fn recall(&self, scope: &Scope, after: Revision, events: &mut VecDeque<Event>) -> Option<Revision>;

    /// Reads on after a revision, a bounded piece, wherever it is. `through` is above `after` unless there is nothing more.
    async fn read(&self, scope: &Scope, after: Revision) -> Result<LogBatch>;

    /// Returns what tells how far the store has come.
    fn tip(&self) -> &RevisionNotifier;
}

/// A position in a store's history.
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
            self.log.tip().wait_past(self.group, self.position).await?;
            // Position and pending change together, after the await: a cancelled read is read again.
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

#[cfg(test)]
mod tests;
