//! The resources that keys follow: the set from a key's last successful reconcile, and the set that the
//! running one gathers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use homeostat_component::Disclosure;
use homeostat_store::{Key, Kind, Resource, Selector};
use parking_lot::Mutex;

/// Maximum bytes of the resources that the keys of one controller follow: names, selectors and overhead. At
/// the bound, new requests are refused and existing ones stay.
pub(crate) const BYTES_MAX: u64 = 16 << 20;
/// Measured bytes of an entry in addition to its texts.
const ENTRY_BYTES: u64 = 512;

/// One thing that a key follows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    /// One resource.
    One(Key),
    /// All resources of a kind that match the selector.
    All(Kind, Selector),
}

impl Target {
    pub(crate) fn kind(&self) -> &Kind {
        match self {
            Self::One(key) => key.kind(),
            Self::All(kind, _) => kind,
        }
    }

    /// Returns how much of a resource its change reveals. A selector on document content reveals that
    /// content.
    fn reveals(&self) -> Disclosure {
        match self {
            Self::One(_) => Disclosure::Key,
            Self::All(_, selector) => Disclosure::of(selector),
        }
    }

    fn bytes(&self) -> u64 {
        ENTRY_BYTES
            + match self {
                Self::One(key) => key_bytes(key),
                Self::All(kind, selector) => kind_bytes(kind) + selector.bytes(),
            }
    }

    fn means(&self, resource: &Resource) -> bool {
        match self {
            Self::One(key) => key == resource.key(),
            Self::All(kind, selector) => kind.same_type(resource.key().kind()) && selector.matches(resource),
        }
    }
}

fn kind_bytes(kind: &Kind) -> u64 {
    (kind.group.len() + kind.version.len() + kind.name.len()) as u64
}

fn key_bytes(key: &Key) -> u64 {
    kind_bytes(key.kind()) + (key.namespace().len() + key.name().len()) as u64
}

fn set_bytes(follower: &Key, targets: &[Target]) -> u64 {
    ENTRY_BYTES + key_bytes(follower) + targets.iter().map(Target::bytes).sum::<u64>()
}

/// The sets of one controller.
#[derive(Default)]
pub(crate) struct Follows {
    /// Whether any key has ever asked to follow something. Until then the lock is not taken.
    used: AtomicBool,
    sets: Mutex<Sets>,
}

#[derive(Default)]
struct Sets {
    current: BTreeMap<Key, Vec<Target>>,
    gathering: BTreeMap<Key, Vec<Target>>,
    /// Bytes of all sets, including those being gathered.
    bytes: u64,
    /// Kinds that a feeder watches on behalf of keys.
    watched: BTreeSet<Kind>,
}

impl Sets {
    fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.current.values().flatten().map(Target::kind)
    }
}

impl Follows {
    /// Records a request of a running reconcile. Returns `false` if there is no room; then nothing has
    /// changed.
    pub(crate) fn gather(&self, follower: &Key, target: Target) -> bool {
        // Set before the target is stored, so that the end of this reconcile sees it.
        self.used.store(true, Ordering::Release);
        let mut sets = self.sets.lock();
        let known = sets.gathering.get(follower);
        if known.is_some_and(|known| known.contains(&target)) {
            return true;
        }
        let bytes = target.bytes() + if known.is_some() { 0 } else { set_bytes(follower, &[]) };
        if sets.bytes + bytes > BYTES_MAX {
            return false;
        }
        sets.bytes += bytes;
        sets.gathering.entry(follower.clone()).or_default().push(target);
        true
    }

    /// Makes the gathered set the key's current one. Returns whether it differs from the previous one.
    pub(crate) fn keep(&self, follower: &Key) -> bool {
        if !self.used.load(Ordering::Acquire) {
            return false;
        }
        let mut sets = self.sets.lock();
        let gathered = sets.gathering.remove(follower);
        if gathered.is_none() && sets.current.is_empty() {
            return false;
        }
        match gathered {
            Some(targets) => {
                let last = sets.current.insert(follower.clone(), targets.clone());
                sets.bytes -= last.as_ref().map_or(0, |last| set_bytes(follower, last));
                let last = last.unwrap_or_default();
                // The order of requests does not matter, and a set has no duplicates.
                last.len() != targets.len() || !targets.iter().all(|target| last.contains(target))
            }
            None => {
                let last = sets.current.remove(follower);
                sets.bytes -= last.map_or(0, |last| set_bytes(follower, &last));
                false
            }
        }
    }

    /// Drops the gathered set; the current one stays.
    pub(crate) fn roll_back(&self, follower: &Key) {
        let mut sets = self.sets.lock();
        let gathered = sets.gathering.remove(follower);
        sets.bytes -= gathered.map_or(0, |gathered| set_bytes(follower, &gathered));
    }

    /// Returns the kinds that some key follows and no feeder watches yet. The caller starts feeders for them.
    pub(crate) fn take_unwatched(&self) -> Vec<Kind> {
        let mut sets = self.sets.lock();
        let kinds: BTreeSet<Kind> = sets.kinds().cloned().collect();
        let unwatched: Vec<Kind> = kinds.difference(&sets.watched).cloned().collect();
        sets.watched.extend(unwatched.iter().cloned());
        unwatched
    }

    /// Returns whether no key follows a kind any more. Then its feeder ends, and a later request starts a new
    /// one.
    pub(crate) fn let_go(&self, kind: &Kind) -> bool {
        let mut sets = self.sets.lock();
        let unused = !sets.kinds().any(|followed| followed == kind);
        if unused {
            sets.watched.remove(kind);
        }
        unused
    }

    /// Returns the keys that follow anything of this kind.
    pub(crate) fn followers_of_kind(&self, kind: &Kind) -> Vec<Key> {
        self.followers(|_, target| target.kind().same_type(kind))
    }

    /// Returns the keys that follow this resource, if `may` allows what its change reveals.
    pub(crate) fn followers_of(&self, resource: &Resource, may: impl Fn(&Key, Disclosure) -> bool) -> Vec<Key> {
        self.followers(|follower, target| target.means(resource) && may(follower, target.reveals()))
    }

    fn followers(&self, is_meant: impl Fn(&Key, &Target) -> bool) -> Vec<Key> {
        let sets = self.sets.lock();
        let followers =
            sets.current.iter().filter(|(follower, targets)| targets.iter().any(|target| is_meant(follower, target)));
        followers.map(|(follower, _)| follower.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
