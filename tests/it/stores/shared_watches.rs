//! Controllers of one kind of a cluster, and the watch that they share.

use std::sync::Arc;
use std::time::Duration;

use homeostat_fixtures::memory_store;
use homeostat_kubernetes::ClusterSettings;
use homeostat_runtime::{Definition, Options, PlacementSpec};
use homeostat_store::{Store, cached};
use homeostat_testing::{eventually, soon};
use homeostat_tests::{Cluster, HttpProxy, TestHost, guest, routed_stores, shared_cluster};
use serde_json::json;

use super::faults::namespace;
use super::kubernetes::settings_of;

const CONTROLLERS: [&str; 2] = ["one", "two"];

/// S15: All controllers of a host share one watch of a kind. The watch ends with the last one of them.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn controllers_of_a_kind_share_one_watch_that_ends_with_the_last_of_them() {
    let cluster = shared_cluster();
    let namespace = namespace(cluster);
    let proxy = HttpProxy::to(cluster.apiserver().port(), cluster.authority());
    let file = cluster.kubeconfig_with(&proxy.url(), &json!({ "token": Cluster::token("admin") }));
    let settings = ClusterSettings { namespace: Some(namespace.clone()), ..settings_of(file) };
    let options = cached::Options { idle_max: Duration::from_millis(100), ..cached::Options::default() };
    let far = Arc::new(homeostat_kubernetes::open(settings, options));
    let home = memory_store();
    let stores = routed_stores(home.clone(), far.clone(), &["v1/ConfigMap"]);
    let test = TestHost::with(home, |options| Options { stores, ..options }).await;
    for name in CONTROLLERS {
        let definition = test.definition(name, &guest("guest-copier")).await;
        test.host.put(Definition { placement: PlacementSpec::EveryHost, ..definition }).await.unwrap();
        soon(test.host.ready(name)).await.unwrap();
    }
    let create = |name: &str| {
        let metadata = json!({"name": name, "namespace": namespace});
        let document = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"at": "1"}});
        let made = cluster.request("POST", &format!("/api/v1/namespaces/{namespace}/configmaps"), Some(&document));
        assert_eq!(made.status, 201, "{made:?}");
    };
    let until_reconciled = async |name: &str, before: u64| {
        let is_reconciled = || async { (test.status(name).reconciles > before).then_some(()) };
        eventually("a controller to be told of a resource", is_reconciled).await;
    };
    // The watches that were opened, and those that are open.
    let watches = || (proxy.count("WATCH", "/configmaps"), proxy.open_watches());
    create("first");
    for name in CONTROLLERS {
        until_reconciled(name, 0).await;
    }
    // The host watches leases too.
    let open = proxy.open_watches();
    assert_eq!(proxy.count("WATCH", "/configmaps"), 1, "{:?}", proxy.requests());
    let [one, two] = CONTROLLERS;
    test.host.remove(one).await.unwrap();
    let before = test.idle(two).await.reconciles;
    create("second");
    until_reconciled(two, before).await;
    assert_eq!(watches(), (1, open), "{:?}", proxy.requests());
    test.host.remove(two).await.unwrap();
    let has_ended = || async { (watches() == (1, open - 1) && far.status()[0].caches.is_empty()).then_some(()) };
    eventually("the watch and its cache to end", has_ended).await;
}
