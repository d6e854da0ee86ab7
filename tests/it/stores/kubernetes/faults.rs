//! Servers that refuse, lose answers, and go away.

use std::sync::Arc;
use std::time::Duration;

use homeostat_kubernetes::Cluster;
use homeostat_store::cached::{Options, Start, Upstream};
use homeostat_store::{Error, EventType, Key, Query, Revision, Scope, Store, View, Write};
use homeostat_testing::{eventually, soon};
use homeostat_tests::{Cluster as Server, ClusterOptions, HttpProxy, HttpReply, HttpRule, shared_cluster};
use serde_json::json;

use super::{cluster_store, connected, created, define, document, namespace, send, settings_of, widgets};

/// A store on the shared cluster behind a proxy.
async fn behind_proxy() -> (Arc<Cluster>, HttpProxy) {
    let server = shared_cluster();
    let proxy = HttpProxy::to(server.apiserver().port(), server.authority());
    let credentials = json!({"token": Server::token("admin")});
    let store = connected(settings_of(server.kubeconfig_with(&proxy.url(), &credentials))).await;
    (store, proxy)
}

fn rule(verb: &'static str, path: &str, times: usize, reply: HttpReply) -> HttpRule {
    HttpRule { verb: Some(verb), path: path.to_owned(), times: Some(times), reply }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_request_that_comes_too_soon_is_sent_again_later() {
    let namespace = namespace(&*cluster_store().await).await;
    let (store, proxy) = behind_proxy().await;
    // The waits that a client chooses by itself are shorter.
    const ASKED: Duration = Duration::from_secs(1);
    let too_many = HttpReply::Status { code: 429, retry_after: Some(1) };
    proxy.add(rule("POST", "/widgets", 2, too_many));
    created(&store, &Key::new(widgets(), &namespace, "a")).await;
    assert_eq!((proxy.count("POST", "/widgets"), store.counts().retried), (3, 2));
    let arrivals = proxy.arrivals("POST", "/widgets");
    let waits: Vec<Duration> = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.iter().all(|wait| *wait >= ASKED), "the server asked for {ASKED:?}: {waits:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_write_that_may_have_happened_is_never_sent_again() {
    let namespace = namespace(&*cluster_store().await).await;
    let (store, proxy) = behind_proxy().await;
    for (name, reply, happened) in [
        ("a", HttpReply::NoAnswer, true),
        ("b", HttpReply::CutAfter(20), true),
        ("c", HttpReply::Status { code: 500, retry_after: None }, false),
    ] {
        let before = proxy.count("POST", "/widgets");
        proxy.add(rule("POST", "/widgets", 1, reply));
        let key = Key::new(widgets(), &namespace, name);
        let lost = send(&store, Write::Create { document: document(&key) }).await;
        assert!(matches!(lost, Err(Error::Unavailable { .. })), "{lost:?}");
        assert_eq!(proxy.count("POST", "/widgets") - before, 1, "{name}");
        assert_eq!(store.get(&key).await.is_ok(), happened, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_watch_that_is_too_old_is_expired() {
    let direct = cluster_store().await;
    let (store, proxy) = behind_proxy().await;
    let revision = direct.revision(&widgets()).await.unwrap();
    let gone = HttpReply::Status { code: 410, retry_after: None };
    for reply in [gone, HttpReply::WatchError(410)] {
        proxy.add(rule("WATCH", "/widgets", 1, reply));
        let expired = match store.open(&widgets(), View::Whole, Start::After(revision)).await {
            Ok(mut stream) => soon(stream.next()).await.map(|_| ()),
            Err(error) => Err(error),
        };
        assert!(matches!(expired, Err(Error::Expired { .. })), "{expired:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_server_that_was_killed_is_followed_again_without_a_gap() {
    let server = homeostat_tests::Cluster::start(ClusterOptions::default());
    define(&server, "Widget", &json!({"status": {}}));
    let settings = settings_of(server.kubeconfig("admin"));
    let store = homeostat_kubernetes::open(settings, Options::default());
    let subscription = store.subscribe(&widgets(), View::Whole);
    let create = |name: &str| Write::Create { document: document(&Key::new(widgets(), "default", name)) };
    let made = eventually("the kind is discovered", || async { store.write(create("a")).await.ok() }).await.resource;
    let scope = Scope::Kind(widgets());
    let mut watch = store.watch(scope.clone(), store.revision(&scope).await.unwrap()).await.unwrap();
    server.apiserver().server().kill();
    assert_eq!(*store.get(made.key()).await.unwrap(), *made, "reads show the cache");
    let lost = store.write(create("b")).await;
    assert!(matches!(lost, Err(Error::Unavailable { .. })), "{lost:?}");
    server.apiserver().server().start();
    let path = "/apis/example.dev/v1/namespaces/default/widgets";
    let document = document(&Key::new(widgets(), "default", "c"));
    assert_eq!(server.request("POST", path, Some(&document)).status, 201);
    let event = soon(async {
        loop {
            if let Ok(event) = watch.next().await {
                return event;
            }
        }
    })
    .await;
    assert_eq!((event.kind, event.resource.key().name()), (EventType::Added, "c"));
    let live = Query { live: true, ..Query::all(widgets()) };
    let live = eventually("the store is back", || async { store.list(&live).await.ok() }).await.items;
    assert_eq!(store.list(&Query::all(widgets())).await.unwrap().items, live);
    assert!(live.iter().all(|one| one.revision() > Revision::ZERO) && live.len() == 2);
    drop(subscription);
    store.close().await;
}
