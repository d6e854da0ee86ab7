use std::sync::atomic::{AtomicU32, Ordering};

use homeostat_component::{Disclosure, Grants};
use homeostat_fixtures::{Fault, FaultyStore, On, demo_key, demo_kind, memory_store};
use homeostat_store::{Key, Kind, Resource, Store, Write};
use homeostat_testing::soon;
use homeostat_workqueue::{Options, Priority, Queue};
use serde_json::json;

use super::*;
use crate::mapping::ManagedKind;
use crate::shared_watches::SharedWatches;
use crate::slot::Audience;

mod audience;

/// The managed kind of these tests.
pub(crate) fn managed() -> Kind {
    demo_kind("App")
}

/// The same kind with its scope.
pub(super) fn scoped() -> ManagedKind {
    ManagedKind { kind: managed(), namespaced: true }
}

pub(super) fn key(name: &str) -> Key {
    demo_key("App", name)
}

/// A resource that is a part of the managed ones.
pub(super) fn part(name: &str) -> Key {
    demo_key("Part", name)
}

/// Writes a resource of `demo.homeostat.dev/v1`.
pub(crate) async fn apply(store: &dyn Store, kind: &str, name: &str, labels: serde_json::Value) -> Arc<Resource> {
    let metadata = json!({"name": name, "namespace": "default", "labels": labels});
    let document = json!({"apiVersion": "demo.homeostat.dev/v1", "kind": kind, "metadata": metadata, "spec": {}});
    store.write(Write::Apply { document, manager: "test".into(), force: true }).await.unwrap().resource
}

/// The id of the feeder of these tests.
pub(super) fn ticket() -> FeederId {
    FeederId { feeder: "feeder".into(), round: 1 }
}

/// A queue and the intake of one feeder to it.
pub(super) fn intake(gate: &SyncBarrier) -> (Queue<Key>, Intake) {
    intake_of(gate, None)
}

/// A queue with at most this many keys, and the intake of one feeder to it.
pub(super) fn intake_of(gate: &SyncBarrier, keys_max: Option<u32>) -> (Queue<Key>, Intake) {
    let queue = Queue::new(Options { keys_max, ..Options::default() });
    let deletions = Arc::new(SuspendFilter::of(queue.clone()));
    (queue, Intake::new(deletions, Arc::new(everything()), scoped(), gate.clone(), ticket()))
}

/// One version, with these grants.
impl Audience for Grants {
    fn may_get(&self, key: &Key) -> bool {
        self.discloses(key, Disclosure::Key)
    }

    fn may_learn(&self, key: &Key, of: &Key, reveals: Disclosure) -> bool {
        self.may_get(key) && self.discloses(of, reveals)
    }
}

pub(super) fn everything() -> Grants {
    grants(json!([{"kinds": ["*"], "verbs": ["*"]}]))
}

pub(super) fn grants(resources: serde_json::Value) -> Grants {
    serde_json::from_value(json!({ "resources": resources })).unwrap()
}

/// Takes the next key off the queue, and finishes it.
pub(super) async fn next(queue: &Queue<Key>) -> Key {
    let claim = soon(queue.claim()).await.expect("the queue is open");
    let key = claim.key().clone();
    claim.finish(homeostat_workqueue::Next::Done);
    key
}

#[test]
fn the_wait_before_a_restart_doubles_and_is_capped() {
    let waits: Vec<u128> = [1, 2, 3, 8, 9, 1001].map(|failures| RESTART.delay(failures, 0).as_millis()).to_vec();
    assert_eq!(waits, [200, 400, 800, 25_600, 30_000, 30_000]);
}

#[tokio::test(start_paused = true)]
async fn an_intake_accepts_keys_of_its_kind_only() {
    let (queue, intake) = intake(&SyncBarrier::new());
    assert_eq!(intake.add(key("a"), Priority::NORMAL), Ok(()));
    let other = demo_key("Other", "a");
    assert_eq!(intake.add(other, Priority::NORMAL), Err(IntakeError::OtherKind));
    assert_eq!(queue.len(), 1);
    queue.stop();
    assert_eq!(intake.add(key("b"), Priority::NORMAL), Err(IntakeError::Closed));
}

/// W3: no managed resource has such a key. A guest that found nothing under it would clean up.
#[tokio::test(start_paused = true)]
async fn an_intake_refuses_keys_of_another_scope() {
    let (queue, in_namespaces) = intake(&SyncBarrier::new());
    let outside = ManagedKind { namespaced: false, ..scoped() };
    let deletions = Arc::new(SuspendFilter::of(queue.clone()));
    let outside = Intake::new(deletions, Arc::new(everything()), outside, SyncBarrier::new(), ticket());
    let without = Key::new(managed(), "", "a");
    assert_eq!(in_namespaces.add(without.clone(), Priority::NORMAL), Err(IntakeError::OtherKind));
    assert_eq!(outside.add(key("a"), Priority::NORMAL), Err(IntakeError::OtherKind));
    assert!(queue.is_empty());
    assert_eq!(outside.add(without.clone(), Priority::NORMAL), Ok(()));
    assert_eq!(next(&queue).await, without);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_version_is_the_same_key() {
    let (queue, intake) = intake(&SyncBarrier::new());
    for version in ["v1", "v1beta1"] {
        let key = Key::new(Kind::new("demo.homeostat.dev", version, "App"), "default", "a");
        assert_eq!(intake.add(key, Priority::NORMAL), Ok(()));
    }
    assert_eq!((queue.len(), next(&queue).await), (1, key("a")));
}

#[tokio::test(start_paused = true)]
async fn a_feeder_is_refused_by_a_full_queue_and_woken_when_there_is_room() {
    let gate = SyncBarrier::new();
    let (queue, intake) = intake_of(&gate, Some(2));
    assert_eq!([key("a"), key("b")].map(|key| intake.add(key, Priority::NORMAL)), [Ok(()); 2]);
    assert_eq!(intake.add(key("c"), Priority::NORMAL), Err(IntakeError::Full));
    intake.report_full();
    assert!(gate.failing()[0].contains("limit keys"), "{:?}", gate.failing());
    let waiting = tokio::spawn({
        let intake = intake.clone();
        async move { intake.wait_for_room().await }
    });
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!waiting.is_finished());
    next(&queue).await;
    soon(waiting).await.unwrap();
    assert_eq!((intake.add(key("c"), Priority::NORMAL), gate.failing().len()), (Ok(()), 0));
}

/// W1: no key is reconciled before every watch has listed once.
#[tokio::test(start_paused = true)]
async fn workers_start_when_the_last_feeder_has_listed() {
    let gate = SyncBarrier::new();
    let tickets = ["a", "b"].map(|feeder| FeederId { feeder: feeder.into(), round: 1 });
    tickets.iter().for_each(|ticket| gate.register(ticket.clone()));
    let opened = tokio::spawn({
        let gate = gate.clone();
        async move { gate.wait_for_sync().await }
    });
    gate.mark_synced(&tickets[0]);
    gate.mark_synced(&tickets[0]);
    tokio::task::yield_now().await;
    assert!(!opened.is_finished());
    assert_eq!(gate.unsynced(), ["b".into()]);
    gate.mark_synced(&tickets[1]);
    soon(opened).await.unwrap();
}

/// Fails this often, panics once, and then ends.
struct Shaky(AtomicU32);

impl Feeder for Shaky {
    fn name(&self) -> &str {
        "shaky"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(FeederError("on purpose".into())),
            1 => panic!("on purpose"),
            _ => {
                intake.add(key("a"), Priority::NORMAL).unwrap();
                Ok(())
            }
        }
    }
}

/// W13: a feeder that ends is restarted with backoff, and its error is visible.
#[tokio::test(start_paused = true)]
async fn a_feeder_that_fails_or_panics_is_restarted_after_a_delay() {
    let (queue, intake) = intake(&SyncBarrier::new());
    let context = crate::context::tests::context(memory_store());
    let began = Instant::now();
    let feeder = Arc::new(Shaky(AtomicU32::new(0)));
    supervise(feeder.clone(), intake, "web".into(), context.clone(), CancellationToken::new()).await;
    assert_eq!((feeder.0.load(Ordering::SeqCst), queue.len()), (3, 1));
    assert_eq!(began.elapsed().as_millis() / 100, 6, "200 ms and 400 ms");
    let told = context.events.list(&crate::events::EventFilter::default());
    let told: Vec<&str> = told.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(told, ["shaky failed: on purpose", "shaky failed: it panicked"]);
}

/// W6, W13: while a feeder has not listed, the status says why.
#[tokio::test(start_paused = true)]
async fn a_feeder_that_fails_before_its_list_reports_it_until_it_has_listed() {
    let gate = SyncBarrier::new();
    gate.register(ticket());
    let (_, intake) = intake(&gate);
    let store = FaultyStore::over(memory_store());
    store.fault(On::List, "App", Fault::Fail);
    let context = crate::context::tests::context(memory_store());
    let watches = SharedWatches::of(store.clone());
    let changes = homeostat_component::Changes::All;
    let feeder =
        Arc::new(WatchFeeder::new("apps", watches, managed(), scoped(), KeyMapper::Identity, changes, everything()));
    tokio::spawn(supervise(feeder, intake, "web".into(), context, CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(gate.unsynced(), ["feeder (which failed: the store is unavailable: on purpose)".into()]);
    store.heal(On::List, "App");
    soon(gate.wait_for_sync()).await;
    assert!(gate.unsynced().is_empty());
}

/// W6, W13: a feeder that has listed once and fails is reported until it recovers.
#[tokio::test(start_paused = true)]
async fn a_feeder_that_fails_after_its_list_reports_it_until_it_recovers() {
    let gate = SyncBarrier::new();
    gate.register(ticket());
    let (_, intake) = intake(&gate);
    let store = FaultyStore::over(memory_store());
    let context = crate::context::tests::context(self::memory_store());
    let changes = homeostat_component::Changes::All;
    let feeder = WatchFeeder::new(
        "apps",
        SharedWatches::of(store.clone()),
        managed(),
        scoped(),
        KeyMapper::Identity,
        changes,
        everything(),
    );
    let stop = CancellationToken::new();
    let supervised = tokio::spawn(supervise(Arc::new(feeder), intake, "web".into(), context, stop.clone()));
    soon(gate.wait_for_sync()).await;
    let failed = ["feeder failed: the store is unavailable: on purpose"];
    for ends in [false, true] {
        assert!(gate.failing().is_empty());
        store.fault(On::Next, "App", Fault::Fail);
        store.fault(On::List, "App", Fault::Fail);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!((gate.failing(), gate.has_synced()), (failed.map(str::to_owned).to_vec(), true));
        if ends {
            stop.cancel();
        }
        store.heal(On::Next, "App");
        store.heal(On::List, "App");
        tokio::time::sleep(RESTART.max).await;
    }
    soon(supervised).await.unwrap();
    assert!(gate.failing().is_empty(), "one that is gone fails no more");
}

/// W13: a feeder that never lists counts as healthy when it has run for a while.
#[tokio::test(start_paused = true)]
async fn a_feeder_without_a_list_has_recovered_after_running_for_a_while() {
    let gate = SyncBarrier::new();
    let (_, intake) = intake(&gate);
    let context = crate::context::tests::context(memory_store());
    tokio::spawn(supervise(Sick::new(true), intake, "web".into(), context, CancellationToken::new()));
    tokio::time::sleep(WELL_AFTER).await;
    assert_eq!(gate.failing(), ["feeder failed: on purpose"]);
    tokio::time::sleep(WELL_AFTER).await;
    assert!(gate.failing().is_empty());
}

/// Fails in every round, or only in the first, and records when each started.
struct Sick {
    rounds: parking_lot::Mutex<Vec<Duration>>,
    born: Instant,
    heals: bool,
}

impl Sick {
    fn new(heals: bool) -> Arc<Self> {
        Arc::new(Self { rounds: parking_lot::Mutex::default(), born: Instant::now(), heals })
    }
}

impl Feeder for Sick {
    fn name(&self) -> &str {
        "sick"
    }

    async fn run(&self, _: &Intake) -> Result<(), FeederError> {
        let rounds = {
            let mut rounds = self.rounds.lock();
            rounds.push(self.born.elapsed());
            rounds.len()
        };
        if self.heals && rounds > 1 {
            std::future::pending::<()>().await;
        }
        Err(FeederError("on purpose".into()))
    }
}

/// W8: each feeder has its own backoff, and delays no other.
#[tokio::test(start_paused = true)]
async fn each_feeder_has_its_own_backoff() {
    let context = crate::context::tests::context(memory_store());
    let (queue, sound_intake) = intake(&SyncBarrier::new());
    let start = |feeder: Arc<dyn DynFeeder>| {
        let (_, intake) = intake(&SyncBarrier::new());
        tokio::spawn(supervise(feeder, intake, "web".into(), context.clone(), CancellationToken::new()))
    };
    let sick = Sick::new(false);
    start(sick.clone());
    tokio::time::sleep(Duration::from_secs(4)).await;
    // Others start, fail once and go on; they have the shortest wait, and the failing one keeps its long one.
    let once = Sick::new(true);
    start(once.clone());
    tokio::spawn(supervise(
        Arc::new(Shaky(AtomicU32::new(2))),
        sound_intake,
        "web".into(),
        context.clone(),
        CancellationToken::new(),
    ));
    assert_eq!(next(&queue).await, key("a"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let tenths = |sick: &Sick| sick.rounds.lock().iter().map(|at| at.as_millis() / 100).collect::<Vec<_>>();
    assert_eq!(tenths(&sick), [0, 2, 6, 14, 30, 62, 126], "200 ms, doubled each time");
    assert_eq!(tenths(&once), [0, 2]);
}

/// W13: a feeder that ends is restarted with backoff, and its error is visible.
#[tokio::test(start_paused = true)]
async fn a_long_healthy_feeder_restarts_with_the_shortest_delay() {
    struct Now(parking_lot::Mutex<Vec<Duration>>, Instant);

    impl Feeder for Now {
        fn name(&self) -> &str {
            "now"
        }

        async fn run(&self, _: &Intake) -> Result<(), FeederError> {
            self.0.lock().push(self.1.elapsed());
            if self.0.lock().len() == 3 {
                tokio::time::sleep(HEALTHY_AFTER).await;
            }
            Err(FeederError("on purpose".into()))
        }
    }

    let context = crate::context::tests::context(memory_store());
    let feeder = Arc::new(Now(parking_lot::Mutex::default(), Instant::now()));
    let (_, intake) = intake(&SyncBarrier::new());
    tokio::spawn(supervise(feeder.clone(), intake, "web".into(), context, CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(121)).await;
    let at: Vec<u128> = feeder.0.lock().iter().map(|at| at.as_millis() / 100).collect();
    assert_eq!(at, [0, 2, 6, 1208], "after 200 ms, 400 ms, and 200 ms again");
}
