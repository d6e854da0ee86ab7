//! A host of a fleet refuses records that it cannot read, and another placement of a running controller, and names them.

use async_nats::HeaderMap;
use homeostat_fixtures::{FaultyStore, MemoryLeases, memory_store, write_rollout_record};
use homeostat_fleet::{ShardBy, Shards};
use homeostat_nats::settings::Create;
use homeostat_nats::{Bucket, BucketSettings};
use homeostat_runtime::{Definition, Error, FleetOptions, Options, PlacementSpec};
use homeostat_store::SystemClockAndIds;
use homeostat_store::cached::Upstream as _;
use homeostat_store::schema::Schemas;
use homeostat_tests::{TestHost, routed_stores, shared_nats};

use super::*;

/// A fleet on a bucket, whose only host so far has held the lease and ended.
fn left(bucket: &str) -> Fleet {
    let fleet = Fleet::new(bucket, "3s");
    let first = fleet.start("a");
    first.is("Ready");
    drop(first.stop());
    fleet
}

/// Waits until the message of the controller on a host that waits contains a text.
fn waits_for(member: &Member, text: &str) {
    member.is("Standby");
    eventually_built(&format!("the message {text:?}: {:?}", member.controller()), || {
        member.controller()?["message"].as_str()?.contains(text).then_some(())
    });
}

/// A host of a later version has written the lease. The controller waits, and its message names the lease.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_names_the_lease_that_its_host_cannot_read() {
    let fleet = left("fleet-later-lease");
    let streams = async_nats::jetstream::new(async_nats::connect(shared_nats().url()).await.unwrap());
    let mut headers = HeaderMap::new();
    headers.insert("Homeostat-Format", "2");
    let subject = "$KV.fleet-later-lease.m.lease.fetcher.0-of-1";
    streams.publish_with_headers(subject, headers, "{}".into()).await.unwrap().await.unwrap();
    let member = fleet.start("b");
    waits_for(&member, "the record of the lease fetcher cannot be read: it has another format than 1");
}

/// A host of a later version has written the record of the rollout. The controller waits, and says why.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_names_the_record_of_a_rollout_that_its_host_cannot_read() {
    let fleet = left("fleet-later-rollout");
    // The bucket of a test is in memory.
    let create = Some(Create { memory: true, ..Create::default() });
    let settings = BucketSettings { create, ..BucketSettings::new(shared_nats().url(), "fleet-later-rollout") };
    let bucket = Arc::new(Bucket::new(settings, Schemas::default(), Arc::new(SystemClockAndIds)).unwrap());
    bucket.connect().await.unwrap();
    let leases = bucket.leases().unwrap();
    write_rollout_record(&*leases, "fetcher", "later_1", r#"{"format": 2}"#).await.unwrap();
    let member = fleet.start("b");
    waits_for(&member, "a later version of the host wrote the record of the rollout");
}

/// The workers and feeders of a controller belong to its leases, so a restart of the host changes them.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_controller_refuses_another_placement() {
    let bus = FaultyStore::over(memory_store());
    bus.share(Arc::new(MemoryLeases::default()));
    let fleet = FleetOptions::new(Some("a"), FleetOptions::LENGTH_DEFAULT);
    let stores = routed_stores(memory_store(), bus, &["demo.homeostat.dev/*"]);
    let test = TestHost::with(memory_store(), |options| Options { fleet, stores, ..options }).await;
    test.add("noop", &guest("guest-noop")).await;
    let sharded = PlacementSpec::Sharded(Shards::new(4, ShardBy::Key).unwrap());
    for placement in [sharded, PlacementSpec::EveryHost] {
        let other = Definition { placement, ..test.definition("noop", &guest("guest-noop")).await };
        let refused = test.host.put(other).await.unwrap_err();
        assert!(matches!(&refused, Error::PlacementChanged(name) if name == "noop"), "{refused:?}");
        assert!(refused.to_string().contains("delete it and add it again, or restart the host"), "{refused}");
    }
    assert_eq!(test.status("noop").leases.len(), 1);
    test.host.put(test.definition("noop", &guest("guest-noop")).await).await.unwrap();
}
