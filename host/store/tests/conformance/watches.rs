//! Watches: every event, once, in order, from any revision.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::{Change, Error, Event, EventType, Query, Resource, Revision, Scope, Store, Write};
use serde_json::{Value, json};

use crate::{Make, create, delete, key, kind, next, on_every_store, small_history, thing, update, update_status};

on_every_store!(
    a_watch_event_has_the_change_and_the_resource_before_it,
    a_watch_of_a_kind_leaves_others_out,
    a_watch_knows_how_far_it_has_come_and_no_further,
    a_revision_in_the_future_is_refused,
    a_compacted_revision_is_expired_and_the_oldest_one_misses_nothing,
    a_watch_that_is_too_slow_ends_with_expired,
    a_cancelled_wait_loses_nothing,
    a_watch_wakes_up_for_a_later_write,
    a_closed_store_ends_its_watches_after_the_last_event,
    list_then_watch_has_neither_gap_nor_duplicate,
    watchers_from_any_revision_see_every_event_once_in_order,
);

/// S8: a watch delivers every later change, in order, once.
async fn a_watch_event_has_the_change_and_the_resource_before_it(make: Make) {
    let store = make(Default::default());
    let created = create(&**store, thing("a", json!({}))).await;
    let updated = update(&**store, thing("a", json!({"x": 1}))).await.unwrap().resource;
    update(&**store, thing("a", json!({"x": 1}))).await.unwrap();
    let gone = delete(&**store, key("a"), Default::default()).await.unwrap().resource;
    let mut watch = store.watch(Scope::Everything, Revision::ZERO).await.unwrap();
    let event = |kind, resource: &Arc<Resource>, previous: Option<&Arc<Resource>>| Event {
        kind,
        resource: resource.clone(),
        previous: previous.cloned(),
        revision: resource.revision(),
    };
    assert_eq!(next(&mut watch).await.unwrap(), event(EventType::Added, &created, None));
    assert_eq!(next(&mut watch).await.unwrap(), event(EventType::Modified, &updated, Some(&created)));
    assert_eq!(next(&mut watch).await.unwrap(), event(EventType::Deleted, &gone, Some(&updated)));
}

async fn a_watch_of_a_kind_leaves_others_out(make: Make) {
    let store = make(Default::default());
    let mut other = thing("b", json!({}));
    other["kind"] = json!("Other");
    let mut newer = thing("c", json!({}));
    newer["apiVersion"] = json!("example.dev/v2");
    let mut watch = store.watch(Scope::Kind(kind("Thing")), Revision::ZERO).await.unwrap();
    for document in [thing("a", json!({})), other, newer] {
        create(&**store, document).await;
    }
    assert_eq!(next(&mut watch).await.unwrap().resource.key().name(), "a");
    assert_eq!(next(&mut watch).await.unwrap().resource.key().name(), "c");
}

/// S8: a watch delivers every later change, in order, once.
async fn a_watch_knows_how_far_it_has_come_and_no_further(make: Make) {
    let store = make(Default::default());
    let mut other = thing("other", json!({}));
    other["kind"] = json!("Other");
    let mut watch = store.watch(Scope::Kind(kind("Thing")), Revision::ZERO).await.unwrap();
    for document in [thing("a", json!({})), thing("b", json!({})), other] {
        create(&**store, document).await;
    }
    assert_eq!(watch.position(), Some(Revision::ZERO), "the store is far ahead");
    next(&mut watch).await.unwrap();
    assert_eq!(watch.position(), Some(Revision(1)));
    next(&mut watch).await.unwrap();
    // The position is never before the last event, and never beyond the store.
    assert!((2..=3).contains(&watch.position().unwrap().0));
    let waiting = tokio::time::timeout(Duration::from_millis(1), watch.next());
    assert!(waiting.await.is_err(), "there is nothing more of this kind");
    let position = watch.position().unwrap();
    let mut again = store.watch(Scope::Kind(kind("Thing")), position).await.unwrap();
    create(&**store, thing("c", json!({}))).await;
    assert_eq!(next(&mut again).await.unwrap().resource.key().name(), "c");
    assert_eq!(next(&mut watch).await.unwrap().resource.key().name(), "c");
}

/// S8: a watch delivers every later change, in order, once.
async fn a_revision_in_the_future_is_refused(make: Make) {
    let store = make(Default::default());
    create(&**store, thing("a", json!({}))).await;
    let refused = store.watch(Scope::Everything, Revision(2)).await;
    assert!(matches!(refused, Err(Error::FutureRevision { asked: Revision(2), current: Revision(1) })), "{refused:?}");
}

async fn churn(store: &dyn Store, rounds: u64) {
    for round in 0..rounds {
        update_status(store, key("a"), json!({"round": round})).await.unwrap();
    }
}

/// S8: a watch delivers every later change, in order, once.
async fn a_compacted_revision_is_expired_and_the_oldest_one_misses_nothing(make: Make) {
    let store = make(small_history(10));
    create(&**store, thing("a", json!({}))).await;
    churn(&**store, 300).await;
    delete(&**store, key("a"), Default::default()).await.unwrap();
    let Err(Error::Expired { oldest }) = store.watch(Scope::Everything, Revision(5)).await else { panic!("expired") };
    assert_eq!(oldest, Revision(292));
    assert!(matches!(store.watch(Scope::Everything, Revision(291)).await, Err(Error::Expired { .. })));
    let mut watch = store.watch(Scope::Everything, oldest).await.unwrap();
    for revision in 293..=302 {
        assert_eq!(next(&mut watch).await.unwrap().revision, Revision(revision));
    }
}

/// S9: no event is lost silently.
async fn a_watch_that_is_too_slow_ends_with_expired(make: Make) {
    let store = make(small_history(10));
    create(&**store, thing("a", json!({}))).await;
    let mut watch = store.watch(Scope::Everything, store.revision()).await.unwrap();
    churn(&**store, 300).await;
    let slow = next(&mut watch).await;
    assert!(matches!(slow, Err(Error::Expired { .. })), "{slow:?}");
}

/// S9: no event is lost silently.
async fn a_cancelled_wait_loses_nothing(make: Make) {
    let store = make(Default::default());
    let mut watch = store.watch(Scope::Everything, Revision::ZERO).await.unwrap();
    for number in 1..=50 {
        // Each call is polled once and dropped, with and without an event ready.
        for _ in 0..2 {
            tokio::select! {
                biased;
                _ = std::future::ready(()) => {}
                _ = watch.next() => {}
            }
            let waiting = std::future::poll_fn(|context| {
                let polled = std::pin::pin!(watch.next()).poll(context);
                std::task::Poll::Ready(polled)
            });
            assert!(waiting.await.is_pending());
        }
        create(&**store, thing(&format!("n{number}"), json!({}))).await;
        assert_eq!(next(&mut watch).await.unwrap().revision, Revision(number));
    }
}

async fn a_watch_wakes_up_for_a_later_write(make: Make) {
    let store = make(Default::default());
    let mut watch = store.watch(Scope::Everything, Revision::ZERO).await.unwrap();
    let waiting = tokio::spawn(async move { next(&mut watch).await });
    create(&**store, thing("a", json!({}))).await;
    assert_eq!(waiting.await.unwrap().unwrap().revision, Revision(1));
}

async fn a_closed_store_ends_its_watches_after_the_last_event(make: Make) {
    let store = make(Default::default());
    let mut watch = store.watch(Scope::Everything, Revision::ZERO).await.unwrap();
    create(&**store, thing("a", json!({}))).await;
    store.close().await;
    assert_eq!(next(&mut watch).await.unwrap().revision, Revision(1));
    assert_eq!(next(&mut watch).await, Err(Error::Closed));
}

/// Applies an event to a reader's state; it has to be consistent.
fn believe(world: &mut BTreeMap<String, Arc<Resource>>, event: Event) {
    let name = event.resource.key().name().to_owned();
    let before = match event.kind {
        EventType::Deleted => world.remove(&name),
        EventType::Added | EventType::Modified => world.insert(name, event.resource),
    };
    assert_eq!(before, event.previous);
}

/// Writes few keys from many tasks; returns the number of changes.
async fn storm(store: &Arc<dyn Store>, writers: u64, rounds: u64) -> u64 {
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..writers {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let mut changes = 0;
            for round in 0..rounds {
                let name = format!("n{}", (writer * 7 + round * 3) % 10);
                let answer = match round % 4 {
                    0 => store.write(Write::Create { document: thing(&name, json!({"by": writer})) }).await,
                    3 => delete(&*store, key(&name), Default::default()).await,
                    _ => {
                        let change = Change::Merge(json!({"spec": {"by": writer, "round": round}}));
                        store.write(Write::Patch { key: key(&name), change, precondition: Default::default() }).await
                    }
                };
                match answer {
                    Ok(written) => changes += u64::from(written.change.is_some()),
                    Err(Error::AlreadyExists { .. } | Error::NotFound { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                tokio::task::yield_now().await;
            }
            changes
        });
    }
    tasks.join_all().await.into_iter().sum()
}

/// S8: a watch delivers every later change, in order, once.
async fn list_then_watch_has_neither_gap_nor_duplicate(make: Make) {
    let store = make(Default::default());
    let writing = tokio::spawn({
        let store = store.store.clone();
        async move { storm(&store, 4, 100).await }
    });
    let mut readers = tokio::task::JoinSet::new();
    let (done, last) = tokio::sync::watch::channel(None::<Revision>);
    for _ in 0..6 {
        let (store, mut last) = (store.store.clone(), last.clone());
        readers.spawn(async move {
            let page = store.list(&Query::all(kind("Thing"))).await.unwrap();
            let mut world: BTreeMap<_, _> =
                page.items.into_iter().map(|item| (item.key().name().to_owned(), item)).collect();
            let mut watch = store.watch(Scope::Kind(kind("Thing")), page.revision).await.unwrap();
            let mut at = page.revision;
            while last.borrow().is_none_or(|last| at < last) {
                tokio::select! {
                    event = watch.next() => {
                        let event = event.unwrap();
                        at = event.revision;
                        believe(&mut world, event);
                    }
                    told = last.changed() => told.unwrap(),
                }
            }
            world
        });
    }
    writing.await.unwrap();
    done.send(Some(store.revision())).unwrap();
    let page = store.list(&Query::all(kind("Thing"))).await.unwrap();
    let truth: BTreeMap<_, _> = page.items.into_iter().map(|item| (item.key().name().to_owned(), item)).collect();
    for world in readers.join_all().await {
        assert_eq!(world, truth);
    }
}

/// S8: a watch delivers every later change, in order, once.
async fn watchers_from_any_revision_see_every_event_once_in_order(make: Make) {
    let store = make(Default::default());
    create(&**store, thing("first", json!({}))).await;
    let mut slow = store.watch(Scope::Everything, Revision::ZERO).await.unwrap();
    let mut watchers = tokio::task::JoinSet::new();
    let (done, last) = tokio::sync::watch::channel(None::<Revision>);
    for _ in 0..8 {
        let (reader, mut last) = (store.store.clone(), last.clone());
        watchers.spawn(async move {
            // The start depends on the scheduling of the tasks: any revision so far.
            let from = Revision(rand(reader.revision().0));
            let mut watch = reader.watch(Scope::Everything, from).await.unwrap();
            let mut at = from;
            while last.borrow().is_none_or(|last| at < last) {
                tokio::select! {
                    event = watch.next() => {
                        let event = event.unwrap();
                        assert_eq!(event.revision, at.next(), "from {from}");
                        assert_eq!(event.revision, event.resource.revision());
                        at = event.revision;
                    }
                    told = last.changed() => told.unwrap(),
                }
            }
        });
        storm(&store.store, 2, 20).await;
    }
    storm(&store.store, 4, 100).await;
    done.send(Some(store.revision())).unwrap();
    while let Some(watcher) = watchers.join_next().await {
        watcher.unwrap();
    }
    let mut world = BTreeMap::new();
    for revision in 1..=store.revision().0 {
        let event = next(&mut slow).await.unwrap();
        assert_eq!(event.revision, Revision(revision));
        believe(&mut world, event);
    }
    let truth = store.list(&Query::all(kind("Thing"))).await.unwrap().items;
    assert_eq!(world.into_values().collect::<Vec<_>>().len(), truth.len());
}

/// Returns a random number from 0 to `max`, from the randomness of hash maps.
fn rand(max: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(Value::Null.to_string()) % (max + 1)
}
