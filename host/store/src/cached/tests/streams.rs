//! One stream for all users of a kind: its life, its gaps, and reads without it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::server::{Server, create, delete, key, kind, resize, size, sizes, widgets};
use super::{cache, next, open, status, subscribed, wait_for};
use crate::{CacheState, Error, EventType, LabelRequirement, Query, Revision, Scope, Selector, Store, View};

#[tokio::test(start_paused = true)]
async fn all_users_of_a_kind_share_one_stream() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _one) = subscribed(&server).await;
    let _two = store.subscribe(&kind("Widget"), View::Metadata);
    let from = store.revision(&widgets()).await.expect("the server answers");
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(store.watch(widgets(), from).await.expect("the history is there"));
    }
    let lists = server.count(|counts| &counts.lists);
    for _ in 0..10 {
        assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 0);
        assert!(matches!(store.get(&key("b")).await, Err(Error::NotFound { .. })));
        assert_eq!(sizes(&store).await, Ok(vec![("a".into(), 0)]));
    }
    resize(&*server.store(), "a", 1).await.expect("it is there");
    for watch in &mut watches {
        assert_eq!(size(&next(watch).await.resource), 1);
    }
    let asked = [server.count(|counts| &counts.opens), server.count(|counts| &counts.gets)];
    assert_eq!((asked, server.count(|counts| &counts.lists)), ([1, 0], lists));
    assert_eq!((cache(&store).users, cache(&store).resources), (7, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_some_time_after_its_last_user() {
    let server = Server::new();
    let (store, first) = subscribed(&server).await;
    drop(first);
    sleep(Duration::from_secs(29)).await;
    let second = store.subscribe(&kind("Widget"), View::Whole);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.count(|counts| &counts.opens), 1);
    let watch = store.watch(widgets(), Revision::ZERO).await.expect("the history is there");
    drop(second);
    sleep(Duration::from_secs(60)).await;
    assert_eq!((server.count(|counts| &counts.streams), cache(&store).users), (1, 1));
    drop(watch);
    sleep(Duration::from_secs(31)).await;
    assert_eq!((server.count(|counts| &counts.streams), status(&store).caches.len()), (0, 0));
    // And a new one begins.
    create(&*server.store(), "a").await.expect("a free name");
    let _third = store.subscribe(&kind("Widget"), View::Whole);
    assert_eq!(sizes(&store).await, Ok(vec![("a".into(), 0)]));
    assert_eq!(server.count(|counts| &counts.opens), 2);
}

#[tokio::test(start_paused = true)]
async fn users_that_come_and_go_leave_no_stream_and_miss_none() {
    let server = Server::new();
    let store = Arc::new(open(&server));
    create(&*server.store(), "a").await.expect("a free name");
    let users = (0..8_u64).map(|user| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for round in 0..20 {
                let subscription = store.subscribe(&kind("Widget"), View::Whole);
                assert_eq!(sizes(&*store).await, Ok(vec![("a".into(), 0)]));
                drop(subscription);
                // Around the time at which the stream ends.
                sleep(Duration::from_millis(29_990 + (user * 7 + round * 13) % 20)).await;
            }
        })
    });
    for user in users.collect::<Vec<_>>() {
        user.await.expect("no user failed");
    }
    sleep(Duration::from_secs(31)).await;
    assert_eq!((server.count(|counts| &counts.streams), status(&store).caches.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_uses_is_read_at_the_server() {
    let server = Server::new();
    let store = open(&server);
    create(&store, "a").await.expect("a free name");
    create(&store, "b").await.expect("a free name");
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 0);
    let mut query = Query { limit: Some(1), ..Query::all(kind("Widget")) };
    let page = store.list(&query).await.expect("the server answers");
    query.from = page.next;
    let rest = store.list(&query).await.expect("the token is the server's");
    assert_eq!((rest.items[0].key().name(), rest.next), ("b", None));
    assert_eq!(store.revision(&widgets()).await, Ok(Revision(2)));
    assert!(matches!(store.revision(&Scope::Everything).await, Err(Error::Invalid { .. })));
    assert!(matches!(store.watch(Scope::Everything, Revision(2)).await, Err(Error::Invalid { .. })));
    query.from = Some("nonsense".into());
    assert!(matches!(store.list(&query).await, Err(Error::Invalid { .. })));
    assert_eq!((server.count(|counts| &counts.opens), server.count(|counts| &counts.gets)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_kind_that_nobody_uses_has_no_gap() {
    let server = Server::new();
    let store = open(&server);
    create(&store, "a").await.expect("a free name");
    let page = store.list(&Query::all(kind("Widget"))).await.expect("the server answers");
    let mut watch = store.watch(widgets(), page.revision).await.expect("the server has the revision");
    resize(&store, "a", 1).await.expect("it is there");
    let event = next(&mut watch).await;
    assert_eq!((event.kind, size(&event.resource)), (EventType::Modified, 1));
    drop(watch);
    sleep(Duration::from_secs(31)).await;
    // The server does not have this revision any more.
    let expired = store.watch(widgets(), page.revision).await;
    assert!(matches!(expired, Err(Error::Expired { .. })), "{expired:?}");
    let future = store.watch(widgets(), Revision(99)).await;
    assert_eq!(future.err(), Some(Error::FutureRevision { asked: Revision(99), current: Revision(2) }));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_the_future_is_refused_and_delays_no_other_user() {
    let server = Server::new();
    let store = open(&server);
    create(&store, "a").await.expect("a free name");
    let (widgets, all) = (widgets(), Query::all(kind("Widget")));
    let (future, _user) = tokio::join!(store.watch(widgets, Revision(99)), async {
        let user = store.subscribe(&kind("Widget"), View::Whole);
        assert_eq!(store.list(&all).await.map(|page| page.items.len()), Ok(1));
        user
    });
    assert_eq!(future.err(), Some(Error::FutureRevision { asked: Revision(99), current: Revision(1) }));
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_begin_at_a_revision_that_the_cache_has_not_reached() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| faults.lags = true);
    let created = create(&store, "a").await.expect("a free name");
    create(&*server.store(), "b").await.expect("a free name");
    let live = store.list(&Query { live: true, ..Query::all(kind("Widget")) }).await.expect("the server answers");
    let mut of_write = store.watch(widgets(), created.revision()).await.expect("the server has it");
    let mut of_list = store.watch(widgets(), live.revision).await.expect("the server has it");
    server.fault(|faults| faults.lags = false);
    assert_eq!(next(&mut of_write).await.resource.key().name(), "b");
    create(&store, "c").await.expect("a free name");
    assert_eq!(next(&mut of_list).await.resource.key().name(), "c");
    assert_eq!(next(&mut of_write).await.resource.key().name(), "c");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_cut_goes_on_where_it_ended() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    let mut watch = store.watch(widgets(), Revision::ZERO).await.expect("the history is there");
    for round in 1..=10 {
        create(&*server.store(), &format!("n{round}")).await.expect("a free name");
        server.cut();
        resize(&*server.store(), &format!("n{round}"), round).await.expect("it is there");
        assert_eq!(next(&mut watch).await.kind, EventType::Added);
        assert_eq!(size(&next(&mut watch).await.resource), round);
    }
    assert_eq!((server.count(|counts| &counts.opens), server.count(|counts| &counts.lists)), (11, 0));
    assert_eq!((cache(&store).state, cache(&store).reason), (CacheState::Synced, None));
}

#[tokio::test(start_paused = true)]
async fn a_gap_becomes_events_and_watches_go_on() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        create(&*server.store(), name).await.expect("a free name");
    }
    let (store, _user) = subscribed(&server).await;
    let mut watch = store.watch(widgets(), Revision(3)).await.expect("the history is there");
    server.fault(|faults| faults.forgets = true);
    server.cut();
    let at_server = server.store();
    for name in ["b", "c"] {
        delete(&*at_server, name).await.expect("it is there");
    }
    for (name, size) in [("a", 7), ("c", 8)] {
        if name == "c" {
            create(&*at_server, name).await.expect("a free name");
        }
        resize(&*at_server, name, size).await.expect("it is there");
    }
    create(&*at_server, "d").await.expect("a free name");
    let mut seen = Vec::new();
    let mut last = Revision(3);
    for _ in 0..4 {
        let event = next(&mut watch).await;
        assert!(event.revision > last && event.resource.revision() == event.revision);
        last = event.revision;
        let is_same = event.previous.as_ref().is_none_or(|previous| previous.uid() == event.resource.uid());
        seen.push((event.resource.key().name().to_owned(), event.kind, is_same));
    }
    seen.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let [added, modified, deleted] = [EventType::Added, EventType::Modified, EventType::Deleted];
    let wanted = [("a", modified, true), ("b", deleted, true), ("c", modified, false), ("d", added, true)];
    assert_eq!(seen, wanted.map(|(name, kind, is_same)| (name.to_owned(), kind, is_same)));
    assert_eq!(sizes(&store).await, sizes(&*at_server).await);
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_cached_list_show_one_revision() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    for name in ["a", "b", "c"] {
        create(&store, name).await.expect("a free name");
    }
    let mut query = Query { limit: Some(2), ..Query::all(kind("Widget")) };
    let first = store.list(&query).await.expect("the cache has it");
    delete(&store, "c").await.expect("it is there");
    create(&store, "d").await.expect("a free name");
    wait_for(|| cache(&store).revision == Some(Revision(5))).await;
    query.from = first.next;
    let second = store.list(&query).await.expect("the history is there");
    let names: Vec<_> = second.items.iter().map(|resource| resource.key().name()).collect();
    assert_eq!((names, second.revision, second.next), (vec!["c"], Revision(3), None));
    assert_eq!(server.count(|counts| &counts.lists), 0);
    drop(_user);
    sleep(Duration::from_secs(31)).await;
    assert!(matches!(store.list(&query).await, Err(Error::Expired { .. })));
}

#[tokio::test(start_paused = true)]
async fn reads_and_selectors_leave_neither_texts_nor_documents_in_the_cache() {
    let server = Server::new();
    for number in 0..100 {
        create(&*server.store(), &format!("n{number}")).await.expect("a free name");
    }
    let (store, _user) = subscribed(&server).await;
    let labels = vec![LabelRequirement::Equals("size".into(), "0".into())];
    let selector = Selector { labels, fields: vec![("/spec/size".into(), "0".into())], ..Selector::default() };
    let page = store.list(&Query { selector, ..Query::all(kind("Widget")) }).await.expect("a valid query");
    assert_eq!(page.items.len(), 100);
    for resource in &page.items {
        assert!(store.get(resource.key()).await.expect("it is there").document().is_object());
    }
    let cached = store.shared.kind(&kind("Widget")).expect("it is in use");
    let contents = cached.lock().synced.clone().expect("it is synced").contents;
    let locked = contents.lock().expect("it is open");
    let is_packed = |resource: &crate::Resource| !resource.has_document() && !resource.has_text();
    assert!(locked.all_stored().values().all(|resource| is_packed(resource)));
}

#[tokio::test(start_paused = true)]
async fn a_closed_store_refuses_calls_and_ends_its_watches() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    let mut watch = store.watch(widgets(), Revision::ZERO).await.expect("the history is there");
    create(&*server.store(), "a").await.expect("a free name");
    wait_for(|| cache(&store).resources == 1).await;
    store.close().await;
    store.close().await;
    assert_eq!(watch.next().await.map(|event| event.revision), Ok(Revision(1)));
    assert_eq!(watch.next().await, Err(Error::Closed));
    assert_eq!(store.get(&key("a")).await, Err(Error::Closed));
    assert_eq!(create(&store, "b").await, Err(Error::Closed));
    assert_eq!(sizes(&store).await, Err(Error::Closed));
    assert_eq!(store.health(), Err(Error::Closed));
    assert_eq!(server.count(|counts| &counts.streams), 0);
    let began = Instant::now();
    drop((store, watch));
    assert_eq!(began.elapsed(), Duration::ZERO);
}
