//! Priority and fairness of a real apiserver: it refuses requests of a user who has too many in flight.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use homeostat_kubernetes::{Cluster, ClusterSettings};
use homeostat_store::cached::Upstream;
use homeostat_store::{Key, Query, Write};
use homeostat_testing::{eventually, eventually_blocking, soon};
use homeostat_tests::{Cluster as Server, shared_cluster};
use serde_json::{Value, json};

use super::{cluster_store, connected, document, namespace, send, settings_of, widgets};

/// The user of this test. The name is also that of the objects that concern the user.
const USER: &str = "hasty";

/// The number of creations that begin at once. The server lets about three of them be in flight.
const CREATIONS: usize = 64;

fn made(server: &Server, path: &str, document: &Value) {
    let answer = server.request("POST", path, Some(document));
    assert_eq!(answer.status, 201, "{path}: {answer:?}");
}

/// Gives the user all rights, and one share of some 250 of the server for creations of widgets. The server
/// refuses creations beyond this share with 429. Returns when this holds.
fn limit_creations(server: &Server) {
    const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let limited = json!({
        "nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"},
    });
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": {"name": USER}, "spec": {"type": "Limited", "limited": limited},
    });
    made(server, &format!("{FLOWS}/prioritylevelconfigurations"), &level);
    let creations =
        json!({"verbs": ["create"], "apiGroups": ["example.dev"], "resources": ["widgets"], "namespaces": ["*"]});
    let rule = json!({"subjects": [{"kind": "User", "user": {"name": USER}}], "resourceRules": [creations]});
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": USER},
        "spec": {"priorityLevelConfiguration": {"name": USER}, "matchingPrecedence": 100, "rules": [rule]},
    });
    made(server, &format!("{FLOWS}/flowschemas"), &schema);
    const GROUP: &str = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": USER},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": USER}],
    });
    made(server, &format!("/apis/{GROUP}/v1/clusterrolebindings"), &binding);
    eventually_blocking("the limit to be in force", || {
        let schema = server.request("GET", &format!("{FLOWS}/flowschemas/{USER}"), None).json();
        // The server writes this condition after it has begun to use the schema.
        let conditions = schema["status"]["conditions"].as_array()?;
        let is_in_force = |condition: &Value| condition["type"] == "Dangling" && condition["status"] == "False";
        conditions.iter().any(is_in_force).then_some(())
    });
}

/// Returns the store of the user, who comes with a certificate. Its files are in `folder`.
async fn store_of_user(server: &Server, folder: &Path) -> Arc<Cluster> {
    let pair = server.authority().client(USER, None, None);
    let (certificate, key) = (folder.join("user.pem"), folder.join("user.key"));
    fs::write(&certificate, &pair.certificate).unwrap();
    fs::write(&key, &pair.key).unwrap();
    let credentials = json!({"client-certificate": certificate, "client-key": key});
    let settings = settings_of(server.kubeconfig_with(&server.url(), &credentials));
    // A server that refuses many requests asks for longer and longer waits.
    let store = connected(ClusterSettings { deadline: Duration::from_secs(30), ..settings }).await;
    eventually("the rights of the user", || async { store.list(&Query::all(widgets())).await.ok() }).await;
    store
}

/// Nothing is scripted here: the apiserver itself answers 429.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn creations_that_priority_and_fairness_refuses_all_succeed_later() {
    let admin = cluster_store().await;
    let namespace = namespace(&admin).await;
    let (server, folder) = (shared_cluster(), tempfile::tempdir().unwrap());
    limit_creations(server);
    let store = store_of_user(server, folder.path()).await;
    let create = |at: usize| {
        let (store, key) = (Arc::clone(&store), Key::new(widgets(), &namespace, &format!("w{at}")));
        tokio::spawn(async move { send(&store, Write::Create { document: document(&key) }).await })
    };
    let creations: Vec<_> = (0..CREATIONS).map(create).collect();
    for creation in creations {
        soon(creation).await.unwrap().unwrap();
    }
    assert!(store.counts().retried > 0, "the server refused none: {:?}", store.counts());
    let all = admin.list(&Query::all(widgets())).await.unwrap().items;
    let here = all.iter().filter(|widget| widget.key().namespace() == namespace).count();
    assert_eq!(here, CREATIONS);
}
