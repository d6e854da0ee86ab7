//! The acknowledged writes of a store, kept outside of it.

use std::collections::BTreeMap;

use crate::document::{self, State};
use crate::load::AcknowledgedWrite;

/// The acknowledged writes since the last check of the store, and the state at that check.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// By document: the last revision, and the state; `None` if it was deleted.
    pub(crate) documents: BTreeMap<String, (u64, Option<State>)>,
    /// By revision since the last check: the document and its state after the write.
    pub(crate) revisions: BTreeMap<u64, (String, Option<State>)>,
    /// The revision of the store at the last check.
    pub(crate) looked: u64,
    /// Counters of this cycle are above this.
    base: u64,
    /// By task: the counter of its last acknowledged write.
    counters: BTreeMap<u64, u64>,
}

impl Ledger {
    /// Starts a cycle whose counters are above `base`.
    pub(crate) fn start_cycle(&mut self, base: u64) {
        self.base = base;
        self.counters.clear();
    }

    /// Records an acknowledged write.
    pub(crate) fn record(&mut self, written: AcknowledgedWrite) {
        let AcknowledgedWrite { name, revision, counter, state } = written;
        if let Some(task) = document::task(&name) {
            self.counters.insert(task, counter);
        }
        self.documents.insert(name.clone(), (revision, state));
        self.revisions.insert(revision, (name, state));
    }

    /// Records the state that a check has found.
    pub(crate) fn reset(&mut self, revision: u64, found: BTreeMap<String, (u64, State)>) {
        self.looked = revision;
        self.revisions.clear();
        self.documents = found.into_iter().map(|(name, (revision, state))| (name, (revision, Some(state)))).collect();
    }

    /// Returns the counter of the task's pending write, which may or may not be in the store.
    pub(crate) fn pending_counter(&self, task: u64) -> u64 {
        self.counters.get(&task).copied().unwrap_or(self.base) + 1
    }

    /// Returns the highest known revision.
    pub(crate) fn revision(&self) -> u64 {
        self.revisions.last_key_value().map_or(self.looked, |(revision, _)| self.looked.max(*revision))
    }
}
