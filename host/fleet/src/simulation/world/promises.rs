//! The promises of the leases and the placement, as checks.

use std::time::Duration;

use super::super::host::{Host, RANK_DELAY_MAX};
use super::{MS, SECOND, World, micros};
use crate::placement::{LoadBounds, Member, Placement, plan};
use crate::record::Identity;
use crate::times::Times;

/// The longest planned hand-over.
const HANDOVER_MAX: u64 = SECOND;

impl World {
    /// Returns the time after the last fault within which every lease is held again.
    ///
    /// A request that a fault swallowed runs into its timeout, the next look shows the record, and the length
    /// of the lease passes on a slow clock. The host may not be the first in the ranking.
    pub(super) fn bound(&self) -> u64 {
        let Times { length, retry_period, request_timeout, .. } = self.times;
        micros(length * 102 / 100 + request_timeout + retry_period * 5 / 4 + RANK_DELAY_MAX) + 200 * MS
    }

    /// At most one host believes that it holds a lease, on its own clock.
    pub(super) fn check(&mut self, lease: usize) {
        let now = self.now;
        let believers = self.hosts.iter().filter(|host| host.is_alive);
        let believers = believers.filter(|host| host.leases[lease].holds(host.clock.read(now)).is_some());
        let names: Vec<String> = believers.map(|host| host.identity.to_string()).collect();
        if names.len() > 1 {
            self.wrong(format!("{names:?} believe that they hold lease {lease}"));
        }
        self.recovered[lease] |= self.is_over && !names.is_empty();
        if self.is_watched {
            match (names.is_empty(), self.free_since[lease]) {
                (true, None) => self.free_since[lease] = Some(now),
                (false, Some(since)) => {
                    self.free_since[lease] = None;
                    self.check_handover(lease, now - since);
                }
                _ => {}
            }
        }
    }

    /// The next host began soon after the release. If it has left meanwhile, another one began a little
    /// later.
    pub(super) fn check_handover(&mut self, lease: usize, gap: u64) {
        let left = micros(self.times.retry_period * 2 * 102 / 100 + RANK_DELAY_MAX) + 100 * MS;
        if !self.is_next_gone[lease] {
            self.outcome.gap_max = self.outcome.gap_max.max(Duration::from_micros(gap));
        }
        if gap > if self.is_next_gone[lease] { left } else { HANDOVER_MAX } {
            self.wrong(format!("the planned hand-over of lease {lease} took {gap} us"));
        }
    }

    /// No other host works, unless it ends its work as fast as it can, is paused, or has just noticed that it
    /// was.
    pub(super) fn check_alone(&mut self, host: usize, lease: usize) {
        let now = self.now;
        let is_late = |other: &Host| other.leases[lease].holds_until().is_some_and(|at| other.clock.read(now) >= at);
        let works = |other: &Host| {
            let is_free = other.is_alive && !other.is_paused && !is_late(other);
            is_free && other.work[lease].is_some_and(|work| !work.is_aborted)
        };
        let others = self.hosts.iter().enumerate().filter(|(at, other)| *at != host && works(other));
        if let Some(other) = others.map(|(_, other)| other.identity.clone()).next() {
            self.wrong(format!("{} works beside {other} on lease {lease}", self.hosts[host].identity));
        }
    }

    /// From now on, every lease has a holder, except during a planned hand-over.
    pub(super) fn begin_watch(&mut self) {
        self.is_watched = true;
        for lease in 0..self.names.len() {
            self.check(lease);
            if !self.recovered[lease] && self.outcome.wrong.is_empty() {
                self.wrong(format!("nobody held lease {lease} within {} us after the last fault", self.bound()));
            }
        }
    }

    /// Returns the holder of each lease.
    pub(super) fn holders(&self) -> Vec<Option<Identity>> {
        let holds =
            |host: &&Host, lease: usize| host.is_alive && host.leases[lease].holds(host.clock.read(self.now)).is_some();
        let holder = |lease: usize| self.hosts.iter().find(|host| holds(host, lease));
        (0..self.names.len()).map(|lease| holder(lease).map(|host| host.identity.clone())).collect()
    }

    /// The leases are where they should be, and have stayed there.
    pub(super) fn check_end(&mut self, before: &[Option<Identity>]) {
        if !self.outcome.wrong.is_empty() {
            return;
        }
        let holders = self.holders();
        if holders != before {
            self.wrong(format!("the leases still move: {before:?} {holders:?}"));
        }
        if let Some(lease) = holders.iter().position(Option::is_none) {
            self.wrong(format!("nobody holds lease {lease} at the end"));
        }
        let members = self.alive().map(|host| {
            let host = &self.hosts[host];
            Member { identity: host.identity.clone(), weight: host.weight() }
        });
        let members: Vec<Member> = members.collect();
        let loads: Vec<Option<u32>> = (0..self.names.len()).map(|lease| self.store.told(lease)).collect();
        for (lease, (told, cost)) in loads.iter().zip(self.costs.clone()).enumerate() {
            // A figure stays until the measurement has left it by an eighth, and the last minute wavers a little.
            if told.is_none_or(|told| told.abs_diff(cost) > 15 + cost / 5) {
                self.wrong(format!("the load of lease {lease} is {cost}, and its record says {told:?}"));
            }
        }
        let placed = self.names.iter().zip(loads).zip(holders);
        let placed = placed.map(|((lease, cost), holder)| Placement { lease: lease.clone(), holder, cost });
        let placed: Vec<Placement> = placed.collect();
        // Figures that have wavered since the last plan do not end the rest.
        if let Some(planned) = plan(&members, &placed, &|_, _| true, LoadBounds::AT_REST) {
            self.wrong(format!("the loads are not even: {planned:?} of {placed:?}"));
        }
    }
}
