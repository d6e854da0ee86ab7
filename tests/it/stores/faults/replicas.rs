//! A bucket with replicas on three servers, of which one is lost.

use async_nats::jetstream::Context;
use homeostat_nats::BucketSettings;
use homeostat_tests::NatsCluster;

use super::super::nats::admin;
use super::*;

const BUCKET: &str = "faults";

/// Returns two hosts that know all servers.
fn hosts(nats: &NatsCluster) -> Hosts {
    let servers = nats.urls();
    let open = || {
        let create = Some(Create { replicas: 3, ..Create::default() });
        let settings = BucketSettings::new(&*servers[0], BUCKET);
        let settings = BucketSettings { servers: servers.clone(), create, timings: timings(), ..settings };
        Arc::new(homeostat_nats::open(settings, Schemas::default(), cached::Options::default()).unwrap())
    };
    Hosts { near: open(), other: open(), namespace: "default".to_owned() }
}

/// Returns the name of the server that leads the bucket; `None` while no server does.
async fn leader(streams: &Context) -> Option<String> {
    let stream = streams.get_stream(format!("KV_{BUCKET}")).await.ok()?;
    stream.cached_info().cluster.as_ref()?.leader.clone()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_nats_survives_a_leader_of_its_replicas_that_is_killed() {
    let nats = NatsCluster::start();
    let streams = admin(&nats.urls()[0]).await;
    survives(hosts(&nats), async |ledger: Arc<Ledger>| {
        let leader = eventually("the bucket to have a leader", || leader(&streams)).await;
        let server = nats.server(&leader).server();
        server.kill();
        // The other two servers elect a leader.
        ledger.grows(ENOUGH).await;
        server.start();
    })
    .await;
}
