//! The hosts that did not take a lease that was offered to them.
//!
//! A host that gives a lease away names the next one. That one may have no such controller, or divide its keys in another
//! way. Then the lease is free for a few seconds, and another host takes it. Such a host gets no other lease of the
//! controller for a while, and twice as long each time.
//!
//! Pure: times are arguments.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_fleet::{Identity, LeaseName};

/// Pairs of a host and a controller at most; further ones are not remembered.
const PAIRS_MAX: usize = 4096;

/// The longest time without an offer.
const PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

/// The hosts that declined leases, by host and controller.
#[derive(Debug)]
pub(super) struct Declines {
    first_pause: Duration,
    pairs: BTreeMap<(Identity, Arc<str>), Pause>,
}

#[derive(Debug)]
struct Pause {
    length: Duration,
    until: Duration,
}

impl Declines {
    /// Remembers nothing yet. `first_pause` follows the first decline of a host.
    pub(super) fn new(first_pause: Duration) -> Self {
        Self { first_pause, pairs: BTreeMap::new() }
    }

    /// Takes the host that holds a lease which was offered to `offered`.
    pub(super) fn add(&mut self, now: Duration, lease: &LeaseName, offered: &Identity, holder: &Identity) {
        if offered == holder {
            return;
        }
        if self.pairs.len() >= PAIRS_MAX {
            // What is left of a pair after its pause is the length of the next one.
            self.pairs.retain(|_, pause| now < pause.until);
        }
        let pair = (offered.clone(), lease.owner().into());
        let length = self.pairs.get(&pair).map_or(self.first_pause, |pause| (pause.length * 2).min(PAUSE_MAX));
        if self.pairs.len() < PAIRS_MAX || self.pairs.contains_key(&pair) {
            self.pairs.insert(pair, Pause { length, until: now + length });
        }
    }

    /// Forgets what a host declined of the controller of a lease that it holds.
    pub(super) fn remove(&mut self, lease: &LeaseName, holder: &Identity) {
        if !self.pairs.is_empty() {
            self.pairs.remove(&(holder.clone(), lease.owner().into()));
        }
    }

    /// Returns whether a host may get an offer of a lease.
    pub(super) fn allow(&self, now: Duration, lease: &LeaseName, host: &Identity) -> bool {
        self.pairs.is_empty()
            || self.pairs.get(&(host.clone(), lease.owner().into())).is_none_or(|pause| now >= pause.until)
    }
}

#[cfg(test)]
mod tests;
