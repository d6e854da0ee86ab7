//! From a key to the number of its entry.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Half of a key's hash: enough to find it, and small enough to keep beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash(u32);

impl Hash {
    /// The table takes the place from the lower bits and a tag from the upper ones.
    fn spread(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

/// A hash table of numbers. The keys themselves are in the entries; keeping the hash here means that growing touches
/// no entry.
pub(crate) struct Index {
    table: HashTable<(Hash, u32)>,
    hasher: DefaultHashBuilder,
}

/// The table keeps its memory up to this many places.
const PLACES_KEPT: usize = 64;

impl Index {
    pub(crate) fn new() -> Index {
        Index { table: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }

    pub(crate) fn hash<K: std::hash::Hash>(&self, key: &K) -> Hash {
        Hash((self.hasher.hash_one(key) >> 32) as u32)
    }

    /// Returns the number with that hash for which `is_it` holds.
    pub(crate) fn find(&self, hash: Hash, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let found = self.table.find(hash.spread(), |(its, number)| *its == hash && is_it(*number));
        found.map(|(_, number)| *number)
    }

    /// Adds a number; the caller knows that its key is not there yet.
    pub(crate) fn insert(&mut self, hash: Hash, number: u32) {
        self.table.insert_unique(hash.spread(), (hash, number), |(its, _)| its.spread());
    }

    pub(crate) fn remove(&mut self, hash: Hash, number: u32) {
        if let Ok(place) = self.table.find_entry(hash.spread(), |(_, its)| *its == number) {
            place.remove();
        }
        if self.table.capacity() > PLACES_KEPT && self.table.len() * 4 < self.table.capacity() {
            self.table.shrink_to(self.table.len() * 2, |(its, _)| its.spread());
        }
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.table.capacity()
    }
}
