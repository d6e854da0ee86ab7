//! Queries. They change the state in one way only: due keys become ready.

use std::time::Duration;

use super::{State, is_live};
use crate::{Ages, Counters, Entry, Key, KeyCounts, KeyState, Moment, item::ItemState};

impl<K: Key> State<K> {
    /// Returns how many keys are in each state.
    pub fn counts(&mut self, now: Moment) -> KeyCounts {
        self.tick(now);
        KeyCounts {
            waiting: self.timers.len(),
            ready: self.bands.len(),
            ready_by_band: self.bands.lens(),
            running: self.running.len(),
            dirty: self.dirty,
            parked: self.parked.len(),
            error_bytes: self.capacity.error_bytes(),
        }
    }

    /// Returns how many more keys fit now.
    pub fn remaining_capacity(&self) -> u64 {
        self.capacity.free(self.options.keys_max)
    }

    /// Returns the counters since the queue was created.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the ages of the ready and running keys.
    pub fn ages(&mut self, now: Moment) -> Ages {
        let now = self.tick(now);
        let since = |slot| match self.slab[slot].stage {
            ItemState::Ready { since } | ItemState::Running { since, .. } => now.since(since),
            ItemState::Waiting { .. } | ItemState::Parked => Duration::ZERO,
        };
        let unfinished = u128::from(now.nanos()) * self.running.len() as u128 - self.running_since;
        Ages {
            oldest_ready: self.bands.firsts().map(since).max(),
            longest_running: self.running.first().map(since),
            unfinished_work: Duration::from_nanos(u64::try_from(unfinished).unwrap_or(u64::MAX)),
        }
    }

    /// Returns the state of a key; `None` for an unknown key.
    pub fn state(&mut self, now: Moment, key: &K) -> Option<KeyState> {
        self.tick(now);
        self.find(key).map(|slot| self.slab[slot].key_state())
    }

    /// Returns the details of one key.
    pub fn entry(&mut self, now: Moment, key: &K) -> Option<Entry<K>> {
        let now = self.tick(now);
        self.find(key).map(|slot| self.slab[slot].entry(now))
    }

    /// Returns up to `limit` keys: the running ones, longest first; the ready ones by band from the highest,
    /// in order; the waiting ones by due time; the parked ones, first parked first.
    ///
    /// Takes time in proportion to `limit`. If the result includes waiting keys, also in proportion to their
    /// number.
    pub fn entries(&mut self, now: Moment, limit: usize) -> Vec<Entry<K>> {
        let now = self.tick(now);
        let (slab, timers) = (&self.slab, &self.timers);
        let mut slots: Vec<u32> = self.running.iter(slab).chain(self.bands.iter(slab)).take(limit).collect();
        if slots.len() < limit {
            let waiting = timers.earliest(limit - slots.len(), |timer| is_live(slab, timer));
            slots.extend(waiting.iter().map(|timer| timer.slot));
        }
        slots.extend(self.parked.iter(slab).take(limit - slots.len()));
        slots.into_iter().map(|slot| slab[slot].entry(now)).collect()
    }
}
