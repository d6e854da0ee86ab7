//! Several hosts of one process over the leases of one store, in virtual time.

mod rollout;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use homeostat_component::layers::{Terms, WriteEnd};
use homeostat_component::{Call, EntryPoint, StoreError};
use homeostat_fixtures::{FaultyStore, MemoryLeases, memory_store};
use homeostat_fleet::{AcquireCondition, Answer, Identity, LeaseName, Observation, Request, ShardBy, Shards, Times};
use homeostat_store::{Key, Kind, LeaseStore as _};
use homeostat_testing::{eventually, soon};
use tokio::time::{self, Instant};

use super::{Fleet, FleetOptions, GateEntry, Placement, PlacementSpec};
use crate::Stores;
use crate::stores::tests::two;

const DRAIN: Duration = Duration::from_secs(10);

fn kind() -> Kind {
    Kind::new("far.dev", "v1", "Widget")
}

fn key(name: &str) -> Key {
    Key::new(kind(), "default", name)
}

fn call(name: &str) -> Call {
    Call { id: 1, controller: "web".into(), entry: EntryPoint::Reconcile, key: Some(key(name)) }
}

fn web() -> LeaseName {
    LeaseName::new("web", 0, 1).unwrap()
}

fn singleton() -> Shards {
    Shards::SINGLETON
}

fn by_key(count: u32) -> Shards {
    Shards::new(count, ShardBy::Key).unwrap()
}

fn by_namespace(count: u32) -> Shards {
    Shards::new(count, ShardBy::Namespace).unwrap()
}

/// A host with the controller `web`.
pub(super) struct TestHost {
    pub(super) fleet: Arc<Fleet>,
    pub(super) placement: Placement,
}

/// The store of all hosts of a test, and their leases.
pub(super) struct Shared {
    stores: Stores,
    pub(super) leases: MemoryLeases,
    start: Instant,
}

impl Shared {
    pub(super) fn new() -> Self {
        let (bus, leases) = (FaultyStore::over(memory_store()), MemoryLeases::default());
        bus.share(Arc::new(leases.clone()));
        Self { stores: two(memory_store(), bus), leases, start: Instant::now() }
    }

    /// Returns the fleet of a host that has no controller.
    pub(super) fn fleet(&self, name: &str) -> Arc<Fleet> {
        let start = self.start;
        let clock = Arc::new(move || start.elapsed());
        let time_of_day = Arc::new(move || SystemTime::UNIX_EPOCH + start.elapsed());
        let options = FleetOptions::new(Some(name), FleetOptions::LENGTH_DEFAULT);
        Arc::new(Fleet::new(FleetOptions { clock, time_of_day, ..options }))
    }

    pub(super) fn host(&self, name: &str, spec: PlacementSpec) -> TestHost {
        let fleet = self.fleet(name);
        let placement = Placement::new(&fleet, &self.stores, "web", &kind(), spec);
        placement.begin(DRAIN).unwrap();
        TestHost { fleet, placement }
    }
}

impl TestHost {
    pub(super) async fn holds(&self) {
        soon(self.placement.wait_until_held()).await;
    }

    fn is_holder(&self) -> bool {
        self.placement.held().is_some_and(|held| !held.is_empty())
    }

    /// Lets a worker in.
    fn enter(&self) -> GateEntry {
        match self.placement.enter(&key("a")) {
            GateEntry::Inside(pass) => GateEntry::Inside(pass),
            GateEntry::Free | GateEntry::Refused => panic!("this host does not hold the lease"),
        }
    }

    fn epoch(&self) -> Result<Option<u64>, StoreError> {
        self.placement.term(&call("a"), Some(&kind())).map(|term| term.fence.map(|fence| fence.epoch))
    }
}

/// C7: A restarted host does not take itself for the holder that it was before.
#[test]
fn a_restart_changes_the_identity_of_a_host_and_keeps_its_name() {
    let [before, after] = [(); 2].map(|()| FleetOptions::new(Some("a"), FleetOptions::LENGTH_DEFAULT).identity);
    assert_ne!(before, after);
    assert_eq!([before.host(), after.host()], ["a"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_write_has_the_fence_of_its_lease_and_of_no_other_store() {
    let shared = Shared::new();
    let host = shared.host("a", PlacementSpec::Singleton);
    assert!(matches!(host.epoch(), Err(StoreError::Unavailable(_))));
    host.holds().await;
    assert!(host.epoch().unwrap().is_some());
    let near = Kind::new("near.dev", "v1", "Widget");
    assert_eq!(host.placement.term(&call("a"), Some(&near)).unwrap().fence, None);
    assert_eq!(host.placement.term(&call("a"), None).unwrap().timeout, Times::default().in_flight_max);
}

/// C7: A host gives its lease up after its worker has ended, and another host begins at once.
#[tokio::test(start_paused = true)]
async fn a_host_that_leaves_hands_over_after_its_worker_has_ended() {
    let shared = Shared::new();
    let a = shared.host("a", PlacementSpec::Singleton);
    a.holds().await;
    let b = shared.host("b", PlacementSpec::Singleton);
    let worker = a.enter();
    let leaving = async {
        time::sleep(Duration::from_secs(2)).await;
        assert!(!b.is_holder() && a.epoch().is_ok(), "the worker still writes");
        drop(worker);
    };
    let (before, first) = (Instant::now(), a.epoch().unwrap());
    tokio::join!(a.placement.leave(), leaving);
    b.holds().await;
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
    assert!(a.epoch().is_err() && b.epoch().unwrap() > first);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_leaves_waits_for_a_write_that_may_still_arrive() {
    let shared = Shared::new();
    let a = shared.host("a", PlacementSpec::Singleton);
    a.holds().await;
    let b = shared.host("b", PlacementSpec::Singleton);
    a.placement.ended(&call("a"), WriteEnd::Unanswered);
    let before = Instant::now();
    a.placement.leave().await;
    b.holds().await;
    assert!(before.elapsed() >= a.fleet.times.in_flight_max, "{:?}", before.elapsed());
}

/// C7: A holder that cannot renew its lease stops before another host can begin.
#[tokio::test(start_paused = true)]
async fn a_holder_without_its_store_stops_before_another_host_begins() {
    let shared = Shared::new();
    let a = shared.host("a", PlacementSpec::Singleton);
    a.holds().await;
    let b = shared.host("b", PlacementSpec::Singleton);
    // The other host has seen the record.
    time::sleep(Times::default().retry_period * 2).await;
    let GateEntry::Inside(pass) = a.enter() else { panic!("it holds the lease") };
    shared.leases.set_away(true);
    soon(pass.lost()).await;
    assert!(a.epoch().is_err() && !b.is_holder());
    drop(pass);
    shared.leases.set_away(false);
    eventually("a holder", async || (a.is_holder() || b.is_holder()).then_some(())).await;
    assert!(a.is_holder() != b.is_holder());
}

/// C7: A host whose write was refused begins a new term after its workers have ended.
#[tokio::test(start_paused = true)]
async fn a_fenced_write_ends_the_term() {
    let shared = Shared::new();
    let a = shared.host("a", PlacementSpec::Singleton);
    a.holds().await;
    let (GateEntry::Inside(pass), first) = (a.enter(), a.epoch().unwrap()) else { panic!("it holds the lease") };
    a.placement.ended(&call("a"), WriteEnd::Fenced);
    soon(pass.lost()).await;
    drop(pass);
    // No other host holds it: the host begins a new term.
    a.holds().await;
    assert!(a.epoch().unwrap() > first);
}

/// A poll is such a call.
#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_a_call_without_a_key() {
    let shared = Shared::new();
    let a = shared.host("a", PlacementSpec::Singleton);
    a.holds().await;
    let b = shared.host("b", PlacementSpec::Singleton);
    let GateEntry::Inside(call) = a.placement.enter_any() else { panic!("it holds the lease") };
    a.fleet.set_drains(true);
    time::sleep(DRAIN / 2).await;
    assert!(!a.is_holder() && !b.is_holder() && shared.leases.holder(&web()).is_some());
    assert!(matches!(a.placement.enter_any(), GateEntry::Refused));
    drop(call);
    b.holds().await;
    assert!(matches!(b.placement.enter_any(), GateEntry::Inside(_)));
}

#[tokio::test(start_paused = true)]
async fn a_drained_host_gives_its_leases_away_and_takes_none() {
    let shared = Shared::new();
    let a = shared.host("a", PlacementSpec::Singleton);
    a.holds().await;
    let b = shared.host("b", PlacementSpec::Singleton);
    a.fleet.set_drains(true);
    b.holds().await;
    b.placement.leave().await;
    time::sleep(Times::default().length * 4).await;
    assert!(!a.is_holder() && shared.leases.holder(&web()).is_none());
    a.fleet.set_drains(false);
    a.holds().await;
}

/// C7: Each key of a sharded controller belongs to exactly one host, and by namespace so do the keys of one namespace.
#[tokio::test(start_paused = true)]
async fn a_key_runs_on_the_host_that_holds_its_shard() {
    for shards in [by_key(4), by_namespace(4)] {
        let shared = Shared::new();
        let spec = PlacementSpec::Sharded(shards);
        let a = shared.host("a", spec);
        eventually("all shards", async || (a.placement.held()?.len() == 4).then_some(())).await;
        let b = shared.host("b", spec);
        eventually("two shards on each host", async || {
            (a.placement.held()?.len() == 2 && b.placement.held()?.len() == 2).then_some(())
        })
        .await;
        let mut split = 0;
        for namespace in 0..16 {
            let key = |name| Key::new(kind(), &format!("n{namespace}"), &format!("r{name}"));
            let of_a: Vec<bool> = (0..8).map(|name| a.placement.has(&key(name))).collect();
            let of_b: Vec<bool> = (0..8).map(|name| b.placement.has(&key(name))).collect();
            assert!(of_a.iter().zip(&of_b).all(|(of_a, of_b)| of_a != of_b), "{shards}: n{namespace}");
            split += usize::from(of_a.contains(&true) && of_b.contains(&true));
        }
        assert_eq!(split > 0, shards == by_key(4), "{shards}: {split} namespaces on both hosts");
    }
}

/// Takes half a core for each of these shards, on the host that holds it, while the test goes on.
async fn work_on(hosts: [&TestHost; 2], shards: &[u32]) {
    let key_of = |shard: &u32| {
        let mut names = (0..).map(|number| format!("r{number}"));
        key(&names.find(|name| by_key(4).shard_of("default", name) == *shard).unwrap())
    };
    let keys: Vec<Key> = shards.iter().map(key_of).collect();
    loop {
        time::sleep(Duration::from_secs(1)).await;
        for (host, key) in hosts.iter().flat_map(|host| keys.iter().map(move |key| (host, key))) {
            host.placement.enter(key).note(Duration::from_millis(500));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_with_costly_shards_gives_one_to_a_host_with_cheap_ones() {
    let shared = Shared::new();
    let spec = PlacementSpec::Sharded(by_key(4));
    let (a, b) = (shared.host("a", spec), shared.host("b", spec));
    eventually("two shards on each host", async || {
        (a.placement.held()?.len() == 2 && b.placement.held()?.len() == 2).then_some(())
    })
    .await;
    let costly = a.placement.held().unwrap();
    let moved = eventually("a costly shard on each host", async || {
        let of_b = b.placement.held()?;
        costly.iter().find(|shard| of_b.contains(shard)).copied()
    });
    let moved = tokio::select! {
        moved = moved => moved,
        () = work_on([&a, &b], &costly) => unreachable!(),
    };
    // The next holder tells the former figure, although its workers have done nothing yet.
    let (lease, now) = (LeaseName::new("web", moved, 4).unwrap(), Instant::now());
    assert_eq!(shared.leases.holder(&lease).as_ref(), Some(&b.fleet.identity));
    let told = shared.leases.description(&lease).unwrap();
    let load: u32 = told.trim_start_matches(r#"{"cpuMillicores":"#).trim_end_matches('}').parse().unwrap();
    assert!((400..=550).contains(&load), "{told}");
    eventually("both hosts to know it", async || {
        let hosts = a.fleet.status();
        let of_b = hosts.iter().find(|host| host.name == "b")?;
        (of_b.lease_cpu_millicores.get(&lease.to_string())? == &load).then_some(())
    })
    .await;
    assert!(now.elapsed() < Times::default().load_window(), "{:?}", now.elapsed());
    // Then it measures that there is no work any more, and no shard moves back.
    eventually("loads without work", async || {
        let loads = |host: &TestHost| host.fleet.status().iter().map(|host| host.cpu_millicores).sum::<Option<u32>>();
        (loads(&a)? == 0 && loads(&b)? == 0).then_some(())
    })
    .await;
    time::sleep(Times::default().settle_time() * 4).await;
    assert!(b.placement.held().unwrap().contains(&moved));
}

#[tokio::test(start_paused = true)]
async fn the_load_of_a_lease_costs_no_write_of_its_own() {
    let writes = async |costly: &[u32]| {
        let shared = Shared::new();
        let spec = PlacementSpec::Sharded(by_key(4));
        let (a, b) = (shared.host("a", spec), shared.host("b", spec));
        eventually("two shards on each host", async || {
            (a.placement.held()?.len() == 2 && b.placement.held()?.len() == 2).then_some(())
        })
        .await;
        let before = shared.leases.revision();
        let _ = time::timeout(Duration::from_secs(600), work_on([&a, &b], costly)).await;
        shared.leases.revision() - before
    };
    let (idle, busy) = (writes(&[]).await, writes(&[0, 1, 2, 3]).await);
    assert!(busy.abs_diff(idle) <= idle / 50, "{idle} without load, {busy} with it");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_replaces_shards_is_listed_once() {
    let shared = Shared::new();
    let a = shared.host("a", PlacementSpec::Sharded(by_key(4)));
    a.holds().await;
    // This one has the leases with the same names, and waits for them.
    let b = shared.host("b", PlacementSpec::Sharded(by_namespace(4)));
    let fresh = shared.host("c", PlacementSpec::Sharded(by_key(4)));
    time::sleep(Times::default().length * 2).await;
    let listed_once = async {
        loop {
            for host in [&b, &fresh] {
                let status = host.fleet.status();
                let names: std::collections::BTreeSet<&str> = status.iter().map(|host| &*host.name).collect();
                let is_draining = status.iter().any(|host| host.is_draining && host.name != "a" && host.name != "c");
                assert!(names.len() == status.len() && !is_draining, "{status:?}");
            }
            time::sleep(Duration::from_millis(100)).await;
        }
    };
    let replaced = async {
        fresh.placement.leave().await;
        a.placement.leave().await;
        b.holds().await;
    };
    tokio::select! {
        () = listed_once => {}
        () = replaced => {}
    }
}

/// C7: Hosts with different shards never work at the same time, and the shards change when the others have left.
#[tokio::test(start_paused = true)]
async fn other_shards_are_in_force_when_no_host_works_with_the_former_ones() {
    let shared = Shared::new();
    for (former, own) in [(singleton(), by_key(4)), (by_key(2), by_key(3)), (by_key(4), by_namespace(4))] {
        let (former, own) = (PlacementSpec::Sharded(former), PlacementSpec::Sharded(own));
        let a = shared.host("a", former);
        a.holds().await;
        let b = shared.host("b", own);
        time::sleep(Times::default().length * 4).await;
        assert!(a.is_holder() && !b.is_holder());
        let message = b.placement.standby_message();
        assert!(message.contains("they change when no other host works with them"), "{message}");
        a.placement.leave().await;
        b.holds().await;
        let again = shared.host("a", former);
        eventually("the former shards to be out of force", async || {
            again.placement.standby_message().contains("in force").then_some(())
        })
        .await;
        assert!(!again.is_holder() && b.is_holder());
        again.placement.leave().await;
        b.placement.leave().await;
    }
}

/// C7: The leases of a host that crashed run out before other shards are in force.
#[tokio::test(start_paused = true)]
async fn other_shards_wait_for_the_leases_of_a_host_that_crashed() {
    let shared = Shared::new();
    let a = shared.host("a", PlacementSpec::Sharded(by_key(8)));
    eventually("all shards", async || (a.placement.held()?.len() == 8).then_some(())).await;
    let b = shared.host("b", PlacementSpec::Singleton);
    time::sleep(Times::default().length * 2).await;
    a.fleet.end.cancel();
    let before = Instant::now();
    b.holds().await;
    let times = Times::default();
    assert!(before.elapsed() >= times.length - times.retry_period * 2, "{:?}", before.elapsed());
}

/// C7: A host that acquires a lease reads the shards in force after it.
#[tokio::test(start_paused = true)]
async fn a_lease_of_shards_that_are_out_of_force_is_given_back() {
    let shared = Shared::new();
    let a = shared.host("a", PlacementSpec::Singleton);
    a.holds().await;
    a.fleet.set_drains(true);
    eventually("the release", async || shared.leases.holder(&web()).is_none().then_some(())).await;
    // Another host replaces the record while this one knows nothing of it.
    let name = LeaseName::of_shards("web");
    let record = shared.leases.lease(&name, &Identity::new("8-by-key"), Duration::from_secs(1)).unwrap();
    let Answer::Found(Observation::Present(known)) = record.carry_out(&Request::Read).await.unwrap() else {
        panic!("the first host wrote the record")
    };
    let replaced = Request::Acquire { expected: AcquireCondition::Version(known.version), transitions: 0 };
    assert!(matches!(record.carry_out(&replaced).await.unwrap(), Answer::Stored { .. }));
    let mut changes = a.placement.changes();
    let watched = async {
        while changes.changed().await.is_ok() {
            assert!(!a.is_holder(), "it works with shards that are out of force");
        }
    };
    a.fleet.set_drains(false);
    let refused = eventually("the other shards to be known", async || {
        a.placement.standby_message().contains("in force").then_some(())
    });
    tokio::select! {
        () = watched => {}
        () = refused => {}
    }
    eventually("the lease to be given back", async || shared.leases.holder(&web()).is_none().then_some(())).await;
    // No host has a lease of those shards.
    a.holds().await;
}

/// C7: A replacement of the shards that was decided before an acquisition fails, however late it arrives.
#[tokio::test(start_paused = true)]
async fn a_late_replacement_of_the_shards_fails_after_an_acquisition() {
    let shared = Shared::new();
    let a = shared.host("a", PlacementSpec::Singleton);
    a.holds().await;
    let name = LeaseName::of_shards("web");
    let record = shared.leases.lease(&name, &Identity::new("8-by-key"), Duration::from_secs(1)).unwrap();
    let Answer::Found(Observation::Present(before)) = record.carry_out(&Request::Read).await.unwrap() else {
        panic!("the first host wrote the record")
    };
    a.fleet.set_drains(true);
    eventually("the release", async || shared.leases.holder(&web()).is_none().then_some(())).await;
    a.fleet.set_drains(false);
    a.holds().await;
    let late = Request::Acquire { expected: AcquireCondition::Version(before.version), transitions: 0 };
    assert_eq!(record.carry_out(&late).await.unwrap(), Answer::Conflict);
}

/// C7: A host that works writes the record of its shards again when a person has deleted it.
#[tokio::test(start_paused = true)]
async fn a_deleted_record_of_the_shards_lets_no_other_host_work() {
    let shared = Shared::new();
    let a = shared.host("a", PlacementSpec::Singleton);
    a.holds().await;
    let b = shared.host("b", PlacementSpec::Sharded(by_key(4)));
    time::sleep(Times::default().length).await;
    let name = LeaseName::of_shards("web");
    shared.leases.delete(&name);
    let fresh = shared.host("c", PlacementSpec::Sharded(by_key(4)));
    time::sleep(Times::default().length * 8).await;
    assert_eq!(shared.leases.holder(&name), Some(Identity::new("1")));
    assert!(a.is_holder() && !b.is_holder() && !fresh.is_holder());
}

#[tokio::test(start_paused = true)]
async fn shards_of_a_later_version_are_never_replaced() {
    let shared = Shared::new();
    let name = LeaseName::of_shards("web");
    let record = shared.leases.lease(&name, &Identity::new("8-by-color"), Duration::from_secs(1)).unwrap();
    let first = Request::Acquire { expected: AcquireCondition::Absent { fence: None }, transitions: 0 };
    record.carry_out(&first).await.unwrap();
    let a = shared.host("a", PlacementSpec::Singleton);
    time::sleep(Times::default().length * 8).await;
    assert!(!a.is_holder());
    assert!(a.placement.standby_message().contains("\"8-by-color\""), "{}", a.placement.standby_message());
}

/// The others ask a host as soon as it serves, and not after its next renewal.
#[tokio::test(start_paused = true)]
async fn a_host_tells_the_others_an_address_at_once_that_it_learns_later() {
    let shared = Shared::new();
    let (a, b) = (shared.host("a", PlacementSpec::Singleton), shared.host("b", PlacementSpec::Singleton));
    let told = || b.fleet.status().into_iter().find(|host| host.name == "a").map(|host| host.description.address);
    eventually("the other host", async || told().map(drop)).await;
    for address in ["https://a.example:8443", "https://a.example:9443"] {
        a.fleet.set_address(address);
        let before = Instant::now();
        eventually("its address", async || told().flatten().filter(|told| told == address)).await;
        assert!(before.elapsed() < Times::default().retry_period / 4, "{:?}", before.elapsed());
    }
}
