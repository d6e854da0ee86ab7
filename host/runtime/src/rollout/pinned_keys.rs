//! The keys that labels have pinned to a canary: bounded, and stored across restarts.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of pinned keys. Of more keys, those with the smallest hashes are pinned.
pub(crate) const PINNED_KEYS_MAX: usize = 4096;
/// Bytes of their hashes.
pub(crate) const BYTES_MAX: u64 = (PINNED_KEYS_MAX * size_of::<u64>()) as u64;

/// Hexadecimal digits of a hash.
const DIGITS: usize = 16;

/// Sorted hashes of keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct PinnedKeys(Arc<[u64]>);

impl PinnedKeys {
    pub(crate) fn contains(&self, hash: u64) -> bool {
        self.0.binary_search(&hash).is_ok()
    }

    /// Returns these keys and others, within the bound.
    pub(crate) fn and(&self, hashes: impl Iterator<Item = u64>) -> Self {
        self.0.iter().copied().chain(hashes).collect()
    }

    /// Encodes the hashes in sixteen hexadecimal digits each.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|hash| format!("{hash:0DIGITS$x}")).collect()
    }

    /// Decodes the output of [`PinnedKeys::text`]. Returns `None` for anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > PINNED_KEYS_MAX * DIGITS || !text.is_ascii() || !text.len().is_multiple_of(DIGITS) {
            return None;
        }
        let hashes = (0..text.len()).step_by(DIGITS).map(|at| u64::from_str_radix(&text[at..at + DIGITS], 16).ok());
        Some(hashes.collect::<Option<BTreeSet<_>>>()?.into_iter().collect())
    }
}

impl FromIterator<u64> for PinnedKeys {
    /// Keeps the [`PINNED_KEYS_MAX`] smallest hashes, and never holds more than one above that.
    fn from_iter<I: IntoIterator<Item = u64>>(hashes: I) -> Self {
        let mut least = BTreeSet::new();
        for hash in hashes {
            least.insert(hash);
            if least.len() > PINNED_KEYS_MAX {
                least.pop_last();
            }
        }
        Self(least.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use homeostat_testing::{grows_by_at_most, measured, with_slack};

    use super::*;

    #[test]
    fn pinned_keys_are_bounded_and_decode_to_themselves() {
        let many: PinnedKeys = (0..2 * PINNED_KEYS_MAX as u64).rev().chain([u64::MAX]).collect();
        assert!(many.contains(0) && many.contains(PINNED_KEYS_MAX as u64 - 1));
        assert!(!many.contains(PINNED_KEYS_MAX as u64) && !many.contains(u64::MAX));
        for chosen in [many, PinnedKeys::default(), [u64::MAX, 7].into_iter().collect()] {
            assert_eq!(PinnedKeys::parse(&chosen.text()), Some(chosen));
        }
        for wrong in ["1", "000000000000000g", "\u{e9}00000000000000", &"0".repeat(DIGITS * (PINNED_KEYS_MAX + 1))] {
            assert_eq!(PinnedKeys::parse(wrong), None, "{wrong}");
        }
    }

    measured! {
        fn pinned_keys_take_no_more_memory_than_their_bound measure_chosen {
            const ROLLOUTS: u64 = 256;
            grows_by_at_most(with_slack(ROLLOUTS * BYTES_MAX), || {
                let all: Vec<PinnedKeys> = (0..ROLLOUTS).map(|_| (0..2 * PINNED_KEYS_MAX as u64).rev().collect()).collect();
                all
            });
        }
    }
}
