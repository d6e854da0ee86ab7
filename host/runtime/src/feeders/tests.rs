use std::sync::atomic::{AtomicU32, Ordering};

use homeostat_store::memory::MemoryStore;
use homeostat_store::{Precondition, Propagation, Resource, Store, Write};
use homeostat_workqueue::Options;
use serde_json::json;

use super::*;

/// The kind that the feeders of these tests feed.
pub(super) fn managed() -> Kind {
    Kind::new("demo.dev", "v1", "App")
}

pub(super) fn key(name: &str) -> Key {
    Key::new(managed(), "default", name)
}

pub(super) fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(homeostat_store::Options::default()))
}

/// Writes a resource of `demo.dev/v1`.
pub(super) async fn apply(store: &dyn Store, kind: &str, name: &str, labels: serde_json::Value) -> Arc<Resource> {
    let metadata = json!({"name": name, "namespace": "default", "labels": labels});
    let document = json!({"apiVersion": "demo.dev/v1", "kind": kind, "metadata": metadata, "spec": {}});
    store.write(Write::Apply { document, manager: "test".into(), force: true }).await.unwrap().resource
}

pub(super) async fn delete(store: &dyn Store, key: Key) {
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    store.write(Write::Delete { key, precondition, propagation }).await.unwrap();
}

/// The ticket of the feeder of these tests.
pub(super) fn ticket() -> Ticket {
    Ticket { feeder: "feeder".into(), round: 1 }
}

/// A queue and the intake of one feeder to it.
pub(super) fn intake(gate: &Gate) -> (Queue<Key>, Intake) {
    let queue = Queue::new(Options::default());
    (queue.clone(), Intake::new(queue, managed(), gate.clone(), ticket()))
}

/// Takes the next key off the queue, and finishes it.
pub(super) async fn next(queue: &Queue<Key>) -> Key {
    let claim = queue.claim().await.expect("the queue is open");
    let key = claim.key().clone();
    claim.finish(homeostat_workqueue::Next::Done);
    key
}

#[test]
fn the_wait_before_a_restart_doubles_and_is_capped() {
    let waits: Vec<u128> = [0, 1, 2, 7, 8, 1000].map(|failures| restart_delay(failures).as_millis()).to_vec();
    assert_eq!(waits, [200, 400, 800, 25_600, 30_000, 30_000]);
}

#[tokio::test]
async fn an_intake_takes_keys_of_its_kind_alone() {
    let (queue, intake) = intake(&Gate::new());
    assert!(intake.add(key("a"), Priority::NORMAL));
    assert!(!intake.add(Key::new(Kind::new("demo.dev", "v1", "Other"), "default", "a"), Priority::NORMAL));
    assert_eq!(queue.len(), 1);
    queue.stop();
    assert!(!intake.add(key("b"), Priority::NORMAL));
}

#[tokio::test]
async fn a_key_of_another_version_is_the_same_key() {
    let (queue, intake) = intake(&Gate::new());
    for version in ["v1", "v1beta1"] {
        assert!(intake.add(Key::new(Kind::new("demo.dev", version, "App"), "default", "a"), Priority::NORMAL));
    }
    assert_eq!((queue.len(), next(&queue).await), (1, key("a")));
}

/// W1
#[tokio::test]
async fn the_gate_opens_when_the_last_feeder_has_listed() {
    let gate = Gate::new();
    let tickets = ["a", "b"].map(|feeder| Ticket { feeder: feeder.into(), round: 1 });
    tickets.iter().for_each(|ticket| gate.wait_for(ticket.clone()));
    let opened = tokio::spawn({
        let gate = gate.clone();
        async move { gate.opened().await }
    });
    gate.open(&tickets[0]);
    gate.open(&tickets[0]);
    tokio::task::yield_now().await;
    assert!(!opened.is_finished());
    assert_eq!(gate.waiting_for(), ["b".into()]);
    gate.open(&tickets[1]);
    opened.await.unwrap();
}

/// Fails so often, panics once, and then ends.
struct Shaky(AtomicU32);

#[async_trait]
impl Feeder for Shaky {
    fn name(&self) -> &str {
        "shaky"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(FeederError("on purpose".into())),
            1 => panic!("on purpose"),
            _ => {
                intake.add(key("a"), Priority::NORMAL);
                Ok(())
            }
        }
    }
}

/// W13
#[tokio::test(start_paused = true)]
async fn a_feeder_that_fails_or_panics_is_started_again_after_a_while() {
    let (queue, intake) = intake(&Gate::new());
    let context = crate::context::tests::context(store());
    let began = Instant::now();
    let feeder = Arc::new(Shaky(AtomicU32::new(0)));
    supervise(feeder.clone(), intake, "web".into(), context.clone(), CancellationToken::new()).await;
    assert_eq!((feeder.0.load(Ordering::SeqCst), queue.len()), (3, 1));
    assert_eq!(began.elapsed().as_millis() / 100, 6, "200 ms and 400 ms");
    let told = context.events.list(&crate::events::EventFilter::default());
    let told: Vec<&str> = told.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(told, ["shaky failed: on purpose", "shaky failed: it panicked"]);
}
