use std::sync::Arc;
use std::time::Duration;

use homeostat_fixtures::{Fault, FaultyStore, On, memory_store};
use homeostat_store::{Store, Write};
use homeostat_workqueue::{Priority, Queue};
use jiff::ToSpan;
use serde_json::json;
use tokio::task::JoinHandle;

use super::*;
use crate::cron::{MissedRuns, Schedule};
use crate::feeder_definition::{FeederDefinition, FeederKeys, FeederSource, ListedKey};
use crate::feeder_tally::{FeederStatus, FeederTally};
use crate::feeders::SyncBarrier;
use crate::feeders::tests::{apply, intake, key, next};

const START: &str = "2026-11-24T12:00:00Z";
const ONCE: MissedRuns = MissedRuns::Once { deadline: None };

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Creates the resource of the controller, which has the record.
async fn with_controller(store: Arc<dyn Store>) -> Arc<dyn Store> {
    let document = json!({"apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": {"name": "web"}});
    store.write(Write::Create { document }).await.unwrap();
    store
}

/// One life of a host that runs the feeder, from a time of day on.
struct Life {
    queue: Queue<homeostat_store::Key>,
    tally: Arc<FeederTally>,
    task: JoinHandle<Result<(), FeederError>>,
}

impl Life {
    fn begin(store: &Arc<dyn Store>, schedule: &str, missed: MissedRuns, keys: FeederKeys, at: Timestamp) -> Self {
        let cron = Cron { schedule: Schedule::parse(schedule, None).unwrap(), missed };
        let definition = FeederDefinition {
            name: "nightly".into(),
            source: FeederSource::Cron(Box::new(cron.clone())),
            keys,
            delay: None,
            priority: Priority::NORMAL,
        };
        let record = RunRecord::new(store.clone(), "web".into(), "nightly".into(), cron.schedule.as_str());
        let adder = KeyAdder { store: store.clone(), definition };
        let feeder = CronFeeder::new(cron, adder, record, WallClock::beginning(at));
        let tally = Arc::<FeederTally>::default();
        let (queue, intake) = intake(&SyncBarrier::new());
        let intake = intake.counting(Some(tally.clone()));
        let task = tokio::spawn(async move { feeder.run(&intake).await });
        Self { queue, tally, task }
    }

    fn hourly(store: &Arc<dyn Store>, missed: MissedRuns, at: &str) -> Self {
        let listed = ListedKey { namespace: "default".to_owned(), name: "a".to_owned() };
        Self::begin(store, "@hourly", missed, FeederKeys::Listed(vec![listed]), time(at))
    }

    fn status(&self) -> FeederStatus {
        self.tally.status("nightly", "cron", true)
    }

    /// Waits until the status is as wanted.
    async fn until(&self, what: &str, wanted: impl Fn(&FeederStatus) -> bool) {
        homeostat_testing::eventually(what, async || wanted(&self.status()).then_some(())).await;
    }

    fn end(self) {
        self.task.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_adds_its_keys_at_its_moments() {
    let store = with_controller(memory_store()).await;
    let life = Life::hourly(&store, ONCE, START);
    let began = tokio::time::Instant::now();
    assert_eq!(next(&life.queue).await, key("a"));
    assert_eq!(began.elapsed().as_secs(), 3600, "the moment of the start is not run");
    assert_eq!(next(&life.queue).await, key("a"));
    assert_eq!(began.elapsed().as_secs(), 7200);
    life.until("the next run to be known", |status| status.next_run.as_deref() == Some("2026-11-24T15:00:00Z")).await;
    assert_eq!((life.status().missed, life.status().keys), (0, 2));
    life.end();
}

/// The host is away from 13:30 to 16:10.
#[tokio::test(start_paused = true)]
async fn a_restart_reports_missed_runs_and_runs_once_or_skips_them() {
    for (missed, keys) in [(ONCE, 1), (MissedRuns::Skip, 0)] {
        let store = with_controller(memory_store()).await;
        let life = Life::hourly(&store, missed, START);
        assert_eq!(next(&life.queue).await, key("a"));
        life.until("the record", |status| status.next_run.as_deref() == Some("2026-11-24T14:00:00Z")).await;
        life.end();
        let life = Life::hourly(&store, missed, "2026-11-24T16:10:00Z");
        life.until("the next run", |status| status.next_run.as_deref() == Some("2026-11-24T17:00:00Z")).await;
        assert_eq!((life.status().missed, life.status().keys), (3, keys), "of 14:00, 15:00 and 16:00");
        life.end();
        let life = Life::hourly(&store, missed, "2026-11-24T16:20:00Z");
        life.until("the next run", |status| status.next_run.as_deref() == Some("2026-11-24T17:00:00Z")).await;
        assert_eq!((life.status().missed, life.status().keys), (0, 0), "the record has them");
        life.end();
    }
}

#[tokio::test(start_paused = true)]
async fn another_schedule_has_missed_nothing() {
    let store = with_controller(memory_store()).await;
    let life = Life::hourly(&store, ONCE, START);
    life.until("the record", |status| status.next_run.is_some()).await;
    life.end();
    let later = time(START) + 48.hours();
    let life = Life::begin(&store, "*/5 * * * *", ONCE, FeederKeys::Listed(Vec::new()), later);
    life.until("the next run", |status| status.next_run.is_some()).await;
    assert_eq!((life.status().missed, life.status().last_run), (0, None));
    life.end();
}

/// A new resource of the same name has no runs, and a controller of an embedder has no resource.
#[tokio::test(start_paused = true)]
async fn a_controller_without_a_record_runs_from_its_start_on() {
    let store: Arc<dyn Store> = memory_store();
    let life = Life::hourly(&store, ONCE, START);
    assert_eq!(next(&life.queue).await, key("a"));
    life.until("the next run", |status| status.next_run.as_deref() == Some("2026-11-24T14:00:00Z")).await;
    assert_eq!(life.status().missed, 0);
    life.end();
}

/// A record of 15:00 was written by a host whose clock was wrong.
#[tokio::test(start_paused = true)]
async fn a_record_from_the_future_stops_no_run() {
    let store = with_controller(memory_store()).await;
    let life = Life::hourly(&store, ONCE, "2031-01-01T15:00:00Z");
    life.until("the record", |status| status.next_run.is_some()).await;
    life.end();
    let life = Life::hourly(&store, ONCE, START);
    assert_eq!(next(&life.queue).await, key("a"));
    life.end();
}

/// W13: the store is away when the moment comes, and the run is repeated, also where missed runs are skipped.
#[tokio::test(start_paused = true)]
async fn a_run_that_failed_is_repeated_when_the_feeder_restarts() {
    let store = FaultyStore::over(with_controller(memory_store()).await);
    apply(&*store, "App", "a", json!({})).await;
    let shared: Arc<dyn Store> = store.clone();
    let cron = Cron { schedule: Schedule::parse("@hourly", None).unwrap(), missed: MissedRuns::Skip };
    let definition = FeederDefinition {
        name: "nightly".into(),
        source: FeederSource::Cron(Box::new(cron.clone())),
        keys: FeederKeys::All,
        delay: None,
        priority: Priority::NORMAL,
    };
    let record = RunRecord::new(shared.clone(), "web".into(), "nightly".into(), cron.schedule.as_str());
    let adder = KeyAdder { store: shared, definition };
    let feeder = CronFeeder::new(cron, adder, record, WallClock::beginning(time(START)));
    let (queue, intake) = intake(&SyncBarrier::new());
    store.fault(On::List, "App", Fault::Fail);
    assert!(feeder.run(&intake).await.is_err());
    tokio::time::sleep(Duration::from_secs(600)).await;
    store.heal(On::List, "App");
    let task = tokio::spawn(async move { feeder.run(&intake).await });
    let again = tokio::time::Instant::now();
    assert_eq!(next(&queue).await, key("a"));
    assert!(again.elapsed() < Duration::from_secs(1), "it does not wait for the next moment");
    task.abort();
}

#[test]
fn records_of_removed_feeders_are_dropped() {
    let status = json!({"schedules": {"a": {"lastRun": "one"}, "b": {"lastRun": "two"}}});
    let retained = crate::feeders::retained_run_records(&status, ["b", "c"]);
    assert_eq!(retained, Some(json!({"b": {"lastRun": "two"}})));
    assert_eq!(crate::feeders::retained_run_records(&status, []), None);
    assert_eq!(crate::feeders::retained_run_records(&json!(null), ["a"]), None);
}
