//! Garbage whose owner lives in another store: beside the collector of a cluster, and while the owner's store is away.

use homeostat_testing::{eventually_blocking, eventually_built};
use homeostat_tests::{Cluster, Nats, shared_cluster};
use serde_json::{Value, json};

use super::contents::{KINDS, collect_of, family_of, has_part, until_state};
use super::hosts::{LiveHost, definition, file, in_cluster, in_nats};

const NAMESPACE: &str = "garbage";

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps{name}")
}

/// Returns a ConfigMap with an owner.
fn owned(name: &str, [api_version, kind, owner, uid]: [&str; 4]) -> Value {
    let owner = json!({ "apiVersion": api_version, "kind": kind, "name": owner, "uid": uid });
    let metadata = json!({ "name": name, "namespace": NAMESPACE, "ownerReferences": [owner] });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata })
}

/// Creates a ConfigMap in the cluster past the host, and returns its uid.
fn create(cluster: &Cluster, document: &Value) -> String {
    let made = cluster.request("POST", &path(""), Some(document));
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Applies a document by the host, as soon as the host knows its kind.
fn apply(live: &LiveHost, name: &str, document: &Value) {
    let file = live.write(name, &document.to_string());
    eventually_blocking(name, || (live.host.ask(&["apply", "-f", &file]).code == Some(0)).then_some(()));
}

fn until_gone(cluster: &Cluster, name: &str) {
    let path = path(&format!("/{name}"));
    eventually_built(&format!("{name} to go"), || (cluster.request("GET", &path, None).status == 404).then_some(()));
}

/// S15: kube-controller-manager collects what has its owner in the cluster. It leaves alone what has an owner in another
/// store, although the cluster serves the kind of that owner, too.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn the_collector_of_a_cluster_leaves_dependents_of_owners_elsewhere_alone() {
    let cluster = shared_cluster();
    let kind = definition("Holder", true);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(cluster.request("POST", definitions, Some(&kind)).status, 201);
    let holder = ["demo.homeostat.dev/v1", "Holder"];
    let stores = [in_nats("garbage"), in_cluster(NAMESPACE, "admin")];
    let routes = [("demo.homeostat.dev/Holder", "bus"), ("v1/ConfigMap", "cluster")];
    let document = json!({ "apiVersion": holder[0], "kind": holder[1],
        "metadata": { "name": "far", "namespace": NAMESPACE }, "spec": {} });
    let files = [("kind.yaml", &*kind.to_string())];
    let live = LiveHost::with_files(&files, &[], NAMESPACE, Some(&file(&stores, &routes)));
    apply(&live, "holder.json", &document);
    let uid = eventually_blocking("the owner", || {
        let found = live.list("holders")?;
        found.first()?["metadata"]["uid"].as_str().map(str::to_owned)
    });
    apply(&live, "kept.json", &owned("kept", [holder[0], holder[1], "far", &uid]));

    let near = create(cluster, &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "near" } }));
    create(cluster, &owned("ordinary", ["v1", "ConfigMap", "near", &near]));
    // What the cluster would make of a plain reference to an owner that lives elsewhere.
    create(cluster, &owned("plain", [holder[0], holder[1], "far", &uid]));
    until_gone(cluster, "plain");
    assert_eq!(cluster.request("DELETE", &path("/near"), None).status, 200);
    until_gone(cluster, "ordinary");
    let kept = cluster.request("GET", &path("/kept"), None);
    assert_eq!(kept.status, 200, "its owner lives in another store");
    assert!(kept.json()["metadata"]["ownerReferences"].is_null(), "{kept:?}");
    live.host.terminate();
}

/// The collector sweeps while the store of an owner is away. The dependent stays, and goes with its owner once the
/// store is back.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_dependent_stays_while_the_store_of_its_owner_is_away() {
    let nats = Nats::start();
    let bus = json!({ "servers": [nats.url()], "bucket": "owners", "create": { "replicas": 1 } });
    let stores = [json!({ "name": "bus", "nats": bus }), json!({ "name": "scratch", "memory": {} })];
    let routes = [("far.dev/*", "bus"), ("demo.homeostat.dev/Lender", "scratch")];
    let lender = definition("Lender", true).to_string();
    let files = [("kinds.yaml", KINDS), ("lender.yaml", &*lender)];
    let live = LiveHost::with_files(&files, &[], "default", Some(&file(&stores, &routes)));
    let scratch = live.socket_folder();
    until_state(&live.host, "bus", "Ready");
    family_of(&live.host, scratch, ["far.dev/v1", "App"], "far");
    nats.server().kill();
    until_state(&live.host, "bus", "Away");

    // A new kind of owners has the collector sweep all dependents, and only then watch that kind.
    family_of(&live.host, scratch, ["demo.homeostat.dev/v1", "Lender"], "near");
    collect_of(&live.host, "lenders", "near");
    assert!(has_part(&live.host, "far"), "nobody can say that its owner is gone");
    nats.server().start();
    until_state(&live.host, "bus", "Ready");
    assert!(has_part(&live.host, "far"), "its owner lives");
    collect_of(&live.host, "apps", "far");
    live.host.terminate();
}
