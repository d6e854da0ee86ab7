//! Hosts that come and go, and faults.

use super::super::host::{Clock, Host};
use super::{HostStep, MS, SECOND, Step, World};

/// A fault that ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Pause(usize),
    Cut(usize),
    Down,
    Slow,
}

impl World {
    pub(super) fn join(&mut self, slot: usize) {
        if self.alive().any(|host| self.slot(host) == slot) {
            return;
        }
        let run = self.hosts.len();
        let parts_per_million = match self.dice.below(3) {
            0 => -10_000,
            1 => 10_000,
            _ => i128::from(self.dice.below(20_001)) - 10_000,
        };
        let offset = i128::from(self.dice.below(1_000_000_000_000)) + 1_000_000_000_000;
        let clock = Clock { offset, parts_per_million };
        let seed = self.dice.number();
        let host = Host::new(&format!("host-{slot}_{run}"), clock, self.times, self.names.len(), seed);
        self.tell(format!("{} comes, its clock differs by {parts_per_million} millionths", host.identity));
        self.hosts.push(host);
        self.inboxes.push(Vec::new());
        self.at(self.now, Step::OfHost { host: run, step: HostStep::Round });
    }

    pub(super) fn slot(&self, host: usize) -> usize {
        self.hosts[host].identity.host().rsplit('-').next().unwrap().parse().unwrap()
    }

    pub(super) fn alive(&self) -> impl Iterator<Item = usize> {
        (0..self.hosts.len()).filter(|host| self.hosts[*host].is_alive)
    }

    pub(super) fn fault(&mut self) {
        if self.is_quiet {
            return;
        }
        let alive: Vec<usize> = self.alive().collect();
        let host = self.dice.one(&alive).copied();
        let span = [SECOND, 10 * SECOND, 40 * SECOND][self.dice.index(3)];
        let end = self.now + 100 * MS + self.dice.below(span);
        match (self.dice.below(9), host) {
            (0 | 1, Some(host)) => {
                self.tell(format!("{} is paused", self.hosts[host].identity));
                self.hosts[host].is_paused = true;
                self.at(end, Step::Heal(Fault::Pause(host)));
            }
            (2 | 3, Some(host)) => {
                self.tell(format!("{} is cut off", self.hosts[host].identity));
                self.hosts[host].is_cut = true;
                self.at(end, Step::Heal(Fault::Cut(host)));
            }
            (4, Some(host)) => {
                self.tell(format!("{} crashes", self.hosts[host].identity));
                self.hosts[host].is_alive = false;
                let slot = self.slot(host);
                self.at(end, Step::Join { slot });
            }
            (5, Some(host)) => {
                self.tell(format!("{} leaves", self.hosts[host].identity));
                self.hosts[host].is_leaving = true;
                let slot = self.slot(host);
                for again in 1..6 {
                    self.at(end + again * 10 * SECOND, Step::Join { slot });
                }
            }
            (6, _) => {
                self.tell("the store is down".to_owned());
                self.store.is_down = true;
                self.at(end.min(self.now + 20 * SECOND), Step::Heal(Fault::Down));
            }
            (7, _) => {
                self.tell("the network is slow".to_owned());
                self.is_slow = true;
                self.at(end, Step::Heal(Fault::Slow));
            }
            _ => {
                let lease = self.dice.index(self.names.len());
                self.tell(format!("the record of {lease} is deleted"));
                self.store.delete(lease);
                self.show(lease);
            }
        }
        let next = self.now + 500 * MS + self.dice.below(20 * SECOND);
        self.at(next, Step::Fault);
    }

    pub(super) fn heal(&mut self, fault: Fault) {
        self.tell(format!("{fault:?} ends"));
        match fault {
            Fault::Pause(host) => {
                self.hosts[host].is_paused = false;
                for step in std::mem::take(&mut self.inboxes[host]) {
                    // In any order.
                    let at = self.now + self.dice.below(MS);
                    self.at(at, Step::OfHost { host, step });
                }
            }
            Fault::Cut(host) => self.hosts[host].is_cut = false,
            Fault::Down => self.store.is_down = false,
            Fault::Slow => self.is_slow = false,
        }
    }

    pub(super) fn end_faults(&mut self) {
        self.is_quiet = true;
        for host in 0..self.hosts.len() {
            self.heal(Fault::Pause(host));
            self.heal(Fault::Cut(host));
        }
        self.heal(Fault::Down);
        self.heal(Fault::Slow);
        self.queue.retain(|_, step| !matches!(step, Step::Join { .. }));
        for host in self.hosts.iter_mut().filter(|host| host.is_leaving) {
            host.is_alive = false;
        }
        (0..self.slots).for_each(|slot| self.join(slot));
    }

    /// One host of several leaves for good.
    pub(super) fn leave(&mut self) {
        let staying: Vec<usize> = self.alive().filter(|host| !self.hosts[*host].is_leaving).collect();
        if let (Some(host), true) = (self.dice.one(&staying).copied(), staying.len() > 1) {
            self.tell(format!("{} leaves", self.hosts[host].identity));
            self.hosts[host].is_leaving = true;
        }
    }
}
