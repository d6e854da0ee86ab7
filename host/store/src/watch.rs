//! Watches of changes. A watch holds a position and pulls events. The store pushes nothing, so a slow watch
//! delays no other.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::revision_notifier::{RevisionNotifier, WaitGroup};
use crate::{Kind, Resource, Result, Revision};

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
            self.log.tip().wait_past(self.group, self.position).await?;
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

#[cfg(test)]
mod tests;
