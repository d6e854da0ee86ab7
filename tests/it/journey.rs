//! The journey of a key from a change in the store to the guest's write, and the errors of guests that
//! misbehave.

use std::time::Duration;

use homeostat_component::{BackoffSpec, Limits};
use homeostat_fixtures::{Fault, FaultyStore, On, demo, demo_key, memory_store};
use homeostat_runtime::events::EventFilter;
use homeostat_runtime::{Definition, KeyVerb, Overrides};
use homeostat_testing::{BOUND, eventually};
use homeostat_tests::{TestHost, guest};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_greeting_gets_its_message_and_a_new_one_when_it_changes() {
    let test = TestHost::start().await;
    test.add("greeter", &guest("greeter")).await;
    let key = demo_key("Greeting", "world");
    for name in ["World", "Moon"] {
        test.apply(demo("Greeting", "world", json!({"name": name}))).await;
        let wanted = format!("Hello, {name}!");
        test.until(&key, "is greeted", |document| document["status"]["message"] == wanted.as_str()).await;
    }
    let status = test.idle("greeter").await;
    assert_eq!(status.failures, 0);
    assert_eq!(status.answered.map(|answered| answered.digest), Some(status.digest));
}

/// W1: A new controller reconciles the resources that its first list returns.
#[tokio::test(flavor = "multi_thread")]
async fn resources_from_before_the_controller_are_reconciled_too() {
    let test = TestHost::start().await;
    test.add("first", &guest("greeter")).await;
    for number in 0..20 {
        test.apply(demo("Greeting", &format!("g{number}"), json!({"name": "World"}))).await;
    }
    test.idle("first").await;
    test.add("second", &guest("greeter")).await;
    eventually("all keys to have run once", async || (test.status("second").reconciles == 20).then_some(())).await;
}

/// B11: Each kind of misbehaviour fails one reconcile of one key, under its own name. A hundred other keys
/// are reconciled.
#[tokio::test(flavor = "multi_thread")]
async fn a_misbehaving_guest_fails_one_reconcile_of_one_key() {
    let test = TestHost::start().await;
    let definition = test.definition("hostile", &guest("guest-hostile")).await;
    let (short, long) = (Duration::from_millis(400), Duration::from_secs(600));
    // In each round the other limits are out of reach, so that a busy machine never hits the wrong one.
    let limits = Limits { cpu: long, deadline: long, effects_max: 200, events_max: 100, ..Limits::default() };
    let rounds = [
        (
            limits.clone(),
            &[
                ("trap", "Trapped", "unreachable"),
                ("panic", "Trapped", "on purpose"),
                ("memory", "LimitExceeded", "limit memory"),
                ("recurse", "Trapped", "recursion"),
                ("calls", "LimitExceeded", "limit effects"),
                ("log-flood", "LimitExceeded", "limit log-lines"),
                ("event-flood", "LimitExceeded", "limit events"),
                ("huge-error", "ReconcileFailed", "xxxx"),
                ("bad-json", "ReconcileFailed", "EOF"),
                ("huge-status", "ReconcileFailed", "too large"),
                ("fail-never", "ReconcileFailed", "failed on purpose"),
            ][..],
        ),
        (Limits { cpu: short, ..limits.clone() }, &[("loop", "LimitExceeded", "limit cpu")]),
        (Limits { deadline: short, ..limits }, &[("slow", "LimitExceeded", "limit deadline")]),
    ];
    for (round, (limits, expected)) in rounds.into_iter().enumerate() {
        let overrides = Overrides { concurrency: Some(16), ..Overrides::default() };
        test.host.put(Definition { limits, overrides, ..definition.clone() }).await.unwrap();
        test.host.ready("hostile").await.unwrap();
        for (name, ..) in expected {
            test.apply(demo("Hostile", name, json!({}))).await;
        }
        let others = (0..100).map(|number| format!("good{round}-{number}"));
        for name in others.clone() {
            test.apply(demo("Hostile", &name, json!({}))).await;
        }
        for name in others {
            let wanted = |document: &serde_json::Value| document["status"]["message"] == "well";
            test.until(&demo_key("Hostile", &name), "is well", wanted).await;
        }
        for (name, reason, text) in expected {
            let filter = EventFilter { key: Some(demo_key("Hostile", name)), ..EventFilter::default() };
            let event = eventually(&format!("an event of {name}"), async || {
                test.host.events().list(&filter).into_iter().find(|event| event.reason == *reason)
            })
            .await;
            assert!(event.message.contains(text), "{name}: {}", event.message);
            assert!(event.message.len() <= 8192, "{name}: the message has {} bytes", event.message.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_of_centuries_is_capped_at_a_year() {
    let test = TestHost::start().await;
    test.add("hostile", &guest("guest-hostile")).await;
    test.apply(demo("Hostile", "centuries", json!({}))).await;
    let entry = eventually("the key to wait", async || {
        let entries = test.host.queue("hostile", 10).unwrap();
        entries.into_iter().find(|entry| entry.state == "waiting")
    })
    .await;
    let year_ms = 365 * 24 * 3600 * 1000;
    assert!(entry.due_in_ms.is_some_and(|due| due > year_ms - 600_000 && due <= year_ms), "{entry:?}");
    assert_eq!(entry.failures, 0);
}

/// B7: A key that requeues itself at once goes to the end of the queue, and counts as no failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_requeues_itself_at_once_starves_no_other_key() {
    let test = TestHost::start().await;
    test.add("hostile", &guest("guest-hostile")).await;
    test.apply(demo("Hostile", "again", json!({}))).await;
    eventually("the key to run often", async || (test.status("hostile").reconciles > 20).then_some(())).await;
    for number in 0..20 {
        test.apply(demo("Hostile", &format!("good{number}"), json!({}))).await;
    }
    for number in 0..20 {
        let key = demo_key("Hostile", &format!("good{number}"));
        test.until(&key, "is well", |document| document["status"]["message"] == "well").await;
    }
    assert_eq!(test.status("hostile").failures, 0);
}

/// B8: A key with a permanent failure is parked, and retried only after a change or a request.
#[tokio::test(flavor = "multi_thread")]
async fn a_permanently_failed_key_is_parked_until_a_change_or_a_retry() {
    let test = TestHost::start().await;
    test.add("hostile", &guest("guest-hostile")).await;
    let key = demo_key("Hostile", "fail-never");
    let runs = async |wanted: u64| {
        eventually("the key to be parked", async || {
            let status = test.status("hostile");
            (status.failures == wanted && status.counts.parked == 1).then_some(())
        })
        .await;
    };
    test.apply(demo("Hostile", "fail-never", json!({}))).await;
    runs(1).await;
    test.apply(demo("Hostile", "fail-never", json!({"changed": true}))).await;
    runs(2).await;
    test.host.act_on("hostile", &key, KeyVerb::Retry).unwrap();
    runs(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_without_a_grant_is_denied_and_the_message_names_the_grant() {
    let test = TestHost::start().await;
    let grants = serde_json::from_value(json!({"resources": [
        {"kinds": ["demo.homeostat.dev/*"], "verbs": ["get", "watch", "update-status"]}
    ]}))
    .unwrap();
    let component = test.load(&guest("guest-hostile")).await;
    test.host.put(Definition { grants, ..Definition::new("hostile", component) }).await.unwrap();
    test.apply(demo("Hostile", "foreign", json!({}))).await;
    // Skips the event about grants that are missing at the start.
    let denial = async || {
        let events = test.host.events().list(&EventFilter::default());
        events.into_iter().find(|event| event.reason != "GrantsMissing")
    };
    let event = eventually("the denial", denial).await;
    assert!(event.message.contains("kinds: [Secret], verbs: [get]"), "{}", event.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mapping_leads_back_to_the_managed_resource() {
    let test = TestHost::start().await;
    test.add("mapped", &guest("guest-mapped")).await;
    for name in ["one", "two", "three", "four", "five"] {
        test.apply(demo("Mapped", name, json!({}))).await;
    }
    let mut labelled = demo("Source", "by-label", json!({}));
    labelled["metadata"]["labels"] = json!({"mapped": "two"});
    test.apply(labelled).await;
    test.apply(demo("Source", "one", json!({}))).await;
    test.apply(demo("Source", "by-field", json!({"mapped": ["three", "four"]}))).await;
    test.apply(demo("Source", "by-guest", json!({"through": "four five"}))).await;
    let sees = async |name: &str, sources: serde_json::Value| {
        let key = demo_key("Mapped", name);
        test.until(&key, &format!("sees {sources}"), |document| document["status"]["sources"] == sources).await;
    };
    sees("one", json!(["one"])).await;
    sees("two", json!(["by-label"])).await;
    sees("three", json!(["by-field"])).await;
    sees("four", json!(["by-field", "by-guest"])).await;
    sees("five", json!(["by-guest"])).await;

    // W3: The resource that a change unlinks is requeued too.
    test.apply(demo("Source", "by-guest", json!({"through": "five"}))).await;
    sees("four", json!(["by-field"])).await;
    test.apply(demo("Source", "by-field", json!({"mapped": "two"}))).await;
    sees("three", json!([])).await;
    sees("two", json!(["by-field", "by-label"])).await;
}

/// W9: A poll happens at once, and then again at a fixed rate.
#[tokio::test(flavor = "multi_thread")]
async fn a_poller_queues_its_keys_at_once_and_again() {
    let test = TestHost::start().await;
    let definition = test.definition("poller", &guest("guest-poller")).await;
    let config = [("items".to_owned(), "a b".to_owned())].into();
    test.host.put(Definition { config, ..definition }).await.unwrap();
    for name in ["a", "b"] {
        test.until(&demo_key("Tally", name), "is counted twice", |document| {
            document["spec"]["count"].as_u64().is_some_and(|count| count >= 2)
        })
        .await;
    }
}

/// C6: A start hook that fails is retried, and no key is reconciled before it succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_start_hook_is_retried_and_no_key_runs_before_it_succeeds() {
    let test = TestHost::start().await;
    test.add("declares", &guest("guest-lifecycle")).await;
    test.idle("declares").await;
    test.host.remove("declares").await.unwrap();
    test.apply(demo("Phase", "start", json!({"failures": 2}))).await;
    test.apply(demo("Phase", "other", json!({}))).await;
    test.add("lifecycle", &guest("guest-lifecycle")).await;
    let other =
        test.until(&demo_key("Phase", "other"), "is reconciled", |document| !document["status"].is_null()).await;
    assert_eq!(other.document()["status"]["starts"], 3, "two starts fail, the third succeeds");
    test.host.remove("lifecycle").await.unwrap();
    let start = test.get(&demo_key("Phase", "start")).await.unwrap();
    assert_eq!(start.document()["metadata"]["annotations"]["demo.homeostat.dev/stops"], "1");
}

/// C4: A suspended controller keeps its keys, and reconciles none.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_controller_keeps_its_keys_and_runs_nothing() {
    let test = TestHost::start().await;
    test.add("greeter", &guest("greeter")).await;
    test.host.suspend("greeter", true).unwrap();
    test.apply(demo("Greeting", "world", json!({"name": "World"}))).await;
    eventually("the key to be kept", async || (test.status("greeter").counts.ready == 1).then_some(())).await;
    assert_eq!(test.status("greeter").reconciles, 0);
    test.host.suspend("greeter", false).unwrap();
    test.until(&demo_key("Greeting", "world"), "is greeted", |document| !document["status"].is_null()).await;
}

/// C1, C2: A removal finishes, and frees the name of the controller at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_controller_frees_its_name_at_once() {
    let test = TestHost::start().await;
    for round in 0..3 {
        test.add("greeter", &guest("greeter")).await;
        let name = format!("round{round}");
        test.apply(demo("Greeting", &name, json!({"name": "World"}))).await;
        test.until(&demo_key("Greeting", &name), "is greeted", |document| !document["status"].is_null()).await;
        test.host.remove("greeter").await.unwrap();
    }
    assert!(test.host.controllers().is_empty());
}

/// C8: A shutdown reconciles ready keys until its deadline, and reports the interrupted ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_finishes_ready_keys_and_reports_interrupted_ones() {
    let test = TestHost::start().await;
    test.add("greeter", &guest("greeter")).await;
    for number in 0..50 {
        test.apply(demo("Greeting", &format!("g{number}"), json!({"name": "World"}))).await;
    }
    eventually("all keys to be queued", async || {
        let status = test.status("greeter");
        (status.reconciles + (status.counts.ready + status.counts.running) as u64 >= 50).then_some(())
    })
    .await;
    let report = test.host.shutdown(BOUND).await;
    assert!(report["greeter"].dropped.is_empty() && report["greeter"].interrupted.is_empty());

    let test = TestHost::start().await;
    let definition = test.definition("hostile", &guest("guest-hostile")).await;
    let limits = Limits { deadline: 2 * BOUND, ..Limits::default() };
    test.host.put(Definition { limits, ..definition }).await.unwrap();
    test.apply(demo("Hostile", "slow", json!({}))).await;
    eventually("the slow one to run", async || (test.status("hostile").counts.running == 1).then_some(())).await;
    let report = test.host.shutdown(Duration::from_millis(500)).await;
    assert_eq!(report["hostile"].interrupted, [demo_key("Hostile", "slow")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_followed_resource_requeues_the_key_until_another_one_is_followed() {
    let test = TestHost::start().await;
    test.add("follower", &guest("guest-follower")).await;
    let reads = async |text: &str| {
        let key = demo_key("Follower", "a");
        test.until(&key, &format!("reads {text}"), |document| document["status"]["text"] == text).await;
    };
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    reads("nothing").await;
    for text in ["first", "second"] {
        test.apply(demo("Note", "one", json!({"text": text}))).await;
        reads(text).await;
    }
    test.apply(demo("Note", "two", json!({"text": "other"}))).await;
    test.apply(demo("Follower", "a", json!({"target": "two"}))).await;
    reads("other").await;
    let before = test.idle("follower").await.reconciles;
    test.apply(demo("Note", "one", json!({"text": "third"}))).await;
    test.apply(demo("Note", "two", json!({"text": "last"}))).await;
    reads("last").await;
    let ran = test.idle("follower").await.reconciles - before;
    assert!(ran <= 2, "a note that is no longer followed requeued the key: {ran} runs");
}

/// The follows of a failed reconcile do not count. The follows of the last successful one still requeue the
/// key.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_reconcile_leaves_the_follows_of_its_key_unchanged() {
    let store = FaultyStore::over(memory_store());
    let test = TestHost::over(store.clone()).await;
    let definition = test.definition("follower", &guest("guest-follower")).await;
    let second = Duration::from_secs(1);
    let backoff = Some(BackoffSpec { base: second, max: second, retries_max: Some(0) });
    let overrides = Overrides { backoff, ..Overrides::default() };
    test.host.put(Definition { overrides, ..definition }).await.unwrap();
    test.apply(demo("Follower", "a", json!({"target": "one"}))).await;
    let key = demo_key("Follower", "a");
    test.until(&key, "reads nothing", |document| document["status"]["text"] == "nothing").await;
    test.idle("follower").await;
    // The guest requests the follow before it reads the note, and the read fails.
    store.fault(On::Get, "Note", Fault::Fail);
    test.apply(demo("Follower", "a", json!({"target": "two"}))).await;
    eventually("the key to be parked", async || (test.status("follower").counts.parked == 1).then_some(())).await;
    store.heal(On::Get, "Note");
    let before = test.idle("follower").await.reconciles;
    test.apply(demo("Note", "two", json!({"text": "second"}))).await;
    assert_eq!(test.idle("follower").await.reconciles, before, "the failed reconcile follows the note");
    test.apply(demo("Note", "one", json!({"text": "first"}))).await;
    test.until(&key, "reads second", |document| document["status"]["text"] == "second").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeclared_kind_is_an_error_for_a_guest() {
    let test = TestHost::start().await;
    test.add("hostile", &guest("guest-hostile")).await;
    test.apply(demo("Hostile", "foreign", json!({}))).await;
    let event = eventually("the event", async || test.host.events().list(&EventFilter::default()).pop()).await;
    assert!(event.message.contains("the kind v1/Secret"), "{}", event.message);
}
