//! Caches that begin after reads and writes without them. No read goes back, although the first list is old.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::server::{Server, create, delete, key, kind, resize, size, sizes, widgets};
use super::{cache, next, open, open_with, status, wait_for};
use crate::cached::{CachedStore, Options};
use crate::{Availability, CacheState, Error, Query, Result, Revision, Store, View};

/// Something that a host shows of widget `a` without a cache.
type Act = for<'a> fn(&'a CachedStore, &'a Server) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The ways to show that widget `a` has size 5, or that it is gone.
const ACTS: [(&str, Act); 8] = [
    ("a read", |store, server| {
        Box::pin(async move {
            resize(&*server.store(), "a", 5).await.expect("it is there");
            assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 5);
        })
    }),
    ("a write", |store, _| Box::pin(async move { drop(resize(store, "a", 5).await.expect("it is there")) })),
    ("a list", |store, server| {
        Box::pin(async move {
            resize(&*server.store(), "a", 5).await.expect("it is there");
            assert_eq!(sizes(store).await, Ok(vec![("a".into(), 5)]));
        })
    }),
    ("a live list without it", |store, server| {
        Box::pin(async move {
            delete(&*server.store(), "a").await.expect("it is there");
            let live = Query { live: true, ..Query::all(kind("Widget")) };
            assert!(store.list(&live).await.expect("the server answers").items.is_empty());
        })
    }),
    ("a deletion", |store, _| Box::pin(async move { drop(delete(store, "a").await.expect("it is there")) })),
    ("a deletion without a revision", |store, server| {
        Box::pin(async move {
            server.fault(|faults| faults.hides_deletions = true);
            delete(store, "a").await.expect("it is there");
        })
    }),
    ("a read of what is gone", |store, server| {
        Box::pin(async move {
            delete(&*server.store(), "a").await.expect("it is there");
            assert!(matches!(store.get(&key("a")).await, Err(Error::NotFound { .. })));
        })
    }),
    ("a cache that has ended", |store, server| {
        Box::pin(async move {
            let user = store.subscribe(&kind("Widget"), View::Whole);
            wait_for(|| cache(store).state == CacheState::Synced).await;
            delete(&*server.store(), "a").await.expect("it is there");
            wait_for(|| cache(store).resources == 0).await;
            drop(user);
            sleep(Duration::from_secs(31)).await;
            assert!(status(store).caches.is_empty());
        })
    }),
];

/// Returns a server with widget `a` of size 1, and that past state.
async fn server_with_past() -> (std::sync::Arc<Server>, super::server::Past) {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    resize(&*server.store(), "a", 1).await.expect("it is there");
    let page = server.store().list(&Query::all(kind("Widget"))).await.expect("a valid query");
    (server, (page.items, page.revision))
}

/// Returns the size of widget `a`, `None` if it is gone; an error while nobody knows.
async fn look(store: &CachedStore) -> Result<Option<u64>> {
    match store.get(&key("a")).await {
        Ok(found) => Ok(Some(size(&found))),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_whose_first_list_is_old_shows_nothing_older_than_was_shown() {
    for (name, act) in ACTS {
        let (server, past) = server_with_past().await;
        let store = open_with(&server, Options { read_wait_max: Duration::from_secs(1), ..Options::default() });
        act(&store, &server).await;
        let wanted = server.store().get(&key("a")).await.ok().map(|found| size(&found));
        server.fault(|faults| faults.stale = Some(past));
        let _user = store.subscribe(&kind("Widget"), View::Whole);
        wait_for(|| cache(&store).stale_lists == 1).await;
        for shown in [look(&store).await, sizes(&store).await.map(|all| all.first().map(|(_, size)| *size))] {
            assert!(shown == Ok(wanted) || matches!(shown, Err(Error::Unavailable { .. })), "{name}: {shown:?}");
        }
        server.fault(|faults| faults.stale = None);
        wait_for(|| cache(&store).state == CacheState::Synced).await;
        let gets = server.count(|counts| &counts.gets);
        assert_eq!(look(&store).await, Ok(wanted), "{name}");
        assert_eq!((server.count(|counts| &counts.gets), store.health()), (gets, Ok(())), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn reads_ask_the_server_until_a_cache_that_begins_in_the_past_has_caught_up() {
    for (name, act) in ACTS {
        let (server, past) = server_with_past().await;
        let store = open(&server);
        act(&store, &server).await;
        let wanted = server.store().get(&key("a")).await.ok().map(|found| size(&found));
        let from = past.1;
        server.fault(|faults| (faults.stale, faults.holds_changes) = (Some(past), true));
        let mut watch = store.watch(widgets(), from).await.expect("the server has the revision");
        assert_eq!(look(&store).await, Ok(wanted), "{name}");
        let listed = sizes(&store).await.map(|all| all.first().map(|(_, size)| *size));
        assert_eq!(listed, Ok(wanted), "{name}");
        server.fault(|faults| faults.holds_changes = false);
        assert_eq!(next(&mut watch).await.resource.key().name(), "a", "{name}");
        let newest = server.store().revision(&widgets()).await.expect("it is open");
        wait_for(|| cache(&store).revision == Some(newest)).await;
        let asked = (server.count(|counts| &counts.gets), server.count(|counts| &counts.lists));
        assert_eq!((look(&store).await, sizes(&store).await.is_ok()), (Ok(wanted), true), "{name}");
        assert_eq!((server.count(|counts| &counts.gets), server.count(|counts| &counts.lists)), asked, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_begins_while_a_write_is_under_way_shows_the_write() {
    let (server, past) = server_with_past().await;
    let store = open(&server);
    assert_eq!(look(&store).await, Ok(Some(1)));
    server.fault(|faults| (faults.holds_answers, faults.stale) = (true, Some(past)));
    let (written, _user) = tokio::join!(resize(&store, "a", 5), async {
        wait_for(|| server.count(|counts| &counts.submits) == 1).await;
        let user = store.subscribe(&kind("Widget"), View::Whole);
        server.fault(|faults| faults.holds_changes = true);
        sleep(Duration::from_secs(1)).await;
        server.fault(|faults| faults.holds_answers = false);
        user
    });
    assert_eq!(size(&written.expect("it is there")), 5);
    let (shown, ()) = tokio::join!(look(&store), async { server.fault(|faults| faults.holds_changes = false) });
    assert_eq!(shown, Ok(Some(5)));
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_was_told_is_in_every_cache_that_begins_later() {
    let (server, past) = server_with_past().await;
    let store = open(&server);
    resize(&*server.store(), "a", 5).await.expect("it is there");
    assert_eq!(store.revision(&widgets()).await, Ok(Revision(3)));
    server.fault(|faults| faults.stale = Some(past));
    let _user = store.subscribe(&kind("Widget"), View::Whole);
    wait_for(|| cache(&store).stale_lists == 1).await;
    let shown = look(&store).await;
    assert!(matches!(shown, Ok(Some(5)) | Err(Error::Unavailable { .. })), "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn content_that_was_accepted_begins_at_its_own_revision() {
    let (server, _) = server_with_past().await;
    let store = open_with(&server, Options { read_wait_max: Duration::from_secs(1), ..Options::default() });
    assert_eq!(look(&store).await, Ok(Some(1)));
    server.empty(Some("two"));
    assert!(store.verify_content().await.is_err());
    store.accept_replacement("two").await.expect("it was replaced");
    create(&*server.store(), "x").await.expect("a free name");
    let began = Instant::now();
    let _user = store.subscribe(&kind("Widget"), View::Whole);
    assert_eq!(sizes(&store).await, Ok(vec![("x".into(), 0)]));
    assert!(began.elapsed() < Duration::from_secs(1), "the first list was taken");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_insists_on_less_than_was_shown_without_a_cache_was_restored() {
    let (server, _) = server_with_past().await;
    let store = open(&server);
    assert_eq!(look(&store).await, Ok(Some(1)));
    server.empty(Some("one"));
    create(&*server.store(), "x").await.expect("a free name");
    let _user = store.subscribe(&kind("Widget"), View::Whole);
    wait_for(|| matches!(status(&store).availability, Availability::Replaced { .. })).await;
    let Availability::Replaced { now, .. } = status(&store).availability else { panic!("it was replaced") };
    store.accept_replacement(&now).await.expect("it was replaced");
    assert_eq!(sizes(&store).await, Ok(vec![("x".into(), 0)]));
}
