//! Controllers that keep the instances of their guest between reconciles.

use homeostat_fixtures::demo;
use homeostat_runtime::{Definition, Overrides};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest};
use serde_json::json;

const NAME: &str = "scripted";

/// Starts a host with one worker for the guest whose resources say what it does.
async fn scripted(reuse_instances: bool) -> TestHost {
    let test = TestHost::start().await;
    let overrides = Overrides { concurrency: Some(1), reuse_instances, ..Overrides::default() };
    let definition = test.definition(NAME, &guest("guest-scripted")).await;
    test.host.put(Definition { overrides, ..definition }).await.unwrap();
    test.host.ready(NAME).await.unwrap();
    test
}

/// Runs the action `count` for another resource, and returns the count that its instance has logged.
async fn count(test: &TestHost, name: &str) -> u32 {
    let before = last(test);
    test.apply(demo("Scripted", name, json!({"action": "count"}))).await;
    next_count(test, before).await
}

/// Returns the number of the last log line.
fn last(test: &TestHost) -> u64 {
    test.host.logs().tail(Some(NAME), 0, 10_000).last().map_or(0, |line| line.sequence)
}

/// Returns the count in the first log line after this one.
async fn next_count(test: &TestHost, after: u64) -> u32 {
    let line = eventually("the count", async || test.host.logs().tail(Some(NAME), after, 10_000).into_iter().next());
    line.await.message.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_reuses_instances_keeps_the_memory_of_its_guest_until_it_fails() {
    let test = scripted(true).await;
    for (name, expected) in [("a", 1), ("b", 2), ("c", 3)] {
        assert_eq!(count(&test, name).await, expected);
    }
    test.apply(demo("Scripted", "fails", json!({"action": "fail-never"}))).await;
    eventually("the failure", async || (test.status(NAME).failures > 0).then_some(())).await;
    assert_eq!(count(&test, "d").await, 1, "the instance of a failed reconcile is not called again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_definition_begins_with_instances_of_its_own() {
    let test = scripted(true).await;
    assert_eq!(count(&test, "a").await, 1);
    assert_eq!(count(&test, "b").await, 2);
    let definition = test.definition(NAME, &guest("guest-scripted")).await;
    let overrides = Overrides { concurrency: Some(1), reuse_instances: true, ..Overrides::default() };
    let config = [("greeting".to_owned(), "hello".to_owned())].into();
    let before = last(&test);
    test.host.put(Definition { overrides, config, ..definition }).await.unwrap();
    // Every key runs again.
    assert_eq!(next_count(&test, before).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_keeps_no_memory_unless_its_manifest_asks_for_it() {
    let test = scripted(false).await;
    for name in ["a", "b"] {
        assert_eq!(count(&test, name).await, 1);
    }
}
