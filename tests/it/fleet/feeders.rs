//! Feeders that follow no store, in a fleet: they run where the leases of their controller are, and add the keys of the
//! shards there alone.

use std::collections::BTreeSet;
use std::time::Duration;

use homeostat_fixtures::{FaultyStore, MemoryLeases, demo, memory_store};
use homeostat_runtime::manifest::Manifest;
use homeostat_runtime::{Definition, FleetOptions, Options};
use homeostat_store::Store;
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest, routed_stores};
use serde_json::json;

use super::*;

/// Resources of the controller.
const RESOURCES: usize = 24;

/// Starts a host with a controller that has these feeders. Its kind lives in a store that all hosts of a test share.
async fn start(name: &str, shared: &Arc<dyn Store>, leases: &MemoryLeases, placement: Value) -> TestHost {
    let bus = FaultyStore::over(Arc::clone(shared));
    bus.share(Arc::new(leases.clone()));
    let fleet = FleetOptions::new(Some(name), Duration::from_secs(3));
    let stores = routed_stores(memory_store(), bus, &["demo.homeostat.dev/*"]);
    let test = TestHost::with(memory_store(), |options| Options { fleet, stores, ..options }).await;
    let manifest = json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": {"name": "scripted"},
        "spec": {
            "component": {"file": "scripted.wasm"},
            "placement": placement,
            "grants": {"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]},
            "feeders": [
                {"name": "second", "interval": {"every": "1s"}, "keys": "all"},
                {"name": "minute", "cron": {"schedule": "* * * * *"}, "keys": "all"},
            ],
        },
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    let spec = manifest.spec.check().unwrap();
    let definition = test.definition("scripted", &guest("guest-scripted")).await;
    let (placement, feeders) = (spec.placement, spec.feeders);
    test.host.put(Definition { placement, feeders, ..definition }).await.unwrap();
    test
}

/// Returns the states of the feeders of a host, and the keys that its interval has added.
fn feeders(host: &TestHost) -> ([&'static str; 2], u64) {
    let feeders = host.status("scripted").feeders;
    ([feeders[0].state, feeders[1].state], feeders[0].keys)
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
    let names = |host: &TestHost| -> BTreeSet<String> {
        let entries = host.host.queue("scripted", 2 * RESOURCES).unwrap();
        entries.into_iter().map(|entry| entry.key.name().to_owned()).collect()
    };
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
