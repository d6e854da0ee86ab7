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

/// A queue and the intake of one feeder to it.
pub(super) fn intake(gate: &Gate) -> (Queue<Key>, Intake) {
    let queue = Queue::new(Options::default());
    (queue.clone(), Intake::new(queue, managed(), gate.clone(), "feeder"))
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
    let (queue, intake) = intake(&Gate::new([]));
    assert!(intake.add(key("a"), Priority::NORMAL));
    assert!(!intake.add(Key::new(Kind::new("demo.dev", "v1", "Other"), "default", "a"), Priority::NORMAL));
    assert_eq!(queue.len(), 1);
    queue.stop();
    assert!(!intake.add(key("b"), Priority::NORMAL));
}

/// W1
#[tokio::test]
async fn the_gate_opens_when_the_last_feeder_has_listed() {
    let gate = Gate::new(["a".into(), "b".into()]);
    let opened = tokio::spawn({
        let gate = gate.clone();
        async move { gate.opened().await }
    });
    gate.open("a");
    gate.open("a");
    tokio::task::yield_now().await;
    assert!(!opened.is_finished());
    assert_eq!(gate.waiting_for(), ["b".into()]);
    gate.open("b");
    opened.await.unwrap();
}
