//! Documents that a server has and the host cannot read.

use homeostat_kubernetes::ClusterSettings;
use homeostat_store::cached::{self, CachedStore};
use homeostat_store::{Change, Error, EventType, Key, Precondition, Query, Result, Scope, Store, View, Write};
use homeostat_testing::{eventually, soon};
use homeostat_tests::shared_cluster;
use serde_json::{Value, json};

use super::{cluster_settings, cluster_store, created, namespace, widgets};

/// A store with a cache for the widgets of one namespace.
fn open(namespace: &str) -> CachedStore {
    let settings = ClusterSettings { namespace: Some(namespace.to_owned()), ..cluster_settings("admin") };
    homeostat_kubernetes::open(settings, cached::Options::default())
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }))
}

/// Sets the status of a widget without the host.
fn set_status(key: &Key, status: &Value) {
    let path = format!("/apis/example.dev/v1/namespaces/{}/widgets/{}/status", key.namespace(), key.name());
    let answer = shared_cluster().request("PATCH", &path, Some(&json!({ "status": status })));
    assert_eq!(answer.status, 200, "{answer:?}");
}

async fn names(store: &dyn Store, live: bool) -> Vec<String> {
    let page = soon(store.list(&Query { live, ..Query::all(widgets()) })).await.unwrap();
    page.items.iter().map(|item| item.key().name().to_owned()).collect()
}

fn is_unreadable<T: std::fmt::Debug>(answer: Result<T>) {
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("/a cannot be read: document: "), "{error}");
}

fn label(key: &Key) -> Write {
    let change = Change::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    Write::Patch { key: key.clone(), change, precondition: Precondition::default() }
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_document_that_cannot_be_read_leaves_its_kind_readable() {
    let cluster = cluster_store().await;
    let namespace = namespace(&cluster).await;
    let [a, b] = ["a", "b"].map(|name| Key::new(widgets(), &namespace, name));
    for key in [&a, &b] {
        created(&cluster, key).await;
    }
    let store = open(&namespace);
    let _user = store.subscribe(&widgets(), View::Whole);
    let from = eventually("the cache", async || store.revision(&Scope::Kind(widgets())).await.ok()).await;
    let mut watch = soon(store.watch(Scope::Kind(widgets()), from)).await.unwrap();
    for levels in [100, 200] {
        set_status(&a, &nested(levels));
        let gone = soon(watch.next()).await.unwrap();
        assert_eq!((gone.kind, gone.resource.key()), (EventType::Deleted, &a));
        let sent = store.status()[0].requests.sent;
        is_unreadable(store.get(&a).await);
        is_unreadable(store.write(label(&a)).await);
        assert_eq!(names(&store, false).await, ["b"]);
        // The watch goes on, and no other request is sent meanwhile.
        soon(store.write(label(&b))).await.unwrap();
        let labels = json!({"metadata": {"labels": {"a": null}}});
        let undo =
            Write::Patch { key: b.clone(), change: Change::Merge(labels), precondition: Precondition::default() };
        soon(store.write(undo)).await.unwrap();
        for _ in 0..2 {
            assert_eq!(soon(watch.next()).await.unwrap().resource.key(), &b);
        }
        assert_eq!(store.status()[0].requests.sent - sent, 2, "only the two writes");
        assert_eq!(names(&store, true).await, ["b"]);
        is_unreadable(store.get_live(&a).await);
        let notes = store.status()[0].notes.join(" ");
        assert!(notes.contains(&format!("{a} is left out")), "{notes}");
        assert_eq!(store.status()[0].caches[0].unreadable, 1);
        // A host that starts now lists the kind without it.
        let other = open(&namespace);
        let _other_user = other.subscribe(&widgets(), View::Whole);
        eventually("the list", async || other.list(&Query::all(widgets())).await.ok()).await;
        assert_eq!(names(&other, false).await, ["b"]);
        is_unreadable(other.get(&a).await);
        other.close().await;
        set_status(&a, &json!({"a": null}));
        let back = soon(watch.next()).await.unwrap();
        assert_eq!((back.kind, back.resource.key()), (EventType::Added, &a));
        assert_eq!(soon(store.get(&a)).await.unwrap().uid(), back.resource.uid());
        assert_eq!(store.status()[0].caches[0].unreadable, 0);
    }
    set_status(&a, &nested(200));
    assert_eq!(soon(watch.next()).await.unwrap().kind, EventType::Deleted);
    let path = format!("/apis/example.dev/v1/namespaces/{namespace}/widgets/a");
    assert_eq!(shared_cluster().request("DELETE", &path, None).status, 200);
    let is_gone = async || matches!(store.get(&a).await, Err(Error::NotFound { .. })).then_some(());
    eventually("the resource to be gone", is_gone).await;
}
