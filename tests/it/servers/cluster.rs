//! A Kubernetes without nodes, and the proxy that reads the requests to it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use homeostat_testing::eventually_blocking;
use homeostat_tests::{
    CLUSTER_USERS, Cluster, ClusterOptions, Flush, HttpProxy, HttpReply, HttpRule, kubectl, shared_cluster,
};
use serde_json::{Value, json};

use super::is_refused;

/// Runs `kubectl` with a configuration, and returns its output: an error if its exit code is not 0.
fn kubectl_with(config: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(kubectl()).arg("--kubeconfig").arg(config).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    if output.status.success() { Ok(said) } else { Err(said) }
}

/// Returns a config map.
fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_cluster_answers_kubectl_collects_garbage_and_ends_namespaces() {
    let cluster = shared_cluster();
    assert_eq!(cluster.kubectl(&["create", "namespace", "short"]).unwrap(), "namespace/short created\n");
    let owner = cluster.request("POST", "/api/v1/namespaces/short/configmaps", Some(&config_map("owner"))).json();
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]
    });
    let mut owned = config_map("owned");
    owned["metadata"]["ownerReferences"] = json!([reference]);
    assert_eq!(cluster.request("POST", "/api/v1/namespaces/short/configmaps", Some(&owned)).status, 201);
    cluster.kubectl(&["delete", "configmap", "owner", "--namespace=short"]).unwrap();
    eventually_blocking("the dependent to be collected", || {
        let owned = cluster.request("GET", "/api/v1/namespaces/short/configmaps/owned", None);
        (owned.status == 404).then_some(())
    });
    // kubectl waits for the end.
    assert_eq!(cluster.kubectl(&["delete", "namespace", "short"]).unwrap(), "namespace \"short\" deleted\n");
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_user_of_a_cluster_may_do_nothing_before_a_role_says_so() {
    let cluster = shared_cluster();
    let [_, ann, bob, _] = CLUSTER_USERS;
    let config = cluster.kubeconfig(ann);
    let may_list = || kubectl_with(&config, &["auth", "can-i", "list", "configmaps"]);
    let ask = |user| cluster.apiserver().ask(user, "GET", CONFIG_MAPS, None).unwrap().status;
    assert_eq!([ask(ann), ask(bob)], [403, 403]);
    assert_eq!(may_list().unwrap_err().trim(), "no");
    cluster.kubectl(&["create", "role", "reader", "--verb=list", "--resource=configmaps"]).unwrap();
    cluster.kubectl(&["create", "rolebinding", "reads", "--role=reader", "--user", ann]).unwrap();
    eventually_blocking("the role to be known", || (ask(ann) == 200).then_some(()));
    assert_eq!(may_list().unwrap().trim(), "yes");
    assert_eq!(ask(bob), 403);
    assert_eq!(cluster.apiserver().ask("nobody", "GET", CONFIG_MAPS, None).unwrap().status, 401);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_cluster_keeps_its_objects_when_etcd_and_the_apiserver_are_killed() {
    let cluster = Cluster::start(ClusterOptions { flush: Flush::Always, ..ClusterOptions::default() });
    let url = cluster.url();
    let made = cluster.request("POST", CONFIG_MAPS, Some(&config_map("kept"))).json();
    cluster.etcd().server().kill();
    cluster.apiserver().server().kill();
    assert!(is_refused(cluster.apiserver().port()));
    cluster.etcd().server().start();
    cluster.apiserver().server().start();
    assert_eq!(cluster.url(), url);
    let kept = cluster.request("GET", &format!("{CONFIG_MAPS}/kept"), None).json();
    assert_eq!(kept["metadata"]["uid"], made["metadata"]["uid"]);

    // Nothing before the compaction can be watched, once no apiserver remembers it.
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap();
    cluster.request("POST", CONFIG_MAPS, Some(&config_map("later")));
    cluster.etcd().compact();
    cluster.apiserver().server().kill();
    cluster.apiserver().server().start();
    let watched =
        cluster.request("GET", &format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=5&resourceVersion={revision}"), None);
    assert!(watched.text.contains("\"code\":410"), "{watched:?}");
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn two_apiservers_of_a_cluster_serve_the_same_objects() {
    let options = ClusterOptions {
        feature_gates: vec![("WatchList", false)],
        requests_in_flight_max: Some(5),
        compaction_interval: Some(Duration::from_secs(1)),
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(options);
    let second = cluster.second_apiserver();
    cluster.request("POST", CONFIG_MAPS, Some(&config_map("both")));
    let get = || second.ask("admin", "GET", &format!("{CONFIG_MAPS}/both"), None);
    assert_eq!(get().unwrap().status, 200);
    second.server().freeze();
    cluster.request("POST", CONFIG_MAPS, Some(&config_map("later")));
    second.server().thaw();
    assert_eq!(get().unwrap().status, 200);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn an_http_proxy_answers_by_its_script_and_counts_requests() {
    let cluster = shared_cluster();
    let proxy = HttpProxy::to(cluster.apiserver().port(), cluster.authority());
    let config = cluster.kubeconfig_with(&proxy.url(), &json!({ "token": Cluster::token("admin") }));
    let get = |path: &str| kubectl_with(&config, &["get", "--raw", path]);
    let rule = |verb, times, reply| HttpRule { verb, path: "/version".to_owned(), times, reply };
    assert!(get("/version").unwrap().contains("v1.36"));

    proxy.add(rule(Some("GET"), Some(1), HttpReply::Status { code: 503, retry_after: None }));
    assert!(get("/version").unwrap_err().contains("ServiceUnavailable"));
    proxy.add(rule(Some("GET"), Some(1), HttpReply::Status { code: 429, retry_after: Some(1) }));
    let began = Instant::now();
    assert!(get("/version").unwrap().contains("v1.36"), "client-go waits as it is told");
    assert!(began.elapsed() >= Duration::from_secs(1));
    proxy.add(rule(None, Some(1), HttpReply::CutAfter(5)));
    assert!(get("/version").unwrap_err().contains("unexpected EOF"));
    proxy.add(rule(None, Some(1), HttpReply::NoAnswer));
    assert!(get("/version").unwrap_err().contains("EOF"));
    assert_eq!(proxy.count("GET", "/version"), 6, "{:?}", proxy.requests());
    proxy.add(rule(None, None, HttpReply::WatchError(410)));
    assert!(get("/version").unwrap().contains("Expired"));
    proxy.clear();
    assert!(get("/version").unwrap().contains("v1.36"));
    assert_eq!(proxy.count("WATCH", ""), 0);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn an_http_proxy_passes_watches_and_counts_the_open_ones() {
    let cluster = shared_cluster();
    let proxy = HttpProxy::to(cluster.apiserver().port(), cluster.authority());
    let config = cluster.kubeconfig_with(&proxy.url(), &json!({ "token": Cluster::token("admin") }));
    let mut watching = Command::new(kubectl());
    watching.args(["get", "configmaps", "--watch", "-o", "name", "--kubeconfig"]).arg(config);
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
    eventually_blocking("the watch to be open", || (proxy.open_watches() == 1).then_some(()));
    cluster.request("POST", CONFIG_MAPS, Some(&config_map("watched")));
    assert!(lines.any(|line| line == "configmap/watched"));
    assert_eq!(proxy.count("WATCH", "/configmaps"), 1);
    watching.kill().unwrap();
    watching.wait().unwrap();
    eventually_blocking("the watch to end", || (proxy.open_watches() == 0).then_some(()));
}
