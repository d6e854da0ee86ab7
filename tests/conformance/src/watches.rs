//! Watches: every event, once, in order, from any revision.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::{Change, Error, Event, EventType, Options, Query, Resource, Revision, Scope, Write};
use serde_json::{Value, json};

use crate::fixture::Begin;
use crate::{Difference, Fixture, Make, create, delete, next, small_history, update, update_status};

/// S8: a watch delivers every later change, in order, once.
pub(crate) async fn a_watch_event_has_the_change_and_the_resource_before_it(make: Make) {
    let store = make(Options::default()).await;
    let mut begin = store.begin().await;
    let created = create(&**store, store.thing("a", json!({}))).await;
    begin.see(created.revision()).await;
    let updated = update(&**store, store.thing("a", json!({"x": 1}))).await.unwrap().resource;
    begin.see(updated.revision()).await;
    update(&**store, store.thing("a", json!({"x": 1}))).await.unwrap();
    let gone = delete(&**store, store.key("a"), Default::default()).await.unwrap();
    let end = begin.see_deletion(&gone).await;
    let mut watch = store.watch(store.scope(), begin.at).await.unwrap();
    let event = |kind, resource: &Arc<Resource>, previous: Option<&Arc<Resource>>| Event {
        kind,
        resource: resource.clone(),
        previous: previous.cloned(),
        revision: resource.revision(),
    };
    assert_eq!(next(&mut watch).await.unwrap(), event(EventType::Added, &created, None));
    assert_eq!(next(&mut watch).await.unwrap(), event(EventType::Modified, &updated, Some(&created)));
    let last = next(&mut watch).await.unwrap();
    if store.differs(Difference::DeletionsWithoutRevision) {
        assert_eq!((last.kind, last.resource.uid(), last.revision), (EventType::Deleted, gone.resource.uid(), end));
        assert_eq!((last.resource.revision(), last.previous), (end, Some(updated)));
    } else {
        assert_eq!(last, event(EventType::Deleted, &gone.resource, Some(&updated)));
    }
}

pub(crate) async fn a_watch_of_a_kind_leaves_others_out(make: Make) {
    let store = make(Options::default()).await;
    store.add_kind("Other").await;
    let mut other = store.thing("b", json!({}));
    other["kind"] = json!("Other");
    let mut newer = store.thing("c", json!({}));
    newer["apiVersion"] = json!(store.api_version("v2"));
    if store.differs(Difference::DefinedKinds) {
        store.define("v1", [("v1", None), ("v2", None)]).await;
    }
    let begin = store.begin().await;
    let mut watch = store.watch(Scope::Kind(store.kind("Thing")), begin.at).await.unwrap();
    for document in [store.thing("a", json!({})), other, newer] {
        create(&**store, document).await;
    }
    assert_eq!(next(&mut watch).await.unwrap().resource.key().name(), "a");
    assert_eq!(next(&mut watch).await.unwrap().resource.key().name(), "c");
}

/// S8: a watch delivers every later change, in order, once.
pub(crate) async fn a_watch_knows_how_far_it_has_come_and_no_further(make: Make) {
    let store = make(Options::default()).await;
    store.add_kind("Other").await;
    let mut other = store.thing("other", json!({}));
    other["kind"] = json!("Other");
    let begin = store.begin().await;
    let mut watch = store.watch(Scope::Kind(store.kind("Thing")), begin.at).await.unwrap();
    let mut created = Vec::new();
    for document in [store.thing("a", json!({})), store.thing("b", json!({})), other] {
        created.push(create(&**store, document).await.revision());
    }
    // The position is never before the last event, and never beyond the next one.
    let is_between = |position: Option<Revision>, last: Revision, next: Revision| {
        let position = position.unwrap();
        let is_right = position == last || position > last && store.differs(Difference::GapsInRevisions);
        assert!(is_right && position < next, "{position} of {last} and {next}");
    };
    is_between(watch.position(), begin.at, created[0]);
    next(&mut watch).await.unwrap();
    is_between(watch.position(), created[0], created[1]);
    next(&mut watch).await.unwrap();
    // Nor is it beyond the store.
    let position = watch.position().unwrap();
    assert!(created[1] <= position && position <= store.newest().await.max(created[2]));
    let waiting = tokio::time::timeout(Duration::from_millis(1), watch.next());
    assert!(waiting.await.is_err(), "there is nothing more of this kind");
    let position = watch.position().unwrap();
    let mut again = store.watch(Scope::Kind(store.kind("Thing")), position).await.unwrap();
    create(&**store, store.thing("c", json!({}))).await;
    assert_eq!(next(&mut again).await.unwrap().resource.key().name(), "c");
    assert_eq!(next(&mut watch).await.unwrap().resource.key().name(), "c");
}

/// S8: a watch delivers every later change, in order, once.
pub(crate) async fn a_revision_in_the_future_is_refused(make: Make) {
    let store = make(Options::default()).await;
    let created = create(&**store, store.thing("a", json!({}))).await;
    store.assert_count(created.revision(), 1);
    let newest = store.newest().await;
    let later = if store.differs(Difference::GapsInRevisions) { Revision(newest.0 + (1 << 40)) } else { newest.next() };
    let refused = store.watch(store.scope(), later).await;
    let Err(Error::FutureRevision { asked, current }) = refused else { panic!("{refused:?}") };
    assert_eq!(asked, later);
    assert!(created.revision() <= current && current < later);
    store.assert_count(current, 1);
}

/// S8: a read finds what a watch has delivered. A reconciler takes a resource that it does not find for deleted.
pub(crate) async fn a_read_finds_what_a_watch_has_delivered(make: Make) {
    let store = make(Options::default()).await;
    let begin = store.begin().await;
    let mut watch = store.watch(store.scope(), begin.at).await.unwrap();
    let names: Vec<String> = (0..100).map(|number| format!("thing-{number}")).collect();
    let creations = async {
        for name in &names {
            create(&**store, store.thing(name, json!({}))).await;
        }
    };
    let reads = async {
        for name in &names {
            let event = next(&mut watch).await.unwrap();
            let found = store.get(event.resource.key()).await.unwrap();
            assert_eq!((found.key().name(), found.revision()), (name.as_str(), event.revision));
        }
    };
    tokio::join!(creations, reads);
}

/// Makes changes that the store sees one by one.
async fn churn(store: &Fixture, begin: &mut Begin, rounds: u64) {
    for round in 0..rounds {
        let written = update_status(&***store, store.key("a"), json!({"round": round})).await.unwrap();
        begin.see(written.resource.revision()).await;
    }
}

/// S8: a watch delivers every later change, in order, once.
pub(crate) async fn a_compacted_revision_is_expired_and_the_oldest_one_misses_nothing(make: Make) {
    let store = make(small_history(10)).await;
    let mut begin = store.begin().await;
    let early = create(&**store, store.thing("a", json!({}))).await.revision();
    begin.see(early).await;
    churn(&store, &mut begin, 300).await;
    let last = begin.see_deletion(&delete(&**store, store.key("a"), Default::default()).await.unwrap()).await;
    let Err(Error::Expired { oldest }) = store.watch(store.scope(), early).await else { panic!("expired") };
    store.assert_count(oldest, 292);
    let before = store.watch(store.scope(), Revision(oldest.0 - 1)).await;
    assert!(matches!(before, Err(Error::Expired { .. })));
    let mut watch = store.watch(store.scope(), oldest).await.unwrap();
    let mut at = oldest;
    while at < last {
        let event = next(&mut watch).await.unwrap();
        store.assert_next(at, event.revision);
        at = event.revision;
    }
    assert_eq!(at, last);
}

/// S9: no event is lost silently.
pub(crate) async fn a_watch_that_is_too_slow_ends_with_expired(make: Make) {
    let store = make(small_history(10)).await;
    let mut begin = store.begin().await;
    let created = create(&**store, store.thing("a", json!({}))).await;
    begin.see(created.revision()).await;
    let mut watch = store.watch(store.scope(), store.newest().await).await.unwrap();
    churn(&store, &mut begin, 300).await;
    let slow = next(&mut watch).await;
    assert!(matches!(slow, Err(Error::Expired { .. })), "{slow:?}");
}

/// S9: no event is lost silently.
pub(crate) async fn a_cancelled_wait_loses_nothing(make: Make) {
    let store = make(Options::default()).await;
    let begin = store.begin().await;
    let mut watch = store.watch(store.scope(), begin.at).await.unwrap();
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
        let created = create(&**store, store.thing(&format!("n{number}"), json!({}))).await;
        assert_eq!(next(&mut watch).await.unwrap().revision, created.revision());
        store.assert_count(created.revision(), number);
    }
}

pub(crate) async fn a_watch_wakes_up_for_a_later_write(make: Make) {
    let store = make(Options::default()).await;
    let begin = store.begin().await;
    let mut watch = store.watch(store.scope(), begin.at).await.unwrap();
    let waiting = tokio::spawn(async move { next(&mut watch).await });
    let created = create(&**store, store.thing("a", json!({}))).await;
    assert_eq!(waiting.await.unwrap().unwrap().revision, created.revision());
}

pub(crate) async fn a_closed_store_ends_its_watches_after_the_last_event(make: Make) {
    let store = make(Options::default()).await;
    let mut begin = store.begin().await;
    let mut watch = store.watch(store.scope(), begin.at).await.unwrap();
    let created = create(&**store, store.thing("a", json!({}))).await;
    begin.see(created.revision()).await;
    store.close().await;
    assert_eq!(next(&mut watch).await.unwrap().revision, created.revision());
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

/// Applies an event to the state of a reader whose list had own writes before the watch has them.
fn catch_up(world: &mut BTreeMap<String, Arc<Resource>>, event: Event) {
    let name = event.resource.key().name().to_owned();
    if world.get(&name).is_some_and(|known| known.revision() >= event.revision) {
        return;
    }
    match event.kind {
        EventType::Deleted => world.remove(&name),
        EventType::Added | EventType::Modified => world.insert(name, event.resource),
    };
}

/// Writes few keys from many tasks; returns the number of changes.
async fn storm(store: &Fixture, writers: u64, rounds: u64) -> u64 {
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..writers {
        let store = store.clone();
        tasks.spawn(async move {
            let mut changes = 0;
            for round in 0..rounds {
                let name = format!("n{}", (writer * 7 + round * 3) % 10);
                let answer = match round % 4 {
                    0 => store.write(Write::Create { document: store.thing(&name, json!({"by": writer})) }).await,
                    3 => delete(&**store, store.key(&name), Default::default()).await,
                    _ => {
                        let change = Change::Merge(json!({"spec": {"by": writer, "round": round}}));
                        store
                            .write(Write::Patch { key: store.key(&name), change, precondition: Default::default() })
                            .await
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
pub(crate) async fn list_then_watch_has_neither_gap_nor_duplicate(make: Make) {
    let store = make(Options::default()).await;
    let _begin = store.begin().await;
    let writing = tokio::spawn({
        let store = store.clone();
        async move { storm(&store, 4, 100).await }
    });
    let mut readers = tokio::task::JoinSet::new();
    let (done, last) = tokio::sync::watch::channel(None::<Revision>);
    for _ in 0..6 {
        let (store, mut last) = (store.clone(), last.clone());
        readers.spawn(async move {
            let page = store.list(&Query::all(store.kind("Thing"))).await.unwrap();
            let mut world: BTreeMap<_, _> =
                page.items.into_iter().map(|item| (item.key().name().to_owned(), item)).collect();
            let mut watch = store.watch(Scope::Kind(store.kind("Thing")), page.revision).await.unwrap();
            let mut at = page.revision;
            while last.borrow().is_none_or(|last| at < last) {
                tokio::select! {
                    event = watch.next() => {
                        let event = event.unwrap();
                        at = event.revision;
                        if store.differs(Difference::SeenLater) {
                            catch_up(&mut world, event);
                        } else {
                            believe(&mut world, event);
                        }
                    }
                    told = last.changed() => told.unwrap(),
                }
            }
            world
        });
    }
    writing.await.unwrap();
    // No later change overwrites this one, so that every watch has it.
    let end = create(&**store, store.thing("end", json!({}))).await;
    store.assert_newest(end.revision()).await;
    done.send(Some(end.revision())).unwrap();
    let page = store.list(&Query::all(store.kind("Thing"))).await.unwrap();
    let truth: BTreeMap<_, _> = page.items.into_iter().map(|item| (item.key().name().to_owned(), item)).collect();
    for world in readers.join_all().await {
        assert_eq!(world, truth);
    }
}

/// S8: a watch delivers every later change, in order, once.
pub(crate) async fn watchers_from_any_revision_see_every_event_once_in_order(make: Make) {
    let store = make(Options::default()).await;
    let anchor = store.begin().await;
    let begin = anchor.at;
    create(&**store, store.thing("first", json!({}))).await;
    let mut slow = store.watch(store.scope(), begin).await.unwrap();
    let mut watchers = tokio::task::JoinSet::new();
    let (done, last) = tokio::sync::watch::channel(None::<Revision>);
    for _ in 0..8 {
        let (reader, mut last) = (store.clone(), last.clone());
        watchers.spawn(async move {
            // The start depends on the scheduling of the tasks: any revision so far.
            let from = Revision(begin.0 + rand(reader.newest().await.0 - begin.0));
            let mut watch = reader.watch(reader.scope(), from).await.unwrap();
            let mut at = from;
            while last.borrow().is_none_or(|last| at < last) {
                tokio::select! {
                    event = watch.next() => {
                        let event = event.unwrap();
                        reader.assert_next(at, event.revision);
                        assert_eq!(event.revision, event.resource.revision());
                        at = event.revision;
                    }
                    told = last.changed() => told.unwrap(),
                }
            }
        });
        storm(&store, 2, 20).await;
    }
    storm(&store, 4, 100).await;
    let end = create(&**store, store.thing("end", json!({}))).await.revision();
    store.assert_newest(end).await;
    done.send(Some(end)).unwrap();
    while let Some(watcher) = watchers.join_next().await {
        watcher.unwrap();
    }
    let (mut world, mut at) = (BTreeMap::new(), begin);
    while at < end {
        let event = next(&mut slow).await.unwrap();
        store.assert_next(at, event.revision);
        at = event.revision;
        believe(&mut world, event);
    }
    let truth = store.list(&Query::all(store.kind("Thing"))).await.unwrap().items;
    assert_eq!(world.into_values().collect::<Vec<_>>().len(), truth.len());
}

/// Returns a random number from 0 to `max`, from the randomness of hash maps.
fn rand(max: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(Value::Null.to_string()) % (max + 1)
}
