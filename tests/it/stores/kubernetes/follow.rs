//! Lists, watches and the kinds of a server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_kubernetes::{Cluster, ClusterSettings};
use homeostat_store::cached::{Delta, DeltaStream, LastState, Start, Upstream};
use homeostat_store::{
    Change, Error, Key, Kind, Precondition, Propagation, Query, Resource, Revision, Selector, View, Write,
};
use homeostat_testing::{eventually, soon};
use homeostat_tests::ClusterOptions;
use serde_json::{Value, json};

use super::{cluster_settings, cluster_store, connected, created, define, namespace, send, sent, settings_of, widgets};

/// Reads a list to its end. Returns the resources and the revision that they show.
async fn listed(stream: &mut dyn DeltaStream) -> (BTreeMap<Key, Arc<Resource>>, Revision) {
    let mut resources = BTreeMap::new();
    loop {
        match soon(stream.next()).await.unwrap() {
            Delta::Listed(resource) | Delta::Put(resource) => {
                resources.insert(resource.key().clone(), resource);
            }
            Delta::ListEnd { at } => return (resources, at),
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the next change, which is no bookmark.
async fn change(stream: &mut dyn DeltaStream) -> Delta {
    loop {
        let delta = soon(stream.next()).await.unwrap();
        if !matches!(delta, Delta::Bookmark(_)) {
            return delta;
        }
    }
}

async fn deleted(store: &Cluster, key: &Key) {
    let (key, precondition, propagation) = (key.clone(), Precondition::default(), Propagation::Background);
    sent(store, Write::Delete { key, precondition, propagation, grace_seconds: None }).await;
}

fn within(namespace: &str) -> ClusterSettings {
    ClusterSettings { namespace: Some(namespace.to_owned()), ..cluster_settings("admin") }
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn pages_together_are_the_list() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    for name in ["a", "b", "c", "d", "e"] {
        created(&store, &Key::new(widgets(), &namespace, name)).await;
    }
    let selector = Selector { namespace: Some(namespace.clone()), ..Selector::default() };
    let mut query = Query { selector, limit: Some(2), ..Query::all(widgets()) };
    let (mut names, mut revisions) = (Vec::new(), Vec::new());
    loop {
        let page = store.list(&query).await.unwrap();
        names.extend(page.items.iter().map(|item| item.key().name().to_owned()));
        revisions.push(page.revision);
        // A resource that is created between two pages belongs to neither.
        created(&store, &Key::new(widgets(), &namespace, &format!("x{}", names.len()))).await;
        query.from = page.next;
        if query.from.is_none() {
            break;
        }
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    assert!(revisions.iter().all(|revision| *revision == revisions[0]), "{revisions:?}");
    query.from = Some("nonsense".to_owned());
    assert!(matches!(store.list(&query).await, Err(Error::Invalid { path, .. }) if path == "continue"));
    query = Query { limit: None, from: None, ..query };
    assert_eq!(store.list(&query).await.unwrap().items.len(), 8);
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn every_stream_begins_where_it_is_asked_to() {
    let namespace = namespace(&*cluster_store().await).await;
    let store = connected(within(&namespace)).await;
    for name in ["a", "b", "c"] {
        created(&store, &Key::new(widgets(), &namespace, name)).await;
    }
    let revision = store.revision(&widgets()).await.unwrap();
    deleted(&store, &Key::new(widgets(), &namespace, "c")).await;
    let starts = [
        (Start::Now { not_before: None }, 2),
        (Start::Now { not_before: Some(revision) }, 2),
        (Start::Exactly(revision), 3),
    ];
    for (start, count) in starts {
        let mut stream = store.open(&widgets(), View::Whole, start).await.unwrap();
        let (resources, at) = listed(&mut *stream).await;
        assert!(resources.len() >= count && at >= revision, "{start:?} {at} {:?}", resources.keys());
        if count == 3 {
            assert!(matches!(change(&mut *stream).await, Delta::Deleted { key, .. } if key.name() == "c"));
        }
    }
    let mut stream = store.open(&widgets(), View::Whole, Start::After(revision)).await.unwrap();
    let Delta::Deleted { key, last, at } = change(&mut *stream).await else { panic!() };
    assert!(key.name() == "c" && matches!(last, LastState::Whole(_)) && at > revision);
    let added = created(&store, &Key::new(widgets(), &namespace, "d")).await;
    assert_eq!(change(&mut *stream).await, Delta::Put(added));
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn metadata_alone_has_the_kind_of_its_resource() {
    let namespace = namespace(&*cluster_store().await).await;
    let store = connected(within(&namespace)).await;
    let made = created(&store, &Key::new(widgets(), &namespace, "a")).await;
    let mut stream = store.open(&widgets(), View::Metadata, Start::Now { not_before: None }).await.unwrap();
    let (resources, _) = listed(&mut *stream).await;
    let seen = &resources[made.key()];
    assert_eq!((seen.uid(), seen.revision()), (made.uid(), made.revision()));
    assert_eq!(seen.document().get("spec"), None);
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_list_of_the_future_is_refused() {
    let store = cluster_store().await;
    let asked = Revision(1 << 40);
    let error = store.open(&widgets(), View::Whole, Start::Exactly(asked)).await.err();
    assert!(matches!(error, Some(Error::FutureRevision { asked: at, .. }) if at == asked), "{error:?}");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_server_without_streamed_lists_is_listed_in_pages() {
    let feature_gates = vec![("WatchList", false)];
    let server = homeostat_tests::Cluster::start(ClusterOptions { feature_gates, ..ClusterOptions::default() });
    define(&server, "Widget", &json!({"status": {}}));
    let store = connected(settings_of(server.kubeconfig("admin"))).await;
    eventually("the kind is discovered", || async { store.list(&Query::all(widgets())).await.ok() }).await;
    let made = created(&store, &Key::new(widgets(), "default", "a")).await;
    // The first stream learns that the server refuses to stream lists; then come the list and the watch.
    for requests in [3, 2] {
        let before = store.counts().sent;
        let mut stream = store.open(&widgets(), View::Whole, Start::Now { not_before: None }).await.unwrap();
        assert_eq!(listed(&mut *stream).await.0.into_keys().collect::<Vec<_>>(), [made.key().clone()]);
        let next = created(&store, &Key::new(widgets(), "default", "b")).await;
        assert_eq!(change(&mut *stream).await, Delta::Put(next.clone()));
        assert_eq!(store.counts().sent - before, requests + 1, "the create is one, too");
        deleted(&store, next.key()).await;
    }
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_kind_added_and_removed_while_running_is_noticed() {
    let server = homeostat_tests::Cluster::start(ClusterOptions::default());
    let catalog_interval = Duration::from_secs(4);
    let store = connected(ClusterSettings { catalog_interval, ..settings_of(server.kubeconfig("admin")) }).await;
    let gadgets = Kind::new("example.dev", "v1", "Gadget");
    let mut catalog = store.catalog();
    let deployments = Kind::new("apps", "v1", "Deployment");
    assert!(
        catalog.borrow().find(&deployments).is_some_and(|kind| kind.has_scale("v1") && kind.status && kind.namespaced)
    );
    assert!(catalog.borrow().find(&gadgets).is_none());
    define(&server, "Gadget", &json!({}));
    let is_there = |kind: &homeostat_kubernetes::ServedKind| kind.plural == "gadgets";
    soon(catalog.wait_for(|catalog| catalog.find(&gadgets).is_some_and(is_there))).await.unwrap();
    created(&store, &Key::new(gadgets.clone(), "default", "a")).await;
    let definitions = Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    deleted(&store, &Key::new(definitions, "", "gadgets.example.dev")).await;
    soon(catalog.wait_for(|catalog| catalog.find(&gadgets).is_none())).await.unwrap();
    let refused = store.open(&gadgets, View::Whole, Start::After(Revision(1))).await.err();
    assert!(matches!(refused, Some(Error::Unavailable { .. })), "{refused:?}");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_kind_that_is_forbidden_says_so_and_others_go_on() {
    let admin = cluster_store().await;
    let namespace = namespace(&admin).await;
    let grant = |kind: &str, rest: Value| {
        let mut document = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": "widgets", "namespace": namespace}});
        document.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        Write::Create { document }
    };
    let verbs = ["get", "list", "watch", "create"];
    let rules = json!([{"apiGroups": ["example.dev"], "resources": ["widgets"], "verbs": verbs}]);
    sent(&admin, grant("Role", json!({ "rules": rules }))).await;
    let group = "rbac.authorization.k8s.io";
    let subjects = json!([{"kind": "User", "name": "ann", "apiGroup": group}]);
    let role = json!({"kind": "Role", "name": "widgets", "apiGroup": group});
    sent(&admin, grant("RoleBinding", json!({ "subjects": subjects, "roleRef": role }))).await;
    let store = connected(ClusterSettings { namespace: Some(namespace.clone()), ..cluster_settings("ann") }).await;
    let key = Key::new(widgets(), &namespace, "a");
    // The server learns of the role a moment later.
    let create = || async { send(&store, Write::Create { document: super::document(&key) }).await.ok() };
    eventually("the role holds", create).await;
    let mut stream = store.open(&widgets(), View::Whole, Start::Now { not_before: None }).await.unwrap();
    assert_eq!(listed(&mut *stream).await.0.len(), 1);
    let secrets = Kind::new("", "v1", "Secret");
    let error = store.open(&secrets, View::Whole, Start::Now { not_before: None }).await.err();
    assert!(matches!(&error, Some(Error::Forbidden { what, .. }) if what.ends_with("of v1/Secret")), "{error:?}");
    let change = Change::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let label = Write::Patch { key, change, precondition: Precondition::default() };
    assert!(matches!(send(&store, label).await, Err(Error::Forbidden { .. })));
}
