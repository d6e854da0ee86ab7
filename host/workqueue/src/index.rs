//! The index: maps a key to the number of its entry.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

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
