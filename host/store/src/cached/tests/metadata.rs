//! A cache of metadata alone, and the reads that ask the server.

use std::sync::Arc;

use serde_json::json;

use super::server::{Server, create, delete, key, kind, resize, size, sizes, widget, widgets};
use super::{cache, next, open_with, wait_for};
use crate::cached::{CachedStore, Options};
use crate::routes::{Routes, Rule};
use crate::{
    CacheState, Change, Error, EventType, LabelRequirement, Precondition, Query, Revision, Selector, Store,
    Subscription, View, Write,
};

/// Opens a store that caches metadata of widgets, and subscribes to them.
async fn subscribed(server: &Arc<Server>) -> (CachedStore, Subscription) {
    let pattern = "demo.dev/Widget".parse().expect("it is a pattern");
    let rule = Rule { pattern, store: "cluster".into(), view: View::Metadata };
    let routes = Routes::new(vec![rule]).expect("the rule can match");
    let store = open_with(server, Options { routes, ..Options::default() });
    let subscription = store.subscribe(&kind("Widget"), View::Whole);
    wait_for(|| cache(&store).state == CacheState::Synced).await;
    (store, subscription)
}

/// Returns the fields of a cached widget.
async fn fields(store: &dyn Store, name: &str) -> Vec<String> {
    let resource = store.get_view(&key(name), View::Metadata).await.expect("it is there");
    resource.document().as_object().expect("it is an object").keys().cloned().collect()
}

const METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];

#[tokio::test(start_paused = true)]
async fn a_cache_of_metadata_has_no_content() {
    let server = Server::new();
    let mut document = widget("a", 1);
    document["spec"]["text"] = json!("x".repeat(100_000));
    document["metadata"]["annotations"] = json!({"note": "kept"});
    let other = server.store();
    other.write(Write::Create { document }).await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    assert_eq!(cache(&store).view, View::Metadata);
    assert_eq!((cache(&store).resources, cache(&store).bytes < 2000), (1, true), "{:?}", cache(&store));
    assert_eq!(fields(&store, "a").await, METADATA);
    let mut watch = store.watch(widgets(), Revision(1)).await.expect("the history is there");
    // By another client, and by the host itself.
    resize(&*other, "a", 2).await.expect("it is there");
    resize(&store, "a", 3).await.expect("it is there");
    create(&store, "b").await.expect("a free name");
    delete(&store, "b").await.expect("it is there");
    let [added, modified, deleted] = [EventType::Added, EventType::Modified, EventType::Deleted];
    for (name, kind) in [("a", modified), ("a", modified), ("b", added), ("b", deleted)] {
        let event = next(&mut watch).await;
        assert_eq!((event.resource.key().name(), event.kind), (name, kind));
        assert_eq!(event.resource.document().get("spec"), None);
    }
    assert_eq!(fields(&store, "a").await, METADATA);
    let note = store.get_view(&key("a"), View::Metadata).await.expect("it is there");
    assert_eq!(note.label("size"), Some("3"));
    assert!(cache(&store).bytes < 2000, "{:?}", cache(&store));
}

#[tokio::test(start_paused = true)]
async fn reads_of_whole_resources_ask_the_server_and_others_do_not() {
    let server = Server::new();
    for name in ["a", "b"] {
        create(&*server.store(), name).await.expect("a free name");
    }
    let (store, _user) = subscribed(&server).await;
    let asked = || (server.count(|counts| &counts.gets), server.count(|counts| &counts.lists));
    let before = asked();
    assert_eq!(size(&store.get(&key("a")).await.expect("it is there")), 0);
    assert_eq!(sizes(&store).await, Ok(vec![("a".into(), 0), ("b".into(), 0)]));
    assert_eq!(asked(), (before.0 + 1, before.1 + 1));
    let labels = vec![LabelRequirement::Equals("size".into(), "0".into())];
    let selector = Selector { labels, ..Selector::default() };
    for view in [View::Metadata, View::Keys] {
        store.get_view(&key("a"), view).await.expect("it is there");
        let query = Query { view, limit: Some(1), selector: selector.clone(), ..Query::all(kind("Widget")) };
        let first = store.list(&query).await.expect("the cache answers");
        let rest = store.list(&Query { from: first.next, ..query }).await.expect("the cache answers");
        assert_eq!(rest.items[0].document().get("spec"), None);
    }
    assert_eq!(asked(), (before.0 + 1, before.1 + 1), "the cache has the metadata");
    // Only the server knows the spec.
    let selector = Selector { fields: vec![("/spec/size".into(), "0".into())], ..Selector::default() };
    let query = Query { view: View::Metadata, selector, ..Query::all(kind("Widget")) };
    assert_eq!(store.list(&query).await.expect("the server answers").items.len(), 2);
    assert_eq!(asked(), (before.0 + 1, before.1 + 2));
    // The cache shows the state that a read of the whole resource has shown.
    server.fault(|faults| faults.lags = true);
    resize(&*server.store(), "a", 7).await.expect("it is there");
    let whole = store.get(&key("a")).await.expect("it is there");
    let shown = store.get_view(&key("a"), View::Metadata).await.expect("it is there");
    assert_eq!((shown.revision(), shown.document().get("spec")), (whole.revision(), None));
}

#[tokio::test(start_paused = true)]
async fn a_write_is_never_computed_from_metadata_alone() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    let label = Change::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    let patch = |change| Write::Patch { key: key("a"), change, precondition: Precondition::default() };
    store.write(patch(label.clone())).await.expect("it is there");
    let submits = server.count(|counts| &counts.submits);
    // A cache of whole resources would know that this changes nothing.
    store.write(patch(label)).await.expect("it is there");
    assert_eq!(server.count(|counts| &counts.submits), submits + 1);
    assert_eq!(size(&server.store().get(&key("a")).await.expect("it is there")), 0, "the spec is still there");
    server.fault(|faults| faults.away = true);
    let refused = store.get(&key("a")).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    assert_eq!(fields(&store, "a").await, METADATA);
}
