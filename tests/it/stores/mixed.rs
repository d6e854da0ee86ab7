//! The example `mixed`: its primary lives in NATS, its secondary and its tertiary in a cluster.

use std::net::TcpListener;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{shared_cluster, shared_nats};
use serde_json::{Value, json};

use super::hosts::{LiveHost, in_cluster};

/// S15: The example runs with its own file of stores, in which only addresses and the namespace are replaced.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn the_mixed_example_runs_on_nats_and_kubernetes() {
    let (cluster, namespace) = (shared_cluster(), "mixed");
    let store = in_cluster(namespace, "admin");
    let kubeconfig = store["kubernetes"]["kubeconfig"].as_str().unwrap();
    // Nobody accepts the requests: the site is not well.
    let health = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (in_stores, in_site) = ("      namespace: default", "\n  namespace: default");
    let replaced = [
        (in_stores, &*format!("      namespace: {namespace}\n      kubeconfig: {kubeconfig}")),
        (in_site, &*format!("\n  namespace: {namespace}")),
        ("nats://127.0.0.1:4222", &*shared_nats().url()),
        ("bucket: homeostat", "bucket: mixed"),
        ("127.0.0.1:8080", &health),
    ];
    let live = LiveHost::start("mixed", &["sites"], namespace, &replaced, None);
    live.until("sites", "blog", "/status/healthy", &json!(false));
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/blog");
    let deployed = |what: &str, wanted: &dyn Fn(&Value) -> bool| {
        eventually_blocking(what, || {
            let answer = cluster.request("GET", &path, None);
            (answer.status == 200).then(|| answer.json()).filter(|deployment| wanted(deployment))
        })
    };
    let theme = |deployment: &Value| deployment["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"].clone();
    deployed("the deployment", &|deployment| deployment["spec"]["replicas"] == 2 && theme(deployment) == "plain");
    // Somebody writes the settings.
    let settings =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"theme": "dark"}, "metadata": {"name": "blog"}});
    let configmaps = format!("/api/v1/namespaces/{namespace}/configmaps");
    assert_eq!(cluster.request("POST", &configmaps, Some(&settings)).status, 201);
    deployed("the theme", &|deployment| theme(deployment) == "dark");
    live.until("sites", "blog", "/status/theme", &json!("dark"));
    // The cluster runs the pods, which nobody does here.
    let status = json!({"status": {"replicas": 2, "readyReplicas": 2}});
    assert_eq!(cluster.request("PATCH", &format!("{path}/status"), Some(&status)).status, 200);
    live.until("sites", "blog", "/status/ready", &json!(2));
    let first = deployed("the deployment", &|_| true);
    assert_eq!(cluster.request("DELETE", &path, None).status, 200);
    deployed("the deployment again", &|deployment| deployment["metadata"]["uid"] != first["metadata"]["uid"]);
    live.host.terminate();
}
