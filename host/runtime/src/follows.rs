//! The resources that keys follow: the set from a key's last successful reconcile, and the set that the
//! running one gathers.

mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use homeostat_component::Disclosure;
use homeostat_store::{Key, Kind, Resource, Selector};
use parking_lot::Mutex;

use self::index::FollowerIndex;

/// Maximum bytes of the resources that the keys of one controller follow: names, selectors and overhead. At
/// the bound, new requests are refused and existing ones stay.
pub(crate) const BYTES_MAX: u64 = 16 << 20;
/// Bytes of an entry in addition to its texts, with its first place in the index.
const ENTRY_BYTES: u64 = 640;
/// Bytes of each further place in the index, in addition to the key of the follower.
const PLACE_BYTES: u64 = 256;

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

    fn bytes(&self, follower: &Key) -> u64 {
        let places = self.place_count() - 1;
        ENTRY_BYTES
            + places * (PLACE_BYTES + key_bytes(follower))
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
    ENTRY_BYTES + key_bytes(follower) + targets.iter().map(|target| target.bytes(follower)).sum::<u64>()
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
    /// The targets of `current`.
    index: FollowerIndex,
    gathering: BTreeMap<Key, Vec<Target>>,
    /// Bytes of all sets, including those being gathered.
    bytes: u64,
    /// Kinds that a feeder watches on behalf of keys.
    watched: BTreeSet<Kind>,
}

impl Sets {
    /// Replaces the current set of a key. Returns whether the sets differ.
    fn replace(&mut self, follower: &Key, targets: Option<Vec<Target>>) -> bool {
        let last = self.current.get(follower).map_or(&[][..], Vec::as_slice);
        let now = targets.as_deref().unwrap_or_default();
        // The order of requests does not matter, and a set has no duplicates.
        let differ = last.len() != now.len() || !now.iter().all(|target| last.contains(target));
        if differ {
            self.index.remove(follower, last);
            self.index.add(follower, now);
        }
        let bytes = |targets: &Vec<Target>| set_bytes(follower, targets);
        let last = match targets {
            Some(targets) => self.current.insert(follower.clone(), targets),
            None => self.current.remove(follower),
        };
        self.bytes -= last.as_ref().map_or(0, bytes);
        differ
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
        let bytes = target.bytes(follower) + if known.is_some() { 0 } else { set_bytes(follower, &[]) };
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
        let is_some = gathered.is_some();
        sets.replace(follower, gathered) && is_some
    }

    /// Drops the current sets of all keys for which `keep` is false.
    pub(crate) fn retain(&self, keep: impl Fn(&Key) -> bool) {
        if !self.used.load(Ordering::Acquire) {
            return;
        }
        let mut sets = self.sets.lock();
        let gone: Vec<Key> = sets.current.keys().filter(|follower| !keep(follower)).cloned().collect();
        for follower in gone {
            sets.replace(&follower, None);
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
        let unwatched: Vec<Kind> = sets.index.kinds().filter(|kind| !sets.watched.contains(*kind)).cloned().collect();
        sets.watched.extend(unwatched.iter().cloned());
        unwatched
    }

    /// Returns whether no key follows a kind any more. Then its feeder ends, and a later request starts a new
    /// one.
    pub(crate) fn let_go(&self, kind: &Kind) -> bool {
        let mut sets = self.sets.lock();
        let unused = !sets.index.has_kind(kind);
        if unused {
            sets.watched.remove(kind);
        }
        unused
    }

    /// Returns the keys that follow anything of this kind.
    pub(crate) fn followers_of_kind(&self, kind: &Kind) -> Vec<Key> {
        self.sets.lock().index.of_kind(kind).into_iter().collect()
    }

    /// Returns the keys that follow this resource, if `may` allows what its change reveals.
    pub(crate) fn followers_of(&self, resource: &Resource, may: impl Fn(&Key, Disclosure) -> bool) -> Vec<Key> {
        let sets = self.sets.lock();
        let is_meant = |follower: &&&Key| {
            let targets = sets.current.get(**follower);
            let mut targets = targets.into_iter().flatten();
            targets.any(|target| target.means(resource) && may(follower, target.reveals()))
        };
        sets.index.candidates(resource).iter().filter(is_meant).map(|follower| (**follower).clone()).collect()
    }
}

#[cfg(test)]
mod tests;
