//! A cluster whose etcd is restored from a snapshot under a running host.

use std::time::Duration;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{Cluster, ClusterOptions, HostProcess};
use serde_json::json;

use super::clusters::GREETER;
use super::contents::{KINDS, apply, cached_greetings, has_part, identities, store, until_state};
use super::hosts::{LiveHost, define, file};

const GREETINGS: &str = "/apis/demo.homeostat.dev/v1/namespaces/default/greetings";

/// Has a host greet somebody: writes a greeting into the cluster, and waits for the controller.
fn greet(live: &LiveHost, name: &str, whom: &str) -> String {
    let metadata = json!({"name": name, "namespace": "default"});
    let greeting = json!({"apiVersion": "demo.homeostat.dev/v1", "kind": "Greeting",
        "metadata": metadata, "spec": {"name": whom}});
    let uid = apply(&live.host, live.socket_folder(), &greeting);
    live.until("greetings", name, "/status/message", &json!(format!("Hello, {whom}!")));
    uid
}

/// Creates a greeting in the cluster, and a dependent of the same name in the host's own store.
fn family(live: &LiveHost, name: &str) {
    let uid = greet(live, name, name);
    let owner = json!([{"apiVersion": "demo.homeostat.dev/v1", "kind": "Greeting", "name": name, "uid": uid}]);
    let metadata = json!({"name": name, "namespace": "default", "ownerReferences": owner});
    apply(
        &live.host,
        live.socket_folder(),
        &json!({"apiVersion": "near.dev/v1", "kind": "Part", "metadata": metadata}),
    );
}

/// Returns the id of the content of the cluster as the host knows it.
fn id(host: &HostProcess) -> String {
    until_state(host, "cluster", "Ready")["id"].as_str().unwrap().to_owned()
}

/// S15: A cluster is restored from a snapshot as etcd's guide says, with all its revisions above the former ones. The host
/// notices that the content is an older one, deletes nothing because of it, and goes on once a person has accepted it.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_restored_with_higher_revisions_under_a_host_deletes_nothing() {
    let cluster = Cluster::start(ClusterOptions::default());
    define(&cluster, "Greeting", true);
    let kubernetes = json!({"kubeconfig": cluster.kubeconfig("admin"), "namespace": "default"});
    let stores =
        file(&[json!({"name": "cluster", "kubernetes": kubernetes})], &[("demo.homeostat.dev/Greeting", "cluster")]);
    let files = [("kinds.yaml", KINDS), ("greeter.yaml", GREETER)];
    let live = LiveHost::with_files(&files, &["greeter"], "default", Some(&stores));
    let before = id(&live.host);
    family(&live, "old");
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot.db");
    cluster.etcd().snapshot(&snapshot);
    // The snapshot has an older state of the one, and lacks the other.
    greet(&live, "old", "world");
    family(&live, "lost");

    cluster.restore(&snapshot);
    until_state(&live.host, "cluster", "Replaced");
    let refused = live.host.ask(&["get", "greetings"]);
    assert!(refused.code != Some(0) && refused.stderr.contains("was replaced by"), "{}", refused.stderr);
    const WINDOW: Duration = Duration::from_secs(1);
    let sent = || store(&live.host, "cluster")["requests"]["sent"].as_u64().unwrap();
    let sent_before = sent();
    tokio::time::sleep(WINDOW).await;
    let more = sent() - sent_before;
    assert!(more <= 20, "{more} requests in {WINDOW:?}");
    for name in ["old", "lost"] {
        assert!(has_part(&live.host, name), "the part {name} stays");
    }

    let accepted = live.host.ask(&["stores", "accept", "cluster"]);
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    let now = id(&live.host);
    assert!(now.starts_with(&format!("{before}/restored-")), "{now}");
    live.until("greetings", "old", "/spec/name", &json!("old"));
    greet(&live, "new", "world");
    eventually_blocking("the cache to have what the cluster has", || {
        let listed = identities(&cluster.request("GET", GREETINGS, None).json());
        assert!(listed.keys().eq(["new", "old"]), "{listed:?}");
        (cached_greetings(&live.host, "cluster")? == listed).then_some(())
    });
    assert!(has_part(&live.host, "lost"), "nobody knows whether its owner was deleted");
    let live = live.restart();
    assert_eq!(id(&live.host), now, "the acceptance is remembered");
    live.host.terminate();
}
