//! Kinds of a bucket of which a host keeps metadata alone.

use homeostat_store::cached::Options;
use homeostat_store::routes::{Routes, Rule};
use homeostat_store::schema::Schemas;
use homeostat_store::{
    CacheState, Change, Error, EventType, Precondition, Query, Resource, Scope, Selector, Store, View, Write,
};
use homeostat_testing::{eventually, soon};
use homeostat_tests::Nats;
use serde_json::json;

use super::nats::{creation, event, key, kind, settings};

/// Returns whether a resource has anything but its metadata.
fn has_content(resource: &Resource) -> bool {
    resource.document().get("spec").is_some()
}

/// Returns a patch of the size of a resource.
fn resize(name: &str, size: u64) -> Write {
    let change = Change::Merge(json!({"spec": {"size": size}}));
    Write::Patch { key: key(name), change, precondition: Precondition::default() }
}

/// S15: On NATS, a route with `view: metadata` does what it does on Kubernetes, although the bucket sends whole values.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_route_with_metadata_alone_keeps_no_content_of_a_bucket() {
    let nats = Nats::start();
    let pattern = "demo.dev/Widget".parse().unwrap();
    let rule = Rule { pattern, store: "bus".into(), view: View::Metadata };
    let options = Options { routes: Routes::new(vec![rule]).unwrap(), ..Options::default() };
    let store = homeostat_nats::open(settings(&nats.url(), "metadata"), Schemas::default(), options).unwrap();
    eventually("the bucket", async || store.health().ok()).await;
    soon(store.write(creation("a"))).await.unwrap();
    let _user = store.subscribe(&kind(), View::Whole);
    let cache = || store.status().into_iter().flat_map(|status| status.caches).next();
    eventually("the cache", async || cache().filter(|cache| cache.state == CacheState::Synced)).await;
    assert_eq!((cache().unwrap().view, store.watched_view(&kind())), (View::Metadata, View::Metadata));

    // The cache has metadata, and whole resources come from the bucket.
    for view in [View::Metadata, View::Keys] {
        let alone = soon(store.get_view(&key("a"), view)).await.unwrap();
        assert_eq!((has_content(&alone), alone.uid().is_empty()), (false, false));
        let listed = soon(store.list(&Query { view, ..Query::all(kind()) })).await.unwrap();
        assert!(!has_content(&listed.items[0]));
    }
    assert_eq!(soon(store.get(&key("a"))).await.unwrap().document()["spec"]["size"], 1);
    assert_eq!(soon(store.list(&Query::all(kind()))).await.unwrap().items[0].document()["spec"]["size"], 1);
    let selector = Selector { fields: vec![("/spec/size".to_owned(), "1".to_owned())], ..Selector::default() };
    let query = Query { view: View::Metadata, selector, ..Query::all(kind()) };
    assert_eq!(soon(store.list(&query)).await.unwrap().items.len(), 1, "the bucket knows the field");

    // Watches tell metadata.
    let from = soon(store.revision(&Scope::Kind(kind()))).await.unwrap();
    let mut watch = soon(store.watch(Scope::Kind(kind()), from)).await.unwrap();
    let resized = soon(store.write(resize("a", 2))).await.unwrap().resource;
    let (told, resource) = event(&mut watch).await;
    assert_eq!((told, has_content(&resource), resource.generation()), (EventType::Modified, false, 2));

    // Without the content in the cache, the bucket decides that a write changes nothing.
    let before = store.status()[0].requests;
    let same = soon(store.write(resize("a", 2))).await.unwrap();
    let after = store.status()[0].requests;
    assert_eq!((same.change, same.resource.revision()), (None, resized.revision()));
    assert!(after.sent > before.sent && after.skipped == before.skipped, "{before:?} {after:?}");

    nats.server().kill();
    eventually("the absence", async || store.health().is_err().then_some(())).await;
    let refused = soon(store.get(&key("a"))).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    let alone = soon(store.get_view(&key("a"), View::Metadata)).await.unwrap();
    assert_eq!(alone.generation(), 2, "the cache goes on");
}
