//! The example `mixed`: its primary lives in NATS, its secondary and its tertiary in a cluster.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use homeostat_testing::eventually_blocking;
use homeostat_tests::{shared_cluster, shared_nats};
use serde_json::{Value, json};

use super::hosts::{LiveHost, in_cluster};
use crate::metrics::scrape::Scrape;

/// The service of the site: it answers every request with 200 while it is well, else with 503.
struct HealthService {
    address: SocketAddr,
    is_well: Arc<AtomicBool>,
}

impl HealthService {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, is_well) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let answers = is_well.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                if !lines.next().is_some_and(|line| line.starts_with("GET /health ")) {
                    continue;
                }
                // The request ends with an empty line.
                lines.find(String::is_empty);
                let status = if answers.load(Ordering::SeqCst) { "200 OK" } else { "503 Service Unavailable" };
                // The host may have given up.
                drop(write!(&stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
            }
        });
        Self { address, is_well }
    }
}

/// S15: The example runs with its own file of stores, in which only addresses and the namespace are replaced.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn the_mixed_example_runs_on_nats_and_kubernetes() {
    let (cluster, namespace) = (shared_cluster(), "mixed");
    let store = in_cluster(namespace, "admin");
    let kubeconfig = store["kubernetes"]["kubeconfig"].as_str().unwrap();
    let service = HealthService::start();
    let health = service.address.to_string();
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
    service.is_well.store(true, Ordering::SeqCst);
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/blog");
    let deployed = |what: &str, wanted: &dyn Fn(&Value) -> bool| {
        eventually_blocking(what, || {
            let answer = cluster.request("GET", &path, None);
            (answer.status == 200).then(|| answer.json()).filter(|deployment| wanted(deployment))
        })
    };
    let theme = |deployment: &Value| deployment["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"].clone();
    deployed("the deployment", &|deployment| deployment["spec"]["replicas"] == 2 && theme(deployment) == "plain");
    // The controller applies the Deployment, so the cluster knows the controller as its manager.
    deployed("the manager of the deployment", &|deployment| {
        let managers = deployment["metadata"]["managedFields"].as_array().unwrap();
        let is_applied = |entry: &&Value| entry["manager"] == "homeostat/sites" && entry["operation"] == "Apply";
        managers.iter().find(is_applied).is_some_and(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null())
    });
    // Somebody writes the settings.
    let settings =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"theme": "dark"}, "metadata": {"name": "blog"}});
    let configmaps = format!("/api/v1/namespaces/{namespace}/configmaps");
    assert_eq!(cluster.request("POST", &configmaps, Some(&settings)).status, 201);
    deployed("the theme", &|deployment| theme(deployment) == "dark");
    live.until("sites", "blog", "/status/theme", &json!("dark"));
    // The reconcile that read the theme has also asked the service.
    live.until("sites", "blog", "/status/healthy", &json!(true));
    // The cluster runs the pods, which nobody does here.
    let status = json!({"status": {"replicas": 2, "readyReplicas": 2}});
    assert_eq!(cluster.request("PATCH", &format!("{path}/status"), Some(&status)).status, 200);
    live.until("sites", "blog", "/status/ready", &json!(2));
    let first = deployed("the deployment", &|_| true);
    assert_eq!(cluster.request("DELETE", &path, None).status, 200);
    deployed("the deployment again", &|deployment| deployment["metadata"]["uid"] != first["metadata"]["uid"]);
    let scrape = Scrape::of(live.socket_folder());
    for store in ["bus", "cluster"] {
        let value = |name: &str| scrape.find(name, &[("store", store)]);
        assert!(value("homeostat_store_cache_bytes").is_some_and(|bytes| bytes > 0.0), "{store}");
        assert_eq!(value("homeostat_store_cache_max_bytes"), Some(f64::from(1 << 30)), "{store}");
    }
    assert_eq!(scrape.find("homeostat_store_cache_bytes", &[("store", "home")]), None, "it needs no cache");
    live.host.terminate();
}
