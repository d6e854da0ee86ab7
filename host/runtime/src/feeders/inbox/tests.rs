use homeostat_fixtures::{Fault, FaultyStore, On, memory_store};
use homeostat_workqueue::{Priority, Queue};
use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::*;
use crate::feeder_definition::{FeederDefinition, FeederKeys, FeederSource, Interval};
use crate::feeder_tally::{FeederStatus, FeederTally};
use crate::feeders::SyncBarrier;
use crate::feeders::tests::{intake_of, key, next};

/// One life of a host with the inbox.
struct Life {
    queue: Queue<Key>,
    sender: InboxSender,
    settled: Arc<SettleWaiters>,
    tally: Arc<FeederTally>,
    task: JoinHandle<Result<(), FeederError>>,
}

impl Life {
    fn begin(store: &Arc<dyn Store>, keys_max: Option<u32>) -> Self {
        let definition = FeederDefinition {
            name: "push".into(),
            source: FeederSource::Interval(Interval { every: Duration::from_secs(1) }),
            keys: FeederKeys::Listed(Vec::new()),
            delay: None,
            priority: Priority::NORMAL,
        };
        let adder = KeyAdder { store: store.clone(), definition };
        let (queue, intake) = intake_of(&SyncBarrier::new(), keys_max);
        let (settled, tally) = (Arc::<SettleWaiters>::default(), Arc::<FeederTally>::default());
        let intake = intake.counting(Some(tally.clone()));
        let clock = WallClock::beginning(Timestamp::UNIX_EPOCH);
        let inbox = Inbox::new(store.clone(), "web".into(), "push".into(), settled.clone(), clock, true);
        let (sender, requests) = channel();
        let task = tokio::spawn(async move { inbox.run(&intake, &adder, requests).await });
        Self { queue, sender, settled, tally, task }
    }

    async fn store(&self, id: u128, names: &[&str]) -> Result<(), WebhookError> {
        self.sender.store(Some(id), names.iter().map(|name| key(name)).collect()).await
    }

    /// Takes the next key off the queue, and reconciles it.
    async fn reconcile(&self, is_good: bool) -> Key {
        let key = next(&self.queue).await;
        let run = self.settled.begin_run(&key).expect("the inbox waits for it");
        if is_good {
            run.settle();
        }
        key
    }

    fn status(&self) -> FeederStatus {
        self.tally.status("push", "webhook", true)
    }

    async fn until_stored(&self, keys: u64) {
        homeostat_testing::eventually("the number of stored keys", async || {
            (self.status().inbox == keys).then_some(())
        })
        .await;
    }
}

async fn stored(store: &Arc<dyn Store>) -> usize {
    let mut count = 0;
    for_each_listed(&**store, &deliveries(), |_| count += 1).await.unwrap();
    count
}

#[tokio::test(start_paused = true)]
async fn a_stored_request_is_deleted_when_each_of_its_keys_was_reconciled() {
    let store: Arc<dyn Store> = memory_store();
    let life = Life::begin(&store, None);
    life.store(1, &["a", "b"]).await.unwrap();
    assert_eq!(stored(&store).await, 1);
    assert_eq!(life.reconcile(true).await, key("a"));
    assert_eq!(life.reconcile(false).await, key("b"));
    life.until_stored(2).await;
    life.settled.begin_run(&key("b")).unwrap().settle();
    life.until_stored(0).await;
    assert_eq!(stored(&store).await, 0);
    life.task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_host_that_ended_in_the_middle_adds_the_stored_keys_again() {
    let store: Arc<dyn Store> = memory_store();
    let life = Life::begin(&store, None);
    life.store(1, &["a", "b"]).await.unwrap();
    life.store(2, &["c"]).await.unwrap();
    assert_eq!(life.reconcile(true).await, key("a"));
    life.task.abort();
    let life = Life::begin(&store, None);
    let mut again = [life.reconcile(true).await, life.reconcile(true).await, life.reconcile(true).await];
    again.sort();
    assert_eq!(again, [key("a"), key("b"), key("c")]);
    life.until_stored(0).await;
    assert_eq!(stored(&store).await, 0);
    life.task.abort();
}

#[tokio::test(start_paused = true)]
async fn an_inbox_takes_requests_while_the_queue_is_full_and_refuses_beyond_its_bound() {
    let store: Arc<dyn Store> = memory_store();
    let life = Life::begin(&store, Some(1));
    let names: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for id in 0..10 {
        life.store(id, &names).await.unwrap();
    }
    assert_eq!(life.store(10, &["a"]).await, Err(WebhookError::InboxFull));
    assert_eq!((life.status().inbox, stored(&store).await), (INBOX_KEYS_MAX as u64, 10));
    life.task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_is_stored_once() {
    let store: Arc<dyn Store> = memory_store();
    let life = Life::begin(&store, None);
    life.store(1, &["a"]).await.unwrap();
    life.store(1, &["a"]).await.unwrap();
    assert_eq!(stored(&store).await, 1);
    life.store(2, &["a"]).await.unwrap();
    life.sender.store(None, vec![key("a")]).await.unwrap();
    life.sender.store(None, vec![key("a")]).await.unwrap();
    assert_eq!(stored(&store).await, 4, "without an id, requests are different ones");
    life.task.abort();
}

/// The answer says that the keys are stored, so it waits for the store.
#[tokio::test(start_paused = true)]
async fn a_request_that_the_store_refuses_is_refused() {
    let faulty = FaultyStore::over(memory_store());
    let store: Arc<dyn Store> = faulty.clone();
    let life = Life::begin(&store, None);
    life.until_stored(0).await;
    faulty.fault(On::Write, DELIVERY_KIND, Fault::Fail);
    assert_eq!(life.store(1, &["a"]).await, Err(WebhookError::Unavailable));
    faulty.heal(On::Write, DELIVERY_KIND);
    life.store(1, &["a"]).await.unwrap();
    assert_eq!(life.reconcile(true).await, key("a"));
    life.until_stored(0).await;
    life.task.abort();
}
