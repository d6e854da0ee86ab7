//! The sync result of each controller, for callers that wait for it.

use std::collections::BTreeMap;

use homeostat_store::Revision;
use tokio::sync::watch;

use crate::rollout::Share;
use crate::{Put, RemovedCounts, events};

/// Maximum number of removed controllers whose results are kept.
pub(crate) const GONE_MAX: usize = 1000;

/// Bytes of one such result with the longest name.
pub(crate) const GONE_BYTES: u64 = 512;

/// Maximum bytes of the reason of an outcome; longer reasons are cut.
pub(crate) const REASON_BYTES_MAX: usize = events::MESSAGE_BYTES_MAX;

/// The outcome of reconciling a controller.
#[derive(Clone, Debug)]
pub enum SyncOutcome {
    /// The desired definition is installed, with the change that this took.
    Put(Put),
    /// The definition is being rolled out.
    RollingOut {
        /// The stable revision.
        from: u64,
        /// The canary's revision.
        to: u64,
        /// The canary's share of the keys; `None` until its watches have had their first lists.
        share: Option<Share>,
    },
    /// A rollout was replaced by another definition, which is being loaded. The stable version keeps running.
    Replaced,
    /// The rollout was rolled back, for this reason. The stable version keeps running; the definition is not
    /// tried again.
    RolledBack(String),
    /// Paused: the current version keeps running.
    Paused,
    /// Refused, for this reason. The current version keeps running, and the definition is retried.
    Refused(String),
    /// Waiting, for this reason: nothing runs until the missing kind is declared or the missing grant is there.
    Waiting(String),
    /// Removed, with the amount of work that was left.
    Removed(RemovedCounts),
}

/// The outcome of a reconcile, with its revision.
#[derive(Clone, Debug)]
pub struct SyncResult {
    /// The reconciled revision, or a later one in which only the status has changed.
    pub seen: Revision,
    /// The outcome.
    pub outcome: SyncOutcome,
}

/// The last result of one name.
#[derive(Clone, Debug)]
struct Entry {
    /// The revision that was reconciled.
    at: Revision,
    seen: Revision,
    outcome: SyncOutcome,
}

/// The last result of every name.
#[derive(Default)]
pub(crate) struct SyncResults {
    by_name: watch::Sender<BTreeMap<String, Entry>>,
}

impl SyncResults {
    /// Records the outcome for revision `at`; up to `seen` only the status has changed. Ignored if a later
    /// one is recorded.
    pub(crate) fn record(&self, name: &str, at: Revision, seen: Revision, outcome: SyncOutcome) {
        self.by_name.send_if_modified(|by_name| record(by_name, name, at, seen, outcome.cut()));
    }

    /// Records that nothing but the status has changed between two revisions.
    pub(crate) fn see(&self, name: &str, from: Revision, to: Revision) {
        self.by_name.send_if_modified(|by_name| match by_name.get_mut(name) {
            Some(entry) if entry.seen >= from && entry.seen < to => {
                entry.seen = to;
                true
            }
            _ => false,
        });
    }

    /// Returns whether the last outcome was a refusal for this reason.
    pub(crate) fn is_refused(&self, name: &str, reason: &str) -> bool {
        let reason = cut(reason);
        let by_name = self.by_name.borrow();
        by_name.get(name).is_some_and(|entry| matches!(&entry.outcome, SyncOutcome::Refused(known) if known == reason))
    }

    /// Waits for the result of a revision, or of a later one. *Cancel safety*: nothing is lost.
    pub(crate) async fn wait(&self, name: &str, revision: Revision) -> SyncResult {
        let mut by_name = self.by_name.subscribe();
        let about = |by_name: &BTreeMap<String, Entry>| by_name.get(name).is_some_and(|entry| entry.seen >= revision);
        let found = by_name.wait_for(about).await.expect("the sender is held");
        let Entry { at, seen, outcome } = found[name].clone();
        // An earlier revision was installed already; this one changed nothing.
        let outcome = match outcome {
            SyncOutcome::Put(_) if at < revision => SyncOutcome::Put(Put::Unchanged),
            outcome => outcome,
        };
        SyncResult { seen, outcome }
    }

    /// Returns the last result of a controller.
    pub(crate) fn last(&self, name: &str) -> Option<SyncResult> {
        let by_name = self.by_name.borrow();
        by_name.get(name).map(|entry| SyncResult { seen: entry.seen, outcome: entry.outcome.clone() })
    }
}

impl SyncOutcome {
    /// Returns the same with a reason of at most [`REASON_BYTES_MAX`].
    fn cut(self) -> Self {
        match self {
            Self::RolledBack(reason) => Self::RolledBack(cut(&reason).to_owned()),
            Self::Refused(reason) => Self::Refused(cut(&reason).to_owned()),
            Self::Waiting(reason) => Self::Waiting(cut(&reason).to_owned()),
            outcome => outcome,
        }
    }
}

fn cut(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}

fn record(
    by_name: &mut BTreeMap<String, Entry>,
    name: &str,
    at: Revision,
    seen: Revision,
    outcome: SyncOutcome,
) -> bool {
    let Some(entry) = by_name.get_mut(name) else {
        by_name.insert(name.to_owned(), Entry { at, seen, outcome });
        return true;
    };
    if entry.seen > seen {
        return false;
    }
    entry.seen = seen;
    let says_nothing_new = match (&entry.outcome, &outcome) {
        (SyncOutcome::Put(_), SyncOutcome::Put(Put::Unchanged)) => true,
        (SyncOutcome::Removed(_), SyncOutcome::Removed(left)) => *left == RemovedCounts::default(),
        _ => false,
    };
    if !says_nothing_new {
        let is_gone = matches!(outcome, SyncOutcome::Removed(_));
        (entry.at, entry.outcome) = (at, outcome);
        if is_gone {
            forget_oldest(by_name);
        }
    }
    true
}

/// Drops the oldest result of a removed controller above the bound.
fn forget_oldest(by_name: &mut BTreeMap<String, Entry>) {
    let gone = |entry: &Entry| matches!(entry.outcome, SyncOutcome::Removed(_));
    if by_name.values().filter(|entry| gone(entry)).count() > GONE_MAX {
        let oldest = by_name.iter().filter(|(_, entry)| gone(entry)).min_by_key(|(_, entry)| entry.at);
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            by_name.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests;
