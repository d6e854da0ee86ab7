//! How keys are dealt to both versions, so that each has enough of them to be compared by.
//!
//! A hash alone deals two of ten keys to one side in one rollout of nine. They could be dealt in 45 ways, so nothing that both versions do is
//! evidence of 100 to 1. Therefore several salts are tried, and the one that deals most evenly is kept for the whole rollout. A salt is
//! chosen by how many keys each side has, and never by which: each way to deal so many stays as likely as any other.
//!
//! Source: rerandomisation of controlled trials (Morgan, Rubin: Rerandomization to improve covariate balance in experiments, 2012).

use homeostat_store::Key;

use super::key_split::{KeySplit, Track, hash_text, text};
use super::{PinnedKeys, Share};

/// Salts that are tried.
const SALTS: u64 = 16;

/// Keys that are dealt evenly, at most: of so many, the sides that a hash alone makes hardly differ. Each takes [`SALTS`] hashes, which is about
/// 50 µs in all.
pub(crate) const DEALT_MAX: usize = 256;

/// By what keys are dealt: the same from the first step of a rollout to its end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Deal {
    pub(crate) salt: u64,
    /// The keys that labels have chosen, by their hashes with the salt.
    pub(crate) pinned: PinnedKeys,
}

/// Returns the salt of a revision that deals these keys most evenly at the last of some steps; of those that do so equally, most evenly at the
/// step before, and so on. Only the first [`DEALT_MAX`] keys count. Without keys every salt is as good.
pub(crate) fn even_salt(revision: u64, steps: &[Share], keys: &[Key]) -> u64 {
    let keys: Vec<String> = keys.iter().take(DEALT_MAX).map(text).collect();
    // No two revisions have a salt in common: else the same few keys could bear every candidate.
    let salts = (0..SALTS).map(|number| revision.wrapping_mul(SALTS).wrapping_add(number));
    salts.min_by_key(|salt| unevenness(*salt, steps, &keys)).unwrap_or(revision)
}

/// Returns for each step, the last one first, by how much the keys of both sides are more or fewer than their shares, in ten thousandths of a key.
fn unevenness(salt: u64, steps: &[Share], keys: &[String]) -> Vec<u64> {
    let hashes: Vec<u64> = keys.iter().map(|key| hash_text(key, salt)).collect();
    let count = |is_meant: &dyn Fn(u64) -> bool| hashes.iter().filter(|hash| is_meant(**hash)).count() as u64;
    let off = |counted: u64, share: Share| {
        let whole = u64::from(Share::ALL.of_ten_thousand());
        (counted * whole).abs_diff(hashes.len() as u64 * u64::from(share.of_ten_thousand()))
    };
    let of_step = |share: &Share| {
        let part = KeySplit { share: Some(*share), pinned: PinnedKeys::default(), salt };
        let new = count(&|hash| part.track_of_hash(hash) == Track::Canary);
        let control = count(&|hash| part.is_control_hash(hash));
        off(new, *share) + off(control, part.control_share())
    };
    steps.iter().rev().map(of_step).collect()
}

#[cfg(test)]
mod tests {
    use homeostat_store::Kind;

    use super::*;
    use crate::rollout::CanaryPlan;

    fn keys(count: usize) -> Vec<Key> {
        let kind = Kind::new("demo.homeostat.dev", "v1", "Item");
        (0..count).map(|number| Key::new(kind.clone(), "default", &format!("k{number}"))).collect()
    }

    /// Returns how many of the keys the candidate has, and how many are looked at beside them.
    fn sides(keys: &[Key], share: Share, salt: u64) -> (usize, usize) {
        let part = KeySplit { share: Some(share), pinned: PinnedKeys::default(), salt };
        let new = keys.iter().filter(|key| part.track_of(key) == Track::Canary).count();
        (new, keys.iter().filter(|key| part.is_in_control_group(key)).count())
    }

    #[test]
    fn ten_keys_are_dealt_four_to_six_at_least_for_every_revision() {
        let (steps, keys) = (CanaryPlan::default().steps, keys(10));
        let dealt = (1..=2000).map(|revision| even_salt(revision, &steps, &keys));
        let (mut even, mut tenth) = (0, 0);
        for salt in dealt {
            let (new, old) = sides(&keys, Share::percent(50), salt);
            assert!(new.min(old) >= 4 && new + old == 10, "{salt}: {new} and {old}");
            even += usize::from(new == 5);
            tenth += usize::from(sides(&keys, Share::percent(10), salt) == (1, 1));
        }
        // By a hash alone they are 490 and 180.
        assert!(even > 1900 && tenth > 700, "{even}, {tenth}");
    }

    #[test]
    fn a_salt_is_even_at_the_last_step_first_and_for_any_number_of_keys() {
        for count in 2..200 {
            let keys = keys(count);
            for percent in [20, 30, 50] {
                let share = Share::percent(percent);
                let (new, old) = sides(&keys, share, even_salt(7, &[Share::percent(1), share], &keys));
                let expected = count as f64 * share.fraction();
                let off = (new as f64 - expected).abs().max((old as f64 - expected).abs());
                assert!(off <= 1.0 + expected.sqrt() / 2.0, "{percent}% of {count}: {new} and {old}");
            }
        }
    }

    #[test]
    fn a_salt_follows_from_the_revision_and_the_keys_and_is_of_no_other_revision() {
        let (steps, keys) = (CanaryPlan::default().steps, keys(10));
        let of = |revision| even_salt(revision, &steps, &keys);
        assert_eq!(of(3), of(3));
        assert!((1..500).all(|revision| of(revision) / SALTS == revision));
        assert_eq!(even_salt(3, &steps, &[]), 3 * SALTS, "without keys the first one");
        assert_eq!(even_salt(3, &[], &keys), 3 * SALTS, "without steps too");
    }

    #[test]
    fn no_more_keys_than_the_bound_are_dealt_evenly() {
        let (steps, many) = (CanaryPlan::default().steps, keys(4 * DEALT_MAX));
        assert_eq!(even_salt(5, &steps, &many), even_salt(5, &steps, &many[..DEALT_MAX]));
    }
}
