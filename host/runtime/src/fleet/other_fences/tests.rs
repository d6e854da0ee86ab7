//! A controller whose kind lives in one shared store and that writes to another one, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use homeostat_component::layers::{Terms as _, WriteTerm};
use homeostat_component::{Call, EntryPoint, StoreError};
use homeostat_fixtures::{FaultyStore, MemoryLeases, memory_store};
use homeostat_fleet::{Identity, LeaseName, Times};
use homeostat_store::routes::{Routes, Rule};
use homeostat_store::{Error, Key, Kind, LeaseStore as _, OtherTerm, RoutedStore, Store, StorePart, View};
use homeostat_testing::{eventually, soon};
use tokio::time::{self, Instant};

use super::super::{Fleet, FleetOptions, Placement, PlacementSpec};
use crate::Stores;

/// Two shared stores: the leases are in `bus`.
struct Shared {
    stores: Stores,
    bus: MemoryLeases,
    depot: MemoryLeases,
    start: Instant,
}

impl Shared {
    fn new() -> Self {
        let (bus, depot) = (MemoryLeases::default(), MemoryLeases::default());
        let part = |name: &str, leases: &MemoryLeases| {
            let store = FaultyStore::over(memory_store());
            store.share(Arc::new(leases.clone()));
            StorePart { name: name.into(), store }
        };
        let rule = |store: &str| {
            let pattern = format!("{store}.dev/*").parse().unwrap();
            Rule { pattern, store: store.into(), view: View::Whole }
        };
        let routes = Routes::new(vec![rule("bus"), rule("depot")]).unwrap();
        let home: Arc<dyn Store> = memory_store();
        let parts = vec![part("bus", &bus), part("depot", &depot)];
        let stores = Stores::Routed(Arc::new(RoutedStore::new(home, parts, routes).unwrap()));
        Self { stores, bus, depot, start: Instant::now() }
    }

    fn host(&self, name: &str) -> TestHost {
        let start = self.start;
        let options = FleetOptions::new(Some(name), FleetOptions::LENGTH_DEFAULT);
        let fleet = Arc::new(Fleet::new(FleetOptions { clock: Arc::new(move || start.elapsed()), ..options }));
        let placement = Placement::new(&fleet, &self.stores, "web", &kind("bus"), PlacementSpec::Singleton);
        placement.begin(Duration::from_secs(10)).unwrap();
        TestHost { fleet, placement }
    }

    fn holder(&self) -> Option<Identity> {
        self.bus.holder(&web())
    }
}

struct TestHost {
    fleet: Arc<Fleet>,
    placement: Placement,
}

impl TestHost {
    fn term(&self, store: &str) -> Result<WriteTerm, StoreError> {
        let key = Key::new(kind("bus"), "default", "a");
        let call = Call { id: 1, controller: "web".into(), entry: EntryPoint::Reconcile, key: Some(key) };
        self.placement.term(&call, Some(&kind(store)))
    }

    fn epoch(&self, store: &str) -> Option<u64> {
        self.term(store).unwrap().fence.map(|fence| fence.epoch)
    }
}

fn kind(store: &str) -> Kind {
    Kind::new(format!("{store}.dev"), "v1", "Widget")
}

fn web() -> LeaseName {
    LeaseName::new("web", 0, 1).unwrap()
}

/// C7: A write to another shared store has the fence that this store has given to the term.
#[tokio::test(start_paused = true)]
async fn a_write_to_another_shared_store_has_the_fence_of_that_store() {
    let shared = Shared::new();
    let a = shared.host("a");
    soon(a.placement.wait_until_held()).await;
    let (own, other) = (a.epoch("bus").unwrap(), a.epoch("depot").unwrap());
    assert_eq!((Some(own), other), (shared.bus.epoch(&web()), shared.depot.revision()));
    assert_eq!(a.epoch("near"), None, "no other host has this store");
    a.placement.leave().await;
    let b = shared.host("b");
    soon(b.placement.wait_until_held()).await;
    assert!(b.epoch("depot").unwrap() > other);
    assert!(a.term("depot").is_err());
}

/// C7: No worker starts before the other shared stores refuse the writes of earlier terms.
#[tokio::test(start_paused = true)]
async fn a_worker_starts_after_the_other_stores_know_the_term() {
    let shared = Shared::new();
    let a = shared.host("a");
    let mut changes = a.placement.changes();
    while !a.placement.is_holder() {
        soon(changes.changed()).await.unwrap();
    }
    assert_eq!(a.epoch("depot"), Some(shared.depot.revision()), "with the first change at which it is a holder");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_know_the_term_holds_up_its_own_writes_alone() {
    let shared = Shared::new();
    shared.depot.set_away(true);
    let (a, before) = (shared.host("a"), Instant::now());
    soon(a.placement.wait_until_held()).await;
    assert!(before.elapsed() <= Times::default().request_timeout, "{:?}", before.elapsed());
    assert!(a.epoch("bus").is_some());
    let Err(StoreError::Unavailable(reason)) = a.term("depot") else { panic!("it would be written without a fence") };
    assert!(reason.contains("depot does not know the term"), "{reason}");
    shared.depot.set_away(false);
    eventually("the fence", async || a.term("depot").ok()).await;
}

/// C7: A host that was paused after its acquisition does not take the fence from a later term.
#[tokio::test(start_paused = true)]
async fn a_later_term_in_another_store_ends_the_term_of_a_host() {
    let shared = Shared::new();
    let a = shared.host("a");
    soon(a.placement.wait_until_held()).await;
    let (first, holder) = (shared.bus.epoch(&web()).unwrap(), shared.holder().unwrap());
    let term = |epoch| OtherTerm {
        lease: web(),
        holder: holder.clone(),
        content: shared.stores.parts()[1].store.status()[0].id.clone().unwrap(),
        epoch: homeostat_fleet::Epoch(epoch),
    };
    // As the next holder does.
    shared.depot.raise_fence(&term(first + 1)).await.unwrap();
    let refused = shared.depot.raise_fence(&term(first)).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
    a.placement.leave().await;
    // Its next terms are earlier than the one that the store knows, up to this.
    let later = term(first + 8);
    shared.depot.raise_fence(&later).await.unwrap();
    let b = shared.host("b");
    eventually("a term that is later", async || shared.bus.epoch(&web()).filter(|epoch| *epoch > first + 8)).await;
    soon(b.placement.wait_until_held()).await;
    assert!(b.term("depot").is_ok());
    time::sleep(b.fleet.times.length).await;
    assert!(b.placement.is_holder());
}
