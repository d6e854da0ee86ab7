//! A cache that has no room for a kind of its store.

use homeostat_fixtures::{demo, demo_key};
use homeostat_nats::BucketSettings;
use homeostat_runtime::ControllerState;
use homeostat_store::{CacheStatus, Obstacle};
use homeostat_testing::Dice;

use super::super::nats;
use super::*;

const BUCKET: &str = "full-cache";
/// The bound of the cache.
const BYTES_MAX: u64 = 1 << 20;
/// What the store says of the bound.
const REASON: &str = "the cache of store far is full (1 MiB): v1/ConfigMap needs more";
/// The number of resources of the kind.
const COUNT: usize = 12;
/// The bytes of each.
const BYTES: usize = 200_000;

/// Writes more than the cache has room for, in texts that cannot be compressed.
async fn fill(url: &str) {
    let (bucket, mut dice) = (nats::contacted(url, BUCKET).await, Dice::new(1));
    for at in 0..COUNT {
        let noise: String = (0..BYTES / 16).map(|_| format!("{:016x}", dice.number())).collect();
        let metadata = json!({ "name": format!("n-{at}"), "namespace": "default" });
        let data = json!({ "at": "1", "noise": noise });
        let document = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
        nats::write(&bucket, Write::Create { document }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_kind_that_exceeds_the_cache_names_the_bound_and_others_go_on() {
    let url = shared_nats().url();
    fill(&url).await;
    let settings = BucketSettings { name: "far".to_owned(), ..nats::settings(&url, BUCKET) };
    let options = cached::Options { bytes_max: BYTES_MAX, ..cached::Options::default() };
    let far = Arc::new(homeostat_nats::open(settings, Schemas::default(), options).unwrap());
    let copier = Copier::spawn(&far).await;
    let is_full = || async {
        let caches = far.status().remove(0).caches;
        let is_full = |cache: &CacheStatus| cache.state == CacheState::Full && cache.reason.is_some();
        caches.into_iter().find(|cache| cache.kind == kind() && is_full(cache))
    };
    let full = eventually("the kind to exceed the cache", is_full).await;
    assert_eq!((full.obstacle, full.resources), (Some(Obstacle::Full), 0));
    assert!(full.reason.as_ref().is_some_and(|reason| reason.contains(REASON)), "{full:?}");
    assert_eq!(far.status()[0].cache_bytes_max, Some(BYTES_MAX));
    let is_told = || async { copier.test.status("copier").message.filter(|message| message.contains(REASON)) };
    eventually("the controller to name the bound", is_told).await;
    assert_eq!(copier.test.status("copier").state, ControllerState::Syncing);
    let is_reported = || async {
        let events = copier.test.host.events().list(&Default::default());
        let names_it = events.iter().any(|event| event.reason == "CacheFull" && event.message.contains(REASON));
        names_it.then_some(())
    };
    eventually("the host to report the bound", is_reported).await;

    // A kind of the host's own store.
    copier.test.add("greeter", &guest("greeter")).await;
    copier.test.apply(demo("Greeting", "world", json!({ "name": "world" }))).await;
    let key = demo_key("Greeting", "world");
    copier.test.until(&key, "is greeted", |greeting| greeting["status"]["message"].is_string()).await;
    until_quiet(&far).await;
}
