//! Canaries that are interrupted: by the end of the host, by an edit at the wrong moment, by a registry whose
//! answer changes, by a start hook that fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use homeostat_fixtures::{Fault, FaultyStore, On, memory_store};
use homeostat_store::Scope;
use homeostat_tests::renamed;

use super::*;

/// Returns every status that was written for the controller since `begun`, in order.
async fn statuses_since(world: &World, begun: Revision) -> Vec<Value> {
    let store = world.test.host.store();
    let last = world.test.get(&of_host("Controller", NAME)).await.unwrap().revision();
    let mut watch = store.watch(Scope::Kind(of_host("Controller", NAME).kind().clone()), begun).await.unwrap();
    let mut told = Vec::new();
    loop {
        let event = watch.next().await.unwrap();
        told.push(event.resource.status().clone());
        if event.revision == last {
            return told;
        }
    }
}

/// The host writes the phase, the conditions and the revision together: no reader sees one without the
/// others.
#[tokio::test(flavor = "multi_thread")]
async fn every_status_of_a_rollout_agrees_with_its_conditions_and_its_revision() {
    let world = World::start(20).await;
    let begun = world.test.host.store().revision(&Scope::Everything).await.unwrap();
    world.put(version(json!({ "version": "two" }), quick())).await;
    world.until_rollout("/phase", json!("complete")).await;
    world.put(version(config("three", "trap", 1), watched(json!({})))).await;
    world.until_rollout("/phase", json!("rolledBack")).await;
    let mut phases = BTreeSet::new();
    // The first write is the edit, which repeats the old status.
    for status in statuses_since(&world, begun).await.iter().skip(1) {
        let rollout = &status["rollout"];
        let Some(phase) = rollout["phase"].as_str() else { continue };
        phases.insert(phase.to_owned());
        let (reason, runs) = match phase {
            "listing" | "canary" => ("Canary", "from"),
            "complete" => ("Complete", "to"),
            _ => ("RolledBack", "from"),
        };
        if rollout["generation"] == status["observedGeneration"] {
            assert_eq!(condition(status, "Progressing")["reason"], reason, "{status}");
            assert_eq!(status["revision"], rollout[runs], "{status}");
        }
    }
    assert_eq!(phases.len(), 4, "{phases:?}");
}

/// A restarted host continues with the share in the status, and does not retry a version that was rolled
/// back.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_continues_a_canary_and_does_not_retry_a_rolled_back_version() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let keys = 40;
    let world = World::over(opened(&file).await, keys).await;
    world.put(version(json!({ "version": "two" }), watched(json!({})))).await;
    world.until_rollout("/share", json!("30%")).await;
    world.test.idle(NAME).await;
    let share = world.touched("two").await;
    world.end().await;

    let world = World::again(opened(&file).await).await;
    let status = world.until_rollout("/share", json!("30%")).await;
    assert_eq!((&status["revision"], &status["rollout"]["to"]), (&json!(1), &json!(2)));
    world.change_all(keys, "yes").await;
    world.test.idle(NAME).await;
    assert_eq!(world.touched("two").await, share, "each key keeps its version");
    assert!(world.seen().await.iter().all(|(_, by)| by.len() < 3), "no key changed its version in between");
    world.patch(json!({ "spec": { "config": { "version": "three", "bad": "trap" } } })).await;
    world.until_rollout("/phase", json!("rolledBack")).await;
    world.end().await;

    let world = World::again(opened(&file).await).await;
    let status = world.status().await;
    assert_eq!((&status["revision"], &status["rollout"]["phase"]), (&json!(1), &json!("rolledBack")));
    world.test.idle(NAME).await;
    assert_eq!(world.test.host.definition(NAME).unwrap().config["version"], "one");
    assert_eq!(world.events("Canary").len(), 0);
}

/// A version that was written while no host ran gets a share of the keys, as any other edit.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_version_that_a_host_finds_at_its_start_touches_only_its_share() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let keys = 40;
    World::over(opened(&file).await, keys).await.end().await;
    let store = opened(&file).await;
    let spec = version(config("two", "trap", 1), watched(json!({})))["spec"].clone();
    let change = Change::Merge(json!({ "spec": spec }));
    let (key, precondition) = (of_host("Controller", NAME), Precondition::default());
    store.write(Write::Patch { key, change, precondition }).await.unwrap();
    store.close().await;
    drop(store);

    let world = World::again(opened(&file).await).await;
    let status = world.until_rollout("/phase", json!("rolledBack")).await;
    assert_eq!((&status["revision"], &status["rollout"]["from"]), (&json!(1), &json!(1)));
    assert!((world.touched("two").await.len() as u64) < keys * 6 / 10);
    assert_eq!(world.test.host.definition(NAME).unwrap().config["version"], "one");
}

/// The stable version and the canary run with the placement that the resource has at the start.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_another_placement_and_version_rolls_the_version_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    World::over(opened(&file).await, 20).await.end().await;
    let store = opened(&file).await;
    let mut spec = version(json!({ "version": "two" }), quick())["spec"].clone();
    let placement = json!({ "sharded": { "shards": 4 } });
    spec["placement"] = placement.clone();
    let change = Change::Merge(json!({ "spec": spec }));
    let (key, precondition) = (of_host("Controller", NAME), Precondition::default());
    store.write(Write::Patch { key: key.clone(), change, precondition }).await.unwrap();
    store.close().await;
    drop(store);

    let world = World::again(opened(&file).await).await;
    let status = world.until_rollout("/phase", json!("complete")).await;
    assert_eq!((&status["rollout"]["from"], &status["rollout"]["to"]), (&json!(1), &json!(2)));
    assert_eq!(world.test.host.undo(NAME, None).await.unwrap(), 1);
    world.until_rollout("/to", json!(3)).await;
    world.until_rollout("/phase", json!("complete")).await;
    let undone = world.test.get(&key).await.unwrap();
    let spec = &undone.document()["spec"];
    assert_eq!((&spec["config"]["version"], &spec["placement"]), (&json!("one"), &placement));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_keeps_its_keys_while_its_resource_has_another_placement() {
    let world = World::start(40).await;
    world.put(version(json!({ "version": "two" }), watched(json!({})))).await;
    world.until_rollout("/share", json!("30%")).await;
    world.patch(json!({ "spec": { "placement": "every-host" } })).await;
    let status = world.status().await;
    let loaded = condition(&status, "Loaded");
    assert_eq!((&loaded["reason"], &status["rollout"]["share"]), (&json!("Refused"), &json!("30%")), "{status}");
    assert!(loaded["message"].as_str().unwrap().contains("the placement of controller `versioned`"), "{loaded}");
    world.patch(json!({ "spec": { "placement": null } })).await;
    let status = world.status().await;
    assert_eq!((&status["rollout"]["share"], &status["rollout"]["to"]), (&json!("30%"), &json!(2)), "{status}");
    assert_eq!(condition(&status, "Loaded")["status"], "True", "{status}");
}

/// The newest revision in the history is not the stable one: it had only some keys, and was replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_a_refused_definition_runs_the_stable_version_not_the_candidate() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let world = World::over(opened(&file).await, 10).await;
    world.put(version(json!({ "version": "two" }), watched(json!({})))).await;
    world.until_rollout("/share", json!("30%")).await;
    world.patch(json!({ "spec": { "component": { "digest": Digest::of(b"absent").to_string() } } })).await;
    assert_eq!(world.test.host.definition(NAME).unwrap().config["version"], "one");
    world.end().await;

    let world = World::again(opened(&file).await).await;
    eventually("a version to run", async || world.test.host.definition(NAME)).await;
    assert_eq!(world.test.host.definition(NAME).unwrap().config["version"], "one");
}

/// Returns the numbers of the revisions in the history. Asserts that no definition and no number is in it
/// twice.
async fn whole_history(world: &World) -> Vec<u64> {
    let revisions = world.test.host.store().list(&Query::all(of_host("ControllerRevision", "").kind().clone())).await;
    let items = revisions.unwrap().items;
    let specs: BTreeSet<String> = items.iter().map(|item| item.document()["spec"]["spec"].to_string()).collect();
    assert_eq!(specs.len(), items.len(), "no definition is in the history twice");
    let numbers: BTreeSet<u64> = items.iter().filter_map(|item| item.document()["spec"]["number"].as_u64()).collect();
    assert_eq!(numbers.len(), items.len(), "no number is in the history twice");
    numbers.into_iter().collect()
}

/// The host ends between any two writes of a rollout, for a promotion and for a rollback.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_between_any_two_writes_finds_one_current_version_and_continues() {
    let keys = 6;
    for (bad, ends, runs) in [("", "complete", 2), ("trap", "rolledBack", 1)] {
        let mut writes = 0;
        loop {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("store.redb");
            let store = FaultyStore::over(opened(&file).await);
            let world = World::over(store.clone(), keys).await;
            let mut wanted = version(config("two", bad, 1), json!({}));
            wanted["spec"]["rollout"] = json!({
                "strategy": "canary", "share": "90%", "gate": { "for": "100ms", "reconciles": 1, "duration": "1000x" },
            });
            wanted["spec"]["revisionHistoryLimit"] = json!(0);
            world.test.host.apply_resource(wanted, "me", true).await.unwrap();
            store.cut_after("homeostat.dev", writes);
            let is_over = async || {
                let phase = world.status().await["rollout"]["phase"].clone();
                (store.is_cut() || phase == ends).then_some(phase == ends)
            };
            let was_over = eventually("the rollout or the writes to end", is_over).await;
            world.end().await;
            drop(store);

            let world = World::again(opened(&file).await).await;
            let status = eventually("a version to run", async || {
                Some(world.status().await).filter(|it| it["revision"].is_u64())
            })
            .await;
            let current = status["revision"].as_u64().unwrap();
            assert!(whole_history(&world).await.contains(&current), "{bad} {writes}: {status}");
            let status = world.until_rollout("/phase", json!(ends)).await;
            assert_eq!(status["revision"], runs, "{bad} {writes}: {status}");
            assert!(whole_history(&world).await.contains(&runs), "{bad} {writes}");
            world.change_all(keys, "yes").await;
            world.test.idle(NAME).await;
            let by = if runs == 2 { "two" } else { "one" };
            assert!(
                world.seen().await.iter().all(|(_, seen)| seen.last().is_some_and(|last| last == by)),
                "{bad} {writes}"
            );
            world.end().await;
            if was_over {
                break;
            }
            writes += 1;
        }
        assert!(writes >= 4, "{bad}: a rollout has more writes than {writes}");
    }
}

/// The edit arrives after the host took the keys from the candidate, and before it wrote the rollback.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_during_a_rollback_is_applied() {
    let store = FaultyStore::over(memory_store());
    let world = World::over(store.clone(), 0).await;
    world.put(version(config("two", "trap", 1), watched(json!({})))).await;
    world.until_rollout("/share", json!("30%")).await;
    // The rollback takes effect, but writing it hangs.
    store.fault(On::Write, "ControllerRevision", Fault::Wait);
    for number in 0..20 {
        world.test.apply(demo("Versioned", &format!("k{number}"), json!({}))).await;
    }
    let went_back = async || (world.test.host.measure().controllers[0].rollouts.iter().sum::<u64>() > 0).then_some(());
    eventually("the rollback", went_back).await;
    let change = Change::Merge(json!({ "spec": { "config": { "version": "three", "bad": null } } }));
    let (key, precondition) = (of_host("Controller", NAME), Precondition::default());
    world.test.host.write(Write::Patch { key, change, precondition }.into()).await.unwrap();
    store.heal(On::Write, "ControllerRevision");
    world.until_rollout("/to", json!(3)).await;
    world.until_rollout("/phase", json!("canary")).await;
}

/// Returns three components that do the same: `a`, `b`, and `c`, which waits while `is_held`.
struct VersionSet {
    is_held: tokio::sync::watch::Sender<bool>,
}

fn several(name: &str) -> Vec<u8> {
    renamed(&std::fs::read(guest("guest-versioned")).unwrap(), name)
}

#[async_trait]
impl CodeSource for VersionSet {
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String> {
        let wanted = source.digest.as_deref().unwrap_or_default();
        let found = ["a", "b", "c"].into_iter().find(|name| Digest::of(&several(name)).as_str() == wanted);
        if found == Some("c") {
            self.is_held.subscribe().wait_for(|is_held| !is_held).await.map_err(|error| error.to_string())?;
        }
        found.map(several).ok_or_else(|| format!("no code {wanted}"))
    }

    async fn sweep(&self, _: &BTreeSet<Digest>) {}
}

fn one_of_several(name: &str, rollout: Value) -> Value {
    let mut document = version(json!({ "version": name }), rollout);
    document["spec"]["component"]["digest"] = json!(Digest::of(&several(name)).as_str());
    document
}

/// The status drops the old rollout before the code of the new version is loaded. Each component has its own
/// generation.
#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_candidate_leaves_the_status_before_its_replacement_is_loaded() {
    let code = Arc::new(VersionSet { is_held: tokio::sync::watch::Sender::new(true) });
    let test = TestHost::over(memory_store()).await;
    test.host.run_controllers(code.clone()).await.unwrap();
    let world = World { test };
    world.begin(one_of_several("a", json!({})), 20).await;
    world.put(one_of_several("b", watched(json!({})))).await;
    world.until_rollout("/share", json!("30%")).await;
    world.test.host.apply_resource(one_of_several("c", quick()), "me", true).await.unwrap();
    let status = eventually("what is tried to be replaced", async || {
        let status = world.status().await;
        (condition(&status, "Progressing")["reason"] == "Replaced").then_some(status)
    })
    .await;
    assert_eq!((&status["rollout"], &status["revision"]), (&Value::Null, &json!(1)), "{status}");
    let ends = || world.test.host.measure().controllers[0].rollouts;
    assert_eq!(ends(), [0, 0, 1], "one was replaced");
    code.is_held.send_replace(false);
    let status = world.until_rollout("/phase", json!("complete")).await;
    assert_eq!((&status["rollout"]["to"], &status["generation"]), (&json!(3), &json!(3)), "{status}");
    eventually("the other one to count as promoted", async || (ends() == [1, 0, 1]).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_beside_the_resource_ends_the_canary_and_is_reported_as_a_swap() {
    let world = World::start(20).await;
    world.put(version(json!({ "version": "two" }), watched(json!({})))).await;
    world.until_rollout("/share", json!("30%")).await;
    let component = world.test.host.load(several("b")).await.unwrap();
    world.test.host.swap(NAME, component).await.unwrap();
    let ended = eventually("the event", async || world.events("CanaryEnded").pop()).await;
    assert!(ended.contains("another component was installed") && !ended.contains("has all keys"), "{ended}");
}

/// Returns the component, and resolves a tag only once.
#[derive(Default)]
struct OneTimeTag(AtomicUsize);

#[async_trait]
impl CodeSource for OneTimeTag {
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String> {
        if source.digest.is_none() && self.0.fetch_add(1, Ordering::SeqCst) > 0 {
            return Err("the registry does not answer".to_owned());
        }
        Ok(std::fs::read(guest("guest-versioned")).unwrap())
    }

    async fn sweep(&self, _: &BTreeSet<Digest>) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_is_resolved_once_for_a_canary_despite_pauses() {
    let test = TestHost::over(memory_store()).await;
    test.host.run_controllers(Arc::new(OneTimeTag::default())).await.unwrap();
    let world = World { test };
    world.begin(version(json!({ "version": "one" }), json!({})), 10).await;
    let mut tagged = version(json!({ "version": "two" }), watched(json!({})));
    tagged["spec"]["component"] = json!({ "oci": "registry.example/versioned:1" });
    world.put(tagged).await;
    world.until_rollout("/share", json!("30%")).await;
    world.patch(json!({ "spec": { "paused": true } })).await;
    world.patch(json!({ "spec": { "paused": null } })).await;
    let status = world.until_rollout("/share", json!("30%")).await;
    assert_eq!(condition(&status, "Progressing")["reason"], "Canary", "{status}");
    assert_eq!(world.events("CanaryEnded"), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_versions_leave_no_more_revisions_than_the_history_limit() {
    let world = World::start(4).await;
    for number in 2..8 {
        let mut bad = version(config(&number.to_string(), "trap", 1), watched(json!({})));
        bad["spec"]["revisionHistoryLimit"] = json!(1);
        bad["spec"]["rollout"]["selector"] = json!({ "matchLabels": { "tier": "first" } });
        world.put(bad).await;
        world.until_rollout("/to", json!(number)).await;
        world.until_rollout("/phase", json!("rolledBack")).await;
    }
    let revisions = world.test.host.store().list(&Query::all(of_host("ControllerRevision", "").kind().clone())).await;
    let names: BTreeSet<_> = revisions.unwrap().items.iter().map(|item| item.key().name().to_owned()).collect();
    assert!(names.contains("versioned-1") && names.contains("versioned-7"), "{names:?}");
    assert!(names.len() <= 3, "the stable one, the rolled back one and one more: {names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relaxed_gate_takes_effect_at_once() {
    let world = World::start(0).await;
    world.put(version(config("two", "trap", 1), watched(json!({})))).await;
    world.until_rollout("/share", json!("30%")).await;
    world.patch(json!({ "spec": { "rollout": { "gate": { "traps": 1_000_000, "writes": "1000x" } } } })).await;
    for number in 0..20 {
        world.test.apply(demo("Versioned", &format!("k{number}"), json!({}))).await;
    }
    let tried = async || (world.seen().await.iter().all(|(_, by)| !by.is_empty())).then_some(());
    eventually("all keys to be reconciled", tried).await;
    assert!(world.touched("two").await.len() > 1);
    let status = world.status().await;
    assert_eq!(status["rollout"]["phase"], "canary", "{status}");
}

/// The reconcile that breaks the gate is the last one that the candidate begins, however long the host takes
/// to write the rollback.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_candidate_gets_no_key_even_before_its_rollback_is_written() {
    let store = FaultyStore::over(memory_store());
    let world = World::over(store.clone(), 0).await;
    world.put(version(config("two", "trap", 1), watched(json!({})))).await;
    world.until_rollout("/share", json!("30%")).await;
    store.fault(On::Get, "Controller", Fault::Wait);
    for number in 0..KEYS {
        world.test.apply(demo("Versioned", &format!("k{number}"), json!({}))).await;
    }
    let settled = |by: &[String]| by.last().is_some_and(|last| last == "one");
    let all = async || world.seen().await.iter().all(|(_, by)| settled(by)).then_some(());
    eventually("all keys to be reconciled by the old version", all).await;
    let touched = world.touched("two").await.len();
    assert!((1..=2).contains(&touched), "no more keys than can run at once: {touched}");
    store.heal(On::Get, "Controller");
    world.until_rollout("/phase", json!("rolledBack")).await;
}

/// Returns a guest with a start hook, as two components.
struct LifecycleCode;

fn lives(number: u8) -> Vec<u8> {
    renamed(&std::fs::read(guest("guest-lifecycle")).unwrap(), &number.to_string())
}

#[async_trait]
impl CodeSource for LifecycleCode {
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String> {
        let found = (1..=2).map(lives).find(|bytes| Some(Digest::of(bytes).as_str()) == source.digest.as_deref());
        found.ok_or_else(|| "no such code".to_owned())
    }

    async fn sweep(&self, _: &BTreeSet<Digest>) {}
}

/// The stable version keeps running, whether the candidate starts as a canary or as a shadow.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_start_hook_stops_the_rollout_before_the_candidate_has_a_key() {
    let shadow = json!({ "strategy": "shadow", "shadow": { "for": "100ms", "reconciles": 1, "differences": "any" } });
    for rollout in [json!({ "strategy": "canary" }), shadow] {
        let test = TestHost::over(memory_store()).await;
        test.host.run_controllers(Arc::new(LifecycleCode)).await.unwrap();
        let world = World { test };
        let digest = |number| Digest::of(&lives(number)).to_string();
        let wanted = |number, rollout: &Value| {
            let mut document = version(json!({}), rollout.clone());
            document["spec"]["component"]["digest"] = json!(digest(number));
            document
        };
        world.put(wanted(1, &json!({}))).await;
        eventually("the controller to be ready", async || world.test.host.ready(NAME).await.ok()).await;
        world.test.apply(demo("Phase", "start", json!({ "failures": 1_000_000 }))).await;
        world.put(wanted(2, &rollout)).await;
        let (reason, at) =
            if rollout["strategy"] == "canary" { ("Refused", "Loaded") } else { ("RolledBack", "Degraded") };
        let status = eventually("the rollout to be stopped", async || {
            let status = world.status().await;
            (condition(&status, at)["reason"] == reason).then_some(status)
        })
        .await;
        assert!(condition(&status, at)["message"].as_str().unwrap().contains("that fail"), "{status}");
        assert_eq!((&status["revision"], &status["digest"]), (&json!(1), &json!(digest(1))), "{status}");
        assert_eq!((world.events("Canary").len(), world.events("Promoted").len()), (0, 0));
        world.test.apply(demo("Phase", "another", json!({}))).await;
        world.test.until(&demo_key("Phase", "another"), "is reconciled", |it| it["status"]["starts"].is_u64()).await;
        assert_eq!(world.test.status(NAME).answered.unwrap().digest, digest(1));
    }
}

/// Few keys are split evenly, by a salt in the status. Neither new keys nor a restart changes the split.
#[tokio::test(flavor = "multi_thread")]
async fn ten_keys_are_split_evenly_and_keep_their_version_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let keys = 10;
    let world = World::over(opened(&file).await, keys).await;
    let mut rollout = watched(json!({}));
    rollout["share"] = json!("50%");
    world.put(version(json!({ "version": "two" }), rollout)).await;
    let before = world.until_rollout("/share", json!("50%")).await;
    world.test.idle(NAME).await;
    let share = world.touched("two").await;
    assert!((4..=6).contains(&share.len()), "{share:?}");
    assert!(before["rollout"]["salt"].is_u64(), "{before}");
    for number in keys..3 * keys {
        world.test.apply(demo("Versioned", &format!("k{number}"), json!({}))).await;
    }
    world.test.idle(NAME).await;
    world.end().await;

    let world = World::again(opened(&file).await).await;
    let after = world.until_rollout("/share", json!("50%")).await;
    assert_eq!(after["rollout"]["salt"], before["rollout"]["salt"]);
    world.change_all(keys, "yes").await;
    world.test.idle(NAME).await;
    let (_, later): (BTreeSet<String>, BTreeSet<String>) =
        world.touched("two").await.into_iter().partition(|name| name.len() > 2);
    assert_eq!(later, share, "each key keeps its version");
    assert!(world.seen().await.iter().all(|(_, by)| by.len() < 3), "no key changed its version in between");
    world.end().await;
}
