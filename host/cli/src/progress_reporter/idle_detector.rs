//! Decides when a host is idle. Pure.

use std::time::Duration;

use homeostat_runtime::{ControllerState, ControllerStatus};
use tokio::time::Instant;

/// How long the host must have had no work.
const IDLE_MIN: Duration = Duration::from_millis(500);

/// Tracks how long a host has had no work.
#[derive(Debug, Default)]
pub(crate) struct IdleDetector {
    since: Option<Instant>,
    reconciles: u64,
}

impl IdleDetector {
    /// Records one poll. Returns whether the host has been idle for long enough.
    ///
    /// A host is idle if the caller is not `busy`, every controller is ready or suspended, no key is due or
    /// running, and no reconcile has ended since the last poll. Keys that are due later do not count.
    pub(crate) fn observe(&mut self, now: Instant, busy: bool, controllers: &[ControllerStatus]) -> bool {
        let rests = |status: &ControllerStatus| match status.state {
            ControllerState::Suspended | ControllerState::Standby => true,
            ControllerState::Ready => status.counts.ready == 0 && status.counts.running == 0,
            ControllerState::Starting | ControllerState::Syncing | ControllerState::Stopping => false,
        };
        let reconciles = controllers.iter().map(|status| status.reconciles).sum();
        let moved = std::mem::replace(&mut self.reconciles, reconciles) != reconciles;
        if busy || moved || !controllers.iter().all(rests) {
            self.since = None;
            return false;
        }
        now.duration_since(*self.since.get_or_insert(now)) >= IDLE_MIN
    }
}

#[cfg(test)]
mod tests;
