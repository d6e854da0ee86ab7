//! What controllers that come, change and go leave to the others: their share of the processors, and their queues.

use std::collections::BTreeMap;

use homeostat_runtime::{Definition, Overrides, QueueEntry};
use homeostat_tests::{TestHost, demo, eventually, guest};
use serde_json::json;

/// Controllers that come and go, one after the other.
const NEWCOMERS: u64 = 8;
/// Reconciles of a newcomer before its definition changes, and again before it goes.
const RECONCILES: u64 = 200;
/// How many times as much as another controller, with the same to do, newcomers may get done while they are there. Both are to have the same; what a
/// newcomer has while the other waits for a processor of a busy machine is not the host's doing.
const SHARE_MAX: u64 = 3;

/// What a queue keeps of the keys that do not run: state, failures, and in how many milliseconds they are due.
fn kept(test: &TestHost) -> BTreeMap<String, (String, u32, Option<u64>)> {
    let entries = test.host.queue("steady", 100).unwrap().into_iter();
    let kept = entries.filter(|entry| entry.key.name() != "again");
    kept.map(|QueueEntry { key, state, failures, due_in_ms, .. }| {
        (key.name().to_owned(), (state.to_string(), failures, due_in_ms))
    })
    .collect()
}

async fn reconciles(test: &TestHost, name: &str, wanted: u64) -> u64 {
    let done = || test.status(name).reconciles;
    eventually(&format!("{wanted} reconciles of {name}"), async || (done() >= wanted).then(done)).await
}

/// C1: they have the same component, and a key that runs without end, as the one beside them has. Reconciles are counted, not timed.
#[tokio::test(flavor = "multi_thread")]
async fn newcomers_take_no_more_than_their_share_and_touch_no_queue_but_their_own() {
    let test = TestHost::start().await;
    let definition = test.definition("steady", &guest("guest-hostile")).await;
    test.host.put(definition.clone()).await.unwrap();
    for name in ["again", "centuries", "fail-never", "fail-after"] {
        test.apply(demo("Hostile", name, json!({}))).await;
    }
    let before = eventually("three keys to be put off", async || {
        let counts = test.status("steady").counts;
        (counts.waiting == 2 && counts.parked == 1).then(|| kept(&test))
    })
    .await;
    assert_eq!(before.keys().collect::<Vec<_>>(), ["centuries", "fail-after", "fail-never"]);
    let began = reconciles(&test, "steady", RECONCILES).await;

    let mut taken = 0;
    for number in 0..NEWCOMERS {
        let newcomer = Definition { name: format!("newcomer-{number}"), ..definition.clone() };
        let name = newcomer.name.clone();
        test.host.put(newcomer.clone()).await.unwrap();
        reconciles(&test, &name, RECONCILES).await;
        let overrides = Overrides { concurrency: Some(8), ..Overrides::default() };
        test.host.put(Definition { overrides, ..newcomer }).await.unwrap();
        taken += reconciles(&test, &name, 2 * RECONCILES).await;
        test.host.remove(&name).await.unwrap();
    }
    let done = test.status("steady").reconciles - began;
    assert!(done * SHARE_MAX >= taken, "{done} reconciles beside {taken} of newcomers");

    let after = kept(&test);
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    for (name, (state, failures, due)) in &before {
        let (state_after, failures_after, due_after) = &after[name];
        assert_eq!((state_after, failures_after), (state, failures), "{name}");
        assert!(due_after <= due, "{name} was put off: {due:?} before, {due_after:?} after");
    }
    let status = test.status("steady");
    assert_eq!((status.generation, status.failures), (1, 2), "what failed has failed once");
}
