//! Feeders that follow no store, in a fleet: they run where the leases of their controller are, and add the keys of the
//! shards there alone.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use homeostat_component::Limits;
use homeostat_fixtures::{FaultyStore, MemoryLeases, demo, demo_key, memory_store};
use homeostat_fleet::{ShardBy, Shards};
use homeostat_runtime::events::EventFilter;
use homeostat_runtime::feeder_sources::{FeederFolder, FolderWatch, NameFilter};
use homeostat_runtime::manifest::Manifest;
use homeostat_runtime::{Definition, FleetOptions, Options, PlacementSpec, Suspend};
use homeostat_store::Store;
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest, routed_stores};
use serde_json::json;
use tokio::sync::watch;

use super::*;

/// The length of the leases.
const LENGTH: Duration = Duration::from_secs(3);
/// Resources of the controller.
const RESOURCES: usize = 24;

/// Starts a host. The demo kinds live in a store that all hosts of a test share.
async fn start_host(
    name: &str,
    shared: &Arc<dyn Store>,
    leases: &MemoryLeases,
    more: impl FnOnce(Options) -> Options,
) -> TestHost {
    let bus = FaultyStore::over(Arc::clone(shared));
    bus.share(Arc::new(leases.clone()));
    let fleet = FleetOptions::new(Some(name), LENGTH);
    let stores = routed_stores(memory_store(), bus, &["demo.homeostat.dev/*"]);
    TestHost::with(memory_store(), |options| more(Options { fleet, stores, ..options })).await
}

/// Adds the controller `scripted` with these feeders.
async fn add_scripted(test: &TestHost, placement: Value, feeders: Value) {
    let manifest = json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": {"name": "scripted"},
        "spec": {
            "component": {"file": "scripted.wasm"},
            "placement": placement,
            "grants": {"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]},
            "feeders": feeders,
        },
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    let spec = manifest.spec.check().unwrap();
    let definition = test.definition("scripted", &guest("guest-scripted")).await;
    let (placement, feeders) = (spec.placement, spec.feeders);
    test.host.put(Definition { placement, feeders, ..definition }).await.unwrap();
}

/// Starts a host with a controller that has an interval and a schedule.
async fn start(name: &str, shared: &Arc<dyn Store>, leases: &MemoryLeases, placement: Value) -> TestHost {
    let test = start_host(name, shared, leases, |options| options).await;
    let feeders = json!([
        {"name": "second", "interval": {"every": "1s"}, "keys": "all"},
        {"name": "minute", "cron": {"schedule": "* * * * *"}, "keys": "all"},
    ]);
    add_scripted(&test, placement, feeders).await;
    test
}

/// Returns the states of the feeders of a host, and the keys that its interval has added.
fn feeders(host: &TestHost) -> ([&'static str; 2], u64) {
    let feeders = host.status("scripted").feeders;
    ([feeders[0].state, feeders[1].state], feeders[0].keys)
}

/// Returns the names of the keys on the queue of a controller.
fn names(host: &TestHost, controller: &str) -> BTreeSet<String> {
    let entries = host.host.queue(controller, 2 * RESOURCES).unwrap();
    entries.into_iter().map(|entry| entry.key.name().to_owned()).collect()
}

async fn add_resources(host: &TestHost) {
    for number in 0..RESOURCES {
        host.apply(demo("Scripted", &format!("n{number}"), json!({"action": "later"}))).await;
    }
}

/// C7: An interval and a schedule add keys on the host with the lease alone, and on the next one when that drains.
#[tokio::test(flavor = "multi_thread")]
async fn clocks_of_a_singleton_add_keys_where_its_lease_is() {
    let (shared, leases): (Arc<dyn Store>, _) = (memory_store(), MemoryLeases::default());
    let a = start("a", &shared, &leases, json!("singleton")).await;
    eventually("the first host", async || (feeders(&a).0 == ["running"; 2]).then_some(())).await;
    let b = start("b", &shared, &leases, json!("singleton")).await;
    add_resources(&a).await;
    eventually("three rounds of keys", async || (feeders(&a).1 >= 3 * RESOURCES as u64).then_some(())).await;
    assert_eq!(feeders(&b), (["paused"; 2], 0));
    assert!(b.host.queue("scripted", 1).unwrap().is_empty());

    a.host.set_drains(true);
    eventually("the other host", async || {
        (feeders(&b).0 == ["running"; 2] && feeders(&b).1 >= RESOURCES as u64).then_some(())
    })
    .await;
    assert_eq!(feeders(&a).0, ["paused"; 2]);
    // Its keys were to run again in an hour.
    eventually("no key on the first host", async || a.host.queue("scripted", 1).unwrap().is_empty().then_some(()))
        .await;
}

/// C7: Each host adds the keys of its own shards.
#[tokio::test(flavor = "multi_thread")]
async fn clocks_of_a_sharded_controller_add_the_keys_of_the_shards_of_each_host() {
    let (shared, leases): (Arc<dyn Store>, _) = (memory_store(), MemoryLeases::default());
    let placement = json!({"sharded": {"shards": 8}});
    let (a, b) = tokio::join!(start("a", &shared, &leases, placement.clone()), start("b", &shared, &leases, placement));
    eventually("shards on both hosts", async || {
        [&a, &b].iter().all(|host| feeders(host).0 == ["running"; 2]).then_some(())
    })
    .await;
    add_resources(&a).await;
    let names = |host: &TestHost| names(host, "scripted");
    let [of_a, of_b] = eventually("every key on a host", async || {
        let all = [names(&a), names(&b)];
        (all[0].union(&all[1]).count() == RESOURCES && [&a, &b].iter().all(|host| feeders(host).1 > 0)).then_some(all)
    })
    .await;
    assert!(of_a.is_disjoint(&of_b) && !of_a.is_empty() && !of_b.is_empty(), "{of_a:?} {of_b:?}");
    let added = [feeders(&a).1, feeders(&b).1];
    eventually("another round", async || {
        (feeders(&a).1 >= added[0] + of_a.len() as u64 && feeders(&b).1 >= added[1] + of_b.len() as u64).then_some(())
    })
    .await;
    assert_eq!([names(&a), names(&b)], [of_a, of_b]);
}

/// A folder that all hosts of a test see.
#[derive(Default)]
struct SharedFolder(watch::Sender<BTreeSet<String>>);

struct SharedFolderWatch(watch::Receiver<BTreeSet<String>>);

impl SharedFolder {
    fn put(&self, name: &str) {
        self.0.send_modify(|names| names.extend([name.to_owned()]));
    }
}

#[async_trait]
impl FeederFolder for SharedFolder {
    async fn open(&self, _: &str) -> Result<Box<dyn FolderWatch>, String> {
        Ok(Box::new(SharedFolderWatch(self.0.subscribe())))
    }
}

#[async_trait]
impl FolderWatch for SharedFolderWatch {
    async fn list(&mut self, accepts: NameFilter, most: usize) -> Result<BTreeMap<String, u64>, String> {
        let names = self.0.borrow_and_update();
        Ok(names.iter().filter(|name| accepts(name)).take(most).map(|name| (name.clone(), 1)).collect())
    }

    async fn changed(&mut self) {
        // The test keeps the sender.
        let _changed = self.0.changed().await;
    }
}

/// C7: Files add keys on the host with the lease alone. The next one adds those of all files.
#[tokio::test(flavor = "multi_thread")]
async fn files_add_keys_where_the_lease_is() {
    let (shared, leases): (Arc<dyn Store>, _) = (memory_store(), MemoryLeases::default());
    let folder = Arc::<SharedFolder>::default();
    ["n0.json", "n1.json", "n2.json"].into_iter().for_each(|name| folder.put(name));
    let start = async |name: &'static str| {
        let feeder_folder: Option<Arc<dyn FeederFolder>> = Some(Arc::clone(&folder) as _);
        let test = start_host(name, &shared, &leases, |options| Options { feeder_folder, ..options }).await;
        let keys = json!({"namespace": "default", "name": "{stem}"});
        let feeders = json!([{"name": "inbox", "files": {"path": "in/*.json"}, "keys": keys}]);
        add_scripted(&test, json!("singleton"), feeders).await;
        test
    };
    let added = |host: &TestHost| {
        let feeder = &host.status("scripted").feeders[0];
        (feeder.state, feeder.keys)
    };
    let a = start("a").await;
    eventually("the files on the first host", async || (added(&a) == ("running", 3)).then_some(())).await;
    let b = start("b").await;
    folder.put("n3.json");
    eventually("another file on the first host", async || (added(&a).1 == 4).then_some(())).await;
    assert_eq!(added(&b), ("paused", 0));

    a.host.set_drains(true);
    eventually("the files on the other host", async || (added(&b) == ("running", 4)).then_some(())).await;
    folder.put("n4.json");
    eventually("another file on the other host", async || (added(&b).1 == 5).then_some(())).await;
    assert_eq!(added(&a), ("paused", 4));
}

/// Starts a host with a controller whose guest polls these items.
async fn start_poller(
    name: &str,
    shared: &Arc<dyn Store>,
    leases: &MemoryLeases,
    items: &str,
    length: Duration,
    change: impl FnOnce(Definition) -> Definition,
) -> TestHost {
    let fleet = FleetOptions::new(Some(name), length);
    let test = start_host(name, shared, leases, |options| Options { fleet, ..options }).await;
    let definition = test.definition("poller", &guest("guest-poller")).await;
    let config = [("items".to_owned(), items.to_owned())].into();
    test.host.put(change(Definition { config, ..definition })).await.unwrap();
    test
}

fn is_holder(host: &TestHost) -> bool {
    host.status("poller").leases.iter().any(|lease| lease.is_held)
}

/// C7: A guest polls on the host with the lease alone, and on the next one when that drains.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_polls_where_the_lease_is() {
    let (shared, leases): (Arc<dyn Store>, _) = (memory_store(), MemoryLeases::default());
    let a = start_poller("a", &shared, &leases, "of-a", LENGTH, |definition| definition).await;
    eventually("the first host", async || is_holder(&a).then_some(())).await;
    let b = start_poller("b", &shared, &leases, "of-b", LENGTH, |definition| definition).await;
    let is_counted = |document: &Value| document["spec"]["count"].as_u64() >= Some(3);
    b.until(&demo_key("Tally", "of-a"), "is counted three times", is_counted).await;
    assert!(b.get(&demo_key("Tally", "of-b")).await.is_none() && names(&b, "poller").is_empty());

    a.host.set_drains(true);
    b.until(&demo_key("Tally", "of-b"), "is counted three times", is_counted).await;
    eventually("no key on the first host", async || names(&a, "poller").is_empty().then_some(())).await;
    let reconciles = a.status("poller").reconciles;
    let count = a.get(&demo_key("Tally", "of-b")).await.unwrap().document()["spec"]["count"].as_u64();
    a.until(&demo_key("Tally", "of-b"), "is counted again", |document| document["spec"]["count"].as_u64() > count)
        .await;
    assert_eq!(a.status("poller").reconciles, reconciles);
}

/// C7: Each host adds the polled keys of its own shards.
#[tokio::test(flavor = "multi_thread")]
async fn polls_of_a_sharded_controller_add_the_keys_of_the_shards_of_each_host() {
    let (shared, leases): (Arc<dyn Store>, _) = (memory_store(), MemoryLeases::default());
    let items: Vec<String> = (0..RESOURCES).map(|number| format!("n{number}")).collect();
    let placement = PlacementSpec::Sharded(Shards::new(8, ShardBy::Key).unwrap());
    // The keys stay on the queues.
    let waiting = |definition| Definition { placement, suspend: Suspend::Yes, ..definition };
    let items = items.join(" ");
    let (a, b) = tokio::join!(
        start_poller("a", &shared, &leases, &items, LENGTH, waiting),
        start_poller("b", &shared, &leases, &items, LENGTH, waiting),
    );
    eventually("every key on one host", async || {
        let [of_a, of_b] = [names(&a, "poller"), names(&b, "poller")];
        let is_divided = of_a.is_disjoint(&of_b) && !of_a.is_empty() && !of_b.is_empty();
        (is_divided && of_a.len() + of_b.len() == RESOURCES).then_some(())
    })
    .await;
}

/// C7: A lease is given away when the poll that runs under it has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_runs_ends_before_another_host_begins() {
    let (shared, leases): (Arc<dyn Store>, _) = (memory_store(), MemoryLeases::default());
    let limits = Limits { deadline: Duration::from_secs(3), ..Limits::default() };
    // No poll ends because a slow machine has lost the lease.
    let length = Duration::from_secs(60);
    let a =
        start_poller("a", &shared, &leases, "endless", length, |definition| Definition { limits, ..definition }).await;
    eventually("the first host", async || is_holder(&a).then_some(())).await;
    let b = start_poller("b", &shared, &leases, "", length, |definition| definition).await;
    let begun = || {
        let lines = a.host.logs().tail(Some("poller"), 0, 10_000);
        lines.iter().filter(|line| line.message.contains("an endless poll begins")).count() as u64
    };
    let ended = || {
        let events = a.host.events().list(&EventFilter::default());
        events.iter().filter(|event| event.reason == "PollFailed").map(|event| event.count).sum::<u64>()
    };
    eventually("a poll that runs", async || (begun() > ended()).then_some(())).await;
    a.host.set_drains(true);
    eventually("the other host", async || is_holder(&b).then_some(())).await;
    assert_eq!(ended(), begun());
}
