//! What a watch could not tell because there was no room for more keys.
//!
//! The keys themselves are remembered, [`UNDELIVERED_KEYS_MAX`] of them at most. Above that it is enough to know of what is still there that something was
//! missed: it is found by listing again. What is gone is found by nobody, and left to the next second look at every key.

use std::collections::BTreeSet;

use homeostat_component::Severity;
use homeostat_store::Key;
use parking_lot::Mutex;

use super::Intake;

/// Keys that a watch remembers while there is no room for them. What is above is found by listing again; of deleted resources, by the next
/// second look at every key.
pub(crate) const UNDELIVERED_KEYS_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct UndeliveredKeys(Mutex<Inner>);

/// A key for which there was no room.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct UndeliveredKey {
    /// The resource whose change led to it: who may learn of that is asked again.
    pub(super) of: Key,
    pub(super) key: Key,
}

#[derive(Default)]
struct Inner {
    needs_relist: bool,
    keys: BTreeSet<UndeliveredKey>,
}

impl UndeliveredKeys {
    /// Notes that something is to be found by listing again.
    pub(super) fn require_relist(&self) {
        self.0.lock().needs_relist = true;
    }

    /// Remembers keys, and returns whether there was room for all.
    pub(super) fn add(&self, of: &Key, keys: impl IntoIterator<Item = Key>) -> bool {
        let mut inner = self.0.lock();
        inner.needs_relist = true;
        let mut fits = true;
        for key in keys {
            let owed = UndeliveredKey { of: of.clone(), key };
            if inner.keys.len() < UNDELIVERED_KEYS_MAX {
                inner.keys.insert(owed);
            } else {
                fits &= inner.keys.contains(&owed);
            }
        }
        fits
    }

    /// As [`UndeliveredKeys::owe`], for keys to which nothing that is found by listing will lead. That there was no room for some is told.
    pub(super) fn add_deleted(&self, intake: &Intake, of: &Key, keys: impl IntoIterator<Item = Key>) {
        if !self.add(of, keys) {
            intake.emit_event(
                Severity::Warning,
                "LimitExceeded",
                "limit keys: deletions are told no more until there is room; the next second look at every key finds what they left",
            );
        }
    }

    /// Says whether anything was missed.
    pub(super) fn needs_relist(&self) -> bool {
        self.0.lock().needs_relist
    }

    /// Forgets everything, and returns the keys that are owed.
    pub(super) fn take(&self) -> BTreeSet<UndeliveredKey> {
        std::mem::take(&mut *self.0.lock()).keys
    }
}
