//! The items of the queue, one for each key, and the index that finds them by key.

use std::{hash::BuildHasher, sync::Arc, time::Duration};

use foldhash::fast::RandomState;

use crate::{
    Entry, KeyState, Moment, Priority,
    bands::{Links, ListNode},
};

/// All data of one key in the queue.
pub(crate) struct Item<K> {
    pub(crate) key: K,
    pub(crate) hash: Hash,
    pub(crate) links: Links,
    pub(crate) priority: Priority,
    /// Only [`State::add_without_event`](crate::state::State::add_without_event) asked for its next run, or
    /// for the present one.
    pub(crate) without_event: bool,
    pub(crate) stage: ItemState,
    /// Boxed, because nearly every key has no failures. Without it an entry fits a cache line.
    last_failure: Option<Box<FailureRecord>>,
}

/// The failures of a key whose last run failed.
struct FailureRecord {
    failures: u32,
    /// End of the backoff after the last failure.
    backoff_until: Moment,
    error: Arc<str>,
    /// Bytes of the text that count against the capacity; 0 if the text was replaced for lack of capacity.
    error_bytes: u32,
}

/// The state of a key, with the data of that state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemState {
    /// In the timers.
    Waiting { due: Moment, order: u32, is_floor: bool },
    /// In the list of its band.
    Ready { since: Moment },
    /// In the list of running keys.
    Running { since: Moment, dirty: Option<NextRun> },
    /// In the list of parked keys.
    Parked,
}

/// The run after the present one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextRun {
    pub(crate) due: Moment,
    pub(crate) priority: Priority,
    /// Only an add without an event asked for it.
    pub(crate) without_event: bool,
    /// No add makes it due earlier, whatever the settings say.
    pub(crate) is_floor: bool,
}

impl NextRun {
    /// Returns a run that adds may make due earlier.
    #[inline]
    pub(crate) fn new(due: Moment, priority: Priority) -> NextRun {
        NextRun { due, priority, without_event: false, is_floor: false }
    }
}

impl<K> ListNode for Item<K> {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl<K> Item<K> {
    #[inline]
    pub(crate) fn new(key: K, hash: Hash, priority: Priority) -> Item<K> {
        Item {
            key,
            hash,
            links: Links::default(),
            priority,
            without_event: false,
            stage: ItemState::Parked,
            last_failure: None,
        }
    }

    pub(crate) fn key_state(&self) -> KeyState {
        match self.stage {
            ItemState::Waiting { .. } => KeyState::Waiting,
            ItemState::Ready { .. } => KeyState::Ready,
            ItemState::Running { dirty: None, .. } => KeyState::Running,
            ItemState::Running { dirty: Some(_), .. } => KeyState::Dirty,
            ItemState::Parked => KeyState::Parked,
        }
    }

    /// Returns the failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.last_failure.as_ref().map_or(0, |trouble| trouble.failures)
    }

    /// Resets the failures.
    pub(crate) fn forget_failures(&mut self) {
        self.last_failure = None;
    }

    /// Records the failure of a run that started at `began`. It counts as one more in a row unless the run
    /// started within the backoff of the failure before.
    pub(crate) fn record_failure(&mut self, began: Moment, (error, error_bytes): (Arc<str>, u32)) {
        match &mut self.last_failure {
            Some(trouble) => {
                trouble.failures = trouble.failures.saturating_add(u32::from(began >= trouble.backoff_until));
                (trouble.error, trouble.error_bytes) = (error, error_bytes);
            }
            none => {
                *none = Some(Box::new(FailureRecord { failures: 1, backoff_until: Moment::ZERO, error, error_bytes }));
            }
        }
    }

    /// Returns the bytes of the last error text that count against the capacity.
    #[inline]
    pub(crate) fn error_bytes(&self) -> u32 {
        self.last_failure.as_ref().map_or(0, |trouble| trouble.error_bytes)
    }

    /// Sets the end of the backoff after the failure that was just [recorded](Item::record_failure).
    pub(crate) fn back_off(&mut self, until: Moment) {
        let trouble = self.last_failure.as_mut().expect("only a key that failed backs off");
        trouble.backoff_until = until;
    }
}

impl<K: Clone> Item<K> {
    pub(crate) fn entry(&self, now: Moment) -> Entry<K> {
        let (mut due_in, mut ready_for, mut running_for): (Option<Duration>, _, _) = (None, None, None);
        let mut is_held = false;
        match self.stage {
            ItemState::Waiting { due, is_floor, .. } => (due_in, is_held) = (Some(due.since(now)), is_floor),
            ItemState::Ready { since } => ready_for = Some(now.since(since)),
            ItemState::Running { since, dirty, .. } => {
                running_for = Some(now.since(since));
                let later = dirty.filter(|dirty| dirty.due > now);
                due_in = later.map(|dirty| dirty.due.since(now));
                is_held = later.is_some_and(|dirty| dirty.is_floor);
            }
            ItemState::Parked => {}
        }
        Entry {
            key: self.key.clone(),
            state: self.key_state(),
            priority: self.priority,
            failures: self.failures(),
            due_in,
            is_held,
            ready_for,
            running_for,
            last_error: self.last_failure.as_ref().map(|trouble| Arc::clone(&trouble.error)),
        }
    }
}

/// Half of a key's hash: enough to find the entry, and small enough to store beside its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash(u32);

/// A hash table of entry numbers, with open addressing and linear probing. The keys are in the entries. The
/// table stores the hashes, so growing touches no entry. Removal leaves no tombstone, so a queue with a
/// steady flow of keys never needs a rehash to clean up.
pub(crate) struct Index {
    /// The length is a power of two; at most two thirds are in use.
    slots: Box<[HashSlot]>,
    len: usize,
    hasher: RandomState,
}

#[derive(Clone, Copy)]
struct HashSlot {
    hash: Hash,
    number: u32,
}

/// An empty slot.
const FREE: HashSlot = HashSlot { hash: Hash(0), number: u32::MAX };

/// A table of at most this many slots is never shrunk.
const PLACES_KEPT: usize = 512;
/// Slots of a new table.
const PLACES_MIN: usize = 8;

impl HashSlot {
    fn is_free(self) -> bool {
        self.number == u32::MAX
    }
}

impl Index {
    pub(crate) fn new() -> Index {
        Index { slots: vec![FREE; PLACES_MIN].into(), len: 0, hasher: RandomState::default() }
    }

    pub(crate) fn hash<K: std::hash::Hash>(&self, key: &K) -> Hash {
        Hash((self.hasher.hash_one(key) >> 32) as u32)
    }

    /// Returns the number with that hash for which `is_it` returns true.
    #[inline]
    pub(crate) fn find(&self, hash: Hash, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home_slot(hash);
        loop {
            let place = self.slots[at];
            if place.is_free() {
                return None;
            }
            if place.hash == hash && is_it(place.number) {
                return Some(place.number);
            }
            at = self.next_slot(at);
        }
    }

    /// Adds a number below `u32::MAX`. The caller ensures that its key is not in the table.
    #[inline]
    pub(crate) fn insert(&mut self, hash: Hash, number: u32) {
        if (self.len + 1) * 3 > self.slots.len() * 2 {
            self.resize(self.slots.len() * 2);
        }
        self.len += 1;
        self.insert_slot(HashSlot { hash, number });
    }

    /// Removes a number. It must be in the table.
    #[inline]
    pub(crate) fn remove(&mut self, hash: Hash, number: u32) {
        let mut hole = self.home_slot(hash);
        while self.slots[hole].number != number {
            hole = self.next_slot(hole);
        }
        self.len -= 1;
        // Move back each following entry that a probe would no longer reach past the hole.
        let mut at = self.next_slot(hole);
        while !self.slots[at].is_free() {
            let home = self.home_slot(self.slots[at].hash);
            if self.distance(home, at) >= self.distance(hole, at) {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = self.next_slot(at);
        }
        self.slots[hole] = FREE;
        if self.slots.len() > PLACES_KEPT && self.len * 8 < self.slots.len() {
            self.resize(self.slots.len() / 4);
        }
    }

    fn resize(&mut self, places: usize) {
        let old = std::mem::replace(&mut self.slots, vec![FREE; places].into());
        old.into_iter().filter(|place| !place.is_free()).for_each(|place| self.insert_slot(place));
    }

    #[inline]
    fn insert_slot(&mut self, taker: HashSlot) {
        let mut at = self.home_slot(taker.hash);
        while !self.slots[at].is_free() {
            at = self.next_slot(at);
        }
        self.slots[at] = taker;
    }

    /// Returns the slot at which the probe for a hash starts.
    fn home_slot(&self, hash: Hash) -> usize {
        hash.0 as usize & (self.slots.len() - 1)
    }

    fn next_slot(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.slots.len() - 1)
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests;
