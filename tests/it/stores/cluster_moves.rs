//! Kinds that move from a host's own store to a cluster and back, beside the collector of the cluster.

use std::collections::BTreeMap;

use homeostat_testing::{eventually_blocking, eventually_built};
use homeostat_tests::{Cluster, ClusterOptions, shared_cluster};
use serde_json::{Value, json};

use super::hosts::{LiveHost, define, definition, file, in_cluster};

const NAMESPACE: &str = "cluster-moves";

fn path(plural: &str, name: &str) -> String {
    let group = if plural == "configmaps" { "/api/v1" } else { "/apis/demo.homeostat.dev/v1" };
    format!("{group}/namespaces/{NAMESPACE}/{plural}{name}")
}

/// Returns a resource with an owner: its kind, name and uid.
fn owned(kind: &str, name: &str, owner: Option<[&str; 3]>) -> Value {
    let mut metadata = json!({"name": name, "namespace": NAMESPACE});
    if let Some([kind, name, uid]) = owner {
        let owner = json!({"apiVersion": "demo.homeostat.dev/v1", "kind": kind, "name": name, "uid": uid});
        metadata["ownerReferences"] = json!([owner]);
    }
    let api_version = if kind == "ConfigMap" { "v1" } else { "demo.homeostat.dev/v1" };
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
}

fn apply(live: &LiveHost, name: &str, document: &Value) {
    let file = live.write(name, &document.to_string());
    eventually_built(&format!("{name} to be applied; {}", live.host.stderr()), || {
        (live.host.ask(&["apply", "-f", &file]).code == Some(0)).then_some(())
    });
}

/// Runs a step of a move, once the stores can be used.
fn step(live: &LiveHost, arguments: &[&str]) -> String {
    eventually_built(&format!("{arguments:?}; {}", live.host.stderr()), || {
        let output = live.host.ask(&[&["stores"], arguments].concat());
        (output.code == Some(0)).then_some(output.stdout)
    })
}

/// Waits until the host shows a resource, and returns it.
fn shown(live: &LiveHost, kind: &str, name: &str) -> Value {
    eventually_built(&format!("{kind}/{name}; {}", live.host.stderr()), || {
        live.list(kind)?.into_iter().find(|item| item["metadata"]["name"] == name)
    })
}

fn uid(document: &Value) -> &str {
    document["metadata"]["uid"].as_str().unwrap()
}

fn owner_uid(document: &Value) -> &Value {
    &document["metadata"]["ownerReferences"][0]["uid"]
}

fn in_server(cluster: &Cluster, plural: &str, name: &str) -> Value {
    let answer = cluster.request("GET", &path(plural, &format!("/{name}")), None);
    assert_eq!(answer.status, 200, "{plural}/{name} {answer:?}");
    answer.json()
}

fn until_gone(cluster: &Cluster, plural: &str, name: &str) {
    let path = path(plural, &format!("/{name}"));
    eventually_built(&format!("{path} to go"), || (cluster.request("GET", &path, None).status == 404).then_some(()));
}

/// Waits until the collector of the cluster has deleted resources whose owner it does not find.
fn until_collected(cluster: &Cluster, name: &str) {
    let nobody = Some(["Parcel", "nobody", "00000000-0000-0000-0000-000000000000"]);
    for (plural, kind) in [("configmaps", "ConfigMap"), ("parcels", "Parcel")] {
        let made = cluster.request("POST", &path(plural, ""), Some(&owned(kind, name, nobody)));
        assert_eq!(made.status, 201, "{made:?}");
    }
    until_gone(cluster, "configmaps", name);
    until_gone(cluster, "parcels", name);
}

/// S15: A kind moves into a cluster, whose server gives its resources other uids, and back. Owners and dependents in
/// both stores find each other, and neither collector deletes what has an owner.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn dependents_outlive_the_move_of_their_owner_to_a_cluster_and_back() {
    let cluster = shared_cluster();
    define(cluster, "Depot", true);
    define(cluster, "Parcel", true);
    let routes =
        [("demo.homeostat.dev/Parcel", "home"), ("demo.homeostat.dev/Depot", "cluster"), ("v1/ConfigMap", "cluster")];
    let live = LiveHost::with_files(&[], &[], NAMESPACE, Some(&file(&[in_cluster(NAMESPACE, "admin")], &routes)));
    apply(&live, "parcels.json", &definition("Parcel", true));
    apply(&live, "stamps.json", &definition("Stamp", true));
    apply(&live, "depot.json", &owned("Depot", "depot", None));
    let depot = uid(&shown(&live, "depots", "depot")).to_owned();
    let mut outer = owned("Parcel", "outer", Some(["Depot", "depot", &depot]));
    outer["metadata"]["finalizers"] = json!(["demo.homeostat.dev/hold"]);
    outer["spec"] = json!({"size": 1});
    apply(&live, "outer.json", &outer);
    let former = uid(&shown(&live, "parcels", "outer")).to_owned();
    // A name before that of its owner.
    apply(&live, "inner.json", &owned("Parcel", "inner", Some(["Parcel", "outer", &former])));
    let inner = uid(&shown(&live, "parcels", "inner")).to_owned();
    for (owner, uid) in [("outer", &former), ("inner", &inner)] {
        for kind in ["ConfigMap", "Stamp"] {
            apply(&live, "dependent.json", &owned(kind, &format!("of-{owner}"), Some(["Parcel", owner, uid])));
        }
    }
    let dependents = |live: &LiveHost| -> BTreeMap<String, Value> {
        let kinds = ["configmaps", "stamps"];
        let all = kinds.iter().flat_map(|kind| ["of-inner", "of-outer"].map(|name| (kind, shown(live, kind, name))));
        all.map(|(kind, item)| (format!("{kind}/{}", item["metadata"]["name"]), item)).collect()
    };
    let before = dependents(&live);

    step(&live, &["copy", "parcels", "--to", "cluster"]);
    let copied = in_server(cluster, "parcels", "outer");
    let again = step(&live, &["copy", "parcels", "--to", "cluster"]);
    assert!(again.contains("has all 2 resources, of which 0 were copied now"), "{again}");
    assert_eq!(copied["metadata"], in_server(cluster, "parcels", "outer")["metadata"]);
    let current = uid(&copied).to_owned();
    assert_ne!(current, former);
    assert_eq!(
        [&copied["metadata"]["finalizers"][0], owner_uid(&copied), &copied["spec"]["size"]],
        [&json!("demo.homeostat.dev/hold"), &json!(depot), &json!(1)]
    );
    let copied = in_server(cluster, "parcels", "inner");
    assert_eq!(owner_uid(&copied), &json!(current), "the owner is the copy");
    let uids: BTreeMap<&str, String> = [("inner", uid(&copied).to_owned()), ("outer", current.clone())].into();
    until_collected(cluster, "first");

    live.edit("stores.yaml", r#"Parcel"],"store":"home""#, r#"Parcel"],"store":"cluster""#);
    let live = live.restart();
    // The kind is shown when its dependents name it.
    assert_eq!(uid(&shown(&live, "parcels", "outer")), current);
    for (key, dependent) in dependents(&live) {
        let owner = if key.contains("inner") { "inner" } else { "outer" };
        assert_eq!(owner_uid(&dependent), &json!(uids[owner]), "{key}");
        assert_eq!(uid(&dependent), uid(&before[&key]), "{key}");
    }
    assert_eq!(owner_uid(&in_server(cluster, "configmaps", "of-outer")), &json!(current));
    // A client may still have the former uid.
    apply(&live, "dependent.json", &owned("ConfigMap", "late", Some(["Parcel", "outer", &former])));
    assert_eq!(owner_uid(&in_server(cluster, "configmaps", "late")), &json!(current));
    until_collected(cluster, "second");
    let pruned = step(&live, &["prune", "parcels", "--from", "home"]);
    assert!(pruned.contains("2 resources were removed from store home"), "{pruned}");
    outer["spec"]["size"] = json!(2);
    apply(&live, "outer.json", &outer);
    assert_eq!(in_server(cluster, "parcels", "outer")["spec"]["size"], 2);
    assert_eq!(live.host.ask(&["delete", "parcels", "inner", "-n", NAMESPACE]).code, Some(0));
    until_gone(cluster, "configmaps", "of-inner");
    eventually_blocking("the stamp to go", || (live.list("stamps")?.len() == 1).then_some(()));
    in_server(cluster, "configmaps", "of-outer");

    step(&live, &["copy", "parcels", "--to", "home"]);
    live.edit("stores.yaml", r#"Parcel"],"store":"cluster""#, r#"Parcel"],"store":"home""#);
    let live = live.restart();
    let back = shown(&live, "parcels", "outer");
    assert_eq!((uid(&back), owner_uid(&back)), (&*current, &json!(depot)));
    let mark = &back["metadata"]["annotations"]["homeostat.dev/moved-from"];
    assert_eq!([&back["spec"]["size"], mark], [&json!(2), &Value::Null]);
    let stranger = cluster.request("POST", &path("parcels", ""), Some(&owned("Parcel", "stranger", None)));
    assert_eq!(stranger.status, 201, "{stranger:?}");
    let pruned = step(&live, &["prune", "parcels", "--from", "cluster"]);
    assert!(pruned.contains("1 resources were removed from store cluster"), "{pruned}");
    assert!(pruned.contains("1 resources stay in store cluster"), "{pruned}");
    until_gone(cluster, "parcels", "outer");
    in_server(cluster, "parcels", "stranger");
    until_collected(cluster, "third");
    for name in ["of-outer", "late"] {
        let kept = in_server(cluster, "configmaps", name);
        assert_eq!(kept["metadata"]["ownerReferences"], Value::Null, "the collector would delete it");
    }
    assert_eq!(owner_uid(&shown(&live, "configmaps", "of-outer")), &json!(current));
    outer["metadata"]["finalizers"] = json!([]);
    apply(&live, "outer.json", &outer);
    assert_eq!(live.host.ask(&["delete", "parcels", "outer", "-n", NAMESPACE]).code, Some(0));
    until_gone(cluster, "configmaps", "of-outer");
    eventually_blocking("the last stamp to go", || live.list("stamps")?.is_empty().then_some(()));
    live.host.terminate();
}

/// S15: A controller goes on with the same dependents after its primary kind moved into the cluster of the dependents,
/// whose own collector deletes them with their owner.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_controller_goes_on_after_its_kind_moved_to_the_cluster_of_its_dependents() {
    let cluster = Cluster::start(ClusterOptions { with_controllers: true, ..ClusterOptions::default() });
    define(&cluster, "Tenant", false);
    define(&cluster, "Quota", true);
    for name in ["blue-test", "blue-live"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        assert_eq!(cluster.request("POST", "/api/v1/namespaces", Some(&namespace)).status, 201);
    }
    let store = json!({"name": "cluster", "kubernetes": {"kubeconfig": cluster.kubeconfig("admin")}});
    let routes = [("demo.homeostat.dev/Tenant", "home"), ("demo.homeostat.dev/Quota", "cluster")];
    let live = LiveHost::start("tenants", &["tenants"], "blue-test", &[], Some(&file(&[store], &routes)));
    live.host.until("tenant", "blue", "/status/quotas", &json!(2));
    let quotas = || -> BTreeMap<String, Value> {
        let listed = cluster.request("GET", "/apis/demo.homeostat.dev/v1/quotas", None).json();
        let items = listed["items"].as_array().unwrap().iter();
        items.map(|item| (uid(item).to_owned(), item.clone())).collect()
    };
    let before = quotas();
    step(&live, &["copy", "tenants", "--to", "cluster"]);
    let tenant = cluster.request("GET", "/apis/demo.homeostat.dev/v1/tenants/blue", None).json();
    assert_eq!((&tenant["status"]["quotas"], &tenant["spec"]["pods"]), (&json!(2), &json!(20)));
    live.edit("stores.yaml", r#"Tenant"],"store":"home""#, r#"Tenant"],"store":"cluster""#);
    let live = live.restart();
    live.edit("tenants.yaml", "pods: 20", "pods: 30");
    let after = eventually_built(&format!("the new size; {}", live.host.stderr()), || {
        let quotas = quotas();
        quotas.values().all(|quota| quota["spec"]["pods"] == 30).then_some(quotas)
    });
    assert!(after.keys().eq(before.keys()), "{before:?} {after:?}");
    for quota in after.values() {
        assert_eq!(quota["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1), "{quota}");
        assert_eq!(owner_uid(quota), &tenant["metadata"]["uid"], "{quota}");
    }
    step(&live, &["prune", "tenants", "--from", "home"]);
    let deleted = live.host.ask(&["delete", "tenants", "blue"]);
    assert_eq!(deleted.code, Some(0), "{}", deleted.stderr);
    eventually_blocking("the quotas to go", || quotas().is_empty().then_some(()));
    live.host.terminate();
}
