//! The role that a cluster has to give to a host: what is printed is what the host asks for, and nothing else.

use std::collections::BTreeSet;

use homeostat_testing::{eventually_blocking, eventually_built};
use homeostat_tests::{Cluster, HttpProxy, shared_bare_cluster};
use serde_json::{Value, json};

use super::hosts::{LiveHost, file};

const NAMESPACE: &str = "roles";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The controller of the example `apps` that runs pods.
const KUBELET: &str = "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {name: kubelet}\nspec:\n  \
    component: {file: kubelet.wasm}\n  config: {startup: 10ms, bad-image: bad broken}\n  grants:\n    resources:\n      \
    - {kinds: [Pod], verbs: [get, list, watch, patch, update-status], namespaces: [\"*\"]}\n";

/// A verb and a resource.
type Right = (String, String);

/// Returns the rights of a role.
fn rights(role: &Value) -> BTreeSet<Right> {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let of_rule = |rule: &Value| -> Vec<Right> {
        let resources = texts(&rule["resources"]);
        let pairs = texts(&rule["verbs"]).into_iter().flat_map(|verb| {
            resources.iter().map(move |resource| (verb.clone(), resource.clone())).collect::<Vec<_>>()
        });
        pairs.collect()
    };
    role["rules"].as_array().unwrap().iter().flat_map(of_rule).collect()
}

/// Returns a role without one of its rights.
fn without(role: &Value, (verb, resource): &Right) -> Value {
    let mut rules = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        let [resources, verbs] = [&rule["resources"], &rule["verbs"]].map(|list| list.as_array().unwrap().clone());
        for one in resources {
            let kept: Vec<&Value> =
                verbs.iter().filter(|one_verb| one != resource.as_str() || *one_verb != verb.as_str()).collect();
            if !kept.is_empty() {
                rules.push(json!({ "apiGroups": rule["apiGroups"], "resources": [one], "verbs": kept }));
            }
        }
    }
    json!({ "apiVersion": role["apiVersion"], "kind": role["kind"], "metadata": role["metadata"], "rules": rules })
}

/// Returns the rights that the requests through a proxy needed in the namespace.
fn asked(proxy: &HttpProxy) -> BTreeSet<Right> {
    let right = |(method, path): &(String, String)| {
        let (_, rest) = path.split_once(&format!("/namespaces/{NAMESPACE}/"))?;
        let parts: Vec<&str> = rest.split('/').collect();
        let verb = match (&**method, parts.len()) {
            ("GET", 1) => "list",
            ("GET", _) => "get",
            ("WATCH", _) => "watch",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            (_, 1) => "deletecollection",
            (_, _) => "delete",
        };
        let resource = parts.get(2).map_or(parts[0].to_owned(), |part| format!("{}/{part}", parts[0]));
        Some((verb.to_owned(), resource))
    };
    proxy.requests().keys().filter_map(right).collect()
}

/// Creates a pod for the host to run.
fn create_pod(cluster: &Cluster, name: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "web:1" }] },
    });
    let made = cluster.request("POST", &format!("/api/v1/namespaces/{NAMESPACE}/pods"), Some(&pod));
    assert_eq!(made.status, 201, "{made:?}");
}

/// Returns whether a pod runs.
fn runs(cluster: &Cluster, name: &str) -> bool {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
    cluster.request("GET", &path, None).json()["status"]["phase"] == "Running"
}

/// Waits until a pod runs.
fn until_it_runs(cluster: &Cluster, name: &str, live: &LiveHost) {
    eventually_built(&format!("{name} to run; {}", live.host.stderr()), || runs(cluster, name).then_some(()));
}

/// Makes the role that of the user `eve`.
fn bind(cluster: &Cluster, role: &Value) {
    let made = cluster.request("POST", &format!("{ROLES}/clusterroles"), Some(role));
    assert_eq!(made.status, 201, "{made:?}");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "kubelet" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kubelet" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve" }],
    });
    let made = cluster.request("POST", &format!("{ROLES}/namespaces/{NAMESPACE}/rolebindings"), Some(&binding));
    assert_eq!(made.status, 201, "{made:?}");
}

/// Waits until the API server grants `eve` exactly the rights of a role, among those of another one: it learns of a changed
/// role a moment later.
fn until_granted(cluster: &Cluster, all: &Value, granted: &Value) {
    let rules = rights(granted);
    eventually_blocking("the changed role to be in effect", || {
        let holds = |right: &Right| is_allowed(cluster, all, right) == rules.contains(right);
        rights(all).iter().all(holds).then_some(())
    });
}

fn is_allowed(cluster: &Cluster, role: &Value, (verb, resource): &Right) -> bool {
    let is_of = |rule: &&Value| rule["resources"].as_array().unwrap().iter().any(|known| known == resource.as_str());
    let rule = role["rules"].as_array().unwrap().iter().find(is_of).unwrap();
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({
        "namespace": NAMESPACE, "verb": verb, "group": rule["apiGroups"][0], "resource": resource,
        "subresource": subresource,
    });
    let review = json!({ "spec": { "user": "eve", "resourceAttributes": attributes } });
    let answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", Some(&review)).json();
    answer["status"]["allowed"].as_bool().unwrap()
}

/// Returns whether the host says what is forbidden.
fn says_forbidden(live: &LiveHost) -> bool {
    let says = |arguments: &[&str]| live.host.ask(arguments).stdout.to_lowercase().contains("forbidden");
    says(&["queue", "kubelet", "-o", "json"]) || says(&["get", "controllers", "kubelet", "-o", "json"])
}

/// Waits until what the host says of a missing right is there.
fn until_forbidden((verb, resource): &Right, live: &LiveHost) {
    eventually_built(&format!("the host to say that {verb} {resource} is forbidden; {}", live.host.stderr()), || {
        says_forbidden(live).then_some(())
    });
}

/// Deletes the leases, so that the next run of the host creates them anew.
fn delete_leases(cluster: &Cluster) {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    assert_eq!(cluster.request("DELETE", &leases, None).status, 200);
}

/// S15: A host needs each right of the printed role that it asks for, and asks for no other one.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_asks_for_the_rights_of_the_printed_role_alone_and_misses_each() {
    let cluster = shared_bare_cluster();
    let made = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    assert_eq!(cluster.request("POST", "/api/v1/namespaces", Some(&made)).status, 201);
    let admin = cluster.kubeconfig("admin");
    let store = json!({ "name": "cluster", "kubernetes": { "kubeconfig": admin, "namespace": NAMESPACE } });
    let stores = file(&[store], &[("v1/Pod", "cluster")]);
    let mut live = LiveHost::with_files(&[("kubelet.yaml", KUBELET)], &["kubelet"], NAMESPACE, Some(&stores));
    let role = eventually_built("the role", || {
        let printed = live.host.ask(&["grants", "rbac", "kubelet", "--store", "cluster", "-o", "json"]);
        let printed: Value = serde_json::from_str(&printed.stdout).ok()?;
        Some(printed["items"][0].clone()).filter(Value::is_object)
    });
    bind(cluster, &role);
    let proxy = HttpProxy::to(cluster.apiserver().port(), cluster.authority());
    let eve = cluster.kubeconfig_with(&proxy.url(), &json!({ "token": Cluster::token("eve") }));
    live.edit("stores.yaml", &admin.display().to_string(), &eve.display().to_string());
    live = live.restart_after(|| delete_leases(cluster));
    create_pod(cluster, "all");
    until_it_runs(cluster, "all", &live);
    eventually_blocking("an event", || asked(&proxy).contains(&right("create", "events")).then_some(()));
    let printed = rights(&role);
    let used = asked(&proxy);
    assert!(used.is_subset(&printed), "{:?}", used.difference(&printed));

    for (at, missing) in printed.iter().enumerate() {
        let fewer = without(&role, missing);
        let changed = cluster.request("PUT", &format!("{ROLES}/clusterroles/kubelet"), Some(&fewer));
        assert_eq!(changed.status, 200, "{changed:?}");
        until_granted(cluster, &role, &fewer);
        live = live.restart_after(|| delete_leases(cluster));
        let pod = format!("without-{at}");
        create_pod(cluster, &pod);
        // The host reads past its cache only while that is behind. Events are no part of the work.
        if [right("get", "pods"), right("list", "pods")].contains(missing) {
            eventually_built("the pod to run, or the host to say what is forbidden", || {
                (runs(cluster, &pod) || says_forbidden(&live)).then_some(())
            });
        } else if used.contains(missing) && missing.1 != "events" {
            until_forbidden(missing, &live);
        } else {
            until_it_runs(cluster, &pod, &live);
        }
    }
    live.host.terminate();
}

fn right(verb: &str, resource: &str) -> Right {
    (verb.to_owned(), resource.to_owned())
}
