//! Definitions of kinds that are deleted, and made again, while a controller uses the kind.

use homeostat_store::{Key, Obstacle};
use homeostat_testing::eventually_blocking;
use homeostat_tests::shared_bare_cluster;

use super::super::contents::{identities, identities_of};
use super::*;

/// How long the requests for a missing kind are counted.
const WINDOW: Duration = Duration::from_secs(2);

/// Defines the kind of the example `greeter` in a cluster, and waits until it is served.
fn define_greetings(cluster: &Cluster) {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = json!({ "type": "object", "properties": { "spec": anything, "status": anything } });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
        "subresources": { "status": {} },
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "greetings.demo.homeostat.dev" },
        "spec": {
            "group": "demo.homeostat.dev", "scope": "Namespaced",
            "names": { "kind": "Greeting", "plural": "greetings", "singular": "greeting" }, "versions": [version],
        },
    });
    let made = cluster.request("POST", DEFINITIONS, Some(&definition));
    assert_eq!(made.status, 201, "{made:?}");
    until_greetings(cluster, 200);
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GREETINGS: &str = "/apis/demo.homeostat.dev/v1/greetings";

/// Waits for the status of a list of greetings.
fn until_greetings(cluster: &Cluster, status: u16) {
    eventually_blocking("the definition to take effect", || {
        (cluster.request("GET", GREETINGS, None).status == status).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_controller_survives_the_deletion_of_the_definition_of_its_kind() {
    // The kind of a shared definition would be missing in other tests.
    let cluster = shared_bare_cluster();
    define_greetings(cluster);
    let proxy = HttpProxy::to(cluster.apiserver().port(), cluster.authority());
    let file = cluster.kubeconfig_with(&proxy.url(), &json!({ "token": Cluster::token("admin") }));
    let settings = homeostat_kubernetes::ClusterSettings {
        catalog_interval: Duration::from_secs(1),
        ..homeostat_kubernetes::ClusterSettings::new(
            "far",
            Credentials::Kubeconfig { files: vec![file], context: None },
        )
    };
    let far = Arc::new(homeostat_kubernetes::open(settings, cached::Options::default()));
    let home = memory_store();
    let stores = routed_stores(home.clone(), far.clone(), &["demo.homeostat.dev/*"]);
    let test = TestHost::with(home, |options| Options { stores, ..options }).await;
    test.add("greeter", &guest("greeter")).await;
    let greet = async |name: &str| {
        let key = Key::new(Kind::new("demo.homeostat.dev", "v1", "Greeting"), "default", name);
        let document = json!({
            "apiVersion": "demo.homeostat.dev/v1", "kind": "Greeting", "spec": { "name": name },
            "metadata": { "name": name, "namespace": "default" },
        });
        let apply = || async { test.host.apply_resource(document.clone(), "test", true).await.ok() };
        eventually("the greeting to be accepted", apply).await;
        test.until(&key, "is greeted", |greeting| greeting["status"]["message"].is_string()).await;
        key
    };
    let before = greet("before").await;

    let deleted = cluster.request("DELETE", &format!("{DEFINITIONS}/greetings.demo.homeostat.dev"), None);
    assert_eq!(deleted.status, 200, "{deleted:?}");
    until_greetings(cluster, 404);
    let is_noticed = || async {
        let caches = far.status().remove(0).caches;
        caches.iter().any(|cache| cache.obstacle == Some(Obstacle::NotServed)).then_some(())
    };
    eventually("the store to notice that the kind is not served", is_noticed).await;
    let sent = || far.status()[0].requests.sent;
    let arrived = || proxy.requests().values().sum::<u64>();
    tokio::join!(assert_quiet(sent, WINDOW), assert_quiet(arrived, WINDOW));
    define_greetings(cluster);
    greet("after").await;
    let is_equal = || async {
        let listed = identities(&cluster.request("GET", GREETINGS, None).json());
        let sent_before = sent();
        let cached = far.list(&Query::all(before.kind().clone())).await.ok()?.items;
        // A store without a cache of the kind asks its server.
        let is_cached = is_ready(&far) && sent() == sent_before;
        (is_cached && identities_of(&cached) == listed).then_some(listed)
    };
    let cached = eventually("the cache to equal a fresh list", is_equal).await;
    assert!(cached.keys().eq(["after"]), "{cached:?}");
    until_quiet(&far).await;
    assert!(matches!(far.get_live(&before).await, Err(Error::NotFound { .. })));
    cluster.request("DELETE", &format!("{DEFINITIONS}/greetings.demo.homeostat.dev"), None);
}
