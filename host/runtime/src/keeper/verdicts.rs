//! The sync result of each controller, for callers that wait for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_store::Revision;
use tokio::sync::watch;

use crate::rollout::Share;
use crate::{Put, RemovalReport};

/// Maximum number of removed controllers whose results are kept.
pub(crate) const GONE_MAX: usize = 1000;

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
    /// Removed, with the work that was left.
    Removed(Arc<RemovalReport>),
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
        self.by_name.send_if_modified(|by_name| record(by_name, name, at, seen, outcome));
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
        (SyncOutcome::Removed(_), SyncOutcome::Removed(left)) => left.is_nothing(),
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
mod tests {
    use super::*;

    fn revision(number: u64) -> Revision {
        number.to_string().parse().unwrap()
    }

    #[tokio::test]
    async fn who_waits_for_a_revision_hears_what_it_came_to_and_not_what_came_before() {
        let verdicts = SyncResults::default();
        verdicts.record("a", revision(3), revision(3), SyncOutcome::Put(Put::Added));
        verdicts.record("a", revision(4), revision(4), SyncOutcome::Put(Put::Unchanged));
        verdicts.record("b", revision(3), revision(4), SyncOutcome::Put(Put::Added));
        assert!(matches!(verdicts.wait("b", revision(3)).await.outcome, SyncOutcome::Put(Put::Added)));
        assert!(
            matches!(verdicts.wait("b", revision(4)).await.outcome, SyncOutcome::Put(Put::Unchanged)),
            "the status came after it"
        );
        assert!(matches!(verdicts.wait("a", revision(3)).await.outcome, SyncOutcome::Put(Put::Added)));
        assert!(matches!(verdicts.wait("a", revision(4)).await.outcome, SyncOutcome::Put(Put::Unchanged)));
        verdicts.record("a", revision(2), revision(2), SyncOutcome::Paused);
        assert!(
            matches!(verdicts.wait("a", revision(3)).await.outcome, SyncOutcome::Put(Put::Added)),
            "an older word is late"
        );
        verdicts.record("a", revision(6), revision(6), SyncOutcome::Refused("no".to_owned()));
        assert!(verdicts.is_refused("a", "no") && !verdicts.is_refused("a", "other"));
        assert!(matches!(verdicts.wait("a", revision(5)).await.outcome, SyncOutcome::Refused(_)));
    }

    #[tokio::test]
    async fn a_change_of_the_status_carries_a_verdict_on_and_no_other_change_does() {
        let verdicts = SyncResults::default();
        verdicts.record("a", revision(3), revision(3), SyncOutcome::Paused);
        verdicts.see("a", revision(4), revision(5));
        assert_eq!(verdicts.last("a").unwrap().seen, revision(3), "the revision between has not been looked at");
        verdicts.see("a", revision(3), revision(5));
        assert_eq!(verdicts.wait("a", revision(5)).await.seen, revision(5));
    }

    #[test]
    fn what_is_remembered_of_those_that_are_gone_has_a_bound() {
        let verdicts = SyncResults::default();
        for number in 1..GONE_MAX as u64 + 10 {
            let name = number.to_string();
            verdicts.record(&name, revision(number), revision(number), SyncOutcome::Paused);
            verdicts.record(&name, revision(number), revision(number), SyncOutcome::Removed(Arc::default()));
        }
        assert_eq!(verdicts.by_name.borrow().len(), GONE_MAX);
        assert!(verdicts.last("1").is_none(), "the oldest goes first");
    }
}
