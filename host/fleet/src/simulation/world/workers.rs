//! The workers of a term, and their writes.

use std::time::Duration;

use super::super::host::Work;
use super::{HostStep, MS, Mutation, SECOND, Step, World, micros};
use crate::lease::Event;
use crate::record::Epoch;

/// How long a new holder lists its keys.
const LISTING: u64 = 10 * SECOND;

impl World {
    pub(super) fn begin(&mut self, host: usize, lease: usize, epoch: Epoch) {
        self.outcome.terms += 1;
        self.tell(format!("{} begins {lease} under {epoch}", self.hosts[host].identity));
        if epoch.0 <= self.begun[lease] {
            self.wrong(format!("epoch {epoch} of lease {lease} was used before"));
        }
        self.begun[lease] = epoch.0;
        let (began, counted) = (self.now, self.now);
        let work = Work { epoch, began, counted, is_aborted: false, is_draining: false, writes_end: 0 };
        self.hosts[host].work[lease] = Some(work);
        self.check_alone(host, lease);
        self.at(self.now + MS, Step::OfHost { host, step: HostStep::Work { lease, epoch } });
    }

    /// One write of the workers, if their host may still write.
    pub(super) fn work(&mut self, host: usize, lease: usize, epoch: Epoch) {
        let Some(work) = self.hosts[host].work[lease].filter(|work| work.epoch == epoch && !work.is_aborted) else {
            return;
        };
        self.count(host, lease);
        let now = self.clock(host);
        if self.hosts[host].leases[lease].holds(now) == Some(epoch) {
            self.check_alone(host, lease);
            let in_flight_max = micros(self.times.in_flight_max);
            for at in self.deliveries(host) {
                if Self::is_fenced(lease) || at <= self.now + in_flight_max {
                    self.at(at, Step::Write { host, lease, epoch });
                }
            }
            if !Self::is_fenced(lease) {
                let end = self.now + in_flight_max;
                self.hosts[host].work[lease] = Some(Work { writes_end: end, counted: self.now, ..work });
            }
        }
        if !work.is_draining {
            let at = self.now + 100 * MS + self.dice.below(900 * MS);
            self.at(at, Step::OfHost { host, step: HostStep::Work { lease, epoch } });
        }
    }

    /// Counts the processor time of the workers of a lease since the last look. It wavers by a tenth, and a new holder
    /// has ten times as much to do while it lists.
    fn count(&mut self, host: usize, lease: usize) {
        let Some(work) = &mut self.hosts[host].work[lease] else { return };
        let listing = if self.now < work.began + LISTING { 10 } else { 1 };
        let percent = 90 + u32::try_from(self.load_dice.below(21)).unwrap();
        let span = Duration::from_micros(self.now - work.counted);
        work.counted = self.now;
        self.hosts[host].spent[lease] += span * self.costs[lease] / 1000 * percent / 100 * listing;
    }

    pub(super) fn write(&mut self, host: usize, lease: usize, epoch: Epoch) {
        if self.store.is_down {
            return;
        }
        let fence = self.store.fences[lease];
        let is_checked = Self::is_fenced(lease) && self.mutation != Some(Mutation::NoEpoch);
        if is_checked && epoch.0 != fence {
            self.outcome.refused += 1;
            for at in self.deliveries(host) {
                let event = Event::Fenced { epoch };
                self.at(at, Step::OfHost { host, step: HostStep::Event { lease, event } });
            }
            return;
        }
        self.outcome.accepted += 1;
        if epoch.0 != fence {
            let who = self.hosts[host].identity.clone();
            self.wrong(format!("a write of {who} under the old epoch {epoch} of lease {lease} was accepted"));
        }
    }

    pub(super) fn drain(&mut self, host: usize, lease: usize) {
        let Some(work) = &mut self.hosts[host].work[lease] else { return };
        work.is_draining = true;
        let epoch = work.epoch;
        let at = self.now + MS + self.dice.below(300 * MS);
        self.at(at, Step::OfHost { host, step: HostStep::Ended { lease, epoch } });
        if self.mutation == Some(Mutation::ReleasesEarly) {
            let event = Event::WorkersEnded;
            self.at(self.now, Step::OfHost { host, step: HostStep::Event { lease, event } });
        }
    }

    pub(super) fn abort(&mut self, host: usize, lease: usize) {
        self.outcome.losses += 1;
        self.tell(format!("{} lost {lease}", self.hosts[host].identity));
        let Some(work) = &mut self.hosts[host].work[lease] else { return };
        work.is_aborted = true;
        let epoch = work.epoch;
        let at = self.now + MS + self.dice.below(50 * MS);
        self.at(at, Step::OfHost { host, step: HostStep::Ended { lease, epoch } });
    }

    /// The workers have ended, unless the last of their writes is still on its way.
    pub(super) fn end_work(&mut self, host: usize, lease: usize, epoch: Epoch) {
        let Some(work) = self.hosts[host].work[lease].filter(|work| work.epoch == epoch) else { return };
        if self.now < work.writes_end {
            self.at(work.writes_end, Step::OfHost { host, step: HostStep::Ended { lease, epoch } });
            return;
        }
        self.tell(format!("{} ended its work of {lease}", self.hosts[host].identity));
        self.hosts[host].work[lease] = None;
        self.step(host, lease, Event::WorkersEnded);
    }

    /// Whether the store checks the epochs of the writes under a lease. Where it does not, a write that is
    /// longer on its way than allowed is dropped by its sender.
    pub(super) fn is_fenced(lease: usize) -> bool {
        lease.is_multiple_of(2)
    }
}
