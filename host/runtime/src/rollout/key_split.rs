//! The split of the keys between the stable version and the canary.

use homeostat_store::Key;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{PinnedKeys, Share};

/// The track of a key: the version that reconciles it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Track {
    /// The stable version.
    Stable,
    /// The canary.
    Canary,
}

/// The canary's keys: those whose hash falls into its share, and those pinned by labels.
///
/// The hash depends only on the key and the salt. So a greater share contains every key of a smaller one, and
/// a key keeps its track across a restart. Another salt selects other keys.
#[derive(Clone, Debug)]
pub(crate) struct KeySplit {
    /// `None` for no keys at all, not even pinned ones.
    pub(crate) share: Option<Share>,
    /// The keys pinned by labels.
    pub(crate) pinned: PinnedKeys,
    pub(crate) salt: u64,
}

/// Minimum share of the keys in the control group.
const CONTROL_SHARE_MIN: Share = Share::percent(10);

impl KeySplit {
    /// Returns the track of a key.
    pub(crate) fn track_of(&self, key: &Key) -> Track {
        self.track_of_hash(key_hash(key, self.salt))
    }

    /// Returns the track of the key with this hash.
    pub(super) fn track_of_hash(&self, hash: u64) -> Track {
        let Some(share) = self.share else { return Track::Stable };
        if bucket(hash) < share.of_ten_thousand() || self.pinned.contains(hash) { Track::Canary } else { Track::Stable }
    }

    /// Returns whether a key is in the control group: keys of the stable version that are requeued together
    /// with the canary's, for comparison. The group has the same share, at the other end of the hashes.
    pub(crate) fn is_in_control_group(&self, key: &Key) -> bool {
        self.is_control_hash(key_hash(key, self.salt))
    }

    /// As [`KeySplit::is_in_control_group`], for the key with this hash.
    pub(super) fn is_control_hash(&self, hash: u64) -> bool {
        let share = self.share.unwrap_or(Share::NONE).max(CONTROL_SHARE_MIN).of_ten_thousand();
        let from = Share::ALL.of_ten_thousand().saturating_sub(share);
        self.track_of_hash(hash) == Track::Stable && bucket(hash) >= from
    }

    /// Returns the share of the keys in the control group, without pinned keys.
    pub(super) fn control_share(&self) -> Share {
        let share = self.share.unwrap_or(Share::NONE);
        share.max(CONTROL_SHARE_MIN).min(share.others())
    }
}

/// Returns the hash of a key that decides its track.
pub(crate) fn key_hash(key: &Key, salt: u64) -> u64 {
    hash_text(&text(key), salt)
}

/// Returns the text of a key that is hashed. Names contain no slash.
pub(super) fn text(key: &Key) -> String {
    format!("{}/{}", key.namespace(), key.name())
}

/// As [`key_hash`], for the [`text`] of a key.
pub(super) fn hash_text(text: &str, salt: u64) -> u64 {
    xxh3_64_with_seed(text.as_bytes(), salt)
}

/// Returns one of ten thousand buckets, all equally likely.
fn bucket(hash: u64) -> u16 {
    let buckets = u128::from(Share::ALL.of_ten_thousand());
    // The upper half of the product is below the number of buckets.
    u16::try_from((u128::from(hash) * buckets) >> 64).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use homeostat_store::Kind;
    use proptest::prelude::*;

    use super::*;

    fn key(number: u64) -> Key {
        Key::new(Kind::new("demo.homeostat.dev", "v1", "Item"), "default", &format!("k{number}"))
    }

    fn part(share: Share, salt: u64) -> KeySplit {
        KeySplit { share: Some(share), pinned: PinnedKeys::default(), salt }
    }

    #[test]
    fn a_share_selects_about_its_part_of_the_keys_and_another_salt_others() {
        let keys: Vec<Key> = (0..10_000).map(key).collect();
        for percent in [1, 10, 50] {
            let of = |salt| {
                let part = part(Share::percent(percent), salt);
                keys.iter().filter(|key| part.track_of(key) == Track::Canary).collect::<Vec<_>>()
            };
            let expected = usize::from(percent) * 100;
            assert!(of(1).len().abs_diff(expected) < expected / 5 + 20, "{percent}: {}", of(1).len());
            assert_ne!(of(1), of(2));
        }
        let none = KeySplit { share: None, ..part(Share::ALL, 1) };
        assert!(keys.iter().all(|key| none.track_of(key) == Track::Stable));
        assert!(keys.iter().all(|key| part(Share::ALL, 1).track_of(key) == Track::Canary));
    }

    #[test]
    fn a_pinned_key_belongs_to_the_candidate_at_every_share() {
        let chosen: PinnedKeys = [key_hash(&key(7), 3)].into_iter().collect();
        for share in [Share::NONE, Share::percent(10), Share::percent(50)] {
            let part = KeySplit { share: Some(share), pinned: chosen.clone(), salt: 3 };
            assert_eq!(part.track_of(&key(7)), Track::Canary);
        }
        let unlisted = KeySplit { share: None, pinned: chosen, salt: 3 };
        assert_eq!(unlisted.track_of(&key(7)), Track::Stable);
    }

    proptest! {
        /// A growing share moves keys only to the canary, and the control group belongs to the stable
        /// version.
        #[test]
        fn a_growing_share_keeps_its_keys(number: u64, salt: u64, a in 0_u16..=100, b in 0_u16..=100) {
            let (small, great) = (part(Share::percent(a.min(b)), salt), part(Share::percent(a.max(b)), salt));
            let key = key(number);
            prop_assert!(small.track_of(&key) == Track::Stable || great.track_of(&key) == Track::Canary);
            prop_assert!(!great.is_in_control_group(&key) || great.track_of(&key) == Track::Stable);
        }
    }
}
