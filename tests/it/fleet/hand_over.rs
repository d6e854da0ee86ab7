//! Hand-overs between three hosts on real servers, round after round, while keys arrive.
//!
//! In each round the holder is killed, frozen beyond its lease, cut off, drained or ended in order, or the server is killed
//! and started.
//! The order of the store shows an overlap: a write of one host after the acquisition of another one. `HAND_OVER_ROUNDS`
//! sets the number of rounds of each fault, and `HAND_OVER_FAULT` selects one fault. Each test prints its counts
//! (docs/fleet.md).

mod history;
mod site;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use homeostat_store::cached::{CachedState, Upstream};
use homeostat_store::{Change, Key, Precondition, Write};
use homeostat_testing::until;
use homeostat_tests::{NetworkFault, Proxy};
use serde_json::json;
use tokio::runtime::Runtime;

use self::history::{History, kind};
use self::site::Site;
use super::{Fleet, HOSTS, Member, stores_with};

/// The length of the leases.
const LENGTH: Duration = Duration::from_secs(3);
const LEASE: &str = "3s";
/// The resources of a fleet.
const KEYS: usize = 20;
/// The pause of the driver between two changes.
const CHANGE_EVERY: Duration = Duration::from_millis(100);
/// How long a round waits for another host, or for a key.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// What happens to the holder in a round, or to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// `SIGKILL`, and a new process once another host works.
    Kill,
    /// `SIGSTOP`, and `SIGCONT` once another host works.
    Freeze,
    /// No byte passes between the holder and the server until another host works.
    Cut,
    /// The server is killed and started.
    Restart,
    /// `homeostat drain`, and `homeostat uncordon` once another host works.
    Drain,
    /// `SIGTERM`, and a new process once another host works.
    End,
}

const FAULTS: [Fault; 6] = [Fault::Kill, Fault::Freeze, Fault::Cut, Fault::Restart, Fault::Drain, Fault::End];

impl Fault {
    /// Returns whether the holder gives its lease away itself.
    fn is_planned(self) -> bool {
        matches!(self, Self::Drain | Self::End)
    }

    /// Returns how long a hand-over takes at most. One round on a busy machine says less than a hundred.
    fn bound(self, rounds: usize) -> Duration {
        match (self.is_planned(), rounds >= 100) {
            (true, true) => Duration::from_secs(1),
            // Less than a lease that runs out takes.
            (true, false) => LENGTH * 2 / 3,
            (false, true) => LENGTH + Duration::from_secs(2),
            (false, false) => LENGTH * 5,
        }
    }
}

/// Three hosts, each behind a proxy of its own, and a driver that changes their resources.
struct Rounds {
    fleet: Fleet,
    proxies: BTreeMap<&'static str, Proxy>,
    members: BTreeMap<&'static str, Member>,
    driver: Driver,
    history: Arc<History>,
    site: Site,
    /// The last field: its tasks use the others.
    #[expect(dead_code, reason = "its tasks end when it is dropped")]
    runtime: Runtime,
}

/// Changes the resources all the time, one after another.
#[derive(Clone, Default)]
struct Driver {
    /// By resource, the number in the URL of the last acknowledged change.
    acknowledged: Arc<[AtomicU64; KEYS]>,
    is_paused: Arc<AtomicBool>,
}

impl Driver {
    async fn run(self, store: Arc<dyn Upstream>, namespace: &'static str, port: u16) {
        for number in 1.. {
            tokio::time::sleep(CHANGE_EVERY).await;
            if self.is_paused.load(Ordering::SeqCst) {
                continue;
            }
            let at = number % KEYS;
            let url = format!("http://127.0.0.1:{port}/k{at}/{number}");
            let write = Write::Patch {
                key: Key::new(kind(), namespace, &format!("k{at}")),
                change: Change::Merge(json!({"spec": {"url": url}})),
                precondition: Precondition::default(),
            };
            // A server that is killed loses the answer. The next change comes in any case.
            if store.submit(write.into(), CachedState::Unknown).await.is_ok() {
                self.acknowledged[at].store(u64::try_from(number).unwrap(), Ordering::SeqCst);
            }
        }
    }

    fn acknowledged(&self) -> impl Iterator<Item = (String, u64)> {
        let number = |(at, number): (usize, &AtomicU64)| (format!("k{at}"), number.load(Ordering::SeqCst));
        self.acknowledged.iter().enumerate().map(number)
    }
}

/// Starts a host. When this returns, it has compiled its component, so it can take the lease.
fn member(fleet: &Fleet, site: &Site, name: &'static str, proxy: &Proxy) -> Member {
    let member = fleet.start_over(name, &json!("singleton"), &stores_with(&site.store_behind(proxy)));
    member.process.wait_for_stderr("controller/fetcher added");
    member
}

impl Rounds {
    fn start(site: Site) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let history = Arc::new(History::default());
        let proxies: BTreeMap<_, _> = HOSTS.map(|(name, _)| (name, Proxy::to(site.port()))).into();
        let fleet = Fleet::over(&site.store_behind(&proxies["a"]), site.namespace(), LEASE);
        fleet.service.release_all();
        let start = |(name, proxy): (&&'static str, &Proxy)| (*name, member(&fleet, &site, name, proxy));
        let members: BTreeMap<_, _> = proxies.iter().map(start).collect();
        (0..KEYS).for_each(|key| members["a"].create(&fleet.fetcher(&format!("k{key}"))));
        history::follow(&runtime, site.upstream(), &history);
        let driver = Driver::default();
        runtime.spawn(driver.clone().run(Arc::clone(site.upstream()), site.namespace(), fleet.service.port));
        Self { fleet, proxies, members, driver, history, site, runtime }
    }

    /// Runs one round. Returns the time without a working host.
    fn run(&mut self, fault: Fault) -> Duration {
        let holder = until(WAIT_MAX, || self.history.worker().filter(|name| self.members.contains_key(name)));
        let holder = holder.unwrap_or_else(|| panic!("no host works before {fault:?}: {}", self.errors()));
        let started = Instant::now();
        match fault {
            Fault::Kill => self.members.remove(holder).unwrap().process.kill(),
            Fault::Freeze => self.members[holder].process.signal("STOP"),
            Fault::Cut => self.proxies[holder].set(NetworkFault::Partition),
            Fault::Restart => self.site.restart(),
            Fault::Drain => drop(self.members[holder].process.ask(&["drain"])),
            Fault::End => drop(self.members.remove(holder).unwrap().stop()),
        }
        let from = match fault {
            // The time for which the server was away does not count.
            Fault::Restart => Instant::now(),
            _ => started,
        };
        let others = |name: &str| fault == Fault::Restart || name != holder;
        let next = until(WAIT_MAX, || self.history.first_write_since(from, others));
        let next = next.unwrap_or_else(|| panic!("no host works after {fault:?} of {holder}: {}", self.errors()));
        let time = next.saturating_duration_since(from);
        match fault {
            Fault::Kill | Fault::End => {
                let again = member(&self.fleet, &self.site, holder, &self.proxies[holder]);
                self.members.insert(holder, again);
            }
            Fault::Freeze => self.members[holder].process.signal("CONT"),
            Fault::Cut => self.proxies[holder].set(NetworkFault::None),
            Fault::Restart => {}
            Fault::Drain => drop(self.members[holder].process.ask(&["uncordon"])),
        }
        // Such a host works until it gives the lease away.
        if fault.is_planned() { self.history.gap_after(holder).unwrap_or(time) } else { time }
    }

    /// Waits until every resource has been reconciled since its last change.
    fn settle(&self) {
        self.driver.is_paused.store(true, Ordering::SeqCst);
        let lost = || self.history.unsettled(self.driver.acknowledged());
        let settled = until(WAIT_MAX, || lost().is_empty().then_some(()));
        assert!(settled.is_some(), "not reconciled: {:?}; {}", lost(), self.errors());
        self.driver.is_paused.store(false, Ordering::SeqCst);
    }

    fn errors(&self) -> String {
        let errors = self.members.iter().map(|(name, member)| format!("{name}: {}\n", member.process.stderr()));
        format!("{:?}\n{}", self.history, errors.collect::<String>())
    }
}

/// Runs rounds of each fault on one fleet, and prints their count. Of a hundred rounds, 99 hand-overs take at most the
/// length of the lease and two seconds, planned ones a second.
fn hand_over(site: Site) {
    let (count, faults) = asked();
    let server = site.name();
    let mut rounds = Rounds::start(site);
    for fault in faults {
        let (mut times, mut writes) = (Vec::new(), 0);
        for _ in 0..count {
            times.push(rounds.run(fault));
            rounds.settle();
            let (checked, overlaps) = rounds.history.check();
            assert!(overlaps.is_empty(), "{fault:?}: {overlaps:?}; {}", rounds.errors());
            writes += checked;
        }
        times.sort_unstable();
        let (median, p99, max) = (times[count / 2], times[(count * 99).div_ceil(100) - 1], times[count - 1]);
        report(&format!(
            "hand-over, {server}, {fault:?}: {count} rounds, {writes} writes, 0 overlaps with effect, 0 keys lost, \
             median {median:.2?}, p99 {p99:.2?}, longest {max:.2?}",
        ));
        assert!(p99 <= fault.bound(count), "{fault:?}: {p99:?}");
    }
}

/// Returns the number of rounds of each fault, and the faults.
#[expect(clippy::disallowed_methods, reason = "a test has no command line of its own")]
fn asked() -> (usize, Vec<Fault>) {
    let count = std::env::var("HAND_OVER_ROUNDS").map_or(1, |count| count.parse().unwrap());
    let only = std::env::var("HAND_OVER_FAULT").ok();
    let is_asked = |fault: &Fault| only.as_ref().is_none_or(|only| *only == format!("{fault:?}"));
    (count, FAULTS.into_iter().filter(is_asked).collect())
}

#[expect(clippy::print_stderr, reason = "the count is for a person")]
fn report(line: &str) {
    eprintln!("{line}");
}

/// C7: A hand-over has no overlap and loses no key when the holder is killed, frozen, cut off, drained or ended.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_hand_over_on_nats_has_no_overlap_and_loses_no_key() {
    hand_over(Site::nats());
}

/// C7: The same with a kind that lives in a Kubernetes cluster.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_hand_over_in_a_cluster_has_no_overlap_and_loses_no_key() {
    hand_over(Site::cluster());
}
