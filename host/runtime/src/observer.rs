//! Sees what reconciles come to: the seam for metrics, traces and measurements.

use std::time::Duration;

use homeostat_component::{Cost, Fault, Outcome};
use homeostat_store::Key;

use crate::settle::Label;

/// Told of every reconcile that ended, on the worker that ran it. Must not wait.
pub trait Observer: Send + Sync + 'static {
    /// Takes note of one.
    fn reconciled(&self, reconciled: &Reconciled<'_>);
}

/// One reconcile that ended.
#[derive(Clone, Copy, Debug)]
pub struct Reconciled<'a> {
    /// Whose it was.
    pub controller: &'a str,
    /// What it was about.
    pub key: &'a Key,
    /// From the moment that the key was due to the claim.
    pub queued_for: Duration,
    /// What the guest came to.
    pub result: &'a Result<Outcome, Fault>,
    /// The same in one word.
    pub label: Label,
    /// What it used.
    pub cost: Cost,
}

/// Looks away.
pub(crate) struct Nobody;

impl Observer for Nobody {
    fn reconciled(&self, _: &Reconciled<'_>) {}
}
