//! Hosts of one process that collect the garbage of one store, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use homeostat_fixtures::{Fault, FaultyStore, MemoryLeases, On, create, memory_store, until_gone};
use homeostat_fleet::{LeaseName, Times};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Error, Fence, Key, Propagation, Request, Store, Write};
use homeostat_testing::{eventually, soon};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;

use super::super::{Fleet, FleetOptions};
use crate::garbage;
use crate::stores::tests::two;

const KIND: &str = "Widget";

/// The store that the hosts of a test share, and its leases.
struct Shared {
    store: Arc<MemoryStore>,
    leases: MemoryLeases,
    start: Instant,
}

/// A host that collects garbage.
struct TestHost {
    /// The shared store, as this host reaches it.
    bus: Arc<FaultyStore>,
    fleet: Arc<Fleet>,
    end: CancellationToken,
    collector: JoinHandle<()>,
}

impl Shared {
    fn new() -> Self {
        Self { store: memory_store(), leases: MemoryLeases::default(), start: Instant::now() }
    }

    fn host(&self, name: &str) -> TestHost {
        let (start, end) = (self.start, CancellationToken::new());
        let options = FleetOptions::new(Some(name), FleetOptions::LENGTH_DEFAULT);
        let fleet = Arc::new(Fleet::new(FleetOptions { clock: Arc::new(move || start.elapsed()), ..options }));
        let bus = FaultyStore::over(self.store.clone());
        bus.share(Arc::new(self.leases.clone()));
        let stores = two(memory_store(), bus.clone());
        let collector = tokio::spawn(garbage::run(stores, Arc::default(), Arc::clone(&fleet), end.clone()));
        TestHost { bus, fleet, end, collector }
    }

    /// Waits until a host holds the lease. Returns its term.
    async fn until_holder(&self, host: &TestHost) -> u64 {
        let lease = LeaseName::of_garbage();
        let is_held = || self.leases.holder(&lease).is_some_and(|holder| holder == host.fleet.identity);
        eventually("the lease", async || is_held().then_some(())).await;
        self.leases.epoch(&lease).expect("it has a record")
    }

    /// Creates a resource whose owner is gone.
    async fn create_garbage(&self, name: &str) -> Key {
        let owner = json!([{"apiVersion": "far.dev/v1", "kind": KIND, "name": "gone", "uid": "no-such-uid"}]);
        let metadata = json!({"name": name, "namespace": "default", "ownerReferences": owner});
        let document = json!({"apiVersion": "far.dev/v1", "kind": KIND, "metadata": metadata});
        create(&*self.store, document).await.key().clone()
    }

    async fn until_collected(&self, key: &Key) {
        soon(until_gone(&*self.store, key)).await;
    }
}

impl TestHost {
    /// Ends the host in order.
    async fn shut_down(self) {
        self.end.cancel();
        soon(self.collector).await.expect("it ends");
        soon(self.fleet.stop()).await;
    }

    /// Ends the host without a release of its leases.
    fn crash(self) {
        self.collector.abort();
        self.fleet.end.cancel();
    }
}

/// C7: Of several hosts, the one with the lease collects the garbage of a shared store.
#[tokio::test(start_paused = true)]
async fn one_host_at_a_time_collects_the_garbage_of_a_shared_store() {
    let shared = Shared::new();
    let a = shared.host("a");
    shared.until_holder(&a).await;
    let b = shared.host("b");
    a.bus.fault(On::Write, KIND, Fault::Fail);
    let garbage = shared.create_garbage("leaf").await;
    time::sleep(Times::default().length * 4).await;
    assert!(shared.store.get(&garbage).await.is_ok(), "a host without the lease deleted it");
    a.crash();
    let before = Instant::now();
    shared.until_collected(&garbage).await;
    assert!(before.elapsed() >= Times::default().length - Times::default().retry_period * 2, "{:?}", before.elapsed());
    shared.until_holder(&b).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_drains_or_ends_leaves_the_garbage_to_another_one() {
    let shared = Shared::new();
    let a = shared.host("a");
    shared.until_holder(&a).await;
    let b = shared.host("b");
    time::sleep(Times::default().retry_period * 2).await;
    let before = Instant::now();
    a.fleet.set_drains(true);
    shared.until_holder(&b).await;
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
    let garbage = shared.create_garbage("drained").await;
    shared.until_collected(&garbage).await;
    a.fleet.set_drains(false);
    time::sleep(Times::default().retry_period * 2).await;
    let before = Instant::now();
    b.shut_down().await;
    shared.until_holder(&a).await;
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
    let garbage = shared.create_garbage("ended").await;
    shared.until_collected(&garbage).await;
}

/// C7: A deletion that was decided in an earlier term of the lease of garbage collection is refused.
#[tokio::test(start_paused = true)]
async fn a_deletion_of_garbage_in_an_old_term_is_refused() {
    let shared = Shared::new();
    let a = shared.host("a");
    let old = shared.until_holder(&a).await;
    let b = shared.host("b");
    a.crash();
    let new = shared.until_holder(&b).await;
    assert!(new > old);
    let garbage = shared.create_garbage("leaf").await;
    shared.until_collected(&garbage).await;
    let late = shared.create_garbage("late").await;
    let write = Write::Delete {
        key: late,
        precondition: Default::default(),
        propagation: Propagation::Background,
        grace_seconds: None,
    };
    let fence = Some(Fence { lease: LeaseName::of_garbage(), epoch: old });
    let refused = shared.store.submit(Request { fence, ..write.into() }).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
}

/// Leases of the host itself are not placed by their load, and are not listed as those of controllers.
#[tokio::test(start_paused = true)]
async fn the_lease_of_garbage_collection_is_none_of_a_controller() {
    let shared = Shared::new();
    let a = shared.host("a");
    shared.until_holder(&a).await;
    let status = a.fleet.status();
    assert!(status.iter().all(|host| host.leases.is_empty()), "{status:?}");
}
