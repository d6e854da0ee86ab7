//! The keys that cost most, in bounded memory.
//!
//! Space-saving (Metwally, Agrawal and El Abbadi, 2005): a new key takes the place of the cheapest one and inherits its points, so that
//! no key that is dear can be kept out by many that are cheap. Of all measures together a reconcile has *points*, so that one table
//! serves them all; each measure is summed up exactly for as long as its key is in the table.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use homeostat_component::Cost;
use homeostat_store::Key;

use super::{KeyUsage, Usage};

/// Keys that are kept.
pub(crate) const KEYS_MAX: usize = 64;

// What a reconcile has points for: as many as the nanoseconds that such things take.
const POINTS_A_RUN: u64 = 5000;
const POINTS_AN_EFFECT: u64 = 10_000;
const MEMORY_BYTES_A_POINT: u64 = 64;

/// **Invariants.** The lists are equally long, at most [`KEYS_MAX`], and no key is there twice. The points of all keys together are
/// those of everything that was noted; so the points of the cheapest are a 64th of these at most, and a key that has more is there.
#[derive(Debug, Default)]
pub(super) struct TopKeys {
    /// The key's hash: looked through before keys are compared.
    hashes: Vec<u64>,
    points: Vec<u64>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    spent: Usage,
    /// Points of the key whose place this one took: its own before that are these at most.
    inherited: u64,
}

impl TopKeys {
    /// Takes note of one reconcile.
    pub(super) fn note(&mut self, key: &Key, cost: &Cost, failed: bool) {
        let at = self.place(key);
        self.points[at] = self.points[at].saturating_add(points(cost));
        self.entries[at].spent.add(cost, failed);
    }

    /// Returns the place of a key, which is made where there is none.
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

/// What several tables know together, if each key may be in any of them.
///
/// A key's points above those of its table's cheapest are never more than it has, and less by a 64th of all points at most, over all
/// tables. So whoever has more than a 64th has more left than a 64th of what all have left: it is among the 64 that have the most.
/// Source: Agarwal, Cormode, Huang, Phillips, Wei and Yi, Mergeable Summaries, 2012.
#[derive(Default)]
pub(super) struct MergedTopKeys {
    found: HashMap<Key, MergedKey>,
    /// How many tables are full.
    full: usize,
}

#[derive(Default)]
struct MergedKey {
    spent: Usage,
    points: u64,
    inherited: bool,
    /// In how many full tables it is.
    in_full: usize,
}

impl MergedTopKeys {
    /// Adds what one table knows.
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

    /// Returns the keys with what they used, at most [`KEYS_MAX`].
    pub(super) fn keys(self) -> Vec<KeyUsage> {
        let mut found: Vec<(Key, MergedKey)> = self.found.into_iter().collect();
        found.sort_by_key(|(_, found)| Reverse(found.points));
        found.truncate(KEYS_MAX);
        let key = |(key, found): (Key, MergedKey)| {
            // A full table that does not have it may have had it before.
            let at_least = found.inherited || found.in_full < self.full;
            KeyUsage { key, spent: found.spent, at_least }
        };
        found.into_iter().map(key).collect()
    }
}

fn points(cost: &Cost) -> u64 {
    let Cost { cpu, wall: _, memory_bytes_max, effects, bytes_out, bytes_in } = cost;
    let cpu = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
    let effects = POINTS_AN_EFFECT * u64::from(effects.total());
    let memory = memory_bytes_max / MEMORY_BYTES_A_POINT;
    [cpu, effects, memory, *bytes_out, *bytes_in].into_iter().fold(POINTS_A_RUN, u64::saturating_add)
}

#[cfg(test)]
mod tests;
