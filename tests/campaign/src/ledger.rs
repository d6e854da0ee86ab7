//! What a store has acknowledged, kept outside of it.

use std::collections::BTreeMap;

use crate::document::{self, State};
use crate::load::AcknowledgedWrite;

/// The acknowledged writes since the last look into the store, and what was there then.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Per document: the last revision, and what is there; `None` when it was deleted.
    pub(crate) documents: BTreeMap<String, (u64, Option<State>)>,
    /// Per revision since the last look: the document and what was left of it.
    pub(crate) revisions: BTreeMap<u64, (String, Option<State>)>,
    /// The revision of the store at the last look.
    pub(crate) looked: u64,
    /// Counters of this cycle begin above this.
    base: u64,
    /// Per task: the counter of its last acknowledged write.
    counters: BTreeMap<u64, u64>,
}

impl Ledger {
    /// Begins a cycle whose counters are above `base`.
    pub(crate) fn start_cycle(&mut self, base: u64) {
        self.base = base;
        self.counters.clear();
    }

    /// Notes a write.
    pub(crate) fn record(&mut self, written: AcknowledgedWrite) {
        let AcknowledgedWrite { name, revision, counter, state } = written;
        if let Some(task) = document::task(&name) {
            self.counters.insert(task, counter);
        }
        self.documents.insert(name.clone(), (revision, state));
        self.revisions.insert(revision, (name, state));
    }

    /// Notes what a look into the store has found.
    pub(crate) fn reset(&mut self, revision: u64, found: BTreeMap<String, (u64, State)>) {
        self.looked = revision;
        self.revisions.clear();
        self.documents = found.into_iter().map(|(name, (revision, state))| (name, (revision, Some(state)))).collect();
    }

    /// Returns the counter of the one write of a task that may have been under way: it can be there or not.
    pub(crate) fn pending_counter(&self, task: u64) -> u64 {
        self.counters.get(&task).copied().unwrap_or(self.base) + 1
    }

    /// Returns the highest revision that is known.
    pub(crate) fn revision(&self) -> u64 {
        self.revisions.last_key_value().map_or(self.looked, |(revision, _)| self.looked.max(*revision))
    }
}
