//! Sees what reconciles come to: the seam for metrics, traces and measurements.
//!
//! Whoever observes is asked once for each controller that starts, and hands out a [`Recorder`] for it. So a reconcile that ends finds
//! the place for its numbers without looking anything up.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{Cost, Fault, Outcome};
use homeostat_store::Key;

use crate::settle::Label;

/// Told of every controller that starts.
pub trait Observer: Send + Sync + 'static {
    /// Returns what takes note of this controller's reconciles, until the last of them has ended and the recorder is dropped.
    ///
    /// A name may come again after its controller was removed; what the one before still runs goes to its own recorder. Called while
    /// the host's list of controllers is locked: must neither wait nor ask the host.
    fn controller(&self, name: &Arc<str>) -> Arc<dyn Recorder>;
}

/// Told of every reconcile of one controller that ended, on the worker that ran it. Must not wait.
pub trait Recorder: Send + Sync + 'static {
    /// Takes note of one.
    fn record(&self, reconciled: &ReconcileRecord<'_>);
}

/// One reconcile that ended.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileRecord<'a> {
    /// What it was about.
    pub key: &'a Key,
    /// From the moment that the key was due to the claim.
    pub queued_for: Duration,
    /// From the claim to its end, without what the first claims wait for the first lists. The call of the guest alone is
    /// [`Cost::wall`].
    pub worked_for: Duration,
    /// What the guest came to.
    pub result: &'a Result<Outcome, Fault>,
    /// The same in one word.
    pub label: Label,
    /// What it used.
    pub cost: Cost,
}

/// Looks away.
pub(crate) struct NoopObserver;

impl Observer for NoopObserver {
    fn controller(&self, _: &Arc<str>) -> Arc<dyn Recorder> {
        Arc::new(Self)
    }
}

impl Recorder for NoopObserver {
    fn record(&self, _: &ReconcileRecord<'_>) {}
}
