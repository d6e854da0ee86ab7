use std::sync::Arc;
use std::time::Duration;

use homeostat_fixtures::{Fault, FaultyStore, On, memory_store};
use homeostat_workqueue::{Delay, Priority};
use jiff::Timestamp;
use tokio::time::Instant;

use super::*;
use crate::feeder_definition::{FeederDefinition, FeederKeys, FeederSource, ListedKey};
use crate::feeder_tally::FeederTally;
use crate::feeders::SyncBarrier;
use crate::feeders::tests::{apply, intake, intake_of, key, next};

const MINUTE: Duration = Duration::from_secs(60);

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn listed(names: &[&str]) -> FeederKeys {
    let key = |name: &&str| ListedKey { namespace: "default".to_owned(), name: (*name).to_owned() };
    FeederKeys::Listed(names.iter().map(key).collect())
}

fn feeder(store: Arc<dyn homeostat_store::Store>, keys: FeederKeys, delay: Option<Duration>) -> IntervalFeeder {
    let interval = Interval { every: MINUTE };
    let definition = FeederDefinition {
        name: "tick".into(),
        source: FeederSource::Interval(interval),
        keys,
        delay: delay.map(|after| Delay { after, hold: false }),
        priority: Priority::HIGH,
    };
    let clock = WallClock::beginning(time("2026-11-24T12:00:00Z"));
    IntervalFeeder::new("web", interval, KeyAdder { store, definition }, clock)
}

#[test]
fn moments_lie_on_a_grid_that_a_restart_does_not_move() {
    let every = Interval { every: MINUTE };
    let first = every.next_after(time("2026-11-24T12:00:00Z"), 7);
    assert_eq!(first, time("2026-11-24T12:00:00.007Z"));
    assert_eq!(every.next_after(first, 7), time("2026-11-24T12:01:00.007Z"), "a moment is not its own successor");
    assert_eq!(every.next_after(time("2026-11-24T12:00:30Z"), 7), time("2026-11-24T12:01:00.007Z"));
    assert_eq!(every.next_after(time("1969-12-31T23:59:59Z"), 7), time("1970-01-01T00:00:00.007Z"));
    let year = Interval { every: Duration::from_secs(365 * 86_400) };
    assert!(year.next_after(time("9999-12-30T00:00:00Z"), u64::MAX) > time("9999-12-30T00:00:00Z"));
}

#[test]
fn feeders_of_many_controllers_spread_over_the_period() {
    let every = Interval { every: Duration::from_secs(3600) };
    let now = time("2026-11-24T12:00:00Z");
    let moment = |number: u32| every.next_after(now, xxh3_64(format!("c{number}/tick").as_bytes()));
    let mut minutes = [0; 60];
    (0..600).for_each(|number| minutes[usize::try_from(moment(number).as_second() / 60 % 60).unwrap()] += 1);
    assert!(minutes.iter().all(|count| (1..=30).contains(count)), "{minutes:?}");
}

#[tokio::test(start_paused = true)]
async fn an_interval_adds_its_keys_once_per_period() {
    let (queue, intake) = intake(&SyncBarrier::new());
    let tally = Arc::<FeederTally>::default();
    let intake = intake.counting(Some(tally.clone()));
    let task = tokio::spawn(async move { feeder(memory_store(), listed(&["a", "b"]), None).run(&intake).await });
    let began = Instant::now();
    assert_eq!((next(&queue).await, next(&queue).await), (key("a"), key("b")));
    let first = began.elapsed();
    assert!(first <= MINUTE);
    assert_eq!((next(&queue).await, next(&queue).await), (key("a"), key("b")));
    assert_eq!((began.elapsed() - first).as_secs(), MINUTE.as_secs());
    let status = tally.status("tick", "interval", true);
    assert_eq!((status.keys, status.state, status.error), (4, "running", None));
    assert!(status.last_run < status.next_run, "{:?}", (status.last_run, status.next_run));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_becomes_due_after_the_delay_in_its_band() {
    let (queue, intake) = intake(&SyncBarrier::new());
    let delay = Some(Duration::from_secs(10));
    let task = tokio::spawn(async move { feeder(memory_store(), listed(&["a"]), delay).run(&intake).await });
    let began = Instant::now();
    let claim = homeostat_testing::soon(queue.claim()).await.unwrap();
    assert_eq!((claim.key(), claim.priority()), (&key("a"), Priority::HIGH));
    let start = time("2026-11-24T12:00:00Z");
    let moment = Interval { every: MINUTE }.next_after(start, xxh3_64(b"web/tick"));
    let wait = Duration::try_from(start.duration_until(moment)).unwrap();
    assert_eq!(began.elapsed().as_secs(), (wait + Duration::from_secs(10)).as_secs());
    task.abort();
}

/// T5: a floor stands against later events, a plain delay does not.
#[tokio::test(start_paused = true)]
async fn an_event_shortens_the_delay_of_a_feeder_unless_it_holds() {
    for hold in [false, true] {
        let (queue, intake) = intake(&SyncBarrier::new());
        let mut feeder = feeder(memory_store(), listed(&["a"]), None);
        feeder.adder.definition.delay = Some(Delay { after: Duration::from_secs(10), hold });
        feeder.adder.try_add(&intake, &key("a")).unwrap();
        let began = Instant::now();
        intake.add(key("a"), Priority::NORMAL).unwrap();
        drop(homeostat_testing::soon(queue.claim()).await.unwrap());
        assert_eq!(began.elapsed().as_secs(), if hold { 10 } else { 0 });
    }
}

/// W13: the store is away when the moment comes, and nothing is left out.
#[tokio::test(start_paused = true)]
async fn a_run_that_failed_is_repeated_when_the_feeder_restarts() {
    let store = FaultyStore::over(memory_store());
    apply(&*store, "App", "a", serde_json::json!({})).await;
    store.fault(On::List, "App", Fault::Fail);
    let feeder = feeder(store.clone(), FeederKeys::All, None);
    let (queue, intake) = intake(&SyncBarrier::new());
    assert!(feeder.run(&intake).await.is_err());
    store.heal(On::List, "App");
    let again = Instant::now();
    let task = tokio::spawn(async move { feeder.run(&intake).await });
    assert_eq!(next(&queue).await, key("a"));
    assert!(again.elapsed() < Duration::from_millis(10), "it does not wait for the next moment");
    task.abort();
}

/// The queue has room for a few keys at a time, and no key is left out.
#[tokio::test(start_paused = true)]
async fn a_full_queue_gets_all_keys_of_a_kind_in_turn() {
    let store = memory_store();
    for number in 0..50 {
        apply(&*store, "App", &format!("a{number:02}"), serde_json::json!({})).await;
    }
    let (queue, intake) = intake_of(&SyncBarrier::new(), Some(8));
    let tally = Arc::<FeederTally>::default();
    let intake = intake.counting(Some(tally.clone()));
    let task = tokio::spawn(async move { feeder(store, FeederKeys::All, None).run(&intake).await });
    for number in 0..50 {
        assert_eq!(next(&queue).await, key(&format!("a{number:02}")));
    }
    assert_eq!(tally.status("tick", "interval", true).keys, 50);
    assert!(tally.status("tick", "interval", true).full > 0);
    task.abort();
}

/// The queue never has more keys than its limit, whatever the number of resources. A key that is still queued when the
/// next moment comes merges. `cron`, and each feeder with `keys: all`, add their keys in the same way.
#[tokio::test(start_paused = true)]
async fn a_burst_of_100_000_keys_passes_a_queue_of_2000() {
    const KEYS: usize = 100_000;
    let store = memory_store();
    for number in 0..KEYS {
        apply(&*store, "App", &format!("a{number:06}"), serde_json::json!({})).await;
    }
    let (store, pages) = (FaultyStore::over(store), KEYS / 500);
    let counted = store.clone();
    let (queue, intake) = intake_of(&SyncBarrier::new(), Some(2000));
    let tally = Arc::<FeederTally>::default();
    let intake = intake.counting(Some(tally.clone()));
    let task = tokio::spawn(async move { feeder(store, FeederKeys::All, None).run(&intake).await });
    for number in 0..KEYS {
        assert_eq!(next(&queue).await, key(&format!("a{number:06}")));
        assert!(queue.len() <= 2000);
    }
    assert_eq!(tally.status("tick", "interval", true).keys, KEYS as u64);
    assert!(counted.lists() <= pages + 1, "each page is read once: {}", counted.lists());
    task.abort();
}

/// The store forgets the moment of a list while its keys wait for room.
#[tokio::test(start_paused = true)]
async fn a_list_that_expires_goes_on_behind_the_last_key() {
    let store = FaultyStore::over(memory_store());
    for number in 0..1200 {
        apply(&*store, "App", &format!("a{number:04}"), serde_json::json!({})).await;
    }
    let (queue, intake) = intake_of(&SyncBarrier::new(), Some(100));
    let tally = Arc::<FeederTally>::default();
    let intake = intake.counting(Some(tally.clone()));
    let list = store.clone();
    let task = tokio::spawn(async move { feeder(list, FeederKeys::All, None).run(&intake).await });
    for number in 0..1200 {
        if number == 300 {
            store.fault(On::List, "App", Fault::Expire);
        }
        assert_eq!(next(&queue).await, key(&format!("a{number:04}")));
    }
    assert_eq!(tally.status("tick", "interval", true).keys, 1200);
    assert_eq!(store.lists(), 1 + 1 + 3, "one page, one that has expired, and the whole list");
    task.abort();
}
