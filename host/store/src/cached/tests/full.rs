//! The bound on the memory of all caches.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::server::{Server, create, delete, key, kind, resize, sizes, widget, widgets};
use super::{cache, open_with, status, subscribed, wait_for};
use crate::cached::budget::{Budget, BudgetExceeded, bytes_of};
use crate::cached::kind::CachedKind;
use crate::cached::read_watermark::ReadWatermark;
use crate::cached::{CachedStore, Options, Start};
use crate::{
    CacheState, Error, Kind, LabelRequirement, Obstacle, Query, Resource, Revision, Selector, Store, SystemClockAndIds,
    View,
};

fn small() -> Options {
    Options { bytes_max: 50 << 10, ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_exceeds_the_cache_says_so_and_is_tried_again() {
    let server = Server::new();
    let at_server = server.store();
    for number in 0..10 {
        create(&*at_server, &format!("n{number}")).await.expect("a free name");
    }
    let store = open_with(&server, small());
    let _widgets = store.subscribe(&kind("Widget"), View::Whole);
    let _others = store.subscribe(&kind("Other"), View::Whole);
    assert_eq!(sizes(&store).await.map(|sizes| sizes.len()), Ok(10));
    let mut watch = store.watch(widgets(), Revision(10)).await.expect("the history is there");
    for number in 10..100 {
        create(&*at_server, &format!("n{number}")).await.expect("a free name");
    }
    wait_for(|| cache(&store).state == CacheState::Full).await;
    assert_eq!(cache(&store).obstacle, Some(Obstacle::Full));
    let refused = store.get(&key("n1")).await;
    let Err(Error::Unavailable { reason }) = &refused else { panic!("{refused:?}") };
    assert!(reason.contains("the cache of store cluster is full") && reason.contains("Widget"), "{reason}");
    assert_eq!(sizes(&store).await.err(), refused.err());
    assert_eq!((cache(&store).bytes, cache(&store).resources), (0, 0));
    let end = loop {
        match watch.next().await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(end, Error::Expired { .. }), "{end:?}");
    // The other kind is not disturbed, and the server is asked after one to seven minutes.
    let other = status(&store).caches.into_iter().find(|cache| cache.kind.name == "Other");
    assert_eq!(other.map(|cache| cache.state), Some(CacheState::Synced));
    let opens = server.count(|counts| &counts.opens);
    sleep(Duration::from_secs(3600)).await;
    let tries = server.count(|counts| &counts.opens) - opens;
    assert!((3600 / 450..=3600 / 150 + 2).contains(&tries), "{tries}");
    for number in 10..100 {
        delete(&*at_server, &format!("n{number}")).await.expect("it is there");
    }
    sleep(Duration::from_secs(451)).await;
    assert_eq!(sizes(&store).await.map(|sizes| sizes.len()), Ok(10));
}

#[tokio::test(start_paused = true)]
async fn an_index_without_room_is_dropped_and_lists_go_on() {
    let server = Server::new();
    for number in 0..50 {
        create(&*server.store(), &format!("n{number}")).await.expect("a free name");
    }
    let bytes = {
        let (store, _user) = subscribed(&server).await;
        cache(&store).bytes
    };
    let labels = vec![LabelRequirement::Equals("size".to_owned(), "0".to_owned())];
    let selector = Selector { labels, ..Selector::default() };
    let query = Query { selector, ..Query::all(kind("Widget")) };
    for (bytes_max, has_index) in [(1 << 20, true), (bytes * 16 / 15 + 2048, false)] {
        let store = open_with(&server, Options { bytes_max, ..Options::default() });
        let _user = store.subscribe(&kind("Widget"), View::Whole);
        wait_for(|| cache(&store).state == CacheState::Synced).await;
        for _ in 0..2 {
            assert_eq!(store.list(&query).await.map(|page| page.items.len()), Ok(50));
        }
        assert_eq!((cache(&store).state, cache(&store).bytes > bytes), (CacheState::Synced, has_index));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_listed_again_needs_no_second_memory() {
    let server = Server::new();
    for number in 0..50 {
        create(&*server.store(), &format!("n{number}")).await.expect("a free name");
    }
    let store = open_with(&server, Options { bytes_max: 60 << 10, ..Options::default() });
    let user = store.subscribe(&kind("Widget"), View::Whole);
    assert_eq!(sizes(&store).await.map(|sizes| sizes.len()), Ok(50));
    let bytes = cache(&store).bytes;
    assert!(bytes > 30 << 10, "{bytes}");
    server.fault(|faults| faults.forgets = true);
    server.cut();
    wait_for(|| server.count(|counts| &counts.opens) == 3 && cache(&store).state == CacheState::Synced).await;
    assert_eq!((cache(&store).bytes, cache(&store).resources), (bytes, 50));
    drop(user);
    sleep(Duration::from_secs(31)).await;
    let mut charge = store.shared.budget.charge();
    assert_eq!(charge.replace(0, (60 << 10) / 16 * 15), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_contradicts_the_cache_is_charged_as_a_whole() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        create(&*server.store(), name).await.expect("a free name");
    }
    let (store, _user) = subscribed(&server).await;
    let mut page = server.store().list(&Query::all(kind("Widget"))).await.expect("a valid query");
    // No revision is left for the deletion of `c`.
    page.items.retain(|widget| widget.key().name() != "c");
    server.fault(|faults| {
        (faults.forgets, faults.stale) = (true, Some((page.items, page.revision)));
        faults.cuts += 1;
    });
    wait_for(|| cache(&store).resources == 2).await;
    server.fault(|faults| faults.stale = None);
    assert_eq!(cache(&store).bytes, bytes_of_rows(&store));
    resize(&*server.store(), "a", 1_000_000).await.expect("it is there");
    delete(&*server.store(), "b").await.expect("it is there");
    wait_for(|| cache(&store).resources == 1).await;
    assert_eq!(cache(&store).bytes, bytes_of_rows(&store));
    delete(&*server.store(), "a").await.expect("it is there");
    wait_for(|| cache(&store).resources == 0).await;
    assert_eq!(cache(&store).bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_contradicts_the_cache_is_charged_within_the_bound() {
    let server = Server::new();
    for number in 0..50 {
        create(&*server.store(), &format!("n{number}")).await.expect("a free name");
    }
    let store = open_with(&server, Options { bytes_max: 60 << 10, ..Options::default() });
    let _user = store.subscribe(&kind("Widget"), View::Whole);
    assert_eq!(sizes(&store).await.map(|sizes| sizes.len()), Ok(50));
    let mut page = server.store().list(&Query::all(kind("Widget"))).await.expect("a valid query");
    page.items.pop();
    server.fault(|faults| {
        (faults.forgets, faults.stale) = (true, Some((page.items, page.revision)));
        faults.cuts += 1;
    });
    wait_for(|| cache(&store).resources == 49).await;
    assert_eq!((cache(&store).state, cache(&store).bytes), (CacheState::Synced, bytes_of_rows(&store)));
}

/// Returns the bytes of the widgets that the cache has.
fn bytes_of_rows(store: &CachedStore) -> u64 {
    let cached = store.shared.kind(&kind("Widget")).expect("it is in use");
    let contents = cached.lock().synced.clone().expect("it is synced").contents;
    let locked = contents.lock().expect("it is open");
    locked.all_stored().values().map(|widget| bytes_of(widget)).sum()
}

#[test]
fn a_list_that_exceeds_the_cache_leaves_room_for_the_changes_of_another_kind() {
    let (budget, now) = (Budget::new(256 << 10), Start::Now { not_before: None });
    let cached = |name: &str| {
        let (kind, clock) = ((kind(name), View::Whole), Arc::new(SystemClockAndIds));
        CachedKind::new(kind, clock, Options::default().bounds(), Arc::clone(&budget), ReadWatermark::default())
    };
    let resource = |kind: &str, number: u64| {
        let mut document = widget(&format!("n{number}"), number);
        document["kind"] = kind.into();
        document["metadata"]["uid"] = format!("{kind}-{number}").into();
        document["metadata"]["resourceVersion"] = number.to_string().into();
        Resource::from_document(document).expect("it is a resource")
    };
    let (small, large) = (cached("Small"), cached("Large"));
    small.end_list(small.begin_list(now), Revision(0)).expect("it is the first list");
    // The second time, the cache has resources that have changed since.
    for round in [0, 1000] {
        let mut list = large.begin_list(now);
        let exceeded =
            (1..=500).find(|number| large.add_listed(&mut list, &resource("Large", round + number)).is_err());
        let listed = exceeded.expect("500 resources take more than 256 KiB");
        assert!(round > 0 || listed > 250, "most of the memory can be used: {listed}");
        for number in 1..=10 {
            assert_eq!(small.apply_put(&resource("Small", round + number)), Ok(()), "{number} of round {round}");
        }
        drop(list);
        let mut list = large.begin_list(now);
        for number in 1..=250 {
            large.add_listed(&mut list, &resource("Large", number)).expect("there is room");
        }
        large.end_list(list, Revision(round + 999)).expect("it is newer");
    }
}

#[test]
fn a_budget_is_given_back_and_reached_first_by_the_largest_kind() {
    let budget = Budget::new(100);
    let (mut one, mut two) = (budget.charge(), budget.charge());
    assert_eq!((one.replace(0, 60), two.replace(0, 30)), (Ok(()), Ok(())));
    assert!(two.replace(30, 41).is_err());
    assert_eq!((one.replace(60, 50), two.replace(30, 45)), (Ok(()), Ok(())));
    drop(one);
    assert_eq!((two.replace(0, 45), two.bytes()), (Ok(()), 90));
    two.release(90);
    assert_eq!((two.replace(0, 94), two.replace(0, 93)), (Err(BudgetExceeded), Ok(())));
    let mut further = two.further();
    assert!(further.replace(0, 1).is_err(), "both are of one kind");
    drop(further);
    two.release(93);
    let (mut large, mut small) = (budget.charge(), budget.charge());
    assert_eq!((large.replace(0, 93), small.replace(0, 1), small.replace(1, 6)), (Ok(()), Ok(()), Ok(())));
    assert!(large.replace(93, 94).is_err(), "the larger one reaches the bound first");
    let text = budget.describe("", &Kind::new("", "v1", "Pod"));
    assert!(text.starts_with("the cache is full (0 MiB): v1/Pod needs more"), "{text}");
}
