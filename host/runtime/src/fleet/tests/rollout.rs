//! The record of a rollout: who may work, and what a late write does.

use homeostat_fixtures::write_rollout_record;

use super::*;
use crate::fleet::RecordView;

/// Writes the record of the rollout as another host does.
async fn write(shared: &Shared, text: &str) {
    write_rollout_record(&shared.leases, "web", "other_1", text).await.unwrap();
}

/// Waits until a host has seen this text in the record.
async fn seen(host: &TestHost, wanted: &str) -> RecordView {
    let record = host.placement.rollout().unwrap();
    eventually(wanted, async || {
        let view = record.view();
        matches!(&view, RecordView::Written { text, .. } if **text == *wanted).then_some(view)
    })
    .await
}

/// A host works on a controller only when it has carried out what the record of the rollout says.
#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_follow_the_rollout_takes_no_lease() {
    let shared = Shared::new();
    write(&shared, "one").await;
    let host = shared.host("a", PlacementSpec::Singleton);
    let first = seen(&host, "one").await;
    time::sleep(Times::default().length * 4).await;
    assert!(!host.is_holder());
    let record = host.placement.rollout().unwrap();
    record.settle(&first, Some("there is no other version".to_owned()));
    time::sleep(Times::default().length * 4).await;
    assert!(!host.is_holder());
    assert!(host.placement.standby_message().contains("no other version"), "{}", host.placement.standby_message());
    record.settle(&first, None);
    host.holds().await;
    assert!(host.placement.leads());
    // A holder keeps its lease while it carries out the next step, and takes no other one.
    write(&shared, "two").await;
    seen(&host, "two").await;
    time::sleep(Times::default().length * 4).await;
    assert!(host.is_holder() && !record.is_settled());
}

/// A host that acquires a lease reads the record of the rollout after it.
#[tokio::test(start_paused = true)]
async fn an_acquisition_after_an_unknown_step_of_the_rollout_fails() {
    let shared = Shared::new();
    write(&shared, "one").await;
    let host = shared.host("a", PlacementSpec::Singleton);
    let record = host.placement.rollout().unwrap();
    record.settle(&seen(&host, "one").await, None);
    assert!(record.confirm().await.is_ok());
    write(&shared, "two").await;
    assert!(record.confirm().await.is_err());
    shared.leases.set_away(true);
    assert!(record.confirm().await.is_err());
}

/// A host that has missed a step of the rollout overwrites nothing.
#[tokio::test(start_paused = true)]
async fn a_step_over_another_state_of_the_record_is_refused() {
    let shared = Shared::new();
    let [a, b] = ["a", "b"].map(|name| shared.host(name, PlacementSpec::Singleton));
    let [of_a, of_b] = [&a, &b].map(|host| host.placement.rollout().unwrap());
    let absent = RecordView::Absent { fence: None };
    eventually("both to know that there is none", async || {
        (of_a.view() == absent && of_b.view() == absent).then_some(())
    })
    .await;
    assert!(of_a.write(&absent, "one").await.unwrap());
    // The other host has not seen it yet.
    assert!(!of_b.write(&absent, "two").await.unwrap());
    let first = seen(&b, "one").await;
    assert!(of_b.write(&first, "two").await.unwrap());
    assert!(!of_a.write(&first, "three").await.unwrap());
    seen(&a, "two").await;
    assert!(of_a.write(&RecordView::Unknown, "three").await.is_ok_and(|is_written| !is_written));
}
