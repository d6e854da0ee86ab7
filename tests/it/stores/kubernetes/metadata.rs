//! Kinds of a cluster of which a host keeps metadata alone.

use std::sync::Arc;

use homeostat_fixtures::memory_store;
use homeostat_kubernetes::ClusterSettings;
use homeostat_runtime::{Options, Stores};
use homeostat_store::cached::{self, Upstream};
use homeostat_store::routes::{Routes, Rule};
use homeostat_store::{
    CacheState, EventType, Key, Precondition, Query, RoutedStore, Scope, Selector, Store, StorePart, View, Write,
};
use homeostat_testing::{eventually, soon};
use homeostat_tests::TestHost;
use serde_json::json;

use super::{cluster_settings, cluster_store, created, document, namespace, sent, widgets};
use crate::kubectl::Cluster as Kubectl;

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_route_with_metadata_alone_keeps_no_content_and_clients_read_whole_resources() {
    let cluster = cluster_store().await;
    let namespace = namespace(&cluster).await;
    let key = Key::new(widgets(), &namespace, "a");
    created(&cluster, &key).await;
    let pattern = "example.dev/Widget".parse().unwrap();
    let rule = Rule { pattern, store: "cluster".into(), view: View::Metadata };
    let routes = Routes::new(vec![rule]).unwrap();
    let settings = ClusterSettings { namespace: Some(namespace.clone()), ..cluster_settings("admin") };
    let options = cached::Options { routes: routes.clone(), ..cached::Options::default() };
    let part = StorePart { name: "cluster".into(), store: Arc::new(homeostat_kubernetes::open(settings, options)) };
    let home = memory_store();
    let stores = Stores::Routed(Arc::new(RoutedStore::new(home.clone(), vec![part], routes).unwrap()));
    let test = TestHost::with(home, |options| Options { stores, ..options }).await;
    let store = test.host.store();
    eventually("the kind of the cluster", async || test.host.kinds().of(&widgets())).await;
    let _user = store.subscribe(&widgets(), View::Whole);
    let cache = || store.status().into_iter().flat_map(|status| status.caches).next();
    eventually("the cache", async || cache().filter(|cache| cache.state == CacheState::Synced)).await;
    assert_eq!(cache().unwrap().view, View::Metadata);
    let sent_so_far = || store.status().iter().map(|status| status.requests.sent).sum::<u64>();

    // The cache has metadata, and nothing else.
    let before = sent_so_far();
    let alone = soon(store.get_view(&key, View::Metadata)).await.unwrap();
    assert_eq!((alone.document().get("spec"), alone.uid().is_empty()), (None, false));
    assert_eq!(alone.key(), &key, "with the kind of the resource");
    let query = Query { view: View::Metadata, ..Query::all(widgets()) };
    assert_eq!(soon(store.list(&query)).await.unwrap().items[0].document().get("spec"), None);
    assert_eq!(sent_so_far(), before, "the cache answers");
    let whole = soon(store.get(&key)).await.unwrap();
    assert_eq!(whole.document()["spec"]["size"], 1);
    assert_eq!(sent_so_far(), before + 1, "the server answers");
    let listed = soon(store.list(&Query::all(widgets()))).await.unwrap();
    assert_eq!(listed.items[0].document()["spec"]["size"], 1);

    // Watches tell metadata.
    let from = soon(store.revision(&Scope::Kind(widgets()))).await.unwrap();
    let mut watch = soon(store.watch(Scope::Kind(widgets()), from)).await.unwrap();
    let mut changed = document(&key);
    changed["spec"]["size"] = 5.into();
    let write = Write::Update { document: changed, precondition: Precondition::default() };
    sent(&cluster, write).await;
    let event = soon(watch.next()).await.unwrap();
    assert_eq!((event.kind, event.resource.document().get("spec")), (EventType::Modified, None));
    assert_eq!(event.resource.generation(), 2);

    let kubectl = Kubectl::over(test).await;
    let size = ["get", "widget", "a", "-n", &namespace, "-o", "jsonpath={.spec.size}"];
    assert_eq!(kubectl.done(&size).await, "5");
    let refused = kubectl.refused(&["get", "widgets", "-n", &namespace, "--watch-only"]).await;
    assert!(refused.contains("metadata alone"), "{refused}");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_list_of_metadata_has_no_content_unless_a_cache_or_a_field_needs_it() {
    let cluster = cluster_store().await;
    let namespace = namespace(&cluster).await;
    let key = Key::new(widgets(), &namespace, "a");
    created(&cluster, &key).await;
    let query = |fields: &[(&str, &str)]| {
        let fields = fields.iter().map(|(pointer, value)| ((*pointer).to_owned(), (*value).to_owned())).collect();
        let selector = Selector { namespace: Some(namespace.clone()), fields, ..Selector::default() };
        Query { selector, view: View::Metadata, live: true, ..Query::all(widgets()) }
    };
    let size = |page: homeostat_store::Page| (page.items.len(), page.items[0].document().get("spec").cloned());
    let whole = (1, Some(json!({"size": 1})));
    let listed = soon(cluster.list(&query(&[]))).await.unwrap();
    assert_eq!(listed.items[0].key(), &key, "with the kind of the resource");
    assert_eq!(size(listed), (1, None));
    assert_eq!(size(soon(cluster.list(&query(&[("/metadata/name", "a")]))).await.unwrap()), (1, None));
    assert_eq!(size(soon(cluster.list(&query(&[("/spec/size", "1")]))).await.unwrap()), whole);

    // A cache of whole resources learns from what a live list shows.
    let store = homeostat_kubernetes::open(cluster_settings("admin"), cached::Options::default());
    let _user = store.subscribe(&widgets(), View::Whole);
    let cache = || store.status().into_iter().flat_map(|status| status.caches).next();
    eventually("the cache", async || cache().filter(|cache| cache.state == CacheState::Synced)).await;
    assert_eq!(size(soon(store.list(&query(&[]))).await.unwrap()), whole);
    store.close().await;
}
