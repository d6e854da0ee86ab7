//! Measures how often a good canary is rolled back, and how often a bad one passes. Whole rollouts with the
//! default gate run in virtual time, with 120 or other numbers of keys, under twenty loads. Everything
//! follows from the seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use homeostat_store::{Key, Kind};
use homeostat_testing::Dice;

use super::*;
use crate::rollout::deal::even_salt;

/// Rollouts under each load.
const ROLLOUTS: u64 = 200;
/// Time that the stable version ran before, in seconds.
const PAST_SECONDS: f64 = 7200.0;
const SECOND: u64 = 1_000_000;

/// The load of a controller and the behaviour of its code.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    keys: usize,
    /// Changes per second, of all keys together.
    events: f64,
    /// Skew of the changes: the share of the key at index `n` is proportional to `n` to this power.
    skew: f64,
    /// Writes of a run caused by an event, and the factor for every tenth key.
    writes: u32,
    tenth: u32,
    /// The share of the resyncs that find something to write.
    drift: f64,
    /// Its writes wake it, and it finds nothing more to do.
    wakes: bool,
    /// The shares of the runs that fail, that trap, and that hit a limit.
    errors: f64,
    traps: f64,
    limits: f64,
    /// The share of the keys that fail every time.
    broken: f64,
    /// The share of the resyncs of other keys that fail.
    rotten: f64,
    /// The share of the keys that ask to run again after this many seconds.
    again: (f64, u64),
    /// Median duration of a run, and the deviation of runs and of keys: standard deviations of the logarithm.
    millis: f64,
    spread: (f64, f64),
    /// The share of the seconds in which everything takes four times as long.
    stalls: f64,
}

const PLAIN: Load = Load {
    name: "120 keys, 5 changes per second",
    keys: 120,
    events: 5.0,
    skew: 0.0,
    writes: 1,
    tenth: 1,
    drift: 0.0,
    wakes: false,
    errors: 0.0,
    traps: 0.0,
    limits: 0.0,
    broken: 0.0,
    rotten: 0.0,
    again: (0.0, 0),
    millis: 20.0,
    spread: (0.3, 0.1),
    stalls: 0.0,
};

const LOADS: [Load; 20] = [
    PLAIN,
    Load { name: "its own writes wake it", wakes: true, ..PLAIN },
    Load { name: "a few keys change nearly always", skew: 1.2, ..PLAIN },
    Load { name: "every tenth key writes five times as much", tenth: 5, ..PLAIN },
    Load { name: "one look in five finds something to write", drift: 0.2, ..PLAIN },
    Load { name: "one run in fifty fails", errors: 0.02, ..PLAIN },
    Load { name: "one run in five fails", errors: 0.2, ..PLAIN },
    Load { name: "one key in thirty fails every time", broken: 0.034, ..PLAIN },
    Load { name: "one look in ten fails, and no event", rotten: 0.1, ..PLAIN },
    Load { name: "one run in two hundred traps", traps: 0.005, ..PLAIN },
    Load { name: "one run in a hundred hits a limit", limits: 0.01, ..PLAIN },
    Load { name: "runs differ much in length", spread: (0.6, 0.3), ..PLAIN },
    Load { name: "everything stalls now and then", stalls: 0.1, ..PLAIN },
    Load { name: "half of the keys run every ten seconds", again: (0.5, 10), ..PLAIN },
    Load { name: "2000 keys, 10 changes per second", keys: 2000, events: 10.0, ..PLAIN },
    Load { name: "60 keys, 10 changes per second, three writes", keys: 60, events: 10.0, writes: 3, ..PLAIN },
    Load { name: "nothing changes, 1000 keys", keys: 1000, events: 0.0, ..PLAIN },
    Load { name: "nothing changes, 120 keys", events: 0.0, ..PLAIN },
    Load { name: "10 keys, 2 changes per second", keys: 10, events: 2.0, tenth: 5, errors: 0.05, ..PLAIN },
    Load {
        name: "everything at once",
        keys: 300,
        events: 4.0,
        skew: 0.8,
        tenth: 3,
        drift: 0.1,
        wakes: true,
        errors: 0.05,
        traps: 0.002,
        limits: 0.005,
        broken: 0.01,
        again: (0.1, 30),
        spread: (0.6, 0.3),
        stalls: 0.05,
        ..PLAIN
    },
];

/// The fault of a canary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    Nothing,
    /// Traps in 3 % of its runs.
    Traps,
    /// Writes once more in every run. Where a run caused by an event writes 1.4 times, that is 1.7 times as
    /// much, which the gate allows. Where a resync writes nothing, it is once per resync, twice what the gate
    /// allows there.
    Writes,
    /// Takes 50 % longer.
    Slow,
}

struct Random(Dice);

impl Random {
    /// From 0 to 1, excluding 1.
    fn part(&mut self) -> f64 {
        (self.0.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn is(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.part() < chance
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.part()).ln()).sqrt() * (std::f64::consts::TAU * self.part()).cos()
    }

    fn wait(&mut self, per_second: f64) -> u64 {
        ((-(1.0 - self.part()).ln() / per_second) * SECOND as f64) as u64
    }
}

/// A key, and its one queued run.
#[derive(Clone, Copy)]
struct QueuedKey {
    hash: u64,
    due: Option<u64>,
    is_resync: bool,
    failures: u32,
    is_broken: bool,
    repeats: bool,
    length: f64,
    writes: u32,
    /// Its own write woke it.
    is_echo: bool,
    /// Only its own timer caused it.
    is_timer: bool,
}

struct World {
    load: Load,
    fault: Fault,
    random: Random,
    now: u64,
    keys: Vec<QueuedKey>,
    /// The sum of the weights of the keys up to each.
    weights: Vec<f64>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    both: Comparison,
    failed: Option<String>,
    machine: CanaryMachine,
    salt: u64,
}

/// How a rollout ended: promoted, or the reason of the rollback.
type Ended = Result<(), String>;

impl World {
    fn new(load: Load, fault: Fault, seed: u64) -> Self {
        let mut random = Random(Dice::new(seed));
        let (mut sum, mut weights) = (0.0, Vec::new());
        let kind = Kind::new("demo.homeostat.dev", "v1", "Item");
        let name = |place| Key::new(kind.clone(), "default", &format!("k{place}"));
        let names: Vec<Key> = (0..load.keys).map(name).collect();
        // Each revision of a controller deals the keys again.
        let salt = even_salt(seed, &CanaryPlan::default().steps, &names);
        let keys = (0..load.keys).map(|place| {
            sum += ((place + 1) as f64).powf(-load.skew);
            weights.push(sum);
            let is_broken = random.is(load.broken);
            QueuedKey {
                hash: key_hash(&names[place], salt),
                due: None,
                is_resync: false,
                failures: if is_broken { 12 } else { 0 },
                is_broken,
                repeats: random.is(load.again.0),
                length: (load.spread.1 * random.normal()).exp(),
                writes: load.writes * if place % 10 == 3 { load.tenth } else { 1 },
                is_echo: false,
                is_timer: false,
            }
        });
        let keys: Vec<QueuedKey> = keys.collect();
        let runs = (load.events.max(0.1) * PAST_SECONDS) as u64;
        let mut past = RunTotals { runs, ..RunTotals::default() };
        (0..runs).for_each(|_| past.errors += u64::from(random.is(load.errors)));
        (0..runs).for_each(|_| past.traps += u64::from(random.is(load.traps)));
        (0..runs).for_each(|_| past.limits += u64::from(random.is(load.limits)));
        let machine = CanaryMachine::new(CanaryPlan::default(), None, Duration::ZERO);
        let both = Comparison { stable_totals: past, ..Comparison::default() };
        let (due, failed) = (BinaryHeap::new(), None);
        let mut world = Self { load, fault, random, now: 0, keys, weights, due, both, failed, machine, salt };
        for key in 0..load.keys {
            let QueuedKey { repeats, is_broken, .. } = world.keys[key];
            let within = if is_broken { 60 } else { load.again.1.max(1) };
            if repeats || is_broken {
                let due = (world.random.part() * (within * SECOND) as f64) as u64;
                world.queue(key, due, false);
            }
        }
        world
    }

    /// Runs until the canary has all keys or none.
    fn run(mut self) -> Ended {
        let (mut next_event, mut next_look) = (0, 0);
        loop {
            let next_due = self.due.peek().map_or(u64::MAX, |Reverse((due, _))| *due);
            if next_look <= next_event.min(next_due) {
                self.now = next_look;
                next_look += SECOND;
                if let Some(ended) = self.look() {
                    return ended;
                }
            } else if next_event <= next_due {
                self.now = next_event;
                if self.load.events == 0.0 {
                    next_event = u64::MAX;
                    continue;
                }
                next_event += self.random.wait(self.load.events);
                let at = self.random.part() * self.weights[self.load.keys - 1];
                let key = self.weights.partition_point(|sum| *sum <= at);
                self.queue(key, self.now, false);
            } else {
                let Some(Reverse((due, key))) = self.due.pop() else { continue };
                self.now = due;
                if self.keys[key].due == Some(due) {
                    self.reconcile(key);
                }
            }
        }
    }

    /// Checks the canary like the controller reconciler, once a second.
    fn look(&mut self) -> Option<Ended> {
        let (now, share) = (Duration::from_micros(self.now), self.machine.share());
        let failed = self.failed.as_deref();
        let sight =
            Observation { now, is_paused: false, has_synced: true, comparison: &self.both, failed, shadow: None };
        match self.machine.step(sight) {
            Action::SetShare(wider) => {
                self.machine.step_started(wider, now);
                self.both = self.both.next_step();
                self.look_again(wider);
            }
            Action::Resync => self.look_again(share?),
            Action::Promote => return Some(Ok(())),
            Action::RollBack(reason) => return Some(Err(reason)),
            Action::Wait | Action::StartShadow | Action::EndShadow => {}
        }
        None
    }

    /// Returns the keys of a canary with this share.
    fn part(&self, share: Option<Share>) -> KeySplit {
        KeySplit { share, pinned: PinnedKeys::default(), salt: self.salt }
    }

    /// Requeues the canary's keys, and as many others.
    fn look_again(&mut self, share: Share) {
        let part = self.part(Some(share));
        for key in 0..self.load.keys {
            let hash = self.keys[key].hash;
            let is_meant = part.track_of_hash(hash) == Track::Canary || part.is_control_hash(hash);
            if is_meant && self.keys[key].due.is_none() {
                self.queue(key, self.now + key as u64 * 100, true);
            }
        }
    }

    /// Queues a run. The earlier one counts, and it is a resync while nothing else causes it.
    fn queue(&mut self, key: usize, due: u64, is_resync: bool) {
        let queued = &mut self.keys[key];
        queued.is_resync = is_resync && queued.due.is_none();
        let due = queued.due.map_or(due, |queued| queued.min(due));
        queued.due = Some(due);
        queued.is_timer &= due > self.now;
        self.due.push(Reverse((due, key)));
    }

    fn reconcile(&mut self, key: usize) {
        let (load, queued) = (self.load, self.keys[key]);
        let part = self.part(self.machine.share());
        let is_new = part.track_of_hash(queued.hash) == Track::Canary && self.failed.is_none();
        let (side, fault) = if is_new { (Track::Canary, self.fault) } else { (Track::Stable, Fault::Nothing) };
        let end = self.end(queued, fault);
        let random = &mut self.random;
        let mut writes = match queued.is_resync {
            _ if end != RunResult::Success || queued.is_echo || queued.is_timer => 0,
            true => u32::from(random.is(load.drift)),
            false => queued.writes,
        };
        writes += u32::from(fault == Fault::Writes && end == RunResult::Success);
        let stalls = Random(Dice::new(self.now / (5 * SECOND))).is(load.stalls);
        let times = if stalls { 4.0 } else { 1.0 } * if fault == Fault::Slow { 1.5 } else { 1.0 };
        let millis = load.millis * times * queued.length * (load.spread.0 * random.normal()).exp();
        let QueuedKey { is_resync, failures, .. } = queued;
        let wall = Duration::from_secs_f64(millis / 1000.0);
        let now = Duration::from_micros(self.now);
        let run = RunRecord {
            key: key as u64,
            is_resync,
            is_retry: failures > 0,
            end,
            writes,
            again_soon: false,
            ready: now,
            ended: now,
            wall,
        };
        self.both.record(side, run);
        if is_new && let Analysis::Fail(reason) = analyse(&Gate::default(), &self.both) {
            self.failed = Some(reason);
        }
        let was_echo = queued.is_echo;
        let queued = &mut self.keys[key];
        (queued.due, queued.is_resync, queued.is_echo, queued.is_timer) = (None, false, false, false);
        if end != RunResult::Success {
            queued.failures += 1;
            let millis = 5 << queued.failures.min(14);
            self.queue(key, self.now + millis.min(60_000) * 1000, false);
            return;
        }
        queued.failures = 0;
        if load.wakes && writes > 0 && !was_echo {
            queued.is_echo = true;
            self.queue(key, self.now + 1000, false);
        } else if queued.repeats {
            queued.is_timer = true;
            self.queue(key, self.now + load.again.1 * SECOND, false);
        }
    }

    fn end(&mut self, queued: QueuedKey, fault: Fault) -> RunResult {
        let (load, random) = (self.load, &mut self.random);
        let rotten = if queued.is_resync { load.rotten } else { 0.0 };
        match () {
            () if fault == Fault::Traps && random.is(0.03) => RunResult::Trap,
            () if queued.is_broken || random.is(load.errors) || random.is(rotten) => RunResult::Error,
            () if random.is(load.traps) => RunResult::Trap,
            () if random.is(load.limits) => RunResult::Limit,
            () => RunResult::Success,
        }
    }
}

/// Returns the number of rollbacks, and the reason of the first one.
fn gone_back(load: Load, fault: Fault) -> (u64, Option<String>) {
    let (mut count, mut first) = (0, None);
    for seed in 0..ROLLOUTS {
        if let Err(reason) = World::new(load, fault, seed * 1_000_003 + load.keys as u64).run() {
            count += 1;
            first.get_or_insert(reason);
        }
    }
    (count, first)
}

/// Simulates on a few threads.
fn under_each(loads: &[Load], simulate: impl Fn(Load) + Sync) {
    std::thread::scope(|scope| {
        for loads in loads.chunks(loads.len().div_ceil(4)) {
            scope.spawn(|| loads.iter().for_each(|load| simulate(*load)));
        }
    });
}

#[test]
fn a_good_canary_is_rolled_back_in_at_most_one_of_a_hundred_rollouts() {
    under_each(&LOADS, |load| {
        let (count, reason) = gone_back(load, Fault::Nothing);
        assert!(count * 100 <= ROLLOUTS, "{}: {count} of {ROLLOUTS}: {reason:?}", load.name);
    });
}

#[test]
fn a_bad_candidate_is_promoted_once_in_a_hundred_rollouts_at_most() {
    under_each(&LOADS, |load| {
        for fault in [Fault::Traps, Fault::Writes, Fault::Slow] {
            let (count, _) = gone_back(load, fault);
            assert!(count * 100 >= ROLLOUTS * 99, "{}: {fault:?}: {count} of {ROLLOUTS}", load.name);
        }
    });
}
