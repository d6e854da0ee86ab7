//! Deals the keys to both versions, so that each has enough of them for a comparison.
//!
//! A hash alone deals two of ten keys to one version in one rollout of nine. There are 45 ways to deal them,
//! so no difference between the versions is evidence of 100 to 1. Therefore several salts are tried, and the
//! most even one is kept for the whole rollout. A salt is chosen by the number of keys of each version, never
//! by the keys themselves: every deal with these numbers stays equally likely.
//!
//! Source: rerandomisation of controlled trials (Morgan, Rubin: Rerandomization to improve covariate balance
//! in experiments, 2012).

use homeostat_store::Key;

use super::key_split::{KeySplit, Track, hash_text, text};
use super::{PinnedKeys, Share};

/// Number of salts to try.
const SALTS: u64 = 16;

/// Maximum number of keys to deal evenly; for more keys, a hash alone is even enough. Each key takes
/// [`SALTS`] hashes, about 50 µs for all keys together.
pub(crate) const DEALT_MAX: usize = 256;

/// The parameters of a deal, constant from the first step of a rollout to its end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Deal {
    pub(crate) salt: u64,
    /// The keys pinned by labels, as hashes with the salt.
    pub(crate) pinned: PinnedKeys,
}

/// Returns the salt of a revision that deals these keys most evenly at the last step; among equal ones, most
/// evenly at the step before, and so on. Only the first [`DEALT_MAX`] keys count. Without keys all salts are
/// equal.
pub(crate) fn even_salt(revision: u64, steps: &[Share], keys: &[Key]) -> u64 {
    let keys: Vec<String> = keys.iter().take(DEALT_MAX).map(text).collect();
    // Salts differ between revisions; otherwise the same few keys could get every canary.
    let salts = (0..SALTS).map(|number| revision.wrapping_mul(SALTS).wrapping_add(number));
    salts.min_by_key(|salt| unevenness(*salt, steps, &keys)).unwrap_or(revision)
}

/// Returns for each step, from the last one, how far both versions are from their share of the keys, in
/// ten-thousandths of a key.
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

    /// Returns the number of keys of the canary, and of the control group.
    fn sides(keys: &[Key], share: Share, salt: u64) -> (usize, usize) {
        let part = KeySplit { share: Some(share), pinned: PinnedKeys::default(), salt };
        let new = keys.iter().filter(|key| part.track_of(key) == Track::Canary).count();
        (new, keys.iter().filter(|key| part.is_in_control_group(key)).count())
    }

    #[test]
    fn ten_keys_are_split_at_least_four_to_six_for_every_revision() {
        let (steps, keys) = (CanaryPlan::default().steps, keys(10));
        let dealt = (1..=2000).map(|revision| even_salt(revision, &steps, &keys));
        let (mut even, mut tenth) = (0, 0);
        for salt in dealt {
            let (new, old) = sides(&keys, Share::percent(50), salt);
            assert!(new.min(old) >= 4 && new + old == 10, "{salt}: {new} and {old}");
            even += usize::from(new == 5);
            tenth += usize::from(sides(&keys, Share::percent(10), salt) == (1, 1));
        }
        // With a hash alone these are 490 and 180.
        assert!(even > 1900 && tenth > 700, "{even}, {tenth}");
    }

    #[test]
    fn a_salt_splits_keys_evenly_at_the_last_step_first() {
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
    fn an_even_split_is_computed_for_a_bounded_number_of_keys() {
        let (steps, many) = (CanaryPlan::default().steps, keys(4 * DEALT_MAX));
        assert_eq!(even_salt(5, &steps, &many), even_salt(5, &steps, &many[..DEALT_MAX]));
    }
}
