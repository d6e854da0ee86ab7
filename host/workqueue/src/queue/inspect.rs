//! The reports of a queue: counts, counters, ages and entries.

use super::Queue;
use crate::{Ages, Counters, Entry, Key, KeyCounts, KeyState, state::State};

impl<K: Key> Queue<K> {
    /// Returns how many keys are ready.
    pub fn len(&self) -> usize {
        self.counts().ready
    }

    /// Returns whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many more keys the queue can take now. Existing keys need no capacity.
    pub fn remaining_capacity(&self) -> u64 {
        self.with(|state, _| state.remaining_capacity())
    }

    /// Returns how many keys are in each state.
    pub fn counts(&self) -> KeyCounts {
        self.with(State::counts)
    }

    /// Returns the counters since the queue was created.
    pub fn counters(&self) -> Counters {
        self.with(|state, _| state.counters())
    }

    /// Returns the ages of the ready and running keys.
    pub fn ages(&self) -> Ages {
        self.with(State::ages)
    }

    /// Returns the state of a key; `None` for an unknown key.
    pub fn state(&self, key: &K) -> Option<KeyState> {
        self.with(|state, now| state.state(now, key))
    }

    /// Returns the details of one key.
    pub fn entry(&self, key: &K) -> Option<Entry<K>> {
        self.with(|state, now| state.entry(now, key))
    }

    /// Returns up to `limit` keys: the running ones, longest first; the ready ones in the order of their
    /// bands; the waiting ones by due time; the parked ones.
    ///
    /// Takes time in proportion to `limit`. If the result includes waiting keys, also in proportion to their
    /// number.
    pub fn inspect(&self, limit: usize) -> Vec<Entry<K>> {
        self.with(|state, now| state.entries(now, limit))
    }
}
