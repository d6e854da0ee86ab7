//! Fairness between controllers: a controller keeps its share of the processors and its queue, whatever
//! others do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use homeostat_fixtures::{demo, memory_store};
use homeostat_runtime::{
    Definition, Feeder, FeederError, Intake, Observer, Options, Overrides, Priority, QueueEntry, ReconcileRecord,
    Recorder,
};
use homeostat_store::Key;
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest};
use parking_lot::Mutex;
use serde_json::json;

/// The number of controllers that are added and removed, one after the other.
const NEWCOMERS: u64 = 8;
/// Reconciles of a newcomer before its definition changes, and again before its removal.
const RECONCILES: u64 = 200;
/// The most reconciles of newcomers per reconcile of the other controller, which has the same work. The fair
/// ratio is 1. The slack is for a busy machine, which may delay the threads of either.
const SHARE_MAX: u64 = 3;

/// Returns state, failures and due time in milliseconds of each key of `steady`, except of the one that
/// always runs.
fn kept(test: &TestHost) -> BTreeMap<String, (String, u32, Option<u64>)> {
    let entries = test.host.queue("steady", 100).unwrap().into_iter();
    let kept = entries.filter(|entry| entry.key.name() != "again");
    kept.map(|QueueEntry { key, state, failures, due_in_ms, .. }| {
        (key.name().to_owned(), (state.to_string(), failures, due_in_ms))
    })
    .collect()
}

async fn reconciles(test: &TestHost, name: &str, wanted: u64) -> u64 {
    let done = || test.status(name).reconciles;
    eventually(&format!("{wanted} reconciles of {name}"), async || (done() >= wanted).then(done)).await
}

/// C1: Controllers that are added, changed and removed take no more than their share, and change no other
/// queue. All have the same component and a key that always runs again. The test counts reconciles and
/// measures no time.
#[tokio::test(flavor = "multi_thread")]
async fn newcomers_take_no_more_than_their_share_and_change_no_queue_but_their_own() {
    let test = TestHost::start().await;
    let definition = test.definition("steady", &guest("guest-hostile")).await;
    test.host.put(definition.clone()).await.unwrap();
    for name in ["again", "centuries", "fail-never", "fail-after"] {
        test.apply(demo("Hostile", name, json!({}))).await;
    }
    let before = eventually("three keys to wait or be parked", async || {
        let counts = test.status("steady").counts;
        (counts.waiting == 2 && counts.parked == 1).then(|| kept(&test))
    })
    .await;
    assert_eq!(before.keys().collect::<Vec<_>>(), ["centuries", "fail-after", "fail-never"]);
    let began = reconciles(&test, "steady", RECONCILES).await;

    let mut taken = 0;
    for number in 0..NEWCOMERS {
        let newcomer = Definition { name: format!("newcomer-{number}"), ..definition.clone() };
        let name = newcomer.name.clone();
        test.host.put(newcomer.clone()).await.unwrap();
        reconciles(&test, &name, RECONCILES).await;
        let overrides = Overrides { concurrency: Some(8), ..Overrides::default() };
        test.host.put(Definition { overrides, ..newcomer }).await.unwrap();
        taken += reconciles(&test, &name, 2 * RECONCILES).await;
        test.host.remove(&name).await.unwrap();
    }
    let done = test.status("steady").reconciles - began;
    assert!(done * SHARE_MAX >= taken, "{done} reconciles, and {taken} of the newcomers");

    let after = kept(&test);
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    for (name, (state, failures, due)) in &before {
        let (state_after, failures_after, due_after) = &after[name];
        assert_eq!((state_after, failures_after), (state, failures), "{name}");
        assert!(due_after <= due, "{name} was put off: {due:?} before, {due_after:?} after");
    }
    let status = test.status("steady");
    assert_eq!((status.generation, status.failures), (1, 2), "each failing key has failed once");
}

/// Reconciles of the busy controller, and their number at each reconcile of the other one.
#[derive(Default)]
struct ReconcileCounts {
    busy: AtomicUsize,
    seldom: Mutex<Vec<usize>>,
}

/// Counts the reconciles of one controller: of the busy one, if true.
struct CountingObserver(Arc<ReconcileCounts>, bool);

impl Observer for CountingObserver {
    fn controller(&self, name: &Arc<str>) -> Arc<dyn Recorder> {
        Arc::new(Self(self.0.clone(), &**name == "busy"))
    }
}

impl Recorder for CountingObserver {
    fn record(&self, _: &ReconcileRecord<'_>) {
        if self.1 {
            self.0.busy.fetch_add(1, Ordering::SeqCst);
        } else {
            self.0.seldom.lock().push(self.0.busy.load(Ordering::SeqCst));
        }
    }
}

/// Adds this many keys, once.
struct NumberFeeder(usize);

impl Feeder for NumberFeeder {
    fn name(&self) -> &str {
        "adds"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        for number in 0..self.0 {
            intake.add(Key::new(intake.manages().clone(), "default", &number.to_string()), Priority::NORMAL).unwrap();
        }
        Ok(())
    }
}

/// P5: A key waits for a few quanta, not for the 100,000 ready keys of another controller, which has 128
/// workers on the one thread.
#[tokio::test]
async fn a_key_waits_for_a_few_quanta_and_not_for_all_ready_keys_of_another_controller() {
    const WORKERS: u32 = 128;
    let (counts, store) = (Arc::<ReconcileCounts>::default(), memory_store());
    let observer = Arc::new(CountingObserver(counts.clone(), false));
    let test = TestHost::with(store, |options| Options { observer, ..options }).await;
    for name in ["busy", "seldom"] {
        let overrides = Overrides { concurrency: Some(WORKERS), ..Overrides::default() };
        let definition = test.definition(name, &guest("guest-noop")).await;
        test.host.put(Definition { overrides, ..definition }).await.unwrap();
    }
    test.host.feed("busy", Arc::new(NumberFeeder(100_000))).unwrap();
    eventually("the busy one to be busy", async || (counts.busy.load(Ordering::SeqCst) > 1000).then_some(())).await;
    for round in 0..20 {
        let before = counts.busy.load(Ordering::SeqCst);
        test.host.feed("seldom", Arc::new(NumberFeeder(1))).unwrap();
        let ran = eventually("the other one to run", async || counts.seldom.lock().get(round).copied()).await;
        // A worker that ran before it would have reconciled several keys.
        assert!(ran - before < WORKERS as usize, "{} keys ran before it, in round {round}", ran - before);
    }
    assert!(counts.busy.load(Ordering::SeqCst) < 100_000, "the busy one is still busy");
}
