use std::collections::HashMap;

use homeostat_fixtures::memory_store;
use homeostat_workqueue::Next;
use serde_json::json;

use super::super::tests::{apply, intake, key, managed, next};
use super::*;
use crate::feeders::SyncBarrier;

const PERIOD: Duration = Duration::from_secs(3600);

/// W10: a resync requeues each key once per period, spread over it.
#[tokio::test(start_paused = true)]
async fn a_resync_adds_every_key_once_per_period_spread_over_it() {
    let store = memory_store();
    for number in 0..100 {
        apply(&*store, "App", &format!("a{number}"), json!({})).await;
    }
    let (queue, intake) = intake(&SyncBarrier::new());
    let feeder = ResyncFeeder { store, kind: managed(), every: PERIOD };
    let running = tokio::spawn(async move { feeder.run(&intake).await });
    let began = tokio::time::Instant::now();
    let mut seen: HashMap<Key, u32> = HashMap::new();
    let mut moments = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let claim = queue.claim().await.unwrap();
        assert_eq!(claim.priority(), Priority::LOW);
        *seen.entry(claim.key().clone()).or_default() += 1;
        claim.finish(Next::Done);
        moments.insert(began.elapsed());
    }
    assert_eq!(seen.len(), 100);
    assert!(seen.values().all(|times| *times == 2), "each key comes once in each of two periods");
    assert!(moments.len() > 16, "they are spread over the period");
    let end = *moments.last().unwrap();
    assert!(end > PERIOD && end <= 2 * PERIOD + PERIOD / SLICES, "{end:?}");
    running.abort();
}

/// W10: a resync is no change. It neither cuts a delay short nor unparks a key.
#[tokio::test(start_paused = true)]
async fn a_resync_leaves_waiting_and_parked_keys_alone() {
    let store = memory_store();
    for name in ["waits", "parked", "idle"] {
        apply(&*store, "App", name, json!({})).await;
    }
    let (queue, intake) = intake(&SyncBarrier::new());
    for (name, then) in [("waits", Next::After(10 * PERIOD)), ("parked", Next::Park { error: "no".into() })] {
        intake.add(key(name), Priority::NORMAL).unwrap();
        queue.claim().await.unwrap().finish(then);
    }
    let feeder = ResyncFeeder { store, kind: managed(), every: PERIOD };
    let running = tokio::spawn(async move { feeder.run(&intake).await });
    for _ in 0..3 {
        assert_eq!(next(&queue).await, key("idle"));
    }
    running.abort();
}
