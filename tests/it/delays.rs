//! Delays and retries of single keys: who may end a delay early, and when a key is parked.

use std::time::Duration;

use homeostat_component::{BackoffSpec, DuringDelay, Limits};
use homeostat_fixtures::{demo, demo_key};
use homeostat_runtime::{Definition, Overrides};
use homeostat_testing::eventually;
use serde_json::json;

use crate::controllers::{entry, event, hostile};

/// B10: A failure with a requested delay waits for the longer of that delay and the backoff.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_with_a_requested_delay_waits_for_the_longer_of_it_and_the_backoff() {
    let hour_ms = 3_600_000;
    for (base, from_ms, to_ms) in [
        (Duration::from_millis(1), hour_ms - 600_000, hour_ms),
        (Duration::from_secs(4 * 3600), hour_ms + 1, 4 * hour_ms),
    ] {
        let backoff = Some(BackoffSpec { base, max: base, retries_max: None });
        let test = hostile(Limits::default(), Overrides { backoff, ..Overrides::default() }).await;
        test.apply(demo("Hostile", "fail-after", json!({}))).await;
        let due_ms = eventually("the key to wait", async || entry(&test, "fail-after")?.due_in_ms).await;
        assert!((from_ms..=to_ms).contains(&due_ms), "{base:?}: {due_ms} ms");
    }
}

/// B6: A requested delay counts as no failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_requested_delay_counts_as_no_failure() {
    let test = hostile(Limits::default(), Overrides::default()).await;
    test.apply(demo("Hostile", "centuries", json!({}))).await;
    let waits =
        eventually("the key to wait", async || entry(&test, "centuries").filter(|entry| entry.state == "waiting"))
            .await;
    assert_eq!((waits.failures, waits.last_error, test.status("hostile").failures), (0, None, 0));
}

/// T5: With `hold`, an event does not cut a requested delay short.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_delay_is_not_cut_short_by_a_change() {
    let overrides = Overrides { during_delay: Some(DuringDelay::Hold), ..Overrides::default() };
    let test = hostile(Limits::default(), overrides).await;
    test.apply(demo("Hostile", "centuries", json!({}))).await;
    eventually("the key to wait", async || (test.status("hostile").counts.waiting == 1).then_some(())).await;
    test.apply(demo("Hostile", "centuries", json!({"changed": true}))).await;
    // A later resource has been reconciled, so the change has reached the queue too.
    test.apply(demo("Hostile", "after", json!({}))).await;
    test.until(&demo_key("Hostile", "after"), "is well", |document| !document["status"].is_null()).await;
    test.idle("hostile").await;
    assert_eq!(entry(&test, "centuries").unwrap().state, "waiting");
}

/// The guest's own first write of the status requeues its key at once. The second run writes nothing new, and
/// waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_write_of_the_guest_cuts_its_delay_short_once_unless_held() {
    for (during_delay, runs) in [(DuringDelay::RunNow, 2), (DuringDelay::Hold, 1)] {
        let overrides = Overrides { during_delay: Some(during_delay), ..Overrides::default() };
        let test = hostile(Limits::default(), overrides).await;
        test.apply(demo("Hostile", "report-later", json!({}))).await;
        let waits = || {
            let status = test.status("hostile");
            (status.reconciles >= runs && status.counts.waiting == 1).then_some(())
        };
        eventually("the key to wait", async || waits()).await;
        let status = test.idle("hostile").await;
        assert_eq!((status.reconciles, status.counts.waiting), (runs, 1), "{during_delay:?}");
    }
}

/// B9: With three retries a key runs four times, and is then parked and reported.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_retries_left_is_parked_and_reported() {
    let (base, max) = (Duration::from_millis(1), Duration::from_millis(2));
    let backoff = Some(BackoffSpec { base, max, retries_max: Some(3) });
    let test = hostile(Limits::default(), Overrides { backoff, ..Overrides::default() }).await;
    test.apply(demo("Hostile", "fail", json!({}))).await;
    event(&test, "fail", "RetriesUsedUp").await;
    assert_eq!(event(&test, "fail", "ReconcileFailed").await.count, 4, "one try and three retries");
    assert_eq!(test.status("hostile").counts.parked, 1);
}

/// C3: A swap that only changes the resync period ends no delay.
#[tokio::test(flavor = "multi_thread")]
async fn a_swap_of_settings_alone_cuts_no_delay_short() {
    let test = hostile(Limits::default(), Overrides::default()).await;
    test.apply(demo("Hostile", "centuries", json!({}))).await;
    eventually("the key to wait", async || (test.status("hostile").counts.waiting == 1).then_some(())).await;
    let definition = test.host.definition("hostile").unwrap();
    let overrides = Overrides { resync: Some(Duration::from_secs(7200)), ..Overrides::default() };
    test.host.put(Definition { overrides, ..definition }).await.unwrap();
    let status = test.idle("hostile").await;
    assert_eq!((status.reconciles, status.counts.waiting), (1, 1));
}
