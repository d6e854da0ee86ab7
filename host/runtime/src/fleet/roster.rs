//! The hosts that share a store, as the records of its leases tell.
//!
//! Each host holds a lease of its own, with its name. Who renews it is a member. The members and the holders of the
//! other leases decide which host tries a free lease first, and which one gives a lease away. A wrong view can make work
//! wait or move once more; the leases alone decide who works.
//!
//! Pure: times are arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat_fleet::{
    Balancer, Epoch, Identity, LeaseName, Member, Move, Observation, Placement, Times, Version, ranking, receiver,
};

use super::declines::Declines;
use super::description::{HostDescription, LeaseDescription};

/// Hosts at most; further ones are not counted.
pub(crate) const HOSTS_MAX: usize = 1024;

/// The records of one store.
#[derive(Debug)]
pub(super) struct Roster {
    hosts: BTreeMap<LeaseName, SeenRecord>,
    /// The leases that this host keeps or waits for.
    placed: BTreeMap<LeaseName, SeenLease>,
    balancer: Balancer,
    declines: Declines,
    /// The share of this host.
    weight: u32,
}

/// A host that shares a store, with the leases that it holds there.
pub(super) struct SharingHost {
    pub(super) identity: Identity,
    /// Whether it gives its leases away.
    pub(super) is_draining: bool,
    pub(super) leases: Vec<HeldLease>,
    pub(super) description: HostDescription,
    /// When this host saw its last renewal; `None` if it has seen none.
    pub(super) renewed: Option<Duration>,
}

/// A lease that a host holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct HeldLease {
    pub(super) name: LeaseName,
    /// The processor time of its keys in thousandths of a core, if somebody has measured it.
    pub(super) millicores: Option<u32>,
    /// The term, and when this host saw it first. `None` before this host has seen a record of it.
    pub(super) term: Option<(Epoch, Duration)>,
}

impl SharingHost {
    /// Returns the processor time of the keys of its leases in thousandths of a core, of those that somebody has
    /// measured.
    pub(super) fn millicores(&self) -> Option<u32> {
        self.leases.iter().filter_map(|lease| lease.millicores).reduce(u32::saturating_add)
    }

    /// Adds what another store tells of the same host.
    pub(super) fn merge(&mut self, other: SharingHost) {
        self.is_draining |= other.is_draining;
        self.leases.extend(other.leases);
        self.renewed = self.renewed.max(other.renewed);
        if self.description == HostDescription::default() {
            self.description = other.description;
        }
    }
}

/// A lease that this host keeps or waits for.
#[derive(Debug, Default)]
struct SeenLease {
    record: Option<SeenRecord>,
    /// The last processor time of its keys that a record had: thousandths of a core. A released lease and one of an
    /// earlier version keep it, since the work is the same whoever does it.
    millicores: Option<u32>,
}

#[derive(Debug, Clone)]
struct SeenRecord {
    version: Version,
    holder: Option<Identity>,
    /// The host that the one which released the lease named as the next one.
    offered: Option<Identity>,
    length: Duration,
    /// When this host saw this version first.
    since: Duration,
    epoch: Epoch,
    /// When this host saw the holder in this term first.
    held_since: Duration,
    /// The last holder. It stays when the lease is released.
    run: Option<Identity>,
    /// What the last holder told about itself.
    description: HostDescription,
}

impl SeenRecord {
    /// Returns the holder, if it has renewed the lease in time.
    fn live_holder(&self, now: Duration) -> Option<&Identity> {
        self.holder.as_ref().filter(|_| now < self.since + self.length)
    }
}

impl Roster {
    /// Makes the roster of a host with this share in the placement of shards.
    pub(super) fn new(times: &Times, weight: u32) -> Self {
        let (hosts, placed) = Default::default();
        let declines = Declines::new(times.settle_time() * 4);
        Self { hosts, placed, balancer: Balancer::new(times.settle_time()), declines, weight }
    }

    /// Adds a lease that this host keeps or waits for. Only those of controllers are placed by their load.
    pub(super) fn add(&mut self, lease: &LeaseName) {
        if lease.is_of_controller() {
            self.placed.entry(lease.clone()).or_default();
        }
    }

    /// Removes a lease of [`Roster::add`].
    pub(super) fn remove(&mut self, lease: &LeaseName) {
        self.placed.remove(lease);
    }

    /// Takes a record that the store showed.
    pub(super) fn observe(&mut self, now: Duration, lease: &LeaseName, observation: &Observation) {
        let known = match lease.is_of_host() {
            true => self.hosts.get(lease),
            false => self.placed.get(lease).and_then(|known| known.record.as_ref()),
        };
        let mut seen = match observation {
            Observation::Absent { .. } => None,
            Observation::Present(record) => Some(SeenRecord {
                version: record.version,
                holder: record.holder.clone(),
                offered: record.preferred_holder.clone().filter(|_| record.holder.is_none()),
                length: record.length,
                since: now,
                epoch: record.epoch,
                held_since: known
                    .filter(|known| known.holder == record.holder && known.epoch == record.epoch)
                    .map_or(now, |known| known.held_since),
                run: record.holder.clone(),
                description: HostDescription::read(record.description.as_deref().filter(|_| lease.is_of_host())),
            }),
        };
        let is_newer = |known: Option<&SeenRecord>| match (known, &seen) {
            (Some(known), Some(seen)) => seen.version > known.version,
            _ => true,
        };
        if !lease.is_of_host() {
            if let Some(known) = self.placed.get_mut(lease)
                && is_newer(known.record.as_ref())
            {
                if let Observation::Present(record) = observation {
                    let told = LeaseDescription::read(record.description.as_deref());
                    known.millicores = told.cpu_millicores.or(known.millicores);
                }
                if let Some(holder) = seen.as_ref().and_then(|seen| seen.holder.as_ref()) {
                    self.declines.remove(lease, holder);
                    if let Some(offered) = known.record.as_ref().and_then(|known| known.offered.as_ref()) {
                        self.declines.add(now, lease, offered, holder);
                    }
                }
                known.record = seen;
            }
            return;
        }
        if !is_newer(self.hosts.get(lease)) {
            return;
        }
        if let (Some(seen), Some(known)) = (&mut seen, self.hosts.get(lease))
            && seen.holder.is_none()
        {
            // A host that drains has released its lease, and goes on to serve its API.
            (seen.run, seen.description) = (known.run.clone(), known.description.clone());
        }
        let Some(seen) = seen else {
            // Any record is newer than a deleted one.
            if let Some(known) = self.hosts.get_mut(lease) {
                (known.holder, known.version) = (None, Version(0));
            }
            return;
        };
        if self.hosts.len() >= HOSTS_MAX {
            self.hosts.retain(|_, known| known.live_holder(now).is_some());
        }
        if self.hosts.len() < HOSTS_MAX || self.hosts.contains_key(lease) {
            self.hosts.insert(lease.clone(), seen);
        }
    }

    /// Returns the hosts that renew their leases.
    pub(super) fn members(&self, now: Duration) -> Vec<Member> {
        let live = self.live_hosts(now);
        live.map(|(identity, seen)| Member { identity: identity.clone(), weight: seen.description.weight() }).collect()
    }

    fn live_hosts(&self, now: Duration) -> impl Iterator<Item = (&Identity, &SeenRecord)> {
        self.hosts.values().filter_map(move |seen| Some((seen.live_holder(now)?, seen)))
    }

    /// Returns the names of the hosts that have released their own leases.
    pub(super) fn released(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().filter(|(_, seen)| seen.holder.is_none()).map(|(lease, _)| lease.owner())
    }

    /// Returns a lease that a run of a host holds, with what the records tell of it.
    pub(super) fn held(&self, lease: &LeaseName, run: &Identity) -> HeldLease {
        let seen = self.placed.get(lease);
        let record = seen.and_then(|seen| seen.record.as_ref());
        let is_its = |record: &&SeenRecord| record.holder.as_ref().is_some_and(|holder| holder.run() == *run);
        HeldLease {
            name: lease.clone(),
            millicores: seen.and_then(|seen| seen.millicores),
            term: record.filter(is_its).map(|record| (record.epoch, record.held_since)),
        }
    }

    /// Returns the processor time of the keys of a lease, as its records tell it: thousandths of a core. `None` if
    /// nobody has measured it.
    pub(super) fn millicores(&self, lease: &LeaseName) -> Option<u32> {
        self.placed.get(lease)?.millicores
    }

    /// Returns the leases with their live holders.
    pub(super) fn placed(&self, now: Duration) -> Vec<Placement> {
        let placement = |(lease, seen): (&LeaseName, &SeenLease)| Placement {
            lease: lease.clone(),
            holder: seen.record.as_ref().and_then(|record| record.live_holder(now)).cloned(),
            cost: seen.millicores,
        };
        self.placed.iter().map(placement).collect()
    }

    /// Returns the hosts that renew leases. A host that holds some and has released its own gives them away. What a host
    /// holds under another identity, while it replaces the shards in force, is its own.
    pub(super) fn hosts(&self, now: Duration) -> Vec<SharingHost> {
        let mut found: BTreeMap<Identity, SharingHost> = BTreeMap::new();
        let host = |identity: &Identity, is_draining, description| SharingHost {
            identity: identity.clone(),
            is_draining,
            leases: Vec::new(),
            description,
            renewed: None,
        };
        let told = |identity: &Identity| {
            let seen =
                self.hosts.get(&LeaseName::of_host(identity.host())).filter(|seen| seen.run.as_ref() == Some(identity));
            seen.map(|seen| seen.description.clone()).unwrap_or_default()
        };
        for (identity, seen) in self.live_hosts(now) {
            let found =
                found.entry(identity.clone()).or_insert_with(|| host(identity, false, seen.description.clone()));
            found.renewed = Some(seen.since);
        }
        for (lease, seen) in &self.placed {
            let Some(record) = seen.record.as_ref() else { continue };
            let Some(identity) = record.live_holder(now).map(Identity::run) else { continue };
            let draining = || host(&identity, true, told(&identity));
            let found = found.entry(identity.clone()).or_insert_with(draining);
            found.leases.push(self.held(lease, &identity));
            found.renewed = found.renewed.max(Some(record.since));
        }
        found.into_values().collect()
    }

    /// Returns the last run of the host with a name, with what it told about itself. It may have ended.
    pub(super) fn last_run(&self, name: &str) -> Option<(Identity, HostDescription)> {
        let seen = self.hosts.get(&LeaseName::of_host(name))?;
        Some((seen.run.clone()?, seen.description.clone()))
    }

    /// Returns the hosts that try a free lease: the members, and this host in any case.
    pub(super) fn candidates(&self, now: Duration, host: &Identity) -> Vec<Member> {
        let mut members = self.members(now);
        if members.iter().all(|member| member.identity != *host) {
            members.push(Member { identity: host.clone(), weight: self.weight });
        }
        members
    }

    /// Returns the lease that this host gives away now.
    pub(super) fn next_move(&mut self, now: Duration, host: &Identity) -> Option<Move> {
        let (members, placed) = (self.members(now), self.placed(now));
        let may_hold = |member: &Identity, lease: &LeaseName| self.declines.allow(now, lease, member);
        self.balancer.next_move(now, host, &members, &placed, &may_hold)
    }

    /// Returns the host that shall be next when this one gives a lease up.
    pub(super) fn receiver(&self, now: Duration, host: &Identity, lease: &LeaseName) -> Option<Identity> {
        let mut members = self.members(now);
        members.retain(|member| self.declines.allow(now, lease, &member.identity));
        receiver(host, &members, &self.placed(now), lease)
    }
}

/// Returns the place of a host among those that try a free lease, from 0.
pub(super) fn rank(candidates: &[Member], host: &Identity, lease: &LeaseName) -> u32 {
    let place = ranking(candidates, lease).iter().position(|member| member.identity == *host);
    place.and_then(|place| u32::try_from(place).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
