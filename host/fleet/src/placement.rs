//! Which host should hold which lease.
//!
//! A free lease goes to the first host of its [`ranking`]: rendezvous hashing, weighted by the processors
//! of each host. So each host finds the same order without asking, and a host that comes or goes
//! changes the place of few leases. Leases that are held stay where they are. If one host has too much to do,
//! its [`Balancer`] moves one lease, waits until the fleet has been quiet for a while, and looks again.
//!
//! Hosts may see different members for a moment. Then two of them try the same lease, or none does for a few
//! seconds. The lease alone decides which host works.
//!
//! Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::record::Identity;
use crate::shards::LeaseName;

/// The loads beyond which a lease moves, in parts of the mean.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadBounds {
    /// A host with more than this has too much to do.
    overloaded: f64,
    /// A host with less than this has too little to do.
    underloaded: f64,
    /// The most that a host has after it has received a lease.
    receiver_max: f64,
    /// The least that a host keeps that only helps another one.
    giver_min: f64,
}

impl LoadBounds {
    /// The bounds until a plan has found nothing to move.
    pub(crate) const MOVING: Self = Self { overloaded: 1.25, underloaded: 0.75, receiver_max: 1.125, giver_min: 0.875 };
    /// The bounds from then on: each is a tenth of the mean further away, which is more than sums of measured loads waver. So a
    /// fleet that has come to rest at the edge of a bound stays at rest.
    pub(crate) const AT_REST: Self =
        Self { overloaded: 1.35, underloaded: 0.65, receiver_max: 1.025, giver_min: 0.975 };
}

/// The load of a lease without work, in thousandths of a core: it costs memory and watches. Below such loads the numbers
/// of leases count, not what these happen to take.
const BASE: f64 = 10.0;

/// A live host of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The host.
    pub identity: Identity,
    /// The processor time that it offers to controllers: thousandths of a core. Zero while it is drained.
    pub weight: u32,
}

/// A lease, its holder and its load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The lease.
    pub lease: LeaseName,
    /// The live host that holds it; `None` while it is free or its holder is gone.
    pub holder: Option<Identity>,
    /// The measured processor time of its keys: thousandths of a core. A lease that nobody has measured counts as the
    /// mean of the measured ones.
    pub cost: Option<u32>,
}

/// A lease that shall go from one host to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The lease.
    pub lease: LeaseName,
    /// The host that shall be next.
    pub to: Identity,
}

/// The pace at which one host gives leases away.
#[derive(Debug, Clone)]
pub struct Balancer {
    settle_time: Duration,
    seen: Option<FleetView>,
}

/// The members and holders that a balancer has seen, and whether the fleet is at rest.
#[derive(Debug, Clone, Copy)]
struct FleetView {
    /// A digest of members and holders.
    digest: u64,
    /// Since when it has been the same.
    since: Duration,
    /// The number of leases that were measured when a plan found nothing to move. `None` until then.
    at_rest: Option<usize>,
}

impl Balancer {
    /// Creates a balancer. Members and holders have to stay the same for `settle_time` before a lease moves
    /// ([`Times::settle_time`](crate::Times::settle_time)).
    pub fn new(settle_time: Duration) -> Self {
        Self { settle_time, seen: None }
    }

    /// Returns the lease that `host` gives away now, if it has too much to do and the fleet has settled.
    ///
    /// Every host computes the same giver from the same view, and only the giver acts. The move changes the view, so the
    /// next one waits again: the fleet makes at most one move in each settle time. `may_hold` says which member the
    /// giver expects to take which lease. A member that may hold none of the leases has no part in the fleet's load.
    pub fn next_move(
        &mut self,
        now: Duration,
        host: &Identity,
        members: &[Member],
        placed: &[Placement],
        may_hold: &dyn Fn(&Identity, &LeaseName) -> bool,
    ) -> Option<Move> {
        let digest = digest(members, placed);
        let Some(seen) = self.seen.as_mut().filter(|seen| seen.digest == digest) else {
            self.seen = Some(FleetView { digest, since: now, at_rest: None });
            return None;
        };
        if now < seen.since + self.settle_time {
            return None;
        }
        // The first figure of a lease is no wavering.
        let measured = placed.iter().filter(|it| it.cost.is_some()).count();
        let bounds = if seen.at_rest == Some(measured) { LoadBounds::AT_REST } else { LoadBounds::MOVING };
        let planned = plan(members, placed, may_hold, bounds);
        if planned.is_none() {
            seen.at_rest = Some(measured);
        }
        planned.filter(|(giver, _)| giver == host).map(|(_, planned)| planned)
    }
}

/// Returns the members that may hold a lease, the best one first.
pub fn ranking<'a>(members: &'a [Member], lease: &LeaseName) -> Vec<&'a Member> {
    let mut ranked: Vec<(f64, &Member)> =
        members.iter().filter(|member| member.weight > 0).map(|member| (score(member, lease), member)).collect();
    ranked.sort_by(|(left, one), (right, other)| right.total_cmp(left).then_with(|| one.identity.cmp(&other.identity)));
    ranked.into_iter().map(|(_, member)| member).collect()
}

/// Returns the host that a drained host names as the next one of a lease: the one with the least load then.
pub fn receiver(host: &Identity, members: &[Member], placed: &[Placement], lease: &LeaseName) -> Option<Identity> {
    let loads = Loads::of(members, placed);
    let cost = placed.iter().find(|it| it.lease == *lease).map_or(loads.base, |it| loads.cost(it));
    let ranked = ranking(members, lease);
    let others = ranked.into_iter().filter(|member| member.identity != *host);
    let load = |member: &&Member| loads.after(member, cost);
    // The first of equal ones is the best in the ranking.
    others.min_by(|one, other| load(one).total_cmp(&load(other))).map(|member| member.identity.clone())
}

/// Returns the move that evens the loads out best, with its giver. `None` while a lease is free: then the
/// last move has not ended.
pub(crate) fn plan(
    members: &[Member],
    placed: &[Placement],
    may_hold: &dyn Fn(&Identity, &LeaseName) -> bool,
    bounds: LoadBounds,
) -> Option<(Identity, Move)> {
    let holds = |member: &Member| placed.iter().any(|it| it.holder.as_ref() == Some(&member.identity));
    let takes = |member: &Member| placed.iter().any(|it| may_hold(&member.identity, &it.lease));
    let members: Vec<Member> = members.iter().filter(|member| holds(member) || takes(member)).cloned().collect();
    let members = &*members;
    let is_held = |it: &Placement| it.holder.as_ref().is_some_and(|holder| weight(members, holder).is_some());
    if !placed.iter().all(is_held) {
        return None;
    }
    let loads = Loads::of(members, placed);
    let mean = loads.mean();
    let mut offering: Vec<&Member> = members.iter().filter(|member| member.weight > 0).collect();
    offering.sort_by(|one, other| compare(loads.load(other), loads.load(one), other, one));
    let is_uneven = |member: &&Member| {
        let load = loads.load(member);
        load > mean * bounds.overloaded || load < mean * bounds.underloaded
    };
    // A settled fleet, which is asked most, needs no look at the leases.
    if !offering.iter().any(is_uneven) {
        return None;
    }
    // The host with the most may have one lease alone. Then the next one gives.
    offering.iter().find_map(|giver| {
        let planned = best_move(giver, &offering, placed, &loads, may_hold, bounds)?;
        Some((giver.identity.clone(), planned))
    })
}

/// Returns the move from one host that evens the loads out best.
fn best_move(
    giver: &Member,
    offering: &[&Member],
    placed: &[Placement],
    loads: &Loads<'_>,
    may_hold: &dyn Fn(&Identity, &LeaseName) -> bool,
    bounds: LoadBounds,
) -> Option<Move> {
    let LoadBounds { overloaded, underloaded, receiver_max, giver_min } = bounds;
    let (mean, before) = (loads.mean(), loads.load(giver));
    if before <= mean {
        return None;
    }
    let mut best: Option<(f64, f64, Move)> = None;
    for it in placed.iter().filter(|it| it.holder.as_ref() == Some(&giver.identity)) {
        let is_other = |member: &&&Member| member.identity != giver.identity && may_hold(&member.identity, &it.lease);
        for to in offering.iter().filter(is_other) {
            let (after, left) = (loads.after(to, loads.cost(it)), loads.after(giver, -loads.cost(it)));
            let fits = after <= mean * receiver_max;
            let relieves = before > mean * overloaded && (fits || after <= before - mean * (overloaded - 1.0));
            let helps = loads.load(to) < mean * underloaded && fits && left >= mean * giver_min;
            let is_gain = relieves || helps;
            let worst = after.max(left);
            // Of equal ones the one whose place it is by the ranking.
            let rank = score(to, &it.lease);
            let is_better = best.as_ref().is_none_or(|(least, best_rank, _)| {
                worst.total_cmp(least).then(best_rank.total_cmp(&rank)) == Ordering::Less
            });
            if is_gain && is_better {
                best = Some((worst, rank, Move { lease: it.lease.clone(), to: to.identity.clone() }));
            }
        }
    }
    best.map(|(_, _, planned)| planned)
}

/// The loads of the members.
struct Loads<'a> {
    members: &'a [Member],
    /// The sum of the costs of the leases of each host.
    sums: HashMap<&'a Identity, f64>,
    /// The sum of the costs of all leases, also of those that no member holds.
    total: f64,
    /// The part of the cost that every lease has.
    base: f64,
    /// The measured cost of a lease that nobody has measured.
    unmeasured: f64,
}

impl<'a> Loads<'a> {
    fn of(members: &'a [Member], placed: &'a [Placement]) -> Self {
        let measured = || placed.iter().filter_map(|it| it.cost);
        let mean = measured().map(f64::from).sum::<f64>() / (measured().count().max(1) as f64);
        // Leases without work get a quarter of the mean, so that these spread too.
        let mut loads = Self { members, sums: HashMap::new(), total: 0.0, base: BASE + mean / 4.0, unmeasured: mean };
        for it in placed {
            let cost = loads.cost(it);
            loads.total += cost;
            if let Some(holder) = &it.holder {
                *loads.sums.entry(holder).or_default() += cost;
            }
        }
        loads
    }

    fn cost(&self, it: &Placement) -> f64 {
        self.base + it.cost.map_or(self.unmeasured, f64::from)
    }

    /// Returns the cost of the leases of a member, for each part of its weight.
    fn load(&self, member: &Member) -> f64 {
        self.after(member, 0.0)
    }

    fn after(&self, member: &Member, more: f64) -> f64 {
        (self.sums.get(&member.identity).copied().unwrap_or_default() + more) / f64::from(member.weight)
    }

    fn mean(&self) -> f64 {
        let weight: f64 = self.members.iter().map(|member| f64::from(member.weight)).sum();
        self.total / weight
    }
}

fn weight(members: &[Member], identity: &Identity) -> Option<u32> {
    members.iter().find(|member| member.identity == *identity).map(|member| member.weight)
}

fn compare(one: f64, other: f64, left: &Member, right: &Member) -> Ordering {
    one.total_cmp(&other).then_with(|| right.identity.cmp(&left.identity))
}

/// Returns the score of a member for a lease. The highest one is the best: with weights in the ratio 2 to 1
/// it is the first member in two of three cases.
fn score(member: &Member, lease: &LeaseName) -> f64 {
    let hash = xxh3_64(format!("{} {lease}", member.identity.host()).as_bytes());
    // Between 0 and 1, and neither of them.
    let part = ((hash >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
    -f64::from(member.weight) / part.ln()
}

fn digest(members: &[Member], placed: &[Placement]) -> u64 {
    let mut text = String::new();
    for member in members {
        text.push_str(&format!("{} {}\n", member.identity, member.weight));
    }
    for Placement { lease, holder, cost: _ } in placed {
        text.push_str(&format!("{lease} {}\n", holder.as_ref().map_or("", Identity::as_str)));
    }
    xxh3_64(text.as_bytes())
}
