//! The work that is left when a controller ends.

use homeostat_store::Key;

/// The work left when a controller ended.
#[derive(Clone, Debug, Default)]
pub struct RemovalReport {
    /// Reconciles that finished while the controller was ending.
    pub finished: u64,
    /// Queued keys that will not run.
    pub dropped: Vec<Key>,
    /// Keys whose reconcile was aborted at the deadline.
    pub interrupted: Vec<Key>,
}

impl RemovalReport {
    /// Returns the number of each.
    pub(crate) fn counts(&self) -> RemovedCounts {
        let Self { finished, dropped, interrupted } = self;
        RemovedCounts { finished: *finished, dropped: dropped.len(), interrupted: interrupted.len() }
    }
}

/// The amount of work left when a controller was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedCounts {
    /// Reconciles that finished during the removal.
    pub finished: u64,
    /// Queued keys that were dropped.
    pub dropped: usize,
    /// Keys whose reconcile was interrupted at the deadline.
    pub interrupted: usize,
}
