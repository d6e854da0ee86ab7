//! Simulations of a fleet in virtual time: whole hosts with real guests, queues, workers, leases, shards and rollouts
//! over one simulated store. A seed determines all changes and faults.
//!
//! Hosts die, restart, drain, and come back with other shards. They roll new versions out together. Their connections
//! are cut, slow, lose messages, and deliver requests long after their sender has given up. Clocks differ by one percent,
//! the time of day of a host jumps, and people delete records of leases. Only the times in the `Host` resources read the
//! time of day that jumps.
//! `HOMEOSTAT_FLEET_SEED=N` runs one seed, and `HOMEOSTAT_FLEET_SEEDS=N` the first N instead of the default number.
//!
//! Deliberately absent: processes that stop between two instructions, which `homeostat_fleet::simulation` has. All hosts
//! of a run share one executor with virtual time, and it cannot stop the tasks of one host alone.

mod journal;
mod manifest;
mod network;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use homeostat_fixtures::{MemoryLeases, demo, demo_kind, memory_store};
use homeostat_fleet::{Identity, LeaseName, Times};
use homeostat_runtime::{FleetOptions, Host, Options, Stores};
use homeostat_store::routes::{Routes, Rule};
use homeostat_store::{Query, RoutedStore, Store, StorePart, View, Write};
use homeostat_testing::Dice;
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::journal::{Counts, Journal};
use self::manifest::{Manifest, Placement, TallyCode, code};
use self::network::{Faults, Link, LinkedStore};
use crate::rollout::of_host;

/// The default number of seeds.
const SEEDS: u64 = 6;
/// The time with faults, and the pause between two steps.
const FAULTS: Duration = Duration::from_secs(8 * 60);
const STEP_MAX: Duration = Duration::from_secs(12);
/// The time without faults. Leases have stopped to move a minute before its end.
const QUIET: Duration = Duration::from_secs(8 * 60);
const STILL: Duration = Duration::from_secs(60);
/// How long after the last fault every change has been reconciled, in lengths of a lease, and besides.
const SETTLED_LENGTHS: u32 = 4;
const SETTLED_BESIDES: Duration = Duration::from_secs(45);
/// A lease that is given up without a fault is taken within this time.
const PLANNED_MAX: Duration = Duration::from_secs(1);

const HOSTS: [&str; 3] = ["a", "b", "c"];
const NAMES: u64 = 8;
const NAME: &str = "tally";
const KIND: &str = "Tally";
/// How late a request arrives at most.
const LATE_MAX: Duration = Duration::from_secs(60);
/// The time of day of a host jumps within this time after the epoch of Unix.
const TIME_OF_DAY_MAX: Duration = Duration::from_secs(365 * 86_400);

/// The load of each reconcile.
const RECONCILE_LOAD: Duration = Duration::from_millis(5);

/// A host of the fleet that runs.
struct Member {
    host: Host,
    link: Arc<Link>,
    /// The connection to its own store.
    disk: Arc<Link>,
    placement: Placement,
    /// What its time of day is ahead of the simulated time, in seconds.
    ahead_s: Arc<AtomicU64>,
}

/// The fleet, its store, and the dice that choose the steps.
struct World {
    dice: Dice,
    store: Arc<dyn Store>,
    leases: MemoryLeases,
    journal: Arc<Journal>,
    times: Times,
    is_fenced: bool,
    /// Without it the store accepts every late write.
    is_protected: bool,
    origin: Instant,
    /// By name. A host that is not there has died.
    members: BTreeMap<&'static str, Member>,
    /// By name, the store that a host keeps over its restarts.
    disks: BTreeMap<&'static str, Arc<dyn Store>>,
    /// Starts of hosts so far.
    starts: u64,
    /// Changes of resources so far.
    changes: u64,
    manifest: Manifest,
    placements: Vec<Placement>,
}

impl World {
    async fn start(seed: u64, is_protected: bool) -> Self {
        let mut dice = Dice::new(seed);
        // A store without fences, such as a cluster, ends late requests itself.
        let is_fenced = seed.is_multiple_of(2);
        let length = if seed % 4 < 2 { FleetOptions::LENGTH_DEFAULT } else { Duration::from_secs(3) };
        // Without fences nothing tells two absences of a record apart, and shards may change early.
        let mut placements = vec![Placement::Singleton, Placement::Sharded(4)];
        if is_fenced {
            placements.push(Placement::Sharded(7));
        } else {
            placements = vec![placements[dice.index(2)]];
        }
        let mut world = Self {
            store: memory_store(),
            leases: MemoryLeases::default(),
            journal: Arc::new(Journal::new(is_fenced && is_protected)),
            times: Times::of_length(length),
            is_fenced,
            is_protected,
            origin: Instant::now(),
            members: BTreeMap::new(),
            disks: HOSTS.map(|name| (name, memory_store() as Arc<dyn Store>)).into(),
            starts: 0,
            changes: 0,
            manifest: Manifest { placement: placements[0], version: 0 },
            placements,
            dice,
        };
        for name in HOSTS {
            world.start_host(name).await;
        }
        world
    }

    /// Starts a host with the manifest of now.
    async fn start_host(&mut self, name: &'static str) {
        self.starts += 1;
        let identity = Identity::new(&format!("{name}_{}", self.starts));
        let bound = (!self.is_fenced && self.is_protected).then_some(self.times.in_flight_max);
        let link = Link::new(self.dice.number(), bound);
        let bus = LinkedStore {
            store: Arc::clone(&self.store),
            leases: Some(Arc::new(self.leases.clone())),
            link: Arc::clone(&link),
            journal: Arc::clone(&self.journal),
            host: identity.clone(),
        };
        let disk = Link::new(self.dice.number(), None);
        let own = LinkedStore {
            store: Arc::clone(&self.disks[name]),
            leases: None,
            link: Arc::clone(&disk),
            journal: Arc::clone(&self.journal),
            host: identity.clone(),
        };
        let rule = Rule { pattern: "demo.homeostat.dev/*".parse().unwrap(), store: "bus".into(), view: View::Whole };
        let part = StorePart { name: "bus".into(), store: Arc::new(bus) };
        let routed = RoutedStore::new(Arc::new(own), vec![part], Routes::new(vec![rule]).unwrap()).unwrap();
        // The rates of two clocks differ by up to two percent.
        let (rate, origin) = (self.dice.below(21), self.origin);
        let clock = Arc::new(move || origin.elapsed() * u32::try_from(990 + rate).unwrap() / 1000);
        let ahead_s = Arc::new(AtomicU64::new(TIME_OF_DAY_MAX.as_secs() / 2));
        let ahead = Arc::clone(&ahead_s);
        let time_of_day = Arc::new(move || {
            SystemTime::UNIX_EPOCH + origin.elapsed() + Duration::from_secs(ahead.load(Ordering::Relaxed))
        });
        // The processor time of this machine would decide which shard moves.
        let load = Arc::new(|_| RECONCILE_LOAD);
        let fleet = FleetOptions { identity, times: self.times, clock, time_of_day, load, ..FleetOptions::default() };
        let stores = Stores::Routed(Arc::new(routed));
        let seed = Some(self.dice.number());
        let options = Options { fleet, seed, ..Options::with_stores(code().engine.clone(), stores) };
        let host = Host::start(options).await.unwrap();
        put(&host, self.manifest).await;
        host.run_controllers(Arc::new(TallyCode)).await.unwrap();
        let placement = self.manifest.placement;
        self.members.insert(name, Member { host, link, disk, placement, ahead_s });
    }

    /// Ends a host in order.
    async fn stop_host(&mut self, name: &'static str) {
        if let Some(Member { host, link, disk, .. }) = self.members.remove(name) {
            host.shutdown(Duration::from_secs(2)).await;
            for link in [link, disk] {
                link.set(Faults { is_cut: true, ..Faults::default() });
            }
        }
    }

    /// Cuts a host off for ever. The requests of its last moment arrive late.
    async fn kill_host(&mut self, name: &'static str) {
        if let Some(Member { host, link, disk, .. }) = self.members.remove(name) {
            link.set(Faults { late_percent: 100, late_max: LATE_MAX, ..Faults::default() });
            for _ in 0..4 {
                self.change().await;
                sleep(Duration::from_millis(250)).await;
            }
            for link in [link, disk] {
                link.set(Faults { is_cut: true, ..Faults::default() });
            }
            tokio::spawn(async move { host.shutdown(Duration::ZERO).await });
        }
    }

    fn one_of<T: Copy>(&mut self, these: &[T]) -> T {
        *self.dice.one(these).expect("there is one")
    }

    /// Does one random step, and describes it.
    async fn step(&mut self) -> String {
        let name = self.one_of(&HOSTS);
        let millis = |dice: &mut Dice, max| Duration::from_millis(dice.below(max));
        match self.dice.below(27) {
            0..4 => {
                self.kill_host(name).await;
                format!("kill {name}")
            }
            4..7 => {
                self.stop_host(name).await;
                self.manifest.placement = *self.dice.one(&self.placements).unwrap();
                self.start_host(name).await;
                format!("restart {name} with {:?}", self.manifest.placement)
            }
            7 | 8 => self.set_link(name, Faults { is_cut: true, ..Faults::default() }),
            9..13 => {
                let faults = Faults {
                    delay_max: millis(&mut self.dice, 1500),
                    lost_percent: self.dice.below(30),
                    late_percent: self.dice.below(20),
                    late_max: LATE_MAX,
                    ..Faults::default()
                };
                self.set_link(name, faults)
            }
            13 => {
                let drains = self.dice.below(2) == 0;
                if let Some(member) = self.members.get(name) {
                    member.host.set_drains(drains);
                }
                format!("drain {name} {drains}")
            }
            14 => {
                let away = self.dice.below(2) == 0;
                self.leases.set_away(away);
                format!("leases away {away}")
            }
            15 if self.is_fenced => {
                let lease = LeaseName::new(NAME, 0, 1).unwrap();
                self.leases.delete(&lease);
                format!("delete the record of {lease}")
            }
            15..18 => self.set_link(name, Faults::default()),
            18..21 => self.roll_out().await,
            21 => self.jump(name),
            _ => {
                self.heal().await;
                "heal".to_owned()
            }
        }
    }

    /// Sets the time of day of a host, backwards or forwards.
    fn jump(&mut self, name: &'static str) -> String {
        let ahead_s = self.dice.below(TIME_OF_DAY_MAX.as_secs());
        if let Some(member) = self.members.get(name) {
            member.ahead_s.store(ahead_s, Ordering::Relaxed);
        }
        format!("the time of day of {name} jumps to {ahead_s} s")
    }

    /// Gives all hosts the next version, if they have the last one. A host that is away while a version gets all keys,
    /// and comes back with the next one, has an older version beside its canary.
    async fn roll_out(&mut self) -> String {
        if let Some(dead) = HOSTS.iter().find(|name| !self.members.contains_key(*name)) {
            return format!("no rollout: host {dead} is dead");
        }
        if let Some(unfinished) = self.unfinished_rollout().await {
            return format!("no rollout: {unfinished}");
        }
        self.manifest.version += 1;
        for Member { host, placement, .. } in self.members.values() {
            // A host that runs keeps its placement.
            put(host, Manifest { placement: *placement, ..self.manifest }).await;
        }
        format!("roll out version {}", self.manifest.version)
    }

    /// Returns what the hosts that run lack to have the version of the manifest for all keys.
    async fn unfinished_rollout(&self) -> Option<String> {
        let config = &self.manifest.document()["spec"]["config"];
        for name in self.members.keys() {
            let controller = self.disks[name].get(&of_host("Controller", NAME)).await.unwrap();
            let status = controller.status();
            let phase = &status["rollout"]["phase"];
            let is_current = controller.document()["spec"]["config"] == *config
                && status["observedGeneration"] == controller.generation();
            if !is_current || !phase.is_null() && phase != "complete" {
                return Some(format!("host {name} is in phase {phase}"));
            }
        }
        None
    }

    fn set_link(&self, name: &'static str, faults: Faults) -> String {
        if let Some(member) = self.members.get(name) {
            member.link.set(faults);
        }
        format!("link of {name}: {faults:?}")
    }

    /// Ends all faults, and starts the hosts that are not there. All have the manifest of now.
    async fn heal(&mut self) {
        self.leases.set_away(false);
        for name in HOSTS {
            match self.members.get(name) {
                None => self.start_host(name).await,
                Some(member) => {
                    member.link.set(Faults::default());
                    member.host.set_drains(false);
                }
            }
        }
    }

    /// Changes a resource. The number makes each write a change.
    async fn change(&mut self) {
        self.changes += 1;
        let action = self.one_of(&["settle", "settle", "again", "fail"]);
        let name = self.dice.below(NAMES);
        self.apply(name, action, self.changes).await;
    }

    async fn apply(&self, name: u64, action: &str, number: u64) {
        let document = demo(KIND, &format!("t{name}"), json!({"action": action, "at": number}));
        self.store.write(Write::Apply { document, manager: "driver".into(), force: true }).await.unwrap();
    }

    /// Does random steps while resources change.
    async fn faults(&mut self) {
        let end = Instant::now() + FAULTS;
        while Instant::now() < end {
            let what = self.step().await;
            self.journal.note(&what);
            let next =
                Instant::now() + Duration::from_millis(self.dice.below(u64::try_from(STEP_MAX.as_millis()).unwrap()));
            while Instant::now() < next {
                self.change().await;
                sleep(Duration::from_millis(200 + self.dice.below(300))).await;
            }
        }
    }

    /// Ends all faults. Every change is reconciled soon, and leases come to rest.
    async fn quiet(&mut self) {
        // All hosts have the same manifest at the end of an upgrade. The others go on: a host that starts lists all its keys,
        // which would hide a change that was lost.
        for name in HOSTS {
            if self.members.get(name).is_none_or(|member| member.placement != self.manifest.placement) {
                self.stop_host(name).await;
                self.start_host(name).await;
            }
        }
        self.heal().await;
        self.journal.note("all faults are repaired");
        let healed = Instant::now();
        self.check_changes().await;
        // No key runs again by itself from here on.
        for name in 0..NAMES {
            self.apply(name, "settle", u64::MAX).await;
        }
        self.check_changes().await;
        sleep(QUIET.saturating_sub(healed.elapsed())).await;
        self.check_versions().await;
        let still = self.journal.now().saturating_sub(self.journal.last_move());
        if still < STILL {
            self.journal.report(&format!("a lease moved {still:?} before the end"));
        }
        self.check_holders();
    }

    /// Every change until now is reconciled within the bound.
    async fn check_changes(&self) {
        sleep(self.times.length * SETTLED_LENGTHS + SETTLED_BESIDES).await;
        for resource in self.store.list(&Query::all(demo_kind(KIND))).await.unwrap().items {
            let seen = resource.document()["status"]["generation"].as_u64();
            if seen != Some(resource.generation()) {
                self.journal.report(&format!("a change of {} is lost: {seen:?}", resource.key()));
            }
        }
    }

    /// The last rollout is complete on all hosts, and all keys have its version.
    async fn check_versions(&self) {
        if let Some(unfinished) = self.unfinished_rollout().await {
            self.journal.report(&format!("version {} is not rolled out: {unfinished}", self.manifest.version));
        }
        for resource in self.store.list(&Query::all(demo_kind(KIND))).await.unwrap().items {
            let version = &resource.document()["status"]["version"];
            if *version != self.manifest.version {
                self.journal.report(&format!("{} has version {version} at the end", resource.key()));
            }
        }
    }

    /// Every lease of the shards in force has one holder.
    fn check_holders(&self) {
        for lease in self.manifest.placement.shards().leases(NAME) {
            let holders = self.members.values().filter(|member| holds(&member.host, &lease)).count();
            if holders != 1 {
                self.journal.report(&format!("{holders} hosts hold {lease} at the end"));
            }
        }
    }

    /// Each host drains in turn, and gives its leases away at once.
    async fn drains(&mut self) {
        self.journal.set_calm(true);
        for name in HOSTS {
            self.journal.note(&format!("drain {name}"));
            self.members[name].host.set_drains(true);
            sleep(Duration::from_secs(15)).await;
            self.members[name].host.set_drains(false);
            sleep(Duration::from_secs(5)).await;
        }
        self.journal.set_calm(false);
        self.check_holders();
    }

    async fn end(&mut self) {
        for name in HOSTS {
            self.stop_host(name).await;
        }
    }
}

/// Gives a host a manifest.
async fn put(host: &Host, manifest: Manifest) {
    host.apply_resource(manifest.document(), "manifests", true).await.unwrap();
}

fn holds(host: &Host, lease: &LeaseName) -> bool {
    let name = lease.to_string();
    host.hosts().iter().any(|host| host.is_this && host.leases.contains(&name))
}

/// One run of the simulation.
struct Run {
    counts: Counts,
    trace: Vec<String>,
    /// The broken promises.
    wrong: Vec<String>,
    /// The simulated time.
    time: Duration,
}

/// Runs the simulation of a seed. An unprotected store has no fence, and no bound on the time of a write.
fn run(seed: u64, is_protected: bool) -> Run {
    code();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let (journal, time) = runtime.block_on(async {
        let mut world = World::start(seed, is_protected).await;
        world.faults().await;
        world.quiet().await;
        world.drains().await;
        world.end().await;
        (Arc::clone(&world.journal), world.journal.now())
    });
    let (counts, trace, mut wrong) = journal.take();
    if counts.planned_max > PLANNED_MAX {
        wrong.push(format!("a planned hand-over takes {:?}", counts.planned_max));
    }
    Run { counts, trace, wrong, time }
}

/// Runs the simulation of a seed.
///
/// # Panics
/// When the run breaks a promise.
fn simulate(seed: u64) -> Run {
    let run = run(seed, true);
    let Run { trace, wrong, .. } = &run;
    let first = trace.iter().position(|line| line.contains("WRONG")).unwrap_or(trace.len().saturating_sub(1));
    let before = trace[first.saturating_sub(60)..=first].join("\n");
    assert!(
        wrong.is_empty(),
        "seed {seed}: {wrong:#?}\nits last trace lines:\n{before}\n(HOMEOSTAT_FLEET_SEED={seed} runs it again)"
    );
    run
}

#[expect(clippy::disallowed_methods, reason = "a person selects the seeds")]
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// C7, C8: Under faults no two terms write a key in turn, no write of an old term is accepted, every change is
/// reconciled, and leases come to rest.
#[test]
#[expect(clippy::print_stdout, reason = "the counts are published")]
fn no_two_hosts_work_on_a_key_and_no_change_is_lost_under_faults() {
    let seeds = match number("HOMEOSTAT_FLEET_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HOMEOSTAT_FLEET_SEEDS").unwrap_or(SEEDS),
    };
    let (mut all, mut time) = (Counts::default(), Duration::ZERO);
    for seed in seeds.clone() {
        let run = simulate(seed);
        all.add(&run.counts);
        time += run.time;
    }
    let hours = time.as_secs_f64() / 3600.0;
    println!("fleet of whole hosts: {} runs, {hours:.1} simulated hours, {all:?}", seeds.end - seeds.start);
    if seeds.end - seeds.start >= SEEDS {
        // The faults were there, and so was the work.
        assert!(all.terms > 100 && all.writes > 1000 && all.refused > 0 && all.planned > 10, "{all:?}");
        assert!(all.versions > 20, "{all:?}");
    }
}

/// Events of one millisecond come in any order.
#[test]
fn the_same_seed_of_a_fleet_gives_the_same_trace() {
    let [mut first, mut second] = [1, 1].map(|seed| simulate(seed).trace);
    first.sort_unstable();
    second.sort_unstable();
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first, second);
    }
    assert_eq!(first.len(), second.len());
}

#[test]
fn a_store_without_fences_accepts_a_late_write_after_another_host_began() {
    let is_shown = |seed| run(seed, false).wrong.iter().any(|wrong| wrong.contains("is accepted after"));
    assert!((0..4 * SEEDS).any(is_shown), "no seed shows it");
}
