//! Servers that do not answer, or refuse a kind.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::server::{Server, create, key, kind, resize, size, sizes, widgets};
use super::{cache, next, open, status, subscribed, wait_for};
use crate::{Availability, CacheState, Error, Obstacle, Revision, Store, View};

#[tokio::test(start_paused = true)]
async fn a_store_starts_without_its_server() {
    let server = Server::new();
    server.fault(|faults| faults.away = true);
    let store = open(&server);
    let _user = store.subscribe(&kind("Widget"), View::Whole);
    let began = Instant::now();
    let refused = create(&store, "a").await;
    assert!(matches!(&refused, Err(Error::Unavailable { reason }) if reason.contains("store cluster")), "{refused:?}");
    assert!(matches!(store.get(&key("a")).await, Err(Error::Unavailable { .. })));
    assert!(matches!(status(&store).availability, Availability::Starting { reason: Some(_) }));
    assert!(began.elapsed() < Duration::from_secs(1));
    sleep(Duration::from_secs(60)).await;
    assert!(server.count(|counts| &counts.connects) < 40);
    assert_eq!((server.count(|counts| &counts.opens), server.count(|counts| &counts.submits)), (0, 0));
    server.fault(|faults| faults.away = false);
    wait_for(|| store.health().is_ok()).await;
    create(&store, "a").await.expect("the server answers");
    assert_eq!((sizes(&store).await, status(&store).id), (Ok(vec![("a".into(), 0)]), Some("one".into())));
}

#[tokio::test(start_paused = true)]
async fn reads_show_the_cache_while_the_server_is_away() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    let mut watch = store.watch(widgets(), Revision(1)).await.expect("the history is there");
    server.fault(|faults| faults.away = true);
    wait_for(|| matches!(status(&store).availability, Availability::Away { .. })).await;
    let (began, submits) = (Instant::now(), server.count(|counts| &counts.submits));
    assert_eq!(size(&store.get(&key("a")).await.expect("it is cached")), 0);
    assert_eq!(sizes(&store).await, Ok(vec![("a".into(), 0)]));
    assert!(matches!(resize(&store, "a", 1).await, Err(Error::Unavailable { .. })));
    assert!(matches!(store.get_live(&key("a")).await, Err(Error::Unavailable { .. })));
    assert!(matches!(store.health(), Err(Error::Unavailable { .. })));
    assert_eq!((began.elapsed(), server.count(|counts| &counts.submits)), (Duration::ZERO, submits));
    assert!(matches!(cache(&store).state, CacheState::Behind { .. }));
    // The watch waits.
    assert!(timeout(Duration::from_secs(300), watch.next()).await.is_err());
    resize(&*server.store(), "a", 2).await.expect("it is there");
    server.fault(|faults| faults.away = false);
    assert_eq!(size(&next(&mut watch).await.resource), 2);
    assert_eq!(store.health(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn streams_of_many_kinds_come_back_spread_and_once_each() {
    let server = Server::new();
    let store = open(&server);
    let kinds = 100;
    let _users: Vec<_> =
        (0..kinds).map(|number| store.subscribe(&kind(&format!("Kind{number}")), View::Whole)).collect();
    let all_synced = || status(&store).caches.iter().all(|cache| cache.state == CacheState::Synced);
    wait_for(all_synced).await;
    assert_eq!(server.count(|counts| &counts.opens), kinds);
    server.fault(|faults| faults.away = true);
    wait_for(|| matches!(status(&store).availability, Availability::Away { .. })).await;
    sleep(Duration::from_secs(120)).await;
    // The monitor alone asks, each 5 seconds.
    assert_eq!(server.count(|counts| &counts.opens), kinds);
    assert!(server.count(|counts| &counts.connects) < 80, "{}", server.count(|counts| &counts.connects));
    server.fault(|faults| faults.away = false);
    wait_for(|| store.health().is_ok()).await;
    sleep(Duration::from_millis(200)).await;
    let early = server.count(|counts| &counts.opens) - kinds;
    assert!(early < kinds / 2, "{early} streams were opened at once");
    wait_for(all_synced).await;
    assert_eq!((server.count(|counts| &counts.opens), server.count(|counts| &counts.streams)), (2 * kinds, kinds));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_server_refuses_delays_no_other() {
    let server = Server::new();
    server.fault(|faults| faults.forbids = Some("Secret"));
    let (store, _user) = subscribed(&server).await;
    let _refused = store.subscribe(&kind("Secret"), View::Whole);
    let began = Instant::now();
    let secret = crate::Key::new(kind("Secret"), "default", "a");
    let refused = store.get(&secret).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    let obstacles: Vec<_> = status(&store).caches.into_iter().map(|cache| (cache.kind.name, cache.obstacle)).collect();
    assert_eq!(obstacles, [("Secret".to_owned(), Some(Obstacle::Forbidden)), ("Widget".to_owned(), None)]);
    assert!(matches!(store.get(&key("a")).await, Err(Error::NotFound { .. })));
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(store.health(), Ok(()));
    sleep(Duration::from_secs(600)).await;
    assert!(server.count(|counts| &counts.opens) < 12, "{}", server.count(|counts| &counts.opens));
    server.fault(|faults| faults.forbids = None);
    sleep(Duration::from_secs(451)).await;
    assert!(matches!(store.get(&secret).await, Err(Error::NotFound { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_for_the_first_list_and_says_so_when_it_does_not_come() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    server.fault(|faults| faults.lags = true);
    let store = open(&server);
    let _user = store.subscribe(&kind("Widget"), View::Whole);
    let late = store.get(&key("a")).await;
    assert!(
        matches!(&late, Err(Error::Unavailable { reason }) if reason.contains("did not come within 10s")),
        "{late:?}"
    );
    let wanted = key("a");
    let (read, ()) = tokio::join!(store.get(&wanted), async { server.fault(|faults| faults.lags = false) });
    assert_eq!(size(&read.expect("it is there")), 0);
}
