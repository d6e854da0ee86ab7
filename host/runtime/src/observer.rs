//! Observes finished reconciles: the seam for metrics, traces and measurements.
//!
//! The host calls the observer once for each controller that starts, and gets a [`Recorder`] for it. So a
//! finished reconcile reaches its counters without a lookup.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::{Cost, Fault, Outcome};
use homeostat_store::Key;

use crate::settle::Label;

/// Called for every controller that starts.
pub trait Observer: Send + Sync + 'static {
    /// Returns the recorder of this controller's reconciles. It is dropped when the last of them has ended.
    ///
    /// A name can be reused after its controller was removed; reconciles of the earlier controller still go
    /// to its own recorder. The host's list of controllers is locked during the call: an implementation must
    /// neither block nor call the host.
    fn controller(&self, name: &Arc<str>) -> Arc<dyn Recorder>;
}

/// Called for every finished reconcile of one controller, on the worker that ran it. Must not block.
pub trait Recorder: Send + Sync + 'static {
    /// Records one reconcile.
    fn record(&self, reconciled: &ReconcileRecord<'_>);
}

/// One finished reconcile.
#[derive(Clone, Copy, Debug)]
pub struct ReconcileRecord<'a> {
    /// The key.
    pub key: &'a Key,
    /// Time from the key's due time to the claim.
    pub queued_for: Duration,
    /// Time from the claim to the end, without waiting for the first lists. [`Cost::wall`] is the time of the
    /// guest call alone.
    pub worked_for: Duration,
    /// The result of the guest.
    pub result: &'a Result<Outcome, Fault>,
    /// The result as one word.
    pub label: Label,
    /// The resources that it used.
    pub cost: Cost,
}

/// An observer that does nothing.
pub(crate) struct NoopObserver;

impl Observer for NoopObserver {
    fn controller(&self, _: &Arc<str>) -> Arc<dyn Recorder> {
        Arc::new(Self)
    }
}

impl Recorder for NoopObserver {
    fn record(&self, _: &ReconcileRecord<'_>) {}
}
