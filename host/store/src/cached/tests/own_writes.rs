//! Reads see own writes and never go back, with any faults of the stream.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::server::{Server, create, delete, key, kind, resize, size, sizes, widgets};
use super::{cache, next, open, status, subscribed, wait_for};
use crate::cached::own_writes::{FENCES_MAX, OwnWrite};
use crate::{
    CacheState, Error, EventType, Kind, Precondition, Query, Request, Resource, Revision, ScaleRequest, Selector,
    Store, Write,
};

#[tokio::test(start_paused = true)]
async fn a_write_is_read_at_once_although_the_stream_lags() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    let mut watch = store.watch(widgets(), Revision(1)).await.expect("the history is there");
    server.fault(|faults| faults.lags = true);
    resize(&store, "a", 5).await.expect("it is there");
    create(&store, "b").await.expect("a free name");
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 5);
    assert_eq!(sizes(&store).await, Ok(vec![("a".into(), 5), ("b".into(), 0)]));
    delete(&store, "a").await.expect("it is there");
    assert!(matches!(store.get(&key("a")).await, Err(Error::NotFound { .. })));
    assert_eq!(sizes(&store).await, Ok(vec![("b".into(), 0)]));
    let in_default = Selector { namespace: Some("default".into()), ..Selector::default() };
    let page = store.list(&Query { selector: in_default, ..Query::all(kind("Widget")) }).await;
    assert_eq!(page.map(|page| page.items.len()), Ok(1));
    server.fault(|faults| faults.lags = false);
    let wanted = [("a", EventType::Modified), ("b", EventType::Added), ("a", EventType::Deleted)];
    for (name, kind) in wanted {
        let event = next(&mut watch).await;
        assert_eq!((event.resource.key().name(), event.kind), (name, kind));
    }
    let cached = store.shared.kind(&kind("Widget")).expect("it is in use");
    assert!(cached.lock().own.rows().is_empty());
    assert_eq!(sizes(&store).await, Ok(vec![("b".into(), 0)]));
}

#[tokio::test(start_paused = true)]
async fn a_write_in_another_version_is_read_in_that_of_the_cache() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| faults.lags = true);
    resize(&*server.store(), "a", 5).await.expect("it is there");
    let mut answer = server.store().get(&key("a")).await.expect("it is there").document().clone();
    answer["apiVersion"] = json!(Kind { version: "v2".into(), ..kind("Widget") }.api_version());
    let answer = Arc::new(Resource::from_document(answer).expect("well formed"));
    assert_ne!(answer.key().kind().version, kind("Widget").version);
    store.shared.record(answer.key(), OwnWrite::Put(Arc::clone(&answer)));
    assert!(timeout(Duration::from_secs(1), store.get(&key("a"))).await.is_err(), "the cache lacks the write");
    assert!(timeout(Duration::from_secs(1), sizes(&store)).await.is_err(), "the cache lacks the write");
    server.fault(|faults| faults.lags = false);
    let read = store.get(&key("a")).await.expect("it is there");
    assert_eq!((read.key(), size(&read)), (&key("a"), 5));
}

fn scale(replicas: u64) -> ScaleRequest {
    let (precondition, manager) = (Precondition::default(), "test".to_owned());
    ScaleRequest { key: key("a"), replicas, precondition, manager, dry_run: false }
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_read_at_once_although_the_stream_lags() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| faults.lags = true);
    assert_eq!(store.update_scale(scale(5)).await.expect("it is there")["spec"]["replicas"], 5);
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 5);
    store.update_scale(scale(6)).await.expect("it is there");
    assert_eq!(sizes(&store).await, Ok(vec![("a".into(), 6)]));
    // Another client wrote it, and a scale has shown it.
    resize(&*server.store(), "a", 7).await.expect("it is there");
    assert_eq!(store.scale(&key("a")).await.expect("it is there")["spec"]["replicas"], 7);
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 7);
}

#[tokio::test(start_paused = true)]
async fn a_scale_whose_answer_is_lost_is_read_from_the_server() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| (faults.lags, faults.loses_answers) = (true, true));
    let lost = store.update_scale(scale(5)).await;
    assert!(matches!(lost, Err(Error::Unavailable { .. })), "{lost:?}");
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 5);
}

#[tokio::test(start_paused = true)]
async fn a_scale_that_the_cache_has_asks_no_server_later() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    store.get(&key("a")).await.expect("it is there");
    store.scale(&key("a")).await.expect("it is there");
    let before = server.count(|counts| &counts.gets);
    store.get(&key("a")).await.expect("it is there");
    assert_eq!(server.count(|counts| &counts.gets), before);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_what_only_reads_have_shown_is_watched() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    let mut watch = store.watch(widgets(), Revision(0)).await.expect("the history is there");
    server.fault(|faults| (faults.lags, faults.skips_overwritten) = (true, true));
    let created = create(&store, "a").await.expect("a free name");
    assert_eq!(sizes(&store).await, Ok(vec![("a".into(), 0)]));
    delete(&*server.store(), "a").await.expect("it is there");
    create(&*server.store(), "b").await.expect("a free name");
    server.fault(|faults| faults.lags = false);
    let [added, deleted] = [EventType::Added, EventType::Deleted];
    for (name, kind, revision) in [("a", added, 1), ("a", deleted, 2), ("b", added, 3)] {
        let event = next(&mut watch).await;
        assert_eq!((event.resource.key().name(), event.kind, event.revision), (name, kind, Revision(revision)));
        assert!(name == "b" || event.resource.uid() == created.uid());
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_revision_has_what_a_later_list_lacks() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| faults.lags = true);
    create(&*server.store(), "a").await.expect("a free name");
    let at = store.revision(&widgets()).await.expect("the cache answers");
    assert_eq!(sizes(&store).await, Ok(Vec::new()));
    let mut watch = store.watch(widgets(), at).await.expect("the history is there");
    server.fault(|faults| faults.lags = false);
    assert_eq!(next(&mut watch).await.resource.key().name(), "a");
}

#[tokio::test(start_paused = true)]
async fn the_revision_is_not_before_an_own_write() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| faults.lags = true);
    let created = create(&store, "a").await.expect("a free name");
    let scope = widgets();
    let revision = store.revision(&scope);
    tokio::pin!(revision);
    assert!(timeout(Duration::from_secs(1), &mut revision).await.is_err(), "the cache lacks the write");
    server.fault(|faults| faults.lags = false);
    assert_eq!(revision.await, Ok(created.revision()));
}

#[tokio::test(start_paused = true)]
async fn what_reads_have_shown_in_a_gap_and_is_gone_was_there_for_watches_too() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    let mut watch = store.watch(widgets(), Revision(0)).await.expect("the history is there");
    server.fault(|faults| (faults.lags, faults.forgets) = (true, true));
    create(&store, "a").await.expect("a free name");
    assert_eq!(sizes(&store).await, Ok(vec![("a".into(), 0)]));
    delete(&*server.store(), "a").await.expect("it is there");
    server.fault(|faults| faults.lags = false);
    server.cut();
    for kind in [EventType::Added, EventType::Deleted] {
        let event = next(&mut watch).await;
        assert_eq!((event.resource.key().name(), event.kind), ("a", kind));
    }
    assert_eq!(sizes(&store).await, Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_resources_is_not_listed_although_the_stream_lags() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    let kinds = async || store.kinds().await.expect("the server is there");
    create(&store, "before").await.expect("a free name");
    wait_for(|| cache(&store).resources == 1).await;
    server.fault(|faults| faults.lags = true);
    create(&store, "after").await.expect("a free name");
    assert_eq!(kinds().await, [kind("Widget")]);
    delete(&store, "before").await.expect("it is there");
    assert_eq!(kinds().await, [kind("Widget")]);
    delete(&store, "after").await.expect("it is there");
    assert_eq!(kinds().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_revision_is_unknown_is_read_at_once() {
    let server = Server::new();
    server.fault(|faults| faults.hides_deletions = true);
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| faults.lags = true);
    delete(&store, "a").await.expect("it is there");
    assert!(matches!(store.get(&key("a")).await, Err(Error::NotFound { .. })));
    assert_eq!(sizes(&store).await, Ok(vec![]));
    create(&store, "a").await.expect("the name is free again");
    assert_eq!(sizes(&store).await, Ok(vec![("a".into(), 0)]));
    delete(&store, "a").await.expect("it is there");
    server.fault(|faults| faults.lags = false);
    wait_for(|| {
        assert_eq!(cache(&store).state, CacheState::Synced);
        cache(&store).revision == Some(Revision(4))
    })
    .await;
    assert_eq!(sizes(&store).await, Ok(vec![]));
    let cached = store.shared.kind(&kind("Widget")).expect("it is in use");
    assert!(cached.lock().own.rows().is_empty());
}

#[tokio::test(start_paused = true)]
async fn pages_wait_for_own_writes() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| faults.lags = true);
    create(&store, "a").await.expect("a free name");
    let query = Query { limit: Some(1), ..Query::all(kind("Widget")) };
    assert!(timeout(Duration::from_secs(9), store.list(&query)).await.is_err());
    let late = store.list(&query).await;
    assert!(matches!(&late, Err(Error::Unavailable { reason }) if reason.contains("own writes")), "{late:?}");
    let (page, ()) = tokio::join!(store.list(&query), async { server.fault(|faults| faults.lags = false) });
    assert_eq!(page.map(|page| page.items.len()), Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_looked_up_at_the_server() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| (faults.lags, faults.loses_answers) = (true, true));
    assert!(matches!(resize(&store, "a", 5).await, Err(Error::Unavailable { .. })));
    assert!(matches!(create(&store, "b").await, Err(Error::Unavailable { .. })));
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 5);
    assert_eq!(server.count(|counts| &counts.gets), 1);
    assert_eq!(sizes(&store).await, Ok(vec![("a".into(), 5), ("b".into(), 0)]));
    assert_eq!(server.count(|counts| &counts.gets), 2);
    // The host knows the state that the server told once.
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 5);
    assert_eq!(server.count(|counts| &counts.gets), 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_can_lose_any_number_of_answers() {
    let server = Server::new();
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| faults.loses_answers = true);
    let count = FENCES_MAX as u64 + 100;
    for number in 0..count {
        let lost = create(&store, &format!("n{number}")).await;
        assert!(matches!(&lost, Err(Error::Unavailable { reason }) if reason.contains("was reset")), "{lost:?}");
    }
    server.fault(|faults| faults.loses_answers = false);
    create(&store, "a").await.expect("a free name");
    let cached = store.shared.kind(&kind("Widget")).expect("it is in use");
    assert!(cached.lock().own.unanswered().len() <= FENCES_MAX);
    assert_eq!(server.count(|counts| &counts.submits), count + 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_write_is_looked_up_at_the_server() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    let cached = store.shared.kind(&kind("Widget")).expect("it is in use");
    // The server has made the write, and its answer is on the way.
    tokio::select! {
        biased;
        written = resize(&store, "a", 5) => panic!("{written:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(cached.lock().own.unanswered(), [key("a")]);
    server.fault(|faults| faults.lags = true);
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 5);
    assert!(cached.lock().own.unanswered().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_read_from_the_cache_does_not_go_back_before_a_live_one() {
    let server = Server::new();
    for name in ["a", "b", "c", "d"] {
        create(&*server.store(), name).await.expect("a free name");
    }
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| faults.lags = true);
    let at_server = server.store();
    resize(&*at_server, "a", 5).await.expect("it is there");
    delete(&*at_server, "b").await.expect("it is there");
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 0);
    assert_eq!(size(&store.get_live(&key("a")).await.expect("it is there")), 5);
    assert!(matches!(store.get_live(&key("b")).await, Err(Error::NotFound { .. })));
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 5);
    assert!(matches!(store.get(&key("b")).await, Err(Error::NotFound { .. })));
    // The same of a list.
    resize(&*at_server, "c", 6).await.expect("it is there");
    delete(&*at_server, "d").await.expect("it is there");
    let live = store.list(&Query { live: true, ..Query::all(kind("Widget")) }).await.expect("the server answers");
    assert_eq!(live.items.len(), 2);
    assert!(matches!(store.get(&key("d")).await, Err(Error::NotFound { .. })));
    assert_eq!(sizes(&store).await, Ok(vec![("a".into(), 5), ("c".into(), 6)]));
    server.fault(|faults| faults.lags = false);
    wait_for(|| cache(&store).revision == Some(Revision(8))).await;
    assert_eq!(sizes(&store).await, sizes(&*at_server).await);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_shows_an_old_cache_makes_the_next_read_live() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    server.fault(|faults| faults.lags = true);
    resize(&*server.store(), "a", 5).await.expect("it is there");
    let old = store.get(&key("a")).await.expect("it is there");
    let mut document = old.document().clone();
    document["spec"]["size"] = json!(9);
    let update = |document| Write::Update { document, precondition: Precondition::default() };
    let refused = store.write(update(document.clone())).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    let new = store.get(&key("a")).await.expect("it is there");
    assert_eq!(size(&new), 5);
    document["metadata"]["resourceVersion"] = json!(new.revision().to_string());
    store.write(update(document)).await.expect("it is the newest revision");
    create(&*server.store(), "b").await.expect("a free name");
    assert!(matches!(create(&store, "b").await, Err(Error::AlreadyExists { .. })));
    assert_eq!(size(&store.get(&key("b")).await.expect("it is there")), 0);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_is_not_sent() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    let status_of = |ready: u64| Write::UpdateStatus {
        key: key("a"),
        status: json!({"ready": ready}),
        precondition: Precondition::default(),
    };
    for _ in 0..3 {
        store.write(status_of(1)).await.expect("it is there");
    }
    let response = store.write(status_of(1)).await.expect("it is there");
    assert_eq!((response.change, response.resource.status()), (None, &json!({"ready": 1})));
    assert_eq!((server.count(|counts| &counts.submits), status(&store).requests.skipped), (1, 3));
    // A cache that does not follow its server decides nothing.
    server.fault(|faults| faults.forbids = Some("Widget"));
    server.cut();
    wait_for(|| cache(&store).state != CacheState::Synced).await;
    store.write(status_of(1)).await.expect("it is there");
    assert_eq!(server.count(|counts| &counts.submits), 2);
    let dry_run = Request { dry_run: true, ..Request::from(status_of(2)) };
    store.submit(dry_run).await.expect("it is there");
    assert_eq!(store.get(&key("a")).await.expect("it is there").status(), &json!({"ready": 1}));
}

#[tokio::test(start_paused = true)]
async fn a_list_of_the_server_goes_on_with_a_token_that_names_no_resource() {
    let server = Server::new();
    for name in ["a", "b", "c", "d", "e"] {
        create(&*server.store(), name).await.expect("a free name");
    }
    let store = open(&server);
    let of = |from: Option<String>| Query { limit: Some(2), from, live: true, ..Query::all(kind("Widget")) };
    let names = |page: &crate::Page| page.items.iter().map(|item| item.key().name().to_owned()).collect::<String>();
    let first = store.list(&of(None)).await.expect("the server answers");
    let next = first.next.clone().expect("there are more");
    assert!(next.strip_prefix('~').is_some_and(|number| number.parse::<u64>().is_ok()), "{next}");
    let second = store.list(&of(Some(next.clone()))).await.expect("the server answers");
    assert_eq!((names(&first), names(&second)), ("ab".to_owned(), "cd".to_owned()));
    // A caller that used only a part of the second page gets the rest of it.
    let inside = crate::continue_after(&next, &key("c"), Some(2)).expect("it is a token");
    let rest = store.list(&Query { limit: Some(100), ..of(Some(inside)) }).await.expect("the server answers");
    assert_eq!(names(&rest), "d");
    let last = store.list(&of(rest.next)).await.expect("the server answers");
    assert_eq!((names(&last), last.next), ("e".to_owned(), None));
    assert!(matches!(store.list(&of(Some("~1".to_owned()))).await, Err(Error::Expired { .. })), "of another process");
}
