//! Measures how often writes of one lease disturb each other on three replicas, by the lanes of its fence.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_nats::HeaderMap;
use homeostat_tests::NatsCluster;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::nats_leases::on_three;

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
