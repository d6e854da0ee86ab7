use homeostat_fixtures::{FaultyStore, memory_store};
use homeostat_fleet::Times;
use homeostat_store::Scope;
use homeostat_testing::eventually;
use tokio::time::{self, Instant};

use super::*;
use crate::PlacementSpec;
use crate::fleet::tests::{Shared, TestHost};

/// A host whose own store has the resources.
struct MirroredFleet {
    host: TestHost,
    home: Arc<FaultyStore>,
    end: CancellationToken,
}

fn start(fleet: &Arc<Fleet>, home: &Arc<FaultyStore>) -> CancellationToken {
    let end = CancellationToken::new();
    tokio::spawn(run(Arc::clone(fleet), Arc::clone(home) as Arc<dyn Store>, end.clone()));
    end
}

fn mirrored(shared: &Shared, name: &str) -> MirroredFleet {
    let (host, home) = (shared.host(name, PlacementSpec::Singleton), FaultyStore::over(memory_store()));
    let end = start(&host.fleet, &home);
    MirroredFleet { host, home, end }
}

impl MirroredFleet {
    /// Ends as if the process was killed.
    fn kill(&self) {
        self.host.fleet.end.cancel();
        self.end.cancel();
    }
}

async fn writes(home: &FaultyStore) -> u64 {
    home.revision(&Scope::Everything).await.unwrap().0
}

/// Returns the state of each host, and the reason of its condition, by name.
async fn shown(home: &FaultyStore) -> Vec<(String, String, String)> {
    let mut rows = Vec::new();
    for_each_listed(home, &hosts(), |resource| {
        let status = resource.status();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = resource.key().name().to_owned();
        rows.push((name, text(&status["state"]), text(&status["conditions"][0]["reason"])));
    })
    .await
    .unwrap();
    rows
}

async fn shows(home: &FaultyStore, expected: &[(&str, &str, &str)]) {
    eventually(&format!("{expected:?}"), async || {
        let shown = shown(home).await;
        let is_equal = |((name, state, reason), expected): (&(String, String, String), &(&str, &str, &str))| {
            (&**name, &**state, &**reason) == *expected
        };
        (shown.len() == expected.len() && shown.iter().zip(expected).all(is_equal)).then_some(())
    })
    .await;
}

const ACTIVE: [(&str, &str, &str); 3] =
    [("a", "Active", "Active"), ("b", "Active", "Active"), ("c", "Active", "Active")];

#[tokio::test(start_paused = true)]
async fn a_host_without_a_fleet_shows_itself_and_writes_nothing_while_idle() {
    let (fleet, home) = (Shared::new().fleet("a"), FaultyStore::over(memory_store()));
    let _end = start(&fleet, &home).drop_guard();
    shows(&home, &ACTIVE[..1]).await;
    let status = home.get(&key("a")).await.unwrap().status().clone();
    assert_eq!(
        (&status["isThis"], &status["leaseCount"], &status["heartbeat"]),
        (&json!(true), &json!(0), &Value::Null)
    );
    let before = writes(&home).await;
    time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(writes(&home).await, before);
    fleet.set_drains(true);
    shows(&home, &[("a", "Draining", "Draining")]).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_minute_of_a_fleet_costs_one_write_for_each_host() {
    let shared = Shared::new();
    let members = ["a", "b", "c"].map(|name| mirrored(&shared, name));
    for member in &members {
        shows(&member.home, &ACTIVE).await;
    }
    time::sleep(Duration::from_secs(60)).await;
    let before = writes(&members[0].home).await;
    time::sleep(Duration::from_secs(600)).await;
    let written = writes(&members[0].home).await - before;
    assert!((27..=30).contains(&written), "{written} writes in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_shown_with_its_lease_and_term_on_every_host() {
    let shared = Shared::new();
    let members = ["a", "b"].map(|name| mirrored(&shared, name));
    members[0].host.holds().await;
    for member in &members {
        let leases = eventually("the lease", async || {
            let status = member.home.get(&key("a")).await.ok()?.status().clone();
            status["leases"].as_array().filter(|leases| !leases.is_empty()).cloned()
        })
        .await;
        let epoch = members[0].host.placement.status()[0].epoch;
        assert_eq!((&leases[0]["name"], &leases[0]["epoch"]), (&json!("web"), &json!(epoch)), "{leases:?}");
        assert!(leases[0]["since"].is_string(), "{leases:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_host_is_gone_within_its_lease_and_deleted_after_an_hour() {
    let shared = Shared::new();
    let members = ["a", "b", "c"].map(|name| mirrored(&shared, name));
    shows(&members[0].home, &ACTIVE).await;
    members[1].kill();
    let killed = Instant::now();
    shows(&members[0].home, &[ACTIVE[0], ("b", "Gone", "LeaseExpired"), ACTIVE[2]]).await;
    let Times { length, retry_period, .. } = Times::default();
    assert!(killed.elapsed() <= length + 2 * retry_period + LOOK_DELAY, "{:?}", killed.elapsed());
    time::sleep(Duration::from_secs(59 * 60)).await;
    shows(&members[0].home, &[ACTIVE[0], ("b", "Gone", "LeaseExpired"), ACTIVE[2]]).await;
    time::sleep(Duration::from_secs(60)).await;
    shows(&members[0].home, &[ACTIVE[0], ACTIVE[2]]).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_leaves_is_gone_within_seconds() {
    let shared = Shared::new();
    let members = ["a", "b", "c"].map(|name| mirrored(&shared, name));
    shows(&members[0].home, &ACTIVE).await;
    let before = Instant::now();
    members[2].host.placement.leave().await;
    members[2].host.fleet.leave().await;
    shows(&members[0].home, &[ACTIVE[0], ACTIVE[1], ("c", "Gone", "LeaseReleased")]).await;
    assert!(before.elapsed() < Times::default().length / 2, "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_restarted_host_goes_on_with_the_stored_resources() {
    let shared = Shared::new();
    let (a, b) = (mirrored(&shared, "a"), mirrored(&shared, "b"));
    shows(&a.home, &ACTIVE[..2]).await;
    let uid = a.home.get(&key("b")).await.unwrap().uid().to_owned();
    a.kill();
    b.kill();
    time::sleep(Duration::from_secs(60)).await;
    let again = shared.host("a", PlacementSpec::Singleton);
    let _end = start(&again.fleet, &a.home).drop_guard();
    shows(&a.home, &[ACTIVE[0], ("b", "Gone", "LeaseExpired")]).await;
    let status = a.home.get(&key("a")).await.unwrap().status().clone();
    assert_eq!(status["identity"], again.fleet.identity.as_str());
    assert_eq!(a.home.get(&key("b")).await.unwrap().uid(), uid);
}

#[tokio::test(start_paused = true)]
async fn the_resources_follow_when_their_store_is_back() {
    let shared = Shared::new();
    let (a, b) = (mirrored(&shared, "a"), mirrored(&shared, "b"));
    shows(&a.home, &ACTIVE[..2]).await;
    a.home.leave("the disk is away");
    b.kill();
    time::sleep(Duration::from_secs(120)).await;
    a.home.come_back();
    shows(&a.home, &[ACTIVE[0], ("b", "Gone", "LeaseExpired")]).await;
}
