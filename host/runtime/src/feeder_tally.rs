//! The counts and times of one declared feeder, for its status.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;

/// The counts and times of one feeder since it was declared. A restart after a failure keeps it.
#[derive(Default)]
pub(crate) struct FeederTally {
    keys: AtomicU64,
    full: AtomicU64,
    rejected: AtomicU64,
    failures: AtomicU64,
    missed: AtomicU64,
    denied: AtomicU64,
    lost: AtomicU64,
    inbox: AtomicU64,
    times: Mutex<Times>,
}

#[derive(Clone, Default)]
struct Times {
    last: Option<Timestamp>,
    next: Option<Timestamp>,
    error: Option<String>,
}

/// The status of a declared feeder.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FeederStatus {
    /// Its name.
    pub name: String,
    /// The word for its source, as in the manifest.
    pub source: &'static str,
    /// `running`; `failing`: it is restarted with backoff; `paused`: this host has no lease of the controller.
    pub state: &'static str,
    /// Keys that it has added. A key that merged with a queued one counts too.
    pub keys: u64,
    /// Refusals of keys because the queue was full. The feeder adds such a key again later.
    pub full: u64,
    /// Keys that it dropped because no managed resource can have them, or no grant covers them. Messages that make no
    /// key.
    pub rejected: u64,
    /// How often it has failed.
    pub failures: u64,
    /// Runs of a schedule that it missed. At most 100 are counted for one interruption.
    pub missed: u64,
    /// Requests without a valid signature or token.
    pub denied: u64,
    /// Messages of a plain subject that were dropped because too many waited.
    pub lost: u64,
    /// Keys that the inbox has stored now.
    pub inbox: u64,
    /// When it last began to add keys, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run: Option<String>,
    /// When it adds keys next, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_run: Option<String>,
    /// The error that it has not recovered from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl FeederTally {
    /// Counts an added key.
    pub(crate) fn added(&self) {
        self.keys.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a key that the full queue refused.
    pub(crate) fn full(&self) {
        self.full.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a key that was dropped.
    pub(crate) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failure.
    pub(crate) fn failed(&self, error: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.trouble(error);
    }

    /// Counts missed runs.
    pub(crate) fn missed(&self, runs: u64) {
        self.missed.fetch_add(runs, Ordering::Relaxed);
    }

    /// Counts a request without a valid signature or token.
    pub(crate) fn denied(&self) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts messages that were dropped.
    pub(crate) fn lost(&self, messages: u64) {
        self.lost.fetch_add(messages, Ordering::Relaxed);
    }

    /// Records the number of keys in the inbox.
    pub(crate) fn stored(&self, keys: u64) {
        self.inbox.store(keys, Ordering::Relaxed);
    }

    /// Records an error that is no failure of the feeder.
    pub(crate) fn trouble(&self, error: &str) {
        self.times.lock().error = Some(error.to_owned());
    }

    /// Records that the feeder has recovered.
    pub(crate) fn healthy(&self) {
        self.times.lock().error = None;
    }

    /// Records that the feeder adds keys from now on.
    pub(crate) fn ran(&self, now: Timestamp) {
        self.times.lock().last = Some(now);
    }

    /// Records when the feeder adds keys next.
    pub(crate) fn scheduled(&self, next: Timestamp) {
        self.times.lock().next = Some(next);
    }

    /// Returns the status. `runs` is false while this host may have no key.
    pub(crate) fn status(&self, name: &str, source: &'static str, runs: bool) -> FeederStatus {
        let Times { last, next, error } = self.times.lock().clone();
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let state = match &error {
            _ if !runs => "paused",
            Some(_) => "failing",
            None => "running",
        };
        let shown = |time: Timestamp| format!("{time:.0}");
        FeederStatus {
            name: name.to_owned(),
            source,
            state,
            keys: count(&self.keys),
            full: count(&self.full),
            rejected: count(&self.rejected),
            failures: count(&self.failures),
            missed: count(&self.missed),
            denied: count(&self.denied),
            lost: count(&self.lost),
            inbox: count(&self.inbox),
            last_run: last.map(shown),
            next_run: next.filter(|_| runs).map(shown),
            error,
        }
    }
}
