//! The subresource `scale` of kinds that a cluster serves: by requests of the store, and by clients of a host.

use std::sync::Arc;

use homeostat_fixtures::memory_store;
use homeostat_runtime::Options;
use homeostat_store::cached::{self, Upstream};
use homeostat_store::{Error, Key, Kind, Precondition, Revision, ScaleRequest, View, Write};
use homeostat_testing::{eventually, soon};
use homeostat_tests::{TestHost, routed_stores};
use serde_json::{Value, json};

use super::{cluster_settings, cluster_store, created, document, namespace, notes, sent, widgets};
use crate::kubectl::Cluster as Kubectl;

/// A resource of a scalable kind of the server's own.
fn workload(kind: &str, namespace: &str) -> Value {
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}})
}

fn request(key: &Key, replicas: u64, precondition: Precondition) -> ScaleRequest {
    ScaleRequest { key: key.clone(), replicas, precondition, manager: "test".to_owned(), dry_run: false }
}

fn revision(scale: &Value) -> Revision {
    scale["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_scale_is_read_and_written_by_its_own_requests() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    let mut widget = document(&Key::new(widgets(), &namespace, "web"));
    widget["spec"]["replicas"] = json!(1);
    let mut keys = vec![sent(&store, Write::Create { document: widget }).await.key().clone()];
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        keys.push(sent(&store, Write::Create { document: workload(kind, &namespace) }).await.key().clone());
    }
    for key in keys {
        let before = store.counts().sent;
        let first = store.scale(&key).await.unwrap();
        assert_eq!((&first["kind"], &first["metadata"]["name"]), (&json!("Scale"), &json!("web")), "{key}");
        let scaled = store.update_scale(request(&key, 3, Precondition::default())).await.unwrap();
        assert_eq!(scaled["spec"]["replicas"], 3, "{key}");
        assert_eq!(store.counts().sent - before, 2, "each is one request");
        let resource = store.get(&key).await.unwrap();
        assert_eq!(resource.document()["spec"]["replicas"], 3);
        assert_eq!(resource.revision(), revision(&scaled));
        let managers = resource.document()["metadata"]["managedFields"].to_string();
        assert!(managers.contains(r#""manager":"homeostat/test""#), "{managers}");

        let uid = || Some(resource.uid().to_owned());
        let other = || Some("11111111-1111-1111-1111-111111111111".to_owned());
        for wrong in [
            Precondition { uid: None, revision: Some(revision(&first)) },
            Precondition { uid: uid(), revision: Some(revision(&first)) },
            Precondition { uid: other(), revision: None },
        ] {
            let refused = store.update_scale(request(&key, 4, wrong.clone())).await;
            let conflict = Error::Conflict { key: key.clone(), current: Some(resource.revision()) };
            assert_eq!(refused, Err(conflict), "{wrong:?}");
        }
        let dry_run = ScaleRequest { dry_run: true, ..request(&key, 4, Precondition::default()) };
        assert_eq!(store.update_scale(dry_run).await.unwrap()["spec"]["replicas"], 4);
        assert_eq!(store.scale(&key).await.unwrap()["spec"]["replicas"], 3, "a dry run changes nothing");
        for right in [
            Precondition { uid: uid(), revision: None },
            Precondition { uid: uid(), revision: Some(resource.revision()) },
        ] {
            // The first write may change the revision.
            let right = Precondition {
                revision: right.revision.and(Some(revision(&store.scale(&key).await.unwrap()))),
                ..right
            };
            store.update_scale(request(&key, 5, right)).await.unwrap();
        }
        assert_eq!(store.get(&key).await.unwrap().document()["spec"]["replicas"], 5);
        let gone = Key::new(key.kind().clone(), &namespace, "gone");
        for refused in [store.scale(&gone).await, store.update_scale(request(&gone, 1, Precondition::default())).await]
        {
            assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
        }
        let refused = store.update_scale(request(&key, 1 << 40, Precondition::default())).await;
        assert!(matches!(refused, Err(Error::Invalid { .. } | Error::InvalidFields { .. })), "{refused:?}");
    }
    let note = created(&store, &Key::new(notes(), &namespace, "a")).await;
    let refused = store.scale(note.key()).await;
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
}

/// A host whose kinds of `apps` and `example.dev` live in the cluster, with kubectl for its API.
async fn scaling_host(namespace: &str) -> Kubectl {
    let settings =
        homeostat_kubernetes::ClusterSettings { namespace: Some(namespace.to_owned()), ..cluster_settings("admin") };
    let store = homeostat_kubernetes::open(settings, cached::Options::default());
    let home = memory_store();
    let stores = routed_stores(home.clone(), Arc::new(store), &["apps/*", "example.dev/*"]);
    let test = TestHost::with(home, |options| Options { stores, ..options }).await;
    let deployments = Kind::new("apps", "v1", "Deployment");
    eventually("the kinds of the cluster", async || test.host.kinds().of(&deployments)).await;
    Kubectl::over(test).await
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_scales_the_kinds_of_a_cluster_through_a_host() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    let kubectl = scaling_host(&namespace).await;
    let inside = ["-n", &namespace];
    let run = async |arguments: &[&str]| kubectl.done(&[arguments, &inside].concat()).await;
    let mut keys = vec![created(&store, &Key::new(widgets(), &namespace, "web")).await.key().clone()];
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        keys.push(sent(&store, Write::Create { document: workload(kind, &namespace) }).await.key().clone());
    }
    // The widget has no number of replicas yet, so that nobody can read one.
    let resources = kubectl.done(&["get", "--raw", "/apis/example.dev/v1"]).await;
    assert!(resources.contains("widgets/scale") && !resources.contains("notes/scale"), "{resources}");
    for key in keys {
        let name = format!("{}/web", key.kind().name.to_lowercase());
        // The cache of the kind is in use.
        let _user = kubectl.test.host.store().subscribe(key.kind(), View::Whole);
        let replicas = async || {
            let shown = soon(kubectl.test.host.store().get(&key)).await.unwrap();
            shown.document()["spec"]["replicas"].clone()
        };
        replicas().await;
        let scaled = run(&["scale", &name, "--replicas=2"]).await;
        assert!(scaled.contains("scaled"), "{scaled}");
        assert_eq!(replicas().await, 2, "reads of the host show the write");
        let owner = store.get(&key).await.unwrap();
        let managers = owner.document()["metadata"]["managedFields"].as_array().unwrap().clone();
        let is_of_scale = |owner: &Value| owner["subresource"] == "scale" && owner["manager"] == "homeostat/kubectl";
        // The server does not record who sets the first number of a custom resource.
        assert!(key.kind() == &widgets() || managers.iter().any(is_of_scale), "{managers:?}");
        let refused =
            kubectl.refused(&["scale", &name, "--current-replicas=7", "--replicas=4", "-n", &namespace]).await;
        assert!(refused.contains('7'), "{refused}");
        run(&["scale", &name, "--current-replicas=2", "--replicas=4"]).await;
        assert_eq!(replicas().await, 4);
        let refused =
            kubectl.refused(&["scale", &name, "--resource-version=1", "--replicas=5", "-n", &namespace]).await;
        assert!(refused.contains("resource version"), "{refused}");
        // As an autoscaler does: it reads a scale, and writes it back with uid and revision.
        let plural = format!("{}s", key.kind().name.to_lowercase());
        let path = format!("/apis/{}/namespaces/{namespace}/{plural}/web/scale", key.kind().api_version());
        let first = kubectl.done(&["get", "--raw", &path]).await;
        let mut scale: Value = serde_json::from_str(&first).unwrap();
        scale["spec"]["replicas"] = json!(6);
        let file = kubectl.file("scale.json", &scale.to_string()).display().to_string();
        let answer = kubectl.done(&["replace", "--raw", &path, "-f", &file]).await;
        assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["spec"]["replicas"], 6);
        let refused = kubectl.refused(&["replace", "--raw", &path, "-f", &file]).await;
        assert!(refused.contains("Conflict") || refused.contains("precondition"), "{refused}");
        assert_eq!(replicas().await, 6);
        let shown = run(&["get", &name, "--subresource=scale", "-o", "jsonpath={.spec.replicas}"]).await;
        assert_eq!(shown, "6");
    }
}
