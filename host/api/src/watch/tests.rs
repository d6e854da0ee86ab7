use std::sync::Arc;

use homeostat_component::{Engine, EngineOptions};
use homeostat_runtime::{Host, Options as HostOptions};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Options, Store, Write};
use serde_json::json;

use super::*;

fn pod(labels: Value, revision: u64) -> Arc<Resource> {
    let metadata =
        json!({ "name": "a", "namespace": "default", "labels": labels, "resourceVersion": revision.to_string() });
    Arc::new(Resource::from_document(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata })).unwrap())
}

fn web() -> Selector {
    Selector { labels: Selector::parse_labels("app=web").unwrap(), ..Selector::default() }
}

fn word(kind: EventType, previous: Option<Arc<Resource>>, resource: Arc<Resource>) -> Option<&'static str> {
    let event = Event { kind, revision: resource.revision(), resource, previous };
    visible_change(&event, &web()).map(|(word, _)| word)
}

#[test]
fn a_resource_that_enters_the_selector_is_added_and_one_that_leaves_it_is_deleted() {
    let (web, other) =
        (|revision| pod(json!({ "app": "web" }), revision), |revision| pod(json!({ "app": "db" }), revision));
    assert_eq!(word(EventType::Modified, Some(other(1)), web(2)), Some("ADDED"));
    assert_eq!(word(EventType::Modified, Some(web(1)), other(2)), Some("DELETED"));
    assert_eq!(word(EventType::Modified, Some(web(1)), web(2)), Some("MODIFIED"));
    assert_eq!(word(EventType::Modified, Some(other(1)), other(2)), None);
}

#[test]
fn event_outside_the_selector_is_not_sent() {
    let (web, other) = (pod(json!({ "app": "web" }), 2), pod(json!({}), 2));
    assert_eq!(word(EventType::Added, None, web.clone()), Some("ADDED"));
    assert_eq!(word(EventType::Added, None, other.clone()), None);
    assert_eq!(word(EventType::Deleted, Some(other.clone()), other), None);
    assert_eq!(word(EventType::Deleted, Some(web.clone()), web), Some("DELETED"));
}

#[test]
fn an_event_carries_the_revision_to_go_on_from() {
    let shape =
        WatchEncoder { table: None, metadata: false, spoken: Kind::new("", "v1", "Pod"), dress: Presentation::Plain };
    let line = event_line(&shape, "DELETED", &pod(json!({}), 3), Revision(7), false);
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line["object"]["metadata"]["resourceVersion"], "7");
    assert_eq!(line["type"], "DELETED");
}

/// Watches all changes in a store.
async fn following(store: &MemoryStore, version: &str, shared: &EncodedEventCache) -> WatchStream {
    WatchStream {
        watch: store.watch(Scope::Everything, Revision::ZERO).await.unwrap(),
        selector: Selector::default(),
        initial_events: None,
        is_over: false,
        shape: WatchEncoder {
            table: None,
            metadata: false,
            spoken: Kind::new("", version, "Pod"),
            dress: Presentation::Plain,
        },
        version: version.into(),
        event_cache: shared.clone(),
        knows_columns: false,
        seen: Revision::ZERO,
        bookmark: None,
    }
}

#[tokio::test]
async fn watches_that_tell_the_same_share_its_text_and_others_do_not() {
    let (store, shared) = (MemoryStore::new(Options::default()), EncodedEventCache::default());
    let document = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" } });
    store.write(Write::Create { document }).await.unwrap();
    let next = async |mut following: WatchStream| following.next().await.unwrap();
    let [one, same] =
        [next(following(&store, "v1", &shared).await).await, next(following(&store, "v1", &shared).await).await];
    assert_eq!(one.as_ptr(), same.as_ptr());
    let other = next(following(&store, "v2", &shared).await).await;
    assert!(other.starts_with(br#"{"type":"ADDED","object":{"apiVersion":"v2""#), "{other:?}");
    let mut alone = following(&store, "v1", &shared).await;
    alone.shape.metadata = true;
    let alone: Value = serde_json::from_slice(&next(alone).await).unwrap();
    assert_eq!(alone["object"]["kind"], "PartialObjectMetadata");
}

/// Live status is merged into a controller, so the encoding depends on the time.
#[tokio::test]
async fn watches_of_controllers_share_no_text() {
    let engine = Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() }).unwrap();
    let (store, shared) = (Arc::new(MemoryStore::new(Options::default())), EncodedEventCache::default());
    let host = Host::start(HostOptions::new(engine, store.clone())).await.unwrap();
    let document = json!({ "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": { "name": "a" } });
    store.write(Write::Create { document }).await.unwrap();
    let mut told = Vec::new();
    for _ in 0..2 {
        let mut following = following(&store, "v1alpha1", &shared).await;
        following.shape.dress = Presentation::Controllers(host.clone());
        told.push(following.next().await.unwrap());
    }
    assert_ne!(told[0].as_ptr(), told[1].as_ptr());
}

#[tokio::test(start_paused = true)]
async fn a_watch_in_which_nothing_happens_says_every_minute_how_far_it_is() {
    let store = MemoryStore::new(Options::default());
    let started = Instant::now();
    let mut following = WatchStream {
        selector: web(),
        bookmark: Some(started + BOOKMARK_EVERY),
        ..following(&store, "v1", &EncodedEventCache::default()).await
    };
    for minute in 1..=3 {
        // An event that does not match is not sent, but moves the bookmark on.
        let document = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("other{minute}") } });
        store.write(Write::Create { document }).await.unwrap();
        let line: Value = serde_json::from_slice(&following.next().await.unwrap()).unwrap();
        assert_eq!((&line["type"], started.elapsed().as_secs()), (&json!("BOOKMARK"), minute * 60));
        assert_eq!(line["object"]["metadata"]["resourceVersion"], minute.to_string());
    }
}
