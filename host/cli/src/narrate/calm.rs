//! Decides when a host has nothing left to do. Pure.

use std::time::Duration;

use homeostat_runtime::{ControllerState, ControllerStatus};
use tokio::time::Instant;

/// How long nothing must have happened.
const IDLE_MIN: Duration = Duration::from_millis(500);

/// Since when nothing happens.
#[derive(Debug, Default)]
pub(crate) struct IdleDetector {
    since: Option<Instant>,
    reconciles: u64,
}

impl IdleDetector {
    /// Takes in one look, and returns whether the host has been at rest for long enough.
    ///
    /// At rest: nothing else is `busy`, every controller is ready or suspended, no key is due or running, and no reconcile has ended
    /// since the last look. Keys that wait for a time to come do not count.
    pub(crate) fn observe(&mut self, now: Instant, busy: bool, controllers: &[ControllerStatus]) -> bool {
        let rests = |status: &ControllerStatus| match status.state {
            ControllerState::Suspended => true,
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
