//! What a watch could not tell because there was no room for more keys.
//!
//! The keys themselves are remembered, [`OWED_MAX`] of them at most. Above that it is enough to know of what is still there that something was
//! missed: it is found by listing again. What is gone is found by nobody, and left to the next second look at every key.

use std::collections::BTreeSet;

use homeostat_component::Severity;
use homeostat_store::Key;
use parking_lot::Mutex;

use super::Intake;

/// Keys that a watch remembers while there is no room for them. What is above is found by listing again; of deleted resources, by the next
/// second look at every key.
pub(crate) const OWED_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Missed(Mutex<Inner>);

/// A key for which there was no room.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Owed {
    /// The resource whose change led to it: who may learn of that is asked again.
    pub(super) of: Key,
    pub(super) key: Key,
}

#[derive(Default)]
struct Inner {
    is_something: bool,
    owed: BTreeSet<Owed>,
}

impl Missed {
    /// Notes that something is to be found by listing again.
    pub(super) fn note(&self) {
        self.0.lock().is_something = true;
    }

    /// Remembers keys, and returns whether there was room for all.
    pub(super) fn owe(&self, of: &Key, keys: impl IntoIterator<Item = Key>) -> bool {
        let mut inner = self.0.lock();
        inner.is_something = true;
        let mut fits = true;
        for key in keys {
            let owed = Owed { of: of.clone(), key };
            if inner.owed.len() < OWED_MAX {
                inner.owed.insert(owed);
            } else {
                fits &= inner.owed.contains(&owed);
            }
        }
        fits
    }

    /// As [`Missed::owe`], for keys to which nothing that is found by listing will lead. That there was no room for some is told.
    pub(super) fn owe_of_gone(&self, intake: &Intake, of: &Key, keys: impl IntoIterator<Item = Key>) {
        if !self.owe(of, keys) {
            intake.tell(
                Severity::Warning,
                "LimitExceeded",
                "limit keys: deletions are told no more until there is room; the next second look at every key finds what they left",
            );
        }
    }

    /// Says whether anything was missed.
    pub(super) fn is_something(&self) -> bool {
        self.0.lock().is_something
    }

    /// Forgets everything, and returns the keys that are owed.
    pub(super) fn take(&self) -> BTreeSet<Owed> {
        std::mem::take(&mut *self.0.lock()).owed
    }
}
