//! Keys that a watch could not deliver because the queue was full.
//!
//! At most [`UNDELIVERED_KEYS_MAX`] keys are remembered. Above that, a flag suffices for existing resources:
//! listing again finds them. Deleted resources are not listed, so their keys are left to the next resync.

use std::collections::BTreeSet;

use homeostat_component::Severity;
use homeostat_store::Key;
use parking_lot::Mutex;

use super::Intake;

/// Maximum number of undelivered keys that a watch remembers. Further ones are found by listing again; those
/// of deleted resources by the next resync.
pub(crate) const UNDELIVERED_KEYS_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct UndeliveredKeys(Mutex<Inner>);

/// A key that the full queue refused.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct UndeliveredKey {
    /// The resource whose change led to the key. Its visibility is checked again on delivery.
    pub(super) of: Key,
    pub(super) key: Key,
}

#[derive(Default)]
struct Inner {
    needs_relist: bool,
    keys: BTreeSet<UndeliveredKey>,
}

impl UndeliveredKeys {
    /// Records that the watch must list again.
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

    /// As [`UndeliveredKeys::add`], for keys that a new list would not lead to. Reports when there was no
    /// room for some.
    pub(super) fn add_deleted(&self, intake: &Intake, of: &Key, keys: impl IntoIterator<Item = Key>) {
        if !self.add(of, keys) {
            intake.emit_event(
                Severity::Warning,
                "LimitExceeded",
                "limit keys: keys of deleted resources are dropped until there is room; the next resync finds them",
            );
        }
    }

    /// Returns whether the watch must list again.
    pub(super) fn needs_relist(&self) -> bool {
        self.0.lock().needs_relist
    }

    /// Forgets everything and returns the remembered keys.
    pub(super) fn take(&self) -> BTreeSet<UndeliveredKey> {
        std::mem::take(&mut *self.0.lock()).keys
    }
}
