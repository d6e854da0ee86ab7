//! What a host knows and reports of a cluster that has kinds of its own, and what it needs there.

use homeostat_testing::{eventually_blocking, eventually_built};
use homeostat_tests::{HostProcess, shared_cluster};
use serde_json::{Value, json};

use super::hosts::{APPS, LiveHost, define, definition, file, in_cluster};

/// The controller of the example `greeter`.
pub(super) const GREETER: &str = "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {name: greeter}\nspec:\n  \
    component: {file: greeter.wasm}\n  grants:\n    resources:\n      \
    - {kinds: [demo.homeostat.dev/Greeting], verbs: [get, list, watch, update-status], namespaces: [\"*\"]}\n";

/// Returns the condition about the stores of a controller's kinds; `None` while there is none.
pub(super) fn stores_ready(host: &HostProcess, controller: &str) -> Option<Value> {
    let found = host.ask(&["get", "controllers", controller, "-o", "json"]);
    let found: Value = serde_json::from_str(&found.stdout).ok()?;
    let found = found["items"].as_array().and_then(|items| items.first()).unwrap_or(&found);
    let conditions = found["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "StoresReady").cloned()
}

/// Waits until a controller has a condition with a reason, and returns its message.
fn until_reason(live: &LiveHost, controller: &str, reason: &str) -> String {
    eventually_built(&format!("{controller} to say {reason}; {}", live.host.stderr()), || {
        let ready = stores_ready(&live.host, controller)?;
        (ready["reason"] == reason).then(|| ready["message"].as_str().unwrap_or_default().to_owned())
    })
}

/// S15: The kinds that a cluster serves can be used without a controller and without a definition of the host.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn the_kinds_of_a_cluster_are_known_without_a_controller() {
    let namespace = "clusters-kinds";
    let stores =
        file(&[in_cluster(namespace, "admin")], &[("v1/ConfigMap", "cluster"), ("demo.homeostat.dev/*", "cluster")]);
    define(shared_cluster(), "Tenant", false);
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"theme": "dark"},
        "metadata": {"name": "settings", "namespace": namespace}});
    let live = LiveHost::with_files(&[("settings.yaml", &settings.to_string())], &[], namespace, Some(&stores));
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/settings");
    eventually_blocking("the cluster to have it", || {
        (shared_cluster().request("GET", &path, None).status == 200).then_some(())
    });
    // By a short name of the cluster.
    let listed = live.list("cm").unwrap();
    assert!(listed.iter().any(|item| item["data"]["theme"] == "dark"), "{listed:?}");
    assert_eq!(live.host.ask(&["get", "tenants"]).code, Some(0));
    // A definition of the host would have no effect there.
    let crd = live.write("tenants.yaml", &definition("Tenant", false).to_string());
    let refused = live.host.ask(&["apply", "-f", &crd]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("which has its own definitions: apply it there"), "{}", refused.stderr);
    live.host.terminate();
}

/// S15: A controller whose kind a cluster does not serve says so, and goes on once the kind is defined there.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_kind_that_a_cluster_does_not_serve_is_named_until_it_does() {
    let namespace = "clusters-greetings";
    let stores = file(&[in_cluster(namespace, "admin")], &[("demo.homeostat.dev/Greeting", "cluster")]);
    let greeting = json!({"apiVersion": "demo.homeostat.dev/v1", "kind": "Greeting", "spec": {"name": "world"},
        "metadata": {"name": "world", "namespace": namespace}});
    let files = [("controllers.yaml", GREETER), ("greeting.yaml", &greeting.to_string())];
    let live = LiveHost::with_files(&files, &["greeter"], namespace, Some(&stores));
    let message = until_reason(&live, "greeter", "KindNotServed");
    assert!(message.contains("Greeting"), "{message}");
    define(shared_cluster(), "Greeting", true);
    live.until("greetings", "world", "/status/message", &json!("Hello, world!"));
    until_reason(&live, "greeter", "StoresReady");
    live.host.terminate();
}

/// S15: A host needs exactly the role that is printed for its controllers. A kind that is forbidden delays only the
/// controllers that need it, which say so. Events about resources of the cluster are written there.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_runs_with_the_role_that_grants_rbac_prints() {
    let (cluster, namespace) = (shared_cluster(), "clusters-role");
    let stores = file(&[in_cluster(namespace, "ann")], &[("v1/Pod", "cluster")]);
    let replaced = [("namespace: default", &*format!("namespace: {namespace}"))];
    let live = LiveHost::start("apps", &APPS, namespace, &replaced, Some(&stores));
    for controller in ["replicasets", "kubelet"] {
        let message = until_reason(&live, controller, "KindForbidden");
        assert!(message.contains("Pod"), "{message}");
    }
    until_reason(&live, "deployments", "StoresReady");
    eventually_blocking("the deployment to have its set", || (live.list("replicasets")?.len() == 1).then_some(()));
    for controller in ["deployments", "replicasets", "kubelet"] {
        let printed = live.host.json(&["grants", "rbac", controller, "--store", "cluster"]);
        let roles = printed["items"].as_array().unwrap();
        // The kinds of `deployments` live elsewhere.
        assert_eq!(roles.len(), usize::from(controller != "deployments"), "{printed}");
        for role in roles {
            let created = cluster.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", Some(role));
            assert_eq!(created.status, 201, "{created:?}");
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": controller},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": controller},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
            });
            let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
            assert_eq!(cluster.request("POST", &path, Some(&binding)).status, 201);
        }
    }
    let live = live.restart();
    live.until_pods(5, "web:1");
    live.edit("web.yaml", "replicas: 5", "replicas: 2");
    live.until_pods(2, "web:1");
    until_reason(&live, "kubelet", "StoresReady");
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    eventually_blocking("the events of the pods", || {
        let events = cluster.request("GET", &path, None).json();
        let is_started = |event: &&Value| {
            let about = &event["regarding"];
            event["reason"] == "Started" && about["kind"] == "Pod" && about["uid"].is_string()
        };
        let event = events["items"].as_array()?.iter().find(is_started)?.clone();
        (event["reportingController"] == "homeostat.dev/kubelet").then_some(())
    });
    live.host.terminate();
}
