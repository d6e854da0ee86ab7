use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use homeostat_store::{Page, Query, Result, Watch, Write, Written};
use serde_json::json;
use tokio::sync::Semaphore;

use super::super::tests::{apply, delete, intake, key, managed, next, store, ticket};
use super::*;
use crate::feeders::Gate;

/// A store whose first lists wait for a permit, and whose next watch has lost its history when told so.
struct Faulty {
    inner: Arc<dyn Store>,
    lists: Semaphore,
    expired: AtomicBool,
}

impl Faulty {
    fn over(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { inner, lists: Semaphore::new(0), expired: AtomicBool::new(false) })
    }
}

struct Lost;

#[async_trait]
impl homeostat_store::Changes for Lost {
    async fn next(&mut self) -> Result<homeostat_store::Event> {
        Err(Error::Expired { oldest: Revision::ZERO })
    }
}

#[async_trait]
impl Store for Faulty {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.inner.get(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.lists.acquire().await.unwrap().forget();
        self.inner.list(query).await
    }

    async fn write(&self, write: Write) -> Result<Written> {
        self.inner.write(write).await
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        if self.expired.swap(false, Ordering::SeqCst) {
            return Ok(Watch::new(Lost));
        }
        self.inner.watch(scope, from).await
    }

    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.inner.kinds().await
    }
}

fn label_watch(store: Arc<dyn Store>) -> WatchFeeder {
    let parts = Kind::new("demo.dev", "v1", "Part");
    WatchFeeder::new("parts", store, parts, managed(), How::Mapped(Mapping::Label("app".into())))
}

/// W1
#[tokio::test]
async fn the_gate_stays_shut_until_the_first_full_list() {
    let faulty = Faulty::over(store());
    let gate = Gate::new();
    gate.wait_for(ticket());
    let (queue, intake) = intake(&gate);
    apply(&*faulty, "App", "a", json!({})).await;
    let feeder = WatchFeeder::new("apps", faulty.clone(), managed(), managed(), How::Itself);
    let running = tokio::spawn(async move { feeder.run(&intake).await });
    tokio::task::yield_now().await;
    assert!(!gate.waiting_for().is_empty());
    faulty.lists.add_permits(1);
    gate.opened().await;
    assert_eq!(queue.len(), 1, "the list is on the queue before the gate opens");
    running.abort();
}

/// W2
#[tokio::test]
async fn adding_changing_and_deleting_each_bring_the_key() {
    let store = store();
    let (queue, intake) = intake(&Gate::new());
    let feeder = WatchFeeder::new("apps", store.clone(), managed(), managed(), How::Itself);
    let running = tokio::spawn(async move { feeder.run(&intake).await });
    apply(&*store, "App", "a", json!({})).await;
    assert_eq!(next(&queue).await, key("a"));
    apply(&*store, "App", "a", json!({"changed": "yes"})).await;
    assert_eq!(next(&queue).await, key("a"));
    delete(&*store, key("a")).await;
    assert_eq!(next(&queue).await, key("a"));
    running.abort();
}

/// W3: the label is taken off, and the old app is told all the same.
#[tokio::test]
async fn what_was_left_is_told_as_well_as_what_was_joined() {
    let store = store();
    let (queue, intake) = intake(&Gate::new());
    let feeder = label_watch(store.clone());
    let running = tokio::spawn(async move { feeder.run(&intake).await });
    apply(&*store, "Part", "p", json!({"app": "a"})).await;
    assert_eq!(next(&queue).await, key("a"));
    apply(&*store, "Part", "p", json!({"app": "b"})).await;
    let both = BTreeSet::from([next(&queue).await, next(&queue).await]);
    assert_eq!(both, BTreeSet::from([key("a"), key("b")]));
    let parts = Key::new(Kind::new("demo.dev", "v1", "Part"), "default", "p");
    delete(&*store, parts).await;
    assert_eq!(next(&queue).await, key("b"));
    running.abort();
}

/// W2: the history is gone, and with it the deletion. The second list finds what is missing.
#[tokio::test]
async fn a_deletion_that_was_missed_is_found_by_listing_again() {
    let faulty = Faulty::over(store());
    let (queue, intake) = intake(&Gate::new());
    let feeder = label_watch(faulty.clone());
    apply(&*faulty, "Part", "p", json!({"app": "a"})).await;
    faulty.expired.store(true, Ordering::SeqCst);
    faulty.lists.add_permits(1);
    let running = tokio::spawn(async move { feeder.run(&intake).await });
    assert_eq!(next(&queue).await, key("a"));
    // The watch has expired by now, and the second list waits.
    delete(&*faulty, Key::new(Kind::new("demo.dev", "v1", "Part"), "default", "p")).await;
    faulty.lists.add_permits(1);
    assert_eq!(next(&queue).await, key("a"));
    running.abort();
}
