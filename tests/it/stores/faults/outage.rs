//! Many kinds of a cluster that is away for a while. Its requests are counted at a proxy.

use homeostat_kubernetes::ClusterSettings;
use homeostat_tests::shared_bare_cluster;

use super::*;

/// Kinds that each cluster serves, with the paths of their lists.
const KINDS: [(&str, &str, &str); 20] = [
    ("", "ConfigMap", "/api/v1/configmaps"),
    ("", "LimitRange", "/api/v1/limitranges"),
    ("", "PersistentVolume", "/api/v1/persistentvolumes"),
    ("", "PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    ("", "Pod", "/api/v1/pods"),
    ("", "PodTemplate", "/api/v1/podtemplates"),
    ("", "ReplicationController", "/api/v1/replicationcontrollers"),
    ("", "ResourceQuota", "/api/v1/resourcequotas"),
    ("", "Secret", "/api/v1/secrets"),
    ("", "Service", "/api/v1/services"),
    ("apps", "ControllerRevision", "/apis/apps/v1/controllerrevisions"),
    ("apps", "DaemonSet", "/apis/apps/v1/daemonsets"),
    ("apps", "Deployment", "/apis/apps/v1/deployments"),
    ("apps", "ReplicaSet", "/apis/apps/v1/replicasets"),
    ("apps", "StatefulSet", "/apis/apps/v1/statefulsets"),
    ("batch", "CronJob", "/apis/batch/v1/cronjobs"),
    ("batch", "Job", "/apis/batch/v1/jobs"),
    ("networking.k8s.io", "Ingress", "/apis/networking.k8s.io/v1/ingresses"),
    ("networking.k8s.io", "NetworkPolicy", "/apis/networking.k8s.io/v1/networkpolicies"),
    ("policy", "PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
];

/// How long the requests to a cluster that is away are counted.
const AWAY: Duration = Duration::from_secs(3);

/// One kind asks on behalf of all whether the cluster is back, and then each kind goes on with one watch and no list.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn many_kinds_ask_little_while_their_cluster_is_away_and_once_when_it_returns() {
    let cluster = shared_bare_cluster();
    let way = Proxy::to(cluster.apiserver().port());
    let proxy = HttpProxy::to(way.port(), cluster.authority());
    let file = cluster.kubeconfig_with(&proxy.url(), &json!({ "token": Cluster::token("admin") }));
    let credentials = Credentials::Kubeconfig { files: vec![file], context: None };
    let store = homeostat_kubernetes::open(ClusterSettings::new("far", credentials), cached::Options::default());
    let kinds = KINDS.map(|(group, name, _)| Kind::new(group, "v1", name));
    let _users: Vec<_> = kinds.iter().map(|kind| store.subscribe(kind, View::Metadata)).collect();
    until_all_synced(&store).await;
    let counts = |verb: &'static str| KINDS.map(|(_, _, path)| proxy.count(verb, path));
    let (watches, lists) = (counts("WATCH"), counts("GET"));

    proxy.add(HttpRule {
        verb: None,
        path: String::new(),
        times: None,
        reply: HttpReply::Status { code: 503, retry_after: None },
    });
    // The open watches end.
    way.set(NetworkFault::Reset);
    let is_away = || async { matches!(store.status()[0].availability, Availability::Away { .. }).then_some(()) };
    eventually("the store to miss its server", is_away).await;
    let arrived = || proxy.requests().values().sum::<u64>();
    let asked = growth(arrived, AWAY).await;
    assert!((1..=REQUESTS_MAX).contains(&asked), "{asked} requests in {AWAY:?}");

    let failed = counts("WATCH");
    way.set(NetworkFault::None);
    proxy.clear();
    until_all_synced(&store).await;
    let opened = counts("WATCH");
    for (at, (_, kind, _)) in KINDS.iter().enumerate() {
        let (lost, back) = (failed[at] - watches[at], opened[at] - failed[at]);
        assert!(lost <= 2 && (1..=2).contains(&back), "{kind}: {lost} watches failed, and {back} were opened again");
    }
    assert_eq!(counts("GET"), lists, "each watch goes on where it was");
    until_quiet(&store).await;
}

/// A client of a server that is away connects again and again, less and less often.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_store_in_nats_connects_rarely_while_its_server_is_away() {
    let nats = shared_nats();
    let proxy = Proxy::to(nats.port());
    let hosts = Hosts::nats(nats, &proxy);
    let _user = hosts.near.subscribe(&kind(), View::Whole);
    until_synced(&hosts.near).await;
    proxy.set(NetworkFault::Reset);
    let is_away = || async { matches!(hosts.near.status()[0].availability, Availability::Away { .. }).then_some(()) };
    eventually("the store to miss its server", is_away).await;
    let connected = || proxy.traffic().connections;
    let tried = growth(connected, AWAY).await;
    proxy.set(NetworkFault::None);
    assert!((1..=REQUESTS_MAX).contains(&tried), "{tried} connections in {AWAY:?}");
    let before = connected();
    until_synced(&hosts.near).await;
    assert!((1..=2).contains(&(connected() - before)), "{} connections at the return", connected() - before);
    until_quiet(&hosts.near).await;
}

/// Waits until all kinds follow their server.
async fn until_all_synced(store: &CachedStore) {
    let is_synced = || async { (is_ready(store) && store.status()[0].caches.len() == KINDS.len()).then_some(()) };
    eventually("all kinds to follow their server", is_synced).await;
}
