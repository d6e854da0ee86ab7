use homeostat_component::{Engine, EngineOptions};
use homeostat_fixtures::memory_store;
use homeostat_runtime::{Host, Options as HostOptions};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Kind, Options, Store, Write};

use super::*;
use crate::presentation::Presentation;

fn pod(labels: Value, revision: u64) -> Arc<Resource> {
    let metadata =
        json!({ "name": "a", "namespace": "default", "labels": labels, "resourceVersion": revision.to_string() });
    Arc::new(Resource::from_document(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata })).unwrap())
}

fn web() -> Selector {
    Selector { labels: Selector::parse_labels("app=web").unwrap(), ..Selector::default() }
}

fn event_type(kind: EventType, previous: Option<Arc<Resource>>, resource: Arc<Resource>) -> Option<&'static str> {
    let event = Event { kind, revision: resource.revision(), resource, previous };
    visible_change(&event, &web()).map(|(event_type, _)| event_type)
}

#[test]
fn a_resource_that_enters_the_selector_is_added_and_one_that_leaves_it_is_deleted() {
    let (web, other) =
        (|revision| pod(json!({ "app": "web" }), revision), |revision| pod(json!({ "app": "db" }), revision));
    assert_eq!(event_type(EventType::Modified, Some(other(1)), web(2)), Some("ADDED"));
    assert_eq!(event_type(EventType::Modified, Some(web(1)), other(2)), Some("DELETED"));
    assert_eq!(event_type(EventType::Modified, Some(web(1)), web(2)), Some("MODIFIED"));
    assert_eq!(event_type(EventType::Modified, Some(other(1)), other(2)), None);
}

#[test]
fn a_resource_that_leaves_the_selector_is_shown_as_it_was() {
    let (before, after) = (pod(json!({ "app": "web" }), 1), pod(json!({}), 2));
    let event =
        Event { kind: EventType::Modified, resource: after, previous: Some(before.clone()), revision: Revision(2) };
    assert_eq!(visible_change(&event, &web()), Some(("DELETED", &*before)));
}

#[test]
fn event_outside_the_selector_is_not_sent() {
    let (web, other) = (pod(json!({ "app": "web" }), 2), pod(json!({}), 2));
    assert_eq!(event_type(EventType::Added, None, web.clone()), Some("ADDED"));
    assert_eq!(event_type(EventType::Added, None, other.clone()), None);
    assert_eq!(event_type(EventType::Deleted, Some(other.clone()), other), None);
    assert_eq!(event_type(EventType::Deleted, Some(web.clone()), web), Some("DELETED"));
}

fn encoder(version: &str) -> ResourceEncoder {
    let kind = Kind::new("", version, "Pod");
    ResourceEncoder { format: ResponseFormat::Document, presentation: Presentation::Plain, kind, is_typed: false }
}

/// Watches all changes in a store.
async fn watch(store: &MemoryStore, encoder: ResourceEncoder, cache: &EncodedEventCache) -> WatchStream {
    let watch = store.watch(Scope::Everything, Revision::ZERO).await.unwrap();
    let params = Params::default();
    WatchStream::new(watch, Revision::ZERO, None, Selector::default(), encoder, &params).sharing(cache.clone(), None)
}

#[tokio::test]
async fn an_event_carries_the_revision_to_go_on_from() {
    let store = MemoryStore::new(Options::default());
    let mut watch = watch(&store, encoder("v1"), &EncodedEventCache::default()).await;
    let line = watch.event_line("DELETED", &pod(json!({}), 3), Revision(7));
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line["object"]["metadata"]["resourceVersion"], "7");
    assert_eq!(line["type"], "DELETED");
}

#[tokio::test]
async fn watches_with_equal_output_share_its_encoding() {
    let (store, cache) = (MemoryStore::new(Options::default()), EncodedEventCache::default());
    let document = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" } });
    store.write(Write::Create { document }).await.unwrap();
    let next = async |encoder| watch(&store, encoder, &cache).await.next().await.unwrap();
    let [one, same] = [next(encoder("v1")).await, next(encoder("v1")).await];
    assert_eq!(one.as_ptr(), same.as_ptr());
    let other = next(encoder("v2")).await;
    assert!(other.starts_with(br#"{"type":"ADDED","object":{"apiVersion":"v2""#), "{other:?}");
    let metadata = next(ResourceEncoder { format: ResponseFormat::Metadata, ..encoder("v1") }).await;
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    assert_eq!(metadata["object"]["kind"], "PartialObjectMetadata");
}

/// Kinds may live in several stores, and each of these counts from one.
#[tokio::test]
async fn watches_of_kinds_with_the_same_revision_share_no_encoding() {
    let cache = EncodedEventCache::default();
    for kind in ["Secret", "ConfigMap"] {
        let store = MemoryStore::new(Options::default());
        let document = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "a" } });
        store.write(Write::Create { document }).await.unwrap();
        let encoder = ResourceEncoder { kind: Kind::new("", "v1", kind), ..encoder("v1") };
        let event: Value = serde_json::from_slice(&watch(&store, encoder, &cache).await.next().await.unwrap()).unwrap();
        assert_eq!(
            (&event["object"]["kind"], &event["object"]["metadata"]["resourceVersion"]),
            (&json!(kind), &json!("1"))
        );
    }
}

/// Live status is merged into a controller, so the encoding depends on the time.
#[tokio::test]
async fn watches_of_controllers_share_no_encoding() {
    let engine = Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() }).unwrap();
    let (store, cache) = (memory_store(), EncodedEventCache::default());
    let host = Host::start(HostOptions::new(engine, store.clone())).await.unwrap();
    let document = json!({ "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": { "name": "a" } });
    store.write(Write::Create { document }).await.unwrap();
    let next = async || {
        let presentation = Presentation::Controllers(host.clone());
        let encoder = ResourceEncoder { presentation, ..encoder("v1alpha1") };
        watch(&store, encoder, &cache).await.next().await.unwrap()
    };
    assert_ne!(next().await.as_ptr(), next().await.as_ptr());
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_sends_a_bookmark_every_minute() {
    let store = MemoryStore::new(Options::default());
    let started = Instant::now();
    let mut watch = WatchStream {
        selector: web(),
        bookmark: Some(started + BOOKMARK_INTERVAL),
        ..watch(&store, encoder("v1"), &EncodedEventCache::default()).await
    };
    for minute in 1..=3 {
        // An event that does not match is not sent, but moves the bookmark on.
        let document = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("other{minute}") } });
        store.write(Write::Create { document }).await.unwrap();
        let line: Value = serde_json::from_slice(&watch.next().await.unwrap()).unwrap();
        assert_eq!((&line["type"], started.elapsed().as_secs()), (&json!("BOOKMARK"), minute * 60));
        assert_eq!(line["object"]["metadata"]["resourceVersion"], minute.to_string());
    }
}
