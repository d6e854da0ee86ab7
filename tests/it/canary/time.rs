//! The duration of a canary with the default gate, in virtual time.

use tokio::time::Instant;

use super::*;

/// The gate has its defaults, and no resource changes. The last step needs 188 reconciles for a verdict. Half
/// of 60 keys make 30 of them with each resync, twice a minute.
#[tokio::test(start_paused = true)]
async fn a_quiet_canary_takes_a_minute_per_step_and_longer_with_few_keys() {
    let canary = json!({ "strategy": "canary", "gate": { "duration": "1000x" } });
    for (keys, least, most) in [(200, 120, 145), (60, 150, 330), (2, 480, 505)] {
        let world = World::in_virtual_time(keys).await;
        let begun = Instant::now();
        world.put(version(json!({ "version": "two" }), canary.clone())).await;
        world.until_rollout("/phase", json!("complete")).await;
        let took = begun.elapsed();
        assert!((least..most).contains(&took.as_secs()), "{keys} keys: {took:?}");
    }
}

/// The candidate differs in a setting that the guest ignores, and five of 120 keys change each second. A
/// reconcile for an event writes and one for a resync does not, and the two versions have different shares of
/// both. The default gate has to tolerate that.
#[tokio::test(start_paused = true)]
async fn a_candidate_with_the_same_behaviour_is_promoted_while_keys_change() {
    let keys = 120;
    let world = World::in_virtual_time(keys).await;
    let noting = |unused: &str| json!({ "version": "one", "bad": "note", "unused": unused });
    world.put(version(noting("a"), json!({}))).await;
    world.test.idle(NAME).await;
    world.put(version(noting("b"), json!({ "strategy": "canary" }))).await;
    let mut number = 1_u64;
    let ended = loop {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut document = demo("Versioned", &format!("k{}", (number >> 33) % keys), json!({}));
        document["metadata"]["annotations"] = json!({ "changed": number.to_string() });
        world.test.apply(document).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let status = world.status().await;
        if !["listing", "canary"].contains(&status["rollout"]["phase"].as_str().unwrap()) {
            break status;
        }
    };
    assert_eq!(ended["rollout"]["phase"], "complete", "{ended}");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_writes_every_time_is_rolled_back_after_a_resync() {
    let world = World::in_virtual_time(150).await;
    let begun = Instant::now();
    let canary = json!({ "strategy": "canary", "share": "30%", "gate": { "duration": "1000x" } });
    world.put(version(config("two", "write", 1), canary)).await;
    let status = world.until_rollout("/phase", json!("rolledBack")).await;
    assert!(status["rollout"]["reason"].as_str().unwrap().contains("writes"), "{status}");
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(60), "{took:?}");
}
