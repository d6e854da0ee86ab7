//! Decides when a missing document counts as deleted. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Missing documents, with the time since when each has been missing.
pub(super) struct DeletionGrace<K> {
    grace: Duration,
    since: BTreeMap<K, Instant>,
}

impl<K: Ord> DeletionGrace<K> {
    /// Counts a document as deleted when it has been missing for `grace` without interruption.
    pub(super) fn new(patience: Duration) -> Self {
        Self { grace: patience, since: BTreeMap::new() }
    }

    /// Records which documents are missing now. Returns and forgets those that count as deleted.
    pub(super) fn due(&mut self, now: Instant, missing: Vec<K>) -> Vec<K> {
        let mut before = std::mem::take(&mut self.since);
        let mut due = Vec::new();
        for key in missing {
            match before.remove(&key) {
                Some(since) if now.duration_since(since) >= self.grace => due.push(key),
                since => drop(self.since.insert(key, since.unwrap_or(now))),
            }
        }
        due
    }

    /// Returns whether nothing is missing.
    pub(super) fn is_empty(&self) -> bool {
        self.since.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_missing_without_interruption_is_deleted_once() {
        let mut absences = DeletionGrace::new(Duration::from_secs(2));
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(absences.due(at(0), vec!["a"]), [""; 0]);
        assert_eq!(absences.due(at(1999), vec!["a"]), [""; 0]);
        assert!(!absences.is_empty());
        assert_eq!(absences.due(at(2000), vec!["a"]), ["a"]);
        assert!(absences.is_empty());
    }

    #[test]
    fn a_document_that_returns_restarts_its_grace_period() {
        let mut absences = DeletionGrace::new(Duration::from_secs(2));
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        absences.due(at(0), vec!["a"]);
        absences.due(at(1000), vec![]);
        absences.due(at(1500), vec!["a"]);
        assert_eq!(absences.due(at(3000), vec!["a"]), [""; 0]);
        assert_eq!(absences.due(at(3500), vec!["a"]), ["a"]);
    }
}
