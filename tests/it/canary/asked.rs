//! Canaries that people pause, resume, undo, replace, suspend and delete.

use super::*;

/// The candidate keeps its share during a pause, and has no key after an undo.
#[tokio::test(flavor = "multi_thread")]
async fn a_canary_is_paused_resumed_undone_replaced_and_tried_again_on_request() {
    let keys = 40;
    let world = World::start(keys).await;
    world.put(version(json!({ "version": "two" }), watched(json!({ "reconciles": 1 })))).await;
    let status = world.until_rollout("/share", json!("30%")).await;
    assert_eq!(condition(&status, "Progressing")["reason"], "Canary");
    world.test.idle(NAME).await;
    let share = world.touched("two").await;
    assert!(!share.is_empty() && share.len() < 24, "{share:?}");

    world.patch(json!({ "spec": { "paused": true, "rollout": { "gate": { "for": "100ms" } } } })).await;
    let status = world.until_rollout("/phase", json!("canary")).await;
    assert_eq!(condition(&status, "Progressing")["reason"], "Paused");
    world.change_all(keys, "yes").await;
    world.test.idle(NAME).await;
    assert_eq!(world.touched("two").await, share, "the candidate has its keys, and no others");

    assert_eq!(
        world.test.host.undo(NAME, None).await.unwrap_err().to_string().split(':').next(),
        Some("controller `versioned` is paused")
    );
    world.patch(json!({ "spec": { "rollout": { "gate": { "for": "1h" } } } })).await;
    world.patch(json!({ "spec": { "paused": null } })).await;
    assert_eq!(world.status().await["rollout"]["share"], "30%");
    assert_eq!(world.test.host.undo(NAME, None).await.unwrap(), 1, "to the stable version");
    eventually("the undo to take effect", async || {
        let status = world.status().await;
        (status["rollout"].is_null() && condition(&status, "Progressing")["reason"] == "Complete").then_some(())
    })
    .await;
    world.test.idle(NAME).await;
    assert!(world.seen().await.iter().all(|(_, by)| by.last().is_some_and(|by| by == "one")));

    // Another edit replaces the candidate. A refused one leaves the stable version running.
    let base = world.status().await["revision"].clone();
    world.put(version(json!({ "version": "three" }), watched(json!({})))).await;
    world.until_rollout("/share", json!("30%")).await;
    world.put(version(config("four", "trap", 1), watched(json!({})))).await;
    let status = world.until_rollout("/phase", json!("rolledBack")).await;
    assert_eq!((&status["revision"], &status["rollout"]["from"]), (&base, &base));
    assert_eq!(world.events("CanaryEnded").len(), 2);
    world.patch(json!({ "metadata": { "annotations": { "note": "no other definition" } } })).await;
    assert_eq!(world.status().await["rollout"]["phase"], "rolledBack", "the version is not tried again");
    let before = world.events("RolledBack").len();
    world.patch(json!({ "metadata": { "annotations": { "homeostat.dev/restartedAt": "now" } } })).await;
    eventually("the version to be tried again", async || {
        let status = world.status().await;
        (status["rollout"]["restarted"] == "now" && status["rollout"]["phase"] == "rolledBack").then_some(())
    })
    .await;
    assert_eq!(world.status().await["rollout"]["to"], status["rollout"]["to"], "it is the same revision");
    assert!(world.events("RolledBack").len() >= before);

    world.put(version(json!({ "version": "five" }), watched(json!({})))).await;
    world.until_rollout("/share", json!("30%")).await;
    let absent = Digest::of(b"absent").to_string();
    world.patch(json!({ "spec": { "component": { "digest": absent } } })).await;
    let status = world.status().await;
    assert_eq!((&condition(&status, "Loaded")["reason"], &status["rollout"]), (&json!("Refused"), &Value::Null));
    assert_eq!(world.test.host.definition(NAME).unwrap().config["version"], "one");
}

/// An undo skips revisions that never had all keys, unless its caller names one.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_skips_a_revision_that_was_replaced_before_it_had_all_keys() {
    let world = World::start(20).await;
    let put = async |name: &str, rollout: Value| world.put(version(json!({ "version": name }), rollout)).await;
    let runs = async |number: u64| {
        eventually("the revision to run", async || (world.status().await["revision"] == number).then_some(())).await;
    };
    put("two", Value::Null).await;
    runs(2).await;
    put("three", watched(json!({}))).await;
    world.until_rollout("/share", json!("30%")).await;
    put("four", Value::Null).await;
    runs(4).await;
    assert_eq!(world.test.host.undo(NAME, None).await.unwrap(), 2, "revision 3 never had all keys");
    runs(5).await;
    assert_eq!(world.test.host.undo(NAME, Some(3)).await.unwrap(), 3);
    runs(6).await;

    // A revision that later got all keys counts as any other.
    put("five", watched(json!({}))).await;
    world.until_rollout("/share", json!("30%")).await;
    put("five", Value::Null).await;
    runs(7).await;
    put("six", Value::Null).await;
    runs(8).await;
    assert_eq!(world.test.host.undo(NAME, None).await.unwrap(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_can_be_suspended_and_deleted_and_its_name_used_again() {
    let world = World::start(20).await;
    world.test.host.suspend_for_good(NAME, true).await.unwrap();
    world.put(version(json!({ "version": "two" }), quick())).await;
    world.until_rollout("/phase", json!("listing")).await;
    world.change_all(20, "yes").await;
    assert_eq!(world.status().await["rollout"]["phase"], "listing", "no step passes while the controller is suspended");
    assert!(world.touched("two").await.is_empty());
    world.test.host.suspend_for_good(NAME, false).await.unwrap();
    world.until_rollout("/phase", json!("complete")).await;

    world.put(version(json!({ "version": "three" }), watched(json!({})))).await;
    world.until_rollout("/share", json!("30%")).await;
    let (key, precondition) = (of_host("Controller", NAME), Precondition::default());
    let propagation = homeostat_store::Propagation::Background;
    world.test.host.write(Write::Delete { key, precondition, propagation, grace_seconds: None }.into()).await.unwrap();
    eventually("the controller to be gone", async || world.test.host.status(NAME).is_none().then_some(())).await;
    world.put(version(json!({ "version": "four" }), quick())).await;
    assert_eq!(world.status().await["revision"], 1, "a new controller has no stable version, so no canary");
    eventually("all keys to be reconciled", async || (world.touched("four").await.len() == 20).then_some(())).await;
}

/// A suspension is not another definition: the candidate waits at its step.
#[tokio::test(flavor = "multi_thread")]
async fn a_canary_suspended_by_its_spec_resumes_at_the_same_step() {
    let keys = 40;
    let world = World::start(keys).await;
    world.put(version(json!({ "version": "two" }), watched(json!({ "reconciles": 1, "duration": "1000x" })))).await;
    world.until_rollout("/share", json!("30%")).await;
    world.test.idle(NAME).await;
    let (share, begun) = (world.touched("two").await, world.status().await["rollout"].clone());
    for word in [json!(true), json!("exceptDeletes")] {
        world.patch(json!({ "spec": { "suspend": word, "rollout": { "gate": { "for": "100ms" } } } })).await;
        assert_eq!(world.test.status(NAME).state, ControllerState::Suspended, "{word}");
        world.change_all(keys, "yes").await;
        let now = world.status().await;
        assert_eq!((&now["rollout"]["since"], &now["rollout"]["to"]), (&begun["since"], &json!(2)), "{word}: {now}");
        assert_eq!(world.touched("two").await, share);
    }
    world.patch(json!({ "spec": { "suspend": null, "rollout": { "gate": { "for": "1h" } } } })).await;
    world.test.idle(NAME).await;
    assert_eq!(world.touched("two").await, share, "each key keeps its version");
    world.patch(json!({ "spec": { "rollout": { "gate": { "for": "100ms" } } } })).await;
    let status = world.until_rollout("/phase", json!("complete")).await;
    assert_eq!((&status["revision"], world.events("CanaryEnded").len()), (&json!(2), 0), "{status}");
    assert_eq!(world.events("Canary").len(), 1, "each step is made once");

    world.patch(json!({ "spec": { "suspend": true } })).await;
    assert_eq!(world.test.status(NAME).state, ControllerState::Suspended);
    assert_eq!(world.status().await["revision"], 2, "a suspension makes no revision");
    assert_eq!(world.test.host.undo(NAME, None).await.unwrap(), 1);
    world.until_rollout("/to", json!(3)).await;
    assert_eq!(world.test.status(NAME).state, ControllerState::Suspended, "an undo does not end a suspension");
}
