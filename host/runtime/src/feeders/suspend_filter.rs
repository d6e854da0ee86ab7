//! The suspension filter: which keys of a controller run while only deletions may.

use std::collections::BTreeMap;

use homeostat_store::{Key, Revision};
use homeostat_workqueue::{KeyState, Priority, Queue};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::Capacity;

/// The priority band of the keys that may run during the suspension.
pub(crate) const DELETIONS_BAND: Priority = Priority::HIGHEST;

/// The suspension filter: which managed resources are being deleted, and whether only their keys may run.
/// Shared by all feeders of a controller.
///
/// The watch of the managed kind records deletions. While only deletions may run, keys of resources that are
/// being deleted or gone are in a band of their own, [`DELETIONS_BAND`]. That holds for keys of all feeders:
/// a finalizer often waits for other resources, whose changes come from other watches. No other key is in
/// this band, so a queue that serves only this band runs nothing else. A waiting key keeps its due time, and
/// a parked key stays parked until it is added again.
pub(crate) struct SuspendFilter {
    queue: Queue<Key>,
    /// Read-locked while a key is added, so that the state cannot change in between.
    known: RwLock<FilterState>,
    let_through: watch::Sender<bool>,
}

#[derive(Default)]
struct FilterState {
    let_through: bool,
    /// Resources being deleted, with the revision that showed it. Two feeders may report the same resource,
    /// one later than the other.
    deleting: BTreeMap<Key, Revision>,
}

/// The deletion state of a managed resource.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DeletionState {
    /// It exists and is not being deleted.
    Live,
    /// It is being deleted and has finalizers.
    Deleting,
    /// It is gone.
    Deleted,
}

impl SuspendFilter {
    /// Returns a filter that is off.
    pub(crate) fn of(queue: Queue<Key>) -> Self {
        Self { queue, known: RwLock::default(), let_through: watch::Sender::new(false) }
    }

    /// Returns the queue's free room and its number of keys.
    pub(crate) fn place(&self) -> Capacity {
        Capacity { room: self.queue.remaining_capacity(), used: self.queue.counts().keys() as u64 }
    }

    /// Adds a key by `add`, in the band that the filter chooses.
    pub(crate) fn add<R>(&self, key: Key, priority: Priority, add: impl FnOnce(&Queue<Key>, Key, Priority) -> R) -> R {
        let known = self.known.read();
        let priority = match known.let_through {
            false => priority,
            true if known.deleting.contains_key(&key) => DELETIONS_BAND,
            true => priority.min(Priority::HIGH),
        };
        let added = add(&self.queue, key, priority);
        drop(known);
        added
    }

    /// Records the deletion state of a managed resource, before its key is added. After the key of a resource
    /// that is gone was added, [`Self::mark_deleted`] releases it: released earlier, it could run before it
    /// is added, and the addition would then hold back a second run until the suspension ends.
    pub(crate) fn record(&self, key: &Key, revision: Revision, fate: DeletionState) {
        let mut known = self.known.write();
        match fate {
            DeletionState::Deleting => {
                known.deleting.insert(key.clone(), revision);
            }
            DeletionState::Deleted => {
                known.deleting.remove(key);
            }
            DeletionState::Live if known.deleting.get(key).is_some_and(|at| *at < revision) => {
                known.deleting.remove(key);
            }
            DeletionState::Live => {}
        }
        if known.let_through {
            match fate {
                DeletionState::Deleted => {}
                DeletionState::Deleting => drop(self.queue.prioritize(key, DELETIONS_BAND)),
                DeletionState::Live => self.hold_back(key),
            }
        }
        drop(known);
    }

    /// Turns the filter on or off.
    ///
    /// Turning it on requires a suspended queue. Afterwards exactly the keys of resources being deleted are
    /// in [`DELETIONS_BAND`].
    pub(crate) fn set_deletions_only(&self, yes: bool) {
        let mut known = self.known.write();
        if known.let_through == yes {
            return;
        }
        known.let_through = yes;
        if yes {
            for entry in self.queue.inspect(usize::MAX) {
                if known.deleting.contains_key(&entry.key) {
                    self.queue.prioritize(&entry.key, DELETIONS_BAND);
                } else if entry.priority == DELETIONS_BAND || entry.state == KeyState::Dirty {
                    self.hold_back(&entry.key);
                }
            }
        }
        drop(known);
        self.let_through.send_replace(yes);
    }

    /// Returns a receiver of the filter's state.
    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.let_through.subscribe()
    }

    /// Returns the queued keys that are held back and for which `known` returns false: their resources may be
    /// gone.
    pub(crate) fn held_back_keys(&self, known: impl Fn(&Key) -> bool) -> Vec<Key> {
        let entries = self.queue.inspect(usize::MAX).into_iter();
        entries.filter(|entry| entry.priority != DELETIONS_BAND && !known(&entry.key)).map(|entry| entry.key).collect()
    }

    /// Releases a queued key because its resource is gone. Does nothing while all keys may run.
    pub(crate) fn mark_deleted(&self, key: &Key) {
        let known = self.known.read();
        if known.let_through {
            self.queue.prioritize(key, DELETIONS_BAND);
        }
        drop(known);
    }

    /// Moves a key out of the deletions band. The priority of a pending re-run cannot be queried, so keys
    /// with one are lowered too.
    fn hold_back(&self, key: &Key) {
        if let Some(entry) = self.queue.entry(key)
            && (entry.priority == DELETIONS_BAND || entry.state == KeyState::Dirty)
        {
            self.queue.prioritize(key, entry.priority.min(Priority::HIGH));
        }
    }
}

#[cfg(test)]
mod tests;
