//! The world: true time, the network, the faults and the checks.

mod faults;
mod promises;
mod workers;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use self::faults::Fault;
use super::dice::Dice;
use super::host::Host;
use super::store::Store;
use crate::lease::{Action, Answer, Event, Lease, Request, RequestId};
use crate::record::{Epoch, Identity};
use crate::shards::{LeaseName, ShardBy, Shards};
use crate::times::Times;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;
/// The time with faults, the time without, and the last part of it, in which no lease may move.
const FAULTS: u64 = 240 * SECOND;
const QUIET: u64 = 420 * SECOND;
const STAY: u64 = 60 * SECOND;
const TRACE_LINES: usize = 80;

/// A change to the machine, the store or the workers that makes them wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The holder works until the end of its lease.
    NoMargin,
    /// Writes do not carry their epoch.
    NoEpoch,
    /// A renewal counts from its answer instead of its sending.
    CountsFromAnswer,
    /// A renewal whose answer is lost counts.
    TrustsSilence,
    /// The lease is released while the workers still finish.
    ReleasesEarly,
    /// The term ends without a release.
    NoRelease,
    /// Leases are placed without their loads.
    IgnoresLoads,
}

/// The result of a run, or of several.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What broke a promise.
    pub wrong: Vec<String>,
    /// The last steps of the run.
    pub trace: Vec<String>,
    /// The virtual time.
    pub simulated: Duration,
    /// Terms that began.
    pub terms: u64,
    /// Terms that ended without a release.
    pub losses: u64,
    /// Leases that moved to even the loads out.
    pub moves: u64,
    /// Writes that the store accepted.
    pub accepted: u64,
    /// Writes of an old term, which the store refused.
    pub refused: u64,
    /// The longest planned hand-over to a host that was there.
    pub gap_max: Duration,
}

impl Outcome {
    /// Adds the figures of another run.
    pub fn add(&mut self, other: &Self) {
        self.simulated += other.simulated;
        self.terms += other.terms;
        self.losses += other.losses;
        self.moves += other.moves;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.gap_max = self.gap_max.max(other.gap_max);
    }
}

/// Something that happens at a time.
#[derive(Clone, Debug)]
enum Step {
    /// A request reaches the store.
    Arrive {
        host: usize,
        lease: usize,
        id: RequestId,
        request: Request,
        load: Option<u32>,
    },
    /// A write of a worker reaches the store.
    Write {
        host: usize,
        lease: usize,
        epoch: Epoch,
    },
    /// A beat reaches the store.
    Beat {
        host: usize,
        beat: u64,
        weight: u32,
    },
    /// A fault, and its end.
    Fault,
    Heal(Fault),
    /// A host comes.
    Join {
        slot: usize,
    },
    /// One of the steps that wait while their host is paused.
    OfHost {
        host: usize,
        step: HostStep,
    },
}

#[derive(Clone, Debug)]
enum HostStep {
    Event { lease: usize, event: Event },
    Ended { lease: usize, epoch: Epoch },
    Work { lease: usize, epoch: Epoch },
    Beats(BTreeMap<Identity, (u64, u32)>),
    Round,
}

pub(super) struct World {
    dice: Dice,
    mutation: Option<Mutation>,
    times: Times,
    now: u64,
    queue: BTreeMap<(u64, u64), Step>,
    order: u64,
    store: Store,
    names: Vec<LeaseName>,
    /// The true loads of the leases, in thousandths of a core. What is measured wavers around them.
    costs: Vec<u32>,
    /// Decides how loads waver.
    load_dice: Dice,
    /// All runs of all hosts.
    hosts: Vec<Host>,
    /// The steps that wait for each paused host.
    inboxes: Vec<Vec<HostStep>>,
    slots: usize,
    is_quiet: bool,
    is_slow: bool,
    /// The last arrival of a slow message.
    slow_until: u64,
    /// The highest epoch under which workers have begun, by lease.
    begun: Vec<u64>,
    /// Whether the last fault and the last slow message are over, and which leases were held since.
    is_over: bool,
    recovered: Vec<bool>,
    /// Since when a lease has no holder, once it must have one.
    free_since: Vec<Option<u64>>,
    /// Whether the host that a release named has left before.
    is_next_gone: Vec<bool>,
    is_watched: bool,
    outcome: Outcome,
    trace: VecDeque<String>,
}

impl World {
    /// Returns the times of the leases in a run: the defaults, a margin that is as small as allowed, or short
    /// ones.
    pub(super) fn times(seed: u64) -> Times {
        let mut dice = Dice::stream(seed, 1);
        let ms = Duration::from_millis;
        match dice.below(4) {
            0 => Times::default(),
            1 => Times {
                length: ms(3_000),
                renew_deadline: ms(2_300),
                retry_period: ms(300),
                request_timeout: ms(500),
                in_flight_max: ms(600),
            },
            _ => {
                let (length, in_flight_max) = (ms(10_000 + dice.below(8_000)), ms(50));
                let mut times = Times {
                    length,
                    in_flight_max,
                    retry_period: ms(1_000),
                    request_timeout: ms(1_000 + dice.below(5_000)),
                    renew_deadline: length,
                };
                times.renew_deadline = times.renew_deadline_max();
                times
            }
        }
    }

    /// Runs a seed.
    pub(super) fn run(seed: u64, mutation: Option<Mutation>) -> Outcome {
        let mut dice = Dice::new(seed);
        let mut times = Self::times(seed);
        if mutation == Some(Mutation::NoMargin) {
            times.renew_deadline = times.length;
        }
        let (slots, leases) = (2 + dice.index(3), 1 + dice.index(6));
        let names = Shards::new(u32::try_from(leases).unwrap(), ShardBy::Key).unwrap().leases("widgets");
        let costs = (0..leases).map(|_| 10 + u32::try_from(dice.below(300)).unwrap()).collect();
        let mut world = Self {
            dice,
            mutation,
            times,
            now: 0,
            queue: BTreeMap::new(),
            order: 0,
            store: Store::new(leases),
            names,
            costs,
            load_dice: Dice::stream(seed, 2),
            hosts: Vec::new(),
            inboxes: Vec::new(),
            slots,
            is_quiet: false,
            is_slow: false,
            slow_until: 0,
            begun: vec![0; leases],
            recovered: vec![false; leases],
            is_over: false,
            free_since: vec![None; leases],
            is_next_gone: vec![false; leases],
            is_watched: false,
            outcome: Outcome::default(),
            trace: VecDeque::new(),
        };
        for slot in 0..slots {
            let at = world.dice.below(5 * SECOND);
            world.at(at, Step::Join { slot });
        }
        world.at(5 * SECOND, Step::Fault);
        world.simulate();
        world.outcome.trace = world.trace.into();
        world.outcome
    }

    fn simulate(&mut self) {
        self.until(FAULTS);
        if !self.outcome.wrong.is_empty() {
            return;
        }
        self.end_faults();
        let last_fault = self.now.max(self.slow_until);
        self.until(last_fault);
        self.is_over = true;
        (0..self.names.len()).for_each(|lease| self.check(lease));
        let settled = last_fault + self.bound();
        self.until(settled);
        self.begin_watch();
        let end = settled + QUIET;
        if self.dice.percent(50) {
            self.until(settled + 20 * SECOND);
            self.leave();
        }
        self.until(end - STAY);
        let before = self.holders();
        self.until(end);
        self.check_end(&before);
        self.outcome.simulated = Duration::from_micros(self.now);
    }

    fn until(&mut self, end: u64) {
        while self.outcome.wrong.is_empty()
            && let Some(entry) = self.queue.first_entry()
            && entry.key().0 <= end
        {
            let ((at, _), step) = entry.remove_entry();
            self.now = at;
            self.take(step);
        }
        self.now = self.now.max(end);
    }

    fn at(&mut self, at: u64, step: Step) {
        self.order += 1;
        self.queue.insert((at.max(self.now), self.order), step);
    }

    fn tell(&mut self, line: String) {
        if self.trace.len() == TRACE_LINES {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{:>12.6} {line}", self.now as f64 / SECOND as f64));
    }

    fn wrong(&mut self, what: String) {
        self.tell(format!("WRONG: {what}"));
        self.outcome.wrong.push(what);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Arrive { host, lease, id, request, load } => self.arrive(host, lease, id, &request, load),
            Step::Write { host, lease, epoch } => self.write(host, lease, epoch),
            Step::Beat { host, beat, weight } => self.beat(host, beat, weight),
            Step::Fault => self.fault(),
            Step::Heal(fault) => self.heal(fault),
            Step::Join { slot } => self.join(slot),
            Step::OfHost { host, step } => {
                if self.hosts[host].is_paused {
                    self.inboxes[host].push(step);
                } else if self.hosts[host].is_alive {
                    self.take_of_host(host, step);
                }
            }
        }
    }

    fn take_of_host(&mut self, host: usize, step: HostStep) {
        match step {
            HostStep::Event { lease, event } => self.step(host, lease, event),
            HostStep::Ended { lease, epoch } => self.end_work(host, lease, epoch),
            HostStep::Work { lease, epoch } => self.work(host, lease, epoch),
            HostStep::Beats(beats) => {
                let now = self.clock(host);
                self.hosts[host].learn(now, &beats);
            }
            HostStep::Round => self.round(host),
        }
    }

    fn clock(&self, host: usize) -> Duration {
        self.hosts[host].clock.read(self.now)
    }

    /// Gives an event to the machine of a lease, and does what it says.
    fn step(&mut self, host: usize, lease: usize, event: Event) {
        let now = self.clock(host);
        if let Event::Observed(observation) = &event {
            self.hosts[host].observe(lease, observation);
        }
        let is_stored = matches!(&event, Event::Answered { answer: Answer::Stored { .. }, .. });
        self.hosts[host].ticks[lease].take_if(|at| *at <= self.now);
        let actions = self.hosts[host].leases[lease].step(now, event);
        if is_stored && self.mutation == Some(Mutation::CountsFromAnswer) {
            self.hosts[host].leases[lease].renewed_at(now);
        }
        for action in actions {
            match action {
                Action::Send { id, request } => self.send(host, lease, id, request),
                Action::Begin { epoch } => self.begin(host, lease, epoch),
                Action::Drain => self.drain(host, lease),
                Action::Abort => self.abort(host, lease),
            }
        }
        let at = self.hosts[host].leases[lease].next_tick();
        let at = at.map(|at| self.hosts[host].clock.when(at).max(self.now + 1));
        if self.hosts[host].ticks[lease] != at {
            self.hosts[host].ticks[lease] = at;
            if let Some(at) = at {
                self.at(at, Step::OfHost { host, step: HostStep::Event { lease, event: Event::Tick } });
            }
        }
        self.check(lease);
    }

    fn send(&mut self, host: usize, lease: usize, id: RequestId, request: Request) {
        self.tell(format!("{} sends {request:?} for {lease}", self.hosts[host].identity));
        if self.mutation == Some(Mutation::TrustsSilence) && matches!(request, Request::Renew { .. }) {
            // As if each renewal were stored.
            let now = self.clock(host);
            self.hosts[host].leases[lease].renewed_at(now);
        }
        if self.mutation == Some(Mutation::NoRelease)
            && let Request::Release { expected, epoch, .. } = request
        {
            let answer = Answer::Stored { version: expected, epoch };
            let event = Event::Answered { id, answer };
            self.at(self.now + MS, Step::OfHost { host, step: HostStep::Event { lease, event } });
            return;
        }
        let now = self.clock(host);
        let load = self.hosts[host].load(now, lease, &request);
        for at in self.deliveries(host) {
            self.at(at, Step::Arrive { host, lease, id, request: request.clone(), load });
        }
    }

    /// Returns when a message between a host and the store arrives: never, once or twice.
    fn deliveries(&mut self, host: usize) -> Vec<u64> {
        if self.hosts[host].is_cut || !self.is_quiet && self.dice.percent(2) {
            return Vec::new();
        }
        let times = if !self.is_quiet && self.dice.percent(2) { 2 } else { 1 };
        (0..times).map(|_| self.now + self.delay()).collect()
    }

    fn delay(&mut self) -> u64 {
        let delay = MS + self.dice.below(10 * MS);
        if self.is_quiet || !self.dice.percent(if self.is_slow { 40 } else { 1 }) {
            return delay;
        }
        // Up to a second and a half, or beyond every lease.
        let span = [1500 * MS, 12 * SECOND, 40 * SECOND][self.dice.index(3)];
        let delay = delay + self.dice.below(span);
        self.slow_until = self.slow_until.max(self.now + delay);
        delay
    }

    fn arrive(&mut self, host: usize, lease: usize, id: RequestId, request: &Request, load: Option<u32>) {
        if self.store.is_down {
            return;
        }
        let from = self.hosts[host].identity.clone();
        let answer = self.store.answer(lease, &from, self.times.length, request, load);
        if matches!(answer, Answer::Stored { .. }) {
            self.tell(format!("the store took {request:?} of {from} for {lease}"));
            if let Request::Release { preferred_holder: Some(next), .. } = request {
                let is_next = |host: &&Host| host.identity == *next && host.is_alive && !host.is_leaving;
                self.is_next_gone[lease] = !self.hosts.iter().any(|host| is_next(&host));
            }
            self.show(lease);
        }
        for at in self.deliveries(host) {
            let event = Event::Answered { id, answer: answer.clone() };
            self.at(at, Step::OfHost { host, step: HostStep::Event { lease, event } });
        }
    }

    /// Shows the record of a lease to every host that watches.
    fn show(&mut self, lease: usize) {
        let observation = self.store.observation(lease);
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_alive {
                for at in self.deliveries(host) {
                    let event = Event::Observed(observation.clone());
                    self.at(at, Step::OfHost { host, step: HostStep::Event { lease, event } });
                }
            }
        }
    }

    fn beat(&mut self, host: usize, beat: u64, weight: u32) {
        let Host { identity, is_alive, .. } = &self.hosts[host];
        if self.store.is_down || !is_alive {
            return;
        }
        let known = self.store.beats.entry(identity.clone()).or_insert((beat, weight));
        if beat > known.0 {
            *known = (beat, weight);
        }
        let beats = self.store.beats.clone();
        for at in self.deliveries(host) {
            self.at(at, Step::OfHost { host, step: HostStep::Beats(beats.clone()) });
        }
    }

    /// A host tells the store that it lives, and decides what it wants to hold.
    fn round(&mut self, host: usize) {
        self.hosts[host].beat += 1;
        let (beat, weight, now) = (self.hosts[host].beat, self.hosts[host].weight(), self.clock(host));
        for at in self.deliveries(host) {
            self.at(at, Step::Beat { host, beat, weight });
        }
        let is_blind = self.mutation == Some(Mutation::IgnoresLoads);
        let round = self.hosts[host].place(now, &self.names, is_blind);
        for (lease, candidacy) in round.candidacies.into_iter().enumerate() {
            self.step(host, lease, Event::Candidacy(candidacy));
        }
        for (lease, preferred_holder) in round.releases {
            if !self.hosts[host].is_leaving {
                self.outcome.moves += 1;
            }
            self.tell(format!("{} gives {lease} to {preferred_holder:?}", self.hosts[host].identity));
            self.step(host, lease, Event::Release { preferred_holder });
        }
        let Host { work, leases, is_leaving, identity, .. } = &self.hosts[host];
        let (is_leaving, identity) = (*is_leaving, identity.clone());
        if is_leaving && work.iter().all(Option::is_none) && leases.iter().all(Lease::is_idle) {
            self.tell(format!("{identity} is gone"));
            self.hosts[host].is_alive = false;
            self.store.beats.remove(&identity);
            return;
        }
        let period = if is_leaving { 50 * MS } else { SECOND };
        self.at(self.now + period, Step::OfHost { host, step: HostStep::Round });
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap()
}
