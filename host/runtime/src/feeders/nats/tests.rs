use std::collections::VecDeque;

use async_trait::async_trait;
use homeostat_fixtures::memory_store;
use homeostat_workqueue::{Priority, Queue};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::*;
use crate::feeder_definition::{FeederDefinition, FeederSource, MessageOrigin};
use crate::feeder_sources::MessageStream;
use crate::feeder_tally::FeederTally;
use crate::feeders::SyncBarrier;
use crate::feeders::tests::{intake_of, key, next};
use crate::message_keys::{MessageKeys, Template, is_subject_word};

/// A server that hands out its messages once, and records what becomes of them. The tests in `tests/it/nats_feeder.rs`
/// have a real one.
#[derive(Default)]
struct Server {
    messages: Mutex<VecDeque<(String, String)>>,
    published: Notify,
    acknowledged: Mutex<Vec<(String, Acknowledgement)>>,
    lost: Mutex<u64>,
}

#[derive(Clone, Default)]
struct Client(Arc<Server>);

struct OneReceipt(Client, String);

#[async_trait]
impl MessageStores for Client {
    async fn open(&self, store: &str, _: &MessageOrigin) -> Result<Box<dyn MessageStream>, String> {
        assert_eq!(store, "bus");
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl MessageStream for Client {
    async fn next(&mut self) -> Result<Message, String> {
        loop {
            if let Some((subject, body)) = self.0.messages.lock().pop_front() {
                let receipt: Box<dyn Receipt> = Box::new(OneReceipt(self.clone(), subject.clone()));
                return Ok(Message { subject, body: body.into_bytes(), receipt: Some(receipt) });
            }
            self.0.published.notified().await;
        }
    }

    fn lost(&mut self) -> u64 {
        *self.0.lost.lock()
    }
}

#[async_trait]
impl Receipt for OneReceipt {
    async fn acknowledge(&self, acknowledgement: Acknowledgement) -> Result<(), String> {
        self.0.0.acknowledged.lock().push((self.1.clone(), acknowledgement));
        Ok(())
    }
}

impl Client {
    fn publish(&self, subject: &str, body: &str) {
        self.0.messages.lock().push_back((subject.to_owned(), body.to_owned()));
        self.0.published.notify_one();
    }

    async fn until_acknowledged(&self, count: usize) -> Vec<(String, Acknowledgement)> {
        homeostat_testing::eventually("the acknowledgements", async || {
            Some(self.0.acknowledged.lock().clone()).filter(|all| all.len() >= count)
        })
        .await
    }
}

struct FeederRun {
    client: Client,
    queue: Queue<Key>,
    settled: Arc<SettleWaiters>,
    tally: Arc<FeederTally>,
    task: JoinHandle<Result<(), FeederError>>,
}

impl FeederRun {
    fn start(name: &str, acknowledged: AcknowledgedWhen, keys_max: Option<u32>) -> Self {
        let template = |text| Template::parse(text, is_subject_word).unwrap();
        let keys = MessageKeys { each: None, namespace: Some(template("default")), name: template(name) };
        let origin = MessageOrigin::Consumer { stream: "ORDERS".to_owned(), consumer: "web".to_owned(), subject: None };
        let nats = Nats { store: "bus".to_owned(), origin, acknowledged };
        let definition = FeederDefinition {
            name: "orders".into(),
            source: FeederSource::Nats(Box::new(nats.clone())),
            keys: FeederKeys::OfMessage(Box::new(keys)),
            delay: None,
            priority: Priority::NORMAL,
        };
        let (client, settled) = (Client::default(), Arc::<SettleWaiters>::default());
        let adder = KeyAdder { store: memory_store(), definition };
        let clock = WallClock::beginning(Timestamp::UNIX_EPOCH);
        let feeder = NatsFeeder::new(nats, adder, Some(Arc::new(client.clone())), settled.clone(), clock);
        let (queue, intake) = intake_of(&SyncBarrier::new(), keys_max);
        let tally = Arc::<FeederTally>::default();
        let intake = intake.counting(Some(tally.clone()));
        let task = tokio::spawn(async move { feeder.run(&intake).await });
        Self { client, queue, settled, tally, task }
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_is_acknowledged_when_its_key_is_queued() {
    let world = FeederRun::start("{subject.2}-{/id}", AcknowledgedWhen::Queued, None);
    world.client.publish("orders.web", r#"{"id":7}"#);
    let all = world.client.until_acknowledged(1).await;
    assert_eq!(all, [("orders.web".to_owned(), Acknowledgement::Handled)]);
    assert_eq!(next(&world.queue).await, key("web-7"));
    world.task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_message_is_acknowledged_after_the_first_good_run_of_its_key() {
    let world = FeederRun::start("{subject.2}", AcknowledgedWhen::Settled, None);
    world.client.publish("orders.a", "");
    assert_eq!(next(&world.queue).await, key("a"));
    drop(world.settled.begin_run(&key("a")).unwrap());
    world.client.publish("orders.b", "");
    assert_eq!(next(&world.queue).await, key("b"));
    assert!(world.client.0.acknowledged.lock().is_empty(), "the run of `a` failed");
    world.settled.begin_run(&key("b")).unwrap().settle();
    assert_eq!(world.client.until_acknowledged(1).await, [("orders.b".to_owned(), Acknowledgement::Handled)]);
    world.settled.begin_run(&key("a")).unwrap().settle();
    assert_eq!(world.client.until_acknowledged(2).await[1], ("orders.a".to_owned(), Acknowledgement::Handled));
    world.task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_key_never_settles_is_left_to_the_server() {
    let world = FeederRun::start("{subject.2}", AcknowledgedWhen::Settled, None);
    world.client.publish("orders.a", "");
    assert_eq!(next(&world.queue).await, key("a"));
    tokio::time::sleep(SETTLE_MAX + Duration::from_secs(1)).await;
    assert!(world.settled.begin_run(&key("a")).is_none(), "nothing waits any more");
    assert!(world.client.0.acknowledged.lock().is_empty());
    world.task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_message_that_makes_no_key_is_rejected_and_counted() {
    let world = FeederRun::start("{/id}", AcknowledgedWhen::Queued, None);
    for body in ["no JSON", "{}", r#"{"id":"A B"}"#, r#"{"id":"a"}"#] {
        world.client.publish("orders.a", body);
    }
    let all = world.client.until_acknowledged(4).await;
    let what: Vec<_> = all.into_iter().map(|(_, what)| what).collect();
    assert_eq!(what[..3], [Acknowledgement::Rejected; 3]);
    assert_eq!(what[3], Acknowledgement::Handled);
    assert_eq!(world.tally.status("orders", "nats", true).rejected, 3);
    world.task.abort();
}

/// The server keeps the rest: the feeder takes no message beyond its bound.
#[tokio::test(start_paused = true)]
async fn the_keys_of_unsettled_messages_are_bounded() {
    let world = FeederRun::start("n{subject.2}", AcknowledgedWhen::Settled, None);
    for number in 0..UNSETTLED_KEYS_MAX + 500 {
        world.client.publish(&format!("orders.{number}"), "");
    }
    homeostat_testing::eventually("the feeder to be full", async || {
        (world.queue.len() == UNSETTLED_KEYS_MAX).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.client.0.messages.lock().len(), 500);
    world.settled.begin_run(&key("n0")).unwrap().settle();
    homeostat_testing::eventually("one more message", async || {
        (world.client.0.messages.lock().len() == 499).then_some(())
    })
    .await;
    world.task.abort();
}

/// The queue holds up the feeder, and the messages beyond those that wait are lost meanwhile.
#[tokio::test(start_paused = true)]
async fn lost_messages_are_counted_also_while_the_queue_is_full() {
    let world = FeederRun::start("{subject.2}", AcknowledgedWhen::Queued, Some(1));
    world.client.publish("orders.a", "");
    world.client.publish("orders.b", "");
    homeostat_testing::eventually("the full queue", async || {
        (world.tally.status("orders", "nats", true).full > 0).then_some(())
    })
    .await;
    *world.client.0.lost.lock() = 7;
    let lost = async || Some(world.tally.status("orders", "nats", true).lost).filter(|lost| *lost == 7);
    homeostat_testing::eventually("the lost messages", lost).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.tally.status("orders", "nats", true).lost, 7, "each is counted once");
    world.task.abort();
}
