//! One run of one host: its clock, its leases, its workers, and its knowledge of the others.

use std::collections::BTreeMap;
use std::time::Duration;

use super::store::Store;
use crate::lease::{Lease, Request};
use crate::load_meter::LoadMeter;
use crate::placement::{Balancer, Member, Placement, ranking, receiver};
use crate::record::{Epoch, Identity, Observation, Version};
use crate::shards::LeaseName;
use crate::times::Times;

/// A host without a beat for this time counts as gone.
const BEAT_AGE_MAX: Duration = Duration::from_secs(10);
/// The wait of a host for each place behind the first in a ranking, and the most of it.
const RANK_DELAY: Duration = Duration::from_millis(500);
pub(super) const RANK_DELAY_MAX: Duration = Duration::from_secs(2);

/// A monotonic clock that runs at another rate than true time. True time is in microseconds.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    pub(super) offset: i128,
    pub(super) parts_per_million: i128,
}

impl Clock {
    pub(super) fn read(self, now: u64) -> Duration {
        let now = i128::from(now);
        let micros = self.offset + now + now * self.parts_per_million / 1_000_000;
        Duration::from_micros(u64::try_from(micros).unwrap())
    }

    /// Returns the first true time at which the clock shows at least `at`.
    pub(super) fn when(self, at: Duration) -> u64 {
        let wanted = i128::try_from(at.as_nanos().div_ceil(1000)).unwrap() - self.offset;
        let guess = wanted * 1_000_000 / (1_000_000 + self.parts_per_million) - 2;
        let mut now = u64::try_from(guess.max(0)).unwrap();
        while self.read(now) < at {
            now += 1;
        }
        now
    }
}

/// The workers of one term.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) epoch: Epoch,
    /// Whether they were told to end without finishing.
    pub(super) is_aborted: bool,
    /// When they began, and until when their processor time is counted.
    pub(super) began: u64,
    pub(super) counted: u64,
    /// Whether they take no new keys.
    pub(super) is_draining: bool,
    /// When the last of their writes is answered, or was dropped by its sender.
    pub(super) writes_end: u64,
}

pub(super) struct Host {
    pub(super) identity: Identity,
    pub(super) clock: Clock,
    pub(super) is_alive: bool,
    pub(super) is_leaving: bool,
    pub(super) is_paused: bool,
    pub(super) is_cut: bool,
    pub(super) leases: Vec<Lease>,
    pub(super) work: Vec<Option<Work>>,
    /// By lease, the processor time of its workers so far.
    pub(super) spent: Vec<Duration>,
    meters: Vec<LoadMeter>,
    /// By lease, the last figure that a record had, and the version of the last record.
    pub(super) loads: Vec<(Option<u32>, Version)>,
    /// The next tick of each lease, in true time.
    pub(super) ticks: Vec<Option<u64>>,
    pub(super) beat: u64,
    /// The last beat of each host, its weight, and when this host saw it change.
    members: BTreeMap<Identity, (u64, u32, Duration)>,
    balancer: Balancer,
}

/// The decisions of a round of placement.
pub(super) struct Round {
    pub(super) candidacies: Vec<Option<Duration>>,
    /// Leases to release, each with the next host.
    pub(super) releases: Vec<(usize, Option<Identity>)>,
}

impl Host {
    pub(super) fn new(name: &str, clock: Clock, times: Times, leases: usize, seed: u64) -> Self {
        let identity = Identity::new(name);
        let lease = |at: usize| Lease::new(identity.clone(), times, seed ^ (at as u64) << 32);
        Self {
            leases: (0..leases).map(lease).collect(),
            clock,
            is_alive: true,
            is_leaving: false,
            is_paused: false,
            is_cut: false,
            work: vec![None; leases],
            spent: vec![Duration::ZERO; leases],
            meters: vec![LoadMeter::new(times.load_window()); leases],
            loads: vec![(None, Version(0)); leases],
            ticks: vec![None; leases],
            beat: 0,
            members: BTreeMap::new(),
            balancer: Balancer::new(Times::default().settle_time()),
            identity,
        }
    }

    pub(super) fn weight(&self) -> u32 {
        if self.is_leaving { 0 } else { 1000 }
    }

    /// Takes the beats of all hosts from the store.
    pub(super) fn learn(&mut self, now: Duration, beats: &BTreeMap<Identity, (u64, u32)>) {
        self.members.retain(|identity, _| beats.contains_key(identity));
        for (identity, (beat, weight)) in beats {
            let known = self.members.entry(identity.clone()).or_insert((*beat, *weight, now));
            if known.0 != *beat {
                *known = (*beat, *weight, now);
            }
        }
    }

    /// Takes the figure of a record.
    pub(super) fn observe(&mut self, lease: usize, observation: &Observation) {
        let (load, version) = &mut self.loads[lease];
        if let Observation::Present(record) = observation
            && record.version > *version
        {
            (*load, *version) = (Store::load(record).or(*load), record.version);
        }
    }

    /// Returns the figure that a request carries.
    pub(super) fn load(&mut self, now: Duration, lease: usize, request: &Request) -> Option<u32> {
        match request {
            Request::Acquire { .. } => self.meters[lease].begin(now, self.loads[lease].0),
            Request::Renew { .. } => {}
            Request::Read | Request::Release { .. } => return None,
        }
        self.meters[lease].sample(now, self.spent[lease])
    }

    /// Decides which leases this host tries, and which it gives away. `is_blind` places leases without their loads.
    pub(super) fn place(&mut self, now: Duration, names: &[LeaseName], is_blind: bool) -> Round {
        let is_live = |seen: &&(u64, u32, Duration)| now < seen.2 + BEAT_AGE_MAX;
        let others = self.members.iter().filter(|(identity, seen)| **identity != self.identity && is_live(seen));
        let mut members: Vec<Member> =
            others.map(|(identity, seen)| Member { identity: identity.clone(), weight: seen.1 }).collect();
        members.push(Member { identity: self.identity.clone(), weight: self.weight() });
        members.sort_by(|one, other| one.identity.cmp(&other.identity));
        let placed = names.iter().zip(&self.loads).zip(&self.leases).map(|((lease, (load, _)), machine)| {
            let holder = machine.holder().filter(|it| members.iter().any(|member| member.identity == **it)).cloned();
            Placement { lease: lease.clone(), holder, cost: load.filter(|_| !is_blind) }
        });
        let placed: Vec<Placement> = placed.collect();
        let candidacies = names.iter().map(|lease| {
            let rank = ranking(&members, lease).iter().position(|member| member.identity == self.identity)?;
            Some((RANK_DELAY * u32::try_from(rank).unwrap()).min(RANK_DELAY_MAX))
        });
        let candidacies = candidacies.collect();
        let mut releases = Vec::new();
        if self.is_leaving {
            for (at, lease) in names.iter().enumerate().filter(|(at, _)| self.leases[*at].holds(now).is_some()) {
                releases.push((at, receiver(&self.identity, &members, &placed, lease)));
            }
        } else if let Some(planned) = self.balancer.next_move(now, &self.identity, &members, &placed, &|_, _| true) {
            let at = names.iter().position(|lease| *lease == planned.lease).unwrap();
            releases.push((at, Some(planned.to)));
        }
        Round { candidacies, releases }
    }
}
