//! Candidates that find their keys differently: each version has its own watches, `map` and `poll`.

use homeostat_fixtures::memory_store;

use super::*;

/// Returns the two components of one kind: `mapped` watches sources and `remapped` origins, under the same
/// watch name.
struct MappedCode;

fn code(name: &str) -> Vec<u8> {
    std::fs::read(guest(name)).unwrap()
}

fn digest_of(name: &str) -> String {
    Digest::of(&code(name)).to_string()
}

#[async_trait]
impl CodeSource for MappedCode {
    async fn fetch(&self, source: &ComponentSource) -> Result<Vec<u8>, String> {
        let wanted = source.digest.clone().unwrap_or_default();
        let found = ["guest-mapped", "guest-remapped"].into_iter().find(|name| digest_of(name) == wanted);
        found.map(code).ok_or(wanted)
    }

    async fn sweep(&self, _: &BTreeSet<Digest>) {}
}

const MAPPED: u64 = 12;

fn names() -> Vec<String> {
    (0..MAPPED).map(|number| format!("m{number}")).collect()
}

/// Returns the version that watches origins, and polls these names.
fn remapped(items: &str, rollout: Value) -> Value {
    let mut document = version(json!({ "items": items }), rollout);
    document["spec"]["component"]["digest"] = json!(digest_of("guest-remapped"));
    document
}

/// A canary that only a trap, a limit or a failure rolls back.
fn lenient(lasts: &str) -> Value {
    let gate = json!({ "for": lasts, "reconciles": 1, "writes": "1000x", "hotLoops": "1000x", "duration": "1000x" });
    json!({ "strategy": "canary", "share": "50%", "gate": gate })
}

impl World {
    /// Starts a host with a controller that watches sources, and with a source that names every key.
    async fn mapped() -> Self {
        let test = TestHost::over(memory_store()).await;
        test.host.run_controllers(Arc::new(MappedCode)).await.unwrap();
        let world = Self { test };
        let mut first = version(json!({}), json!({}));
        first["spec"]["component"]["digest"] = json!(digest_of("guest-mapped"));
        world.put(first).await;
        eventually("the controller to be ready", async || world.test.host.ready(NAME).await.ok()).await;
        for name in names() {
            world.test.apply(demo("Mapped", &name, json!({}))).await;
        }
        world.test.apply(demo("Source", "s", json!({ "through": names().join(" ") }))).await;
        world.until_sources("be told of the source", |_, sources| sources == ["s"]).await;
        world
    }

    /// Changes every key once.
    async fn change_mapped(&self) {
        for name in names() {
            let mut document = demo("Mapped", &name, json!({}));
            document["metadata"]["annotations"] = json!({ "changed": "yes" });
            self.test.apply(document).await;
            self.test.idle(NAME).await;
        }
    }

    /// Returns for each key, by name, the sources and origins that its status lists.
    async fn sources(&self) -> Vec<(String, Vec<String>)> {
        let kind = demo_key("Mapped", "").kind().clone();
        let page = self.test.host.store().list(&Query::all(kind)).await.unwrap();
        let of = |status: &Value| serde_json::from_value(status["sources"].clone()).unwrap_or_default();
        page.items.iter().map(|item| (item.key().name().to_owned(), of(item.status()))).collect()
    }

    async fn until_sources(&self, what: &str, wanted: impl Fn(&str, &[String]) -> bool) {
        eventually(&format!("all keys to {what}"), async || {
            self.sources().await.iter().all(|(name, sources)| wanted(name, sources)).then_some(())
        })
        .await;
    }

    /// Waits until the candidate has some keys, and returns them.
    async fn taken_by_candidate(&self) -> BTreeSet<String> {
        self.until_rollout("/share", json!("50%")).await;
        self.test.idle(NAME).await;
        let mut taken = BTreeSet::new();
        for name in names() {
            // Only the candidate counts its reconciles in a tally.
            taken.extend(self.test.get(&demo_key("Tally", &name)).await.map(|_| name));
        }
        assert!(!taken.is_empty() && taken.len() < names().len(), "{taken:?}");
        taken
    }
}

/// Watches of the same name differ when their kinds differ. The host asks each version about its own.
#[tokio::test(flavor = "multi_thread")]
async fn each_version_of_a_canary_maps_its_own_watches_even_of_the_same_name() {
    for ends in ["promoted", "undone"] {
        let world = World::mapped().await;
        world.put(remapped("", lenient("1h"))).await;
        let taken = world.taken_by_candidate().await;
        world.test.apply(demo("Origin", "o", json!({ "names": names() }))).await;
        world.test.apply(demo("Source", "t", json!({ "through": names().join(" ") }))).await;
        let by_side = |name: &str, sources: &[String]| match taken.contains(name) {
            true => sources == ["origin/o"],
            false => sources == ["s", "t"],
        };
        world.until_sources("be told by the watches of their version", by_side).await;
        if ends == "promoted" {
            world.patch(json!({ "spec": { "rollout": { "gate": { "for": "100ms" } } } })).await;
            world.until_rollout("/phase", json!("complete")).await;
            world.test.apply(demo("Origin", "p", json!({ "names": names() }))).await;
            world.until_sources("be told of both origins", |_, sources| sources == ["origin/o", "origin/p"]).await;
        } else {
            world.test.host.undo(NAME, None).await.unwrap();
            world.test.apply(demo("Origin", "p", json!({ "names": names() }))).await;
            world.test.apply(demo("Source", "u", json!({ "through": names().join(" ") }))).await;
            world.until_sources("be told of the sources", |_, sources| sources == ["s", "t", "u"]).await;
        }
        assert_eq!(world.events("MapFailed"), [""; 0], "{ends}");
    }
}

/// The keys that a candidate's poll returns join those of the stable version. Each key runs on its own
/// version.
#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_polls_for_itself() {
    let world = World::mapped().await;
    world.put(remapped(&names().join(" "), lenient("1h"))).await;
    world.until_rollout("/share", json!("50%")).await;
    let often = |document: &Value| document["spec"]["count"].as_u64() > Some(5);
    eventually("some to be looked at again and again", async || {
        let kind = demo_key("Tally", "").kind().clone();
        let page = world.test.host.store().list(&Query::all(kind)).await.unwrap();
        page.items.iter().any(|item| often(item.document())).then_some(())
    })
    .await;
    world.patch(json!({ "spec": { "rollout": { "gate": { "for": "100ms" } } } })).await;
    world.until_rollout("/phase", json!("complete")).await;
    for name in names() {
        world.test.until(&demo_key("Tally", &name), "is polled", often).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_whose_map_or_poll_traps_is_rolled_back() {
    let world = World::mapped().await;
    for (items, event) in [("trap", "PollFailed"), ("", "MapFailed")] {
        if event == "MapFailed" {
            world.test.apply(demo("Origin", "o", json!({ "names": ["trap"] }))).await;
        }
        world.put(remapped(items, lenient("1h"))).await;
        // Until this candidate traps, the status may still describe the previous one.
        eventually(event, async || (!world.events(event).is_empty()).then_some(())).await;
        let status = world.until_rollout("/phase", json!("rolledBack")).await;
        let reason = status["rollout"]["reason"].as_str().unwrap();
        assert!(reason.contains("of its calls trapped"), "{reason}");
        world.until_sources("be told of the source", |_, sources| sources == ["s"]).await;
    }
}

/// A `map` or `poll` of a shadow could have effects, and no effect of a shadow may be applied.
#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_has_no_map_or_poll_called_before_it_is_a_candidate() {
    let world = World::mapped().await;
    let mut rollout = lenient("1h");
    rollout["shadow"] = json!({ "for": "1h", "reconciles": 1, "differences": "any" });
    world.put(remapped("trap", rollout)).await;
    world.until_rollout("/phase", json!("shadow")).await;
    world.test.apply(demo("Origin", "o", json!({ "names": ["trap"] }))).await;
    world.change_mapped().await;
    let compared = async || world.test.host.shadow_report(NAME).unwrap().filter(|report| report.compared >= 3);
    eventually("three comparisons", compared).await;
    assert_eq!((world.events("PollFailed"), world.events("MapFailed")), (Vec::new(), Vec::new()));
    world.patch(json!({ "spec": { "rollout": { "shadow": { "for": "100ms" } } } })).await;
    let status = world.until_rollout("/phase", json!("rolledBack")).await;
    assert!(status["rollout"]["reason"].as_str().unwrap().contains("of its calls trapped"), "{status}");
    assert_ne!(status["rollout"]["shadow"], Value::Null, "the version was a shadow before");
}
