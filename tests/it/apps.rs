//! Ordinary `apps/v1` manifests, brought about by three guests.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use homeostat_component::Grants;
use homeostat_runtime::manifest::Manifest;
use homeostat_runtime::{ControllerState, Definition};
use homeostat_store::{Key, Kind, Query, Resource};
use homeostat_tests::{TestHost, eventually, guest, repository};
use serde_json::{Value, json};

fn key() -> Key {
    Key::new(Kind::new("apps", "v1", "Deployment"), "default", "web")
}

/// Runs the three controllers with the grants that their manifests state, and nothing more.
pub(crate) async fn apps() -> TestHost {
    let test = TestHost::start().await;
    for name in ["deployments", "replicasets", "kubelet"] {
        let written = manifest(&repository().join("examples/apps/controllers.yaml"), name);
        let checked = written.spec.check().unwrap();
        let component = test.load(&guest(name), &checked.grants).await;
        let (config, grants): (_, Grants) = (checked.config, checked.grants);
        test.host.put(Definition { config, grants, ..Definition::new(name, component) }).await.unwrap();
        eventually(name, async || (test.status(name).state == ControllerState::Ready).then_some(())).await;
    }
    test
}

fn manifest(path: &Path, name: &str) -> Manifest {
    let text = std::fs::read_to_string(path).unwrap();
    let all: Vec<Manifest> = serde_saphyr::from_multiple(&text).unwrap();
    all.into_iter().find(|manifest| manifest.metadata.name == name).unwrap()
}

fn web(replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]}
            }
        }
    })
}

async fn all(test: &TestHost, group: &str, kind: &str) -> Vec<Arc<Resource>> {
    test.host.store().list(&Query::all(Kind::new(group, "v1", kind))).await.unwrap().items
}

/// The images of the pods that are ready and stay, counted.
async fn ready(test: &TestHost) -> BTreeMap<String, usize> {
    let mut images = BTreeMap::new();
    for pod in all(test, "", "Pod").await {
        let conditions = pod.document()["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_ready = conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        if is_ready && !pod.is_deleting() {
            let image = pod.document()["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
            *images.entry(image).or_default() += 1;
        }
    }
    images
}

async fn rolled_out(test: &TestHost, replicas: u64, image: &str) {
    test.until(&key(), &format!("has {replicas} of {image}"), |document| {
        let (status, generation) = (&document["status"], &document["metadata"]["generation"]);
        status["observedGeneration"] == *generation
            && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
                .iter()
                .all(|count| status[count] == replicas)
    })
    .await;
    let wanted = BTreeMap::from([(image.to_owned(), replicas as usize)]);
    eventually(&format!("{wanted:?} to be ready"), async || (ready(test).await == wanted).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_rolls_out_scales_and_rolls_back() {
    let test = apps().await;
    test.apply(web(5, "web:1")).await;
    rolled_out(&test, 5, "web:1").await;
    test.apply(web(5, "web:2")).await;
    rolled_out(&test, 5, "web:2").await;
    test.apply(web(2, "web:2")).await;
    rolled_out(&test, 2, "web:2").await;
    test.apply(web(2, "web:1")).await;
    rolled_out(&test, 2, "web:1").await;
    assert_eq!(all(&test, "apps", "ReplicaSet").await.len(), 2, "going back takes the old replica set again");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_stops_the_rollout_and_most_pods_stay() {
    let test = apps().await;
    test.apply(web(4, "web:1")).await;
    rolled_out(&test, 4, "web:1").await;
    test.apply(web(4, "web:broken")).await;
    test.until(&key(), "has pods of the new template", |document| {
        document["status"]["updatedReplicas"].as_u64().is_some_and(|updated| updated > 0)
    })
    .await;
    for name in ["deployments", "replicasets"] {
        test.idle(name).await;
    }
    let images = ready(&test).await;
    assert!(images.get("web:1").is_some_and(|count| *count >= 3), "{images:?}");
    assert_eq!(images.get("web:broken"), None);
    test.apply(web(4, "web:2")).await;
    rolled_out(&test, 4, "web:2").await;
}

/// W14: what a deployment owned goes with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_is_deleted_takes_its_pods_along() {
    let test = apps().await;
    test.apply(web(3, "web:1")).await;
    rolled_out(&test, 3, "web:1").await;
    let precondition = homeostat_store::Precondition::default();
    let propagation = homeostat_store::Propagation::Background;
    test.host.store().write(homeostat_store::Write::Delete { key: key(), precondition, propagation }).await.unwrap();
    eventually("everything to be gone", async || {
        (all(&test, "", "Pod").await.is_empty() && all(&test, "apps", "ReplicaSet").await.is_empty()).then_some(())
    })
    .await;
}

/// A rollout that is through is quiet: no reconcile, no write.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_is_through_is_quiet() {
    let test = apps().await;
    test.apply(web(3, "web:1")).await;
    rolled_out(&test, 3, "web:1").await;
    for name in ["deployments", "replicasets", "kubelet"] {
        test.idle(name).await;
    }
    let count = || ["deployments", "replicasets", "kubelet"].map(|name| test.status(name).reconciles);
    let (revision, before) = (test.host.store().revision(), count());
    for name in ["deployments", "replicasets", "kubelet"] {
        let definition = test.host.definition(name).unwrap();
        let overrides = homeostat_runtime::Overrides { concurrency: Some(7), ..definition.overrides };
        test.host.put(Definition { overrides, ..definition }).await.unwrap();
        test.idle(name).await;
    }
    let after = count();
    assert!(
        after.iter().zip(before).all(|(after, before)| *after > before),
        "the second look ran: {before:?} {after:?}"
    );
    assert_eq!(test.host.store().revision(), revision, "the second look wrote something");
}
