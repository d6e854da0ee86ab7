//! The managed resources that are being deleted, and whether their keys are let through while all others are held back.
//!
//! The watch of the managed kind tells what it sees. While deletions are let through, the keys of resources that are being deleted or
//! are gone stand in a band of their own, [`DELETIONS_BAND`], whoever adds them: a finalizer often waits for other resources to go, and these
//! are told by other watches. No other key stands there meanwhile, so a queue that hands out this band alone runs nothing else. A key
//! that waits for its due time waits on, and one that was given up stays so until it is added again.

use std::collections::BTreeMap;

use homeostat_store::{Key, Revision};
use homeostat_workqueue::{KeyState, Priority, Queue};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::Capacity;

/// The band of the keys that are let through.
pub(crate) const DELETIONS_BAND: Priority = Priority::HIGHEST;

/// Shared by all feeders of a controller.
pub(crate) struct SuspendFilter {
    queue: Queue<Key>,
    /// Held for reading while a key is added, so that none is added by what was true before.
    known: RwLock<FilterState>,
    let_through: watch::Sender<bool>,
}

#[derive(Default)]
struct FilterState {
    let_through: bool,
    /// What is being deleted, with the revision that said so. Two feeders may tell of the same resource, one behind the other.
    deleting: BTreeMap<Key, Revision>,
}

/// What is known of a managed resource.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DeletionState {
    /// It is there to stay.
    Live,
    /// It is being deleted, and something holds that up.
    Deleting,
    /// It is gone.
    Deleted,
}

impl SuspendFilter {
    /// Returns one that lets nothing through.
    pub(crate) fn of(queue: Queue<Key>) -> Self {
        Self { queue, known: RwLock::default(), let_through: watch::Sender::new(false) }
    }

    /// Returns for how many more keys the queue has room, and how many it has.
    pub(crate) fn place(&self) -> Capacity {
        Capacity { room: self.queue.remaining_capacity(), used: self.queue.counts().keys() as u64 }
    }

    /// Adds a key by `add`, in the band that it is to have.
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

    /// Takes note of a managed resource, before its key is added.
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
                // The watch that notes it adds it too, and comes back when there is no room. A queue that is closed needs it no more.
                DeletionState::Deleted => drop(self.queue.add(key.clone(), DELETIONS_BAND)),
                DeletionState::Deleting => drop(self.queue.prioritize(key, DELETIONS_BAND)),
                DeletionState::Live => self.hold_back(key),
            }
        }
        drop(known);
    }

    /// Lets the keys of what is being deleted through from now on, or no more.
    ///
    /// With `true`, the queue hands nothing out meanwhile; afterwards the keys of what is being deleted are in [`DELETIONS_BAND`], and no others.
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

    /// Returns what tells from now on whether deletions are let through.
    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.let_through.subscribe()
    }

    /// Returns the queued keys that are held back and that `known` does not know: their resources may be gone.
    pub(crate) fn held_back_keys(&self, known: impl Fn(&Key) -> bool) -> Vec<Key> {
        let entries = self.queue.inspect(usize::MAX).into_iter();
        entries.filter(|entry| entry.priority != DELETIONS_BAND && !known(&entry.key)).map(|entry| entry.key).collect()
    }

    /// Lets a key through that is queued, because its resource is gone.
    pub(crate) fn mark_deleted(&self, key: &Key) {
        let known = self.known.read();
        if known.let_through {
            self.queue.prioritize(key, DELETIONS_BAND);
        }
        drop(known);
    }

    /// Takes a key out of the band of those that are let through. Where the run after the present one stands cannot be seen.
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
