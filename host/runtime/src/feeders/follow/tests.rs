use std::collections::BTreeSet;

use homeostat_fixtures::{Fault, FaultyStore, On, delete, memory_store};
use homeostat_store::{Key, LabelRequirement, Selector, Store};
use homeostat_testing::soon;
use homeostat_workqueue::Queue;
use serde_json::json;
use tokio::task::JoinHandle;

use super::super::tests::{apply, intake, intake_of, key, next, part};
use super::*;
use crate::feeders::SyncBarrier;
use crate::follows::Target;

/// The app follows these parts, and no other.
fn follows(follows: &Follows, app: &str, parts: &[&str]) {
    assert!(parts.iter().all(|name| follows.gather(&key(app), Target::One(part(name)))));
    follows.keep(&key(app));
}

type Running = JoinHandle<Result<(), FeederError>>;

async fn start(store: &Arc<FaultyStore>, follows: &Arc<Follows>) -> (Queue<Key>, Running) {
    let (queue, intake) = intake(&SyncBarrier::new());
    let feeder = FollowFeeder::new(SharedWatches::of(store.clone()), part("p").kind().clone(), follows.clone());
    let running = tokio::spawn(async move { feeder.run(&intake).await });
    // Every follower runs once when the feeder starts.
    next(&queue).await;
    (queue, running)
}

async fn change(store: &dyn Store, name: &str) {
    apply(store, "Part", name, json!({"now": store.revision(&Scope::Everything).await.unwrap().to_string()})).await;
}

/// W5: all feeders of a kind share one watch.
#[tokio::test(start_paused = true)]
async fn the_watch_of_a_kind_ends_with_the_first_change_that_nobody_follows() {
    let (store, all) = (FaultyStore::over(memory_store()), Arc::<Follows>::default());
    follows(&all, "a", &["p"]);
    assert_eq!(all.take_unwatched().len(), 1);
    let (queue, running) = start(&store, &all).await;
    change(&*store, "other").await;
    change(&*store, "p").await;
    assert_eq!((next(&queue).await, store.open()), (key("a"), 1));
    follows(&all, "a", &[]);
    change(&*store, "p").await;
    soon(running).await.unwrap().unwrap();
    assert_eq!((queue.len(), store.open()), (0, 0));
    follows(&all, "a", &["p"]);
    assert_eq!(all.take_unwatched().len(), 1, "it needs a feeder again");
}

/// W2: changes in a gap are unknown, so every follower of the kind runs.
#[tokio::test(start_paused = true)]
async fn after_a_gap_all_followers_of_the_kind_run_again() {
    let (store, all) = (FaultyStore::over(memory_store()), Arc::<Follows>::default());
    follows(&all, "a", &["p"]);
    let (queue, _running) = start(&store, &all).await;
    store.fault(On::Next, "Part", Fault::Expire);
    assert_eq!(next(&queue).await, key("a"));
    change(&*store, "p").await;
    assert_eq!(next(&queue).await, key("a"));
}

/// A resource that no longer has the labels matched the selector until then.
#[tokio::test(start_paused = true)]
async fn label_followers_run_when_a_resource_gains_or_loses_the_labels_or_is_deleted() {
    let (store, all) = (FaultyStore::over(memory_store()), Arc::<Follows>::default());
    let labels = vec![LabelRequirement::Equals("tier".to_owned(), "first".to_owned())];
    let selector = Selector { labels, ..Selector::default() };
    all.gather(&key("a"), Target::All(part("p").kind().clone(), selector));
    all.keep(&key("a"));
    let (queue, _running) = start(&store, &all).await;
    for tier in ["first", "rest", "first"] {
        apply(&*store, "Part", "p", json!({ "tier": tier })).await;
        assert_eq!(next(&queue).await, key("a"), "{tier}");
    }
    delete(&*store, part("p")).await;
    assert_eq!(next(&queue).await, key("a"));
}

/// W5: all feeders of a kind share one watch.
#[tokio::test(start_paused = true)]
async fn followers_refused_by_a_full_queue_run_once_there_is_room() {
    let (store, all) = (FaultyStore::over(memory_store()), Arc::<Follows>::default());
    let names: Vec<String> = (0..10).map(|n| format!("app-{n}")).collect();
    names.iter().for_each(|name| follows(&all, name, &["p"]));
    let (queue, intake) = intake_of(&SyncBarrier::new(), Some(2));
    let feeder = FollowFeeder::new(SharedWatches::of(store.clone()), part("p").kind().clone(), all.clone());
    tokio::spawn(async move { feeder.run(&intake).await });
    let mut missing: BTreeSet<Key> = names.iter().map(|name| key(name)).collect();
    while !missing.is_empty() {
        missing.remove(&next(&queue).await);
    }
    change(&*store, "p").await;
    let mut missing: BTreeSet<Key> = names.iter().map(|name| key(name)).collect();
    while !missing.is_empty() {
        missing.remove(&next(&queue).await);
    }
}
