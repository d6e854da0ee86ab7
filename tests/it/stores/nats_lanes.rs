//! Measures writes under one lease: how often they disturb each other on three replicas, by the lanes of its fence, and how
//! many one server takes, by their writers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_nats::HeaderMap;
use homeostat_store::cached::{CachedState, Upstream as _};
use homeostat_store::{Request, Revision};
use homeostat_tests::{Nats, NatsCluster};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::lease_host::{NEW, acquired, lease};
use super::nats::{contacted, creation};
use super::nats_leases::on_three;

/// How long so many writers write.
const MEASURED: std::time::Duration = std::time::Duration::from_secs(3);

/// Publishes a check and a value as one batch. Returns the code of the refusal.
async fn batch(client: &async_nats::Client, lane: &str, epoch: u64, id: &str, subject: String) -> Option<u64> {
    let message = |number: u64| {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Batch-Id", id);
        headers.insert("Nats-Batch-Sequence", number.to_string());
        headers
    };
    let mut check = message(1);
    check.insert("Nats-Expected-Last-Subject-Sequence", epoch.to_string());
    check.insert("Nats-Expected-Last-Subject-Sequence-Subject", lane);
    client.publish_with_headers("$KV.refusals.check", check, "".into()).await.unwrap();
    let mut value = message(2);
    value.insert("Nats-Batch-Commit", "1");
    let answer = client.request_with_headers(subject, value, "x".into()).await.ok()?;
    let answer: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap();
    answer["error"]["err_code"].as_u64()
}

/// Writes the refusals of 64 writers, by lanes, into `target/tmp/lanes.txt`: `docs/decisions/fleet.md` has them.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[cfg_attr(not(missing_go), ignore = "it measures")]
#[tokio::test(flavor = "multi_thread")]
async fn more_lanes_have_fewer_refusals() {
    let cluster = NatsCluster::start();
    on_three(&cluster, "refusals").await;
    let client = async_nats::connect(cluster.urls()).await.unwrap();
    let mut figures = BTreeMap::new();
    for lanes in [1_u64, 4, 16, 64] {
        let context = async_nats::jetstream::new(client.clone());
        let mut epochs = Vec::new();
        for lane in 0..lanes {
            let subject = format!("$KV.refusals.fence-{lanes}-{lane}");
            let sequence = context.publish(subject.clone(), "".into()).await.unwrap().await.unwrap().sequence;
            epochs.push((subject, sequence));
        }
        let (refused, epochs) = (Arc::new(Mutex::new(BTreeMap::<u64, u64>::new())), Arc::new(epochs));
        let begun = Instant::now();
        let mut writers = JoinSet::new();
        for writer in 0..64_u64 {
            let (client, refused, epochs) = (client.clone(), Arc::clone(&refused), Arc::clone(&epochs));
            writers.spawn(async move {
                let (lane, epoch) = &epochs[usize::try_from(writer % lanes).unwrap()];
                for number in 0..50 {
                    let mut tries = 0;
                    while let Some(code) = {
                        tries += 1;
                        let id = format!("{lanes}-{writer}-{number}-{tries}");
                        batch(&client, lane, *epoch, &id, format!("$KV.refusals.v-{writer}")).await
                    } {
                        *refused.lock().unwrap().entry(code).or_default() += 1;
                    }
                }
            });
        }
        writers.join_all().await;
        let refused = refused.lock().unwrap().clone();
        figures.insert(lanes, (refused, begun.elapsed()));
    }
    let text: String = figures
        .iter()
        .map(|(lanes, (refused, time))| format!("{lanes} lanes, 3200 writes in {time:?}: {refused:?}\n"))
        .collect();
    std::fs::write(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("lanes.txt"), text).unwrap();
    let of = |lanes: u64| figures[&lanes].0.values().sum::<u64>();
    assert!(of(16) < of(1), "{figures:?}");
}

/// Writes the writes a second under one lease, on a server without replicas and by writers, into `target/tmp/fenced.txt`:
/// `docs/decisions/fleet.md` has them.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[cfg_attr(not(missing_go), ignore = "it measures")]
#[tokio::test(flavor = "multi_thread")]
async fn more_writers_share_batches() {
    let nats = Nats::start();
    let bucket = contacted(&nats.url(), "shared").await;
    let lease = lease(&bucket, "web", "a_1");
    let (_, epoch) = acquired(&lease, &NEW).await;
    let mut text = String::new();
    for count in [1_u64, 2, 4, 16, 64] {
        let begun = Instant::now();
        let mut writers = JoinSet::new();
        for writer in 0..count {
            let (bucket, fence) = (Arc::clone(&bucket), lease.fence(epoch));
            writers.spawn(async move {
                let mut written = 0_u64;
                while begun.elapsed() < MEASURED {
                    let write = creation(&format!("w-{count}-{writer}-{written}"));
                    let none = CachedState::Known { resource: None, at: Revision::ZERO };
                    bucket.submit(Request { fence: fence.clone(), ..write.into() }, none).await.unwrap();
                    written += 1;
                }
                written
            });
        }
        let written: u64 = writers.join_all().await.into_iter().sum();
        let each_second = written as f64 / begun.elapsed().as_secs_f64();
        text += &format!("{count} writers: {each_second:.0} writes/s\n");
    }
    std::fs::write(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("fenced.txt"), text).unwrap();
}
