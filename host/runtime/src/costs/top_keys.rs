//! The most expensive keys, in bounded memory.
//!
//! Space-saving (Metwally, Agrawal and El Abbadi, 2005): a new key replaces the cheapest one and inherits its
//! points, so that many cheap keys cannot keep an expensive one out. A reconcile's *points* combine all
//! measures, so one table serves them all. Each measure is summed exactly while its key is in the table.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use homeostat_component::Cost;
use homeostat_store::Key;

use super::{KeyUsage, Usage};

/// Maximum number of keys in a table.
pub(crate) const KEYS_MAX: usize = 64;

/// Bytes of a key with the longest names and its usage.
pub(super) const KEY_BYTES: u64 = 1536;

// Points of a reconcile, in the nanoseconds that each part typically takes.
const POINTS_A_RUN: u64 = 5000;
const POINTS_AN_EFFECT: u64 = 10_000;
const MEMORY_BYTES_A_POINT: u64 = 64;

/// **Invariants.** The lists have equal length, at most [`KEYS_MAX`], and contain no key twice. The points of
/// all entries add up to those of all recorded reconciles. So the cheapest entry has at most a 64th of them,
/// and a key with more is in the table.
#[derive(Debug, Default)]
pub(super) struct TopKeys {
    /// Hashes of the keys, compared before the keys.
    hashes: Vec<u64>,
    points: Vec<u64>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    spent: Usage,
    /// Points of the replaced key: an upper bound of this key's own points before.
    inherited: u64,
}

impl TopKeys {
    /// Records one reconcile.
    pub(super) fn note(&mut self, key: &Key, cost: &Cost, failed: bool) {
        let at = self.place(key);
        self.points[at] = self.points[at].saturating_add(points(cost));
        self.entries[at].spent.add(cost, failed);
    }

    /// Returns the index of a key, which is inserted if it is missing.
    fn place(&mut self, key: &Key) -> usize {
        let hash = FixedState::default().hash_one(key);
        let mut same = self.hashes.iter().enumerate().filter(|(_, known)| **known == hash);
        if let Some((at, _)) = same.find(|(at, _)| self.entries[*at].key == *key) {
            return at;
        }
        let entry = |inherited| Entry { key: key.clone(), spent: Usage::default(), inherited };
        if self.entries.len() < KEYS_MAX {
            self.hashes.push(hash);
            self.points.push(0);
            self.entries.push(entry(0));
            return self.entries.len() - 1;
        }
        let cheapest = self.points.iter().enumerate().min_by_key(|(_, points)| **points);
        let (at, points) = cheapest.map(|(at, points)| (at, *points)).expect("the table is full, not empty");
        self.hashes[at] = hash;
        self.entries[at] = entry(points);
        at
    }
}

/// The union of several tables, if each key may be in any of them.
///
/// A key's points minus those of its table's cheapest entry never overstate the key. Over all tables they
/// understate it by at most a 64th of all points. So a key with more than a 64th of all points is among the
/// 64 with the most points left.
/// Source: Agarwal, Cormode, Huang, Phillips, Wei and Yi, Mergeable Summaries, 2012.
#[derive(Default)]
pub(super) struct MergedTopKeys {
    found: HashMap<Key, MergedKey>,
    /// Number of full tables.
    full: usize,
}

#[derive(Default)]
struct MergedKey {
    spent: Usage,
    points: u64,
    inherited: bool,
    /// Number of full tables that contain the key.
    in_full: usize,
}

impl MergedTopKeys {
    /// Adds one table.
    pub(super) fn take(&mut self, table: &TopKeys) {
        let is_full = table.entries.len() == KEYS_MAX;
        let cheapest = table.points.iter().min().filter(|_| is_full).copied().unwrap_or_default();
        self.full += usize::from(is_full);
        for (Entry { key, spent, inherited }, points) in table.entries.iter().zip(&table.points) {
            let found = self.found.entry(key.clone()).or_default();
            found.spent.merge(spent);
            found.points = found.points.saturating_add(points - cheapest);
            found.inherited |= *inherited > 0;
            found.in_full += usize::from(is_full);
        }
    }

    /// Returns the keys with their usage, at most [`KEYS_MAX`].
    pub(super) fn keys(self) -> Vec<KeyUsage> {
        let mut found: Vec<(Key, MergedKey)> = self.found.into_iter().collect();
        found.sort_by_key(|(_, found)| Reverse(found.points));
        found.truncate(KEYS_MAX);
        let key = |(key, found): (Key, MergedKey)| {
            // A full table without the key may have contained it before.
            let at_least = found.inherited || found.in_full < self.full;
            KeyUsage { key, spent: found.spent, at_least }
        };
        found.into_iter().map(key).collect()
    }
}

fn points(cost: &Cost) -> u64 {
    let Cost { cpu, wall: _, memory_bytes_max, pages_grown: _, effects, bytes_out, bytes_in } = cost;
    let cpu = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
    let effects = POINTS_AN_EFFECT * u64::from(effects.total());
    let memory = memory_bytes_max / MEMORY_BYTES_A_POINT;
    [cpu, effects, memory, *bytes_out, *bytes_in].into_iter().fold(POINTS_A_RUN, u64::saturating_add)
}

#[cfg(test)]
mod tests;
