//! Dependents in a cluster of kinds that no controller of the host uses.

use std::collections::BTreeMap;

use homeostat_testing::{eventually_blocking, eventually_built};
use homeostat_tests::{Cluster, HttpProxy, HttpReply, HttpRule, shared_cluster};
use serde_json::{Value, json};

use super::hosts::{LiveHost, definition, file, in_cluster};

const NAMESPACE: &str = "unused-kinds";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Namespaced kinds of the core group that a cluster serves, but for Events.
const FORBIDDEN: [&str; 10] = [
    "endpoints",
    "limitranges",
    "persistentvolumeclaims",
    "pods",
    "podtemplates",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "serviceaccounts",
    "services",
];

fn path(rest: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{rest}")
}

/// Applies a document by the host, as soon as the host knows its kind.
fn apply(live: &LiveHost, name: &str, document: &Value) {
    let file = live.write(name, &document.to_string());
    eventually_blocking(name, || (live.host.ask(&["apply", "-f", &file]).code == Some(0)).then_some(()));
}

/// Creates an owner in the store of the host, and a ConfigMap of the same name in the cluster.
fn family(live: &LiveHost, name: &str) {
    let (api_version, kind) = ("demo.homeostat.dev/v1", "Warden");
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    apply(live, "owner.json", &json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {}}));
    let uid = eventually_blocking("the owner", || {
        let found = live.list("wardens")?.into_iter().find(|item| item["metadata"]["name"] == name)?;
        found["metadata"]["uid"].as_str().map(str::to_owned)
    });
    let owner = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
    let metadata = json!({"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]});
    apply(live, "dependent.json", &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
}

/// Lets the user bob do with ConfigMaps of the namespace what the host needs, and with nothing else.
fn allow_config_maps(cluster: &Cluster) {
    let verbs = ["get", "list", "create", "update", "patch", "delete"];
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "unused-kinds"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "unused-kinds"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "unused-kinds"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    for (plural, document) in [("roles", role), ("rolebindings", binding)] {
        let made = cluster.request("POST", &format!("{ROLES}/namespaces/{NAMESPACE}/{plural}"), Some(&document));
        assert_eq!(made.status, 201, "{made:?}");
    }
}

/// S15: A host finds the dependents of owners that are gone in kinds that it does not use. It asks for each such kind
/// once, says nothing of those that are forbidden, and reads metadata alone.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_dependent_of_a_kind_without_a_controller_is_collected_after_a_restart() {
    let cluster = shared_cluster();
    let mut store = in_cluster(NAMESPACE, "admin");
    allow_config_maps(cluster);
    let proxy = HttpProxy::to(cluster.apiserver().port(), cluster.authority());
    let bob = cluster.kubeconfig_with(&proxy.url(), &json!({"token": Cluster::token("bob")}));
    store["kubernetes"]["kubeconfig"] = json!(bob);
    let stores = file(&[store], &[("v1/*", "cluster")]);
    let kind = definition("Warden", true).to_string();
    let live = LiveHost::with_files(&[("kind.yaml", &kind)], &[], NAMESPACE, Some(&stores));
    for name in ["gone", "kept"] {
        family(&live, name);
    }

    // The owner is deleted by a host that cannot see its dependent.
    proxy.add(HttpRule {
        verb: None,
        path: "/".to_owned(),
        times: None,
        reply: HttpReply::Status { code: 503, retry_after: None },
    });
    let live = live.restart();
    eventually_blocking("the owner to be deleted", || {
        (live.host.ask(&["delete", "wardens", "gone", "-n", NAMESPACE]).code == Some(0)).then_some(())
    });
    let has = |name: &str| cluster.request("GET", &path(&format!("configmaps/{name}")), None).status == 200;
    assert!(has("gone"));
    let live = live.restart();
    let before = proxy.requests();
    proxy.clear();
    eventually_built(&format!("the dependent to go; {}", live.host.stderr()), || (!has("gone")).then_some(()));
    assert!(has("kept"), "its owner lives");

    // Each kind was asked once. Most of them are forbidden, and the host reports nothing.
    let lists = |plural: &str| {
        let name = ("GET".to_owned(), path(plural));
        let count = |requests: &BTreeMap<(String, String), u64>| requests.get(&name).copied().unwrap_or_default();
        count(&proxy.requests()) - count(&before)
    };
    for plural in FORBIDDEN {
        eventually_blocking(plural, || (lists(plural) > 0).then_some(()));
    }
    assert_eq!(FORBIDDEN.map(lists), [1; 10]);
    assert!(lists("configmaps") < 20, "{}", lists("configmaps"));
    assert_eq!(lists("events"), 0, "events have no owners");
    let told = format!("{}{}", live.host.stderr(), live.host.ask(&["events"]).stdout).to_lowercase();
    assert!(!told.contains("forbidden"), "{told}");
    live.host.terminate();
}
