//! Ordinary `apps/v1` manifests, reconciled by three guests.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use homeostat_component::Grants;
use homeostat_runtime::manifest::Manifest;
use homeostat_runtime::{ControllerState, Definition};
use homeostat_store::{Change, Key, Kind, Propagation, Query, Resource, Scope, Write};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest, repository};
use serde_json::{Value, json};

fn key() -> Key {
    Key::new(Kind::new("apps", "v1", "Deployment"), "default", "web")
}

/// Runs the three controllers with exactly the grants of their manifests.
pub(crate) async fn apps() -> TestHost {
    let test = TestHost::start().await;
    for name in ["deployments", "replicasets", "kubelet"] {
        let written = manifest(&repository().join("examples/apps/controllers.yaml"), name);
        let checked = written.spec.check().unwrap();
        let component = test.load(&guest(name)).await;
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

/// Counts the ready pods without a deletion in progress, by image.
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

async fn wait_for_rollout(test: &TestHost, replicas: u64, image: &str) {
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
    wait_for_rollout(&test, 5, "web:1").await;
    test.apply(web(5, "web:2")).await;
    wait_for_rollout(&test, 5, "web:2").await;
    test.apply(web(2, "web:2")).await;
    wait_for_rollout(&test, 2, "web:2").await;
    test.apply(web(2, "web:1")).await;
    wait_for_rollout(&test, 2, "web:1").await;
    assert_eq!(all(&test, "apps", "ReplicaSet").await.len(), 2, "a rollback reuses the old replica set");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_stops_the_rollout_and_keeps_most_pods() {
    let test = apps().await;
    test.apply(web(4, "web:1")).await;
    wait_for_rollout(&test, 4, "web:1").await;
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
    wait_for_rollout(&test, 4, "web:2").await;
}

/// W14: The replica sets and pods of a deleted deployment are collected.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_deployment_has_its_pods_collected() {
    let test = apps().await;
    test.apply(web(3, "web:1")).await;
    wait_for_rollout(&test, 3, "web:1").await;
    remove(&test, key(), Propagation::Background).await;
    eventually("everything to be gone", async || {
        (all(&test, "", "Pod").await.is_empty() && all(&test, "apps", "ReplicaSet").await.is_empty()).then_some(())
    })
    .await;
}

async fn remove(test: &TestHost, key: Key, propagation: Propagation) {
    let precondition = homeostat_store::Precondition::default();
    test.host.store().write(Write::Delete { key, precondition, propagation, grace_seconds: None }).await.unwrap();
}

/// Returns the names of resources, each with the uids of its owners.
async fn owned(test: &TestHost, group: &str, kind: &str) -> BTreeMap<String, Vec<String>> {
    let owners = |resource: &Resource| {
        let owners = resource.document()["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        owners.iter().map(|owner| owner["uid"].as_str().unwrap().to_owned()).collect()
    };
    let all = all(test, group, kind).await;
    all.iter().map(|resource| (resource.key().name().to_owned(), owners(resource))).collect()
}

async fn uid(test: &TestHost, key: &Key) -> String {
    test.host.store().get(key).await.unwrap().uid().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_parent_adopts_the_orphans_of_its_predecessor() {
    let test = apps().await;
    test.apply(web(3, "web:1")).await;
    wait_for_rollout(&test, 3, "web:1").await;
    let (sets, pods) = (owned(&test, "apps", "ReplicaSet").await, owned(&test, "", "Pod").await);
    let no_owners = async |group: &str, kind: &str| owned(&test, group, kind).await.values().all(Vec::is_empty);

    remove(&test, key(), Propagation::Orphan).await;
    let is_gone = async || test.host.store().get(&key()).await.is_err();
    eventually("the set to be left, and the deployment to be gone", async || {
        (is_gone().await && no_owners("apps", "ReplicaSet").await).then_some(())
    })
    .await;
    test.apply(web(3, "web:1")).await;
    wait_for_rollout(&test, 3, "web:1").await;
    let by = uid(&test, &key()).await;
    let adopted: BTreeMap<_, _> = sets.keys().map(|name| (name.clone(), vec![by.clone()])).collect();
    assert_eq!(owned(&test, "apps", "ReplicaSet").await, adopted, "the same set, of the new deployment");
    assert_eq!(owned(&test, "", "Pod").await, pods, "the same pods");

    // The same one level below: the deployment creates its set again, and the set adopts the pods.
    let name = sets.keys().next().unwrap();
    let set = Key::new(Kind::new("apps", "v1", "ReplicaSet"), "default", name);
    let old = uid(&test, &set).await;
    remove(&test, set.clone(), Propagation::Orphan).await;
    eventually("the pods to have the new set", async || {
        let pods_now = owned(&test, "", "Pod").await;
        let is_adopted = |owners: &Vec<String>| owners.len() == 1 && owners[0] != old;
        (pods_now.keys().eq(pods.keys()) && pods_now.values().all(is_adopted)).then_some(())
    })
    .await;
    wait_for_rollout(&test, 3, "web:1").await;
    assert!(owned(&test, "", "Pod").await.keys().eq(pods.keys()), "no pod is created twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_no_longer_matches_is_released_and_one_that_matches_again_is_adopted() {
    let test = apps().await;
    test.apply(web(2, "web:1")).await;
    wait_for_rollout(&test, 2, "web:1").await;
    let first = owned(&test, "", "Pod").await.into_keys().next().unwrap();
    let pod = Key::new(Kind::new("", "v1", "Pod"), "default", &first);
    let label = async |app: &str| {
        let change = Change::Merge(json!({"metadata": {"labels": {"app": app}}}));
        let precondition = homeostat_store::Precondition::default();
        test.host.store().write(Write::Patch { key: pod.clone(), change, precondition }).await.unwrap();
    };
    label("debug").await;
    eventually("the pod to be released and replaced", async || {
        let pods = owned(&test, "", "Pod").await;
        let managed = pods.values().filter(|owners| !owners.is_empty()).count();
        (pods[&first].is_empty() && managed == 2).then_some(())
    })
    .await;
    label("web").await;
    eventually("one of three pods to go", async || {
        let pods = owned(&test, "", "Pod").await;
        (pods.len() == 2 && pods.values().all(|owners| !owners.is_empty())).then_some(())
    })
    .await;
}

/// A resync after a complete rollout writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_complete_rollout_is_quiet() {
    let test = apps().await;
    test.apply(web(3, "web:1")).await;
    wait_for_rollout(&test, 3, "web:1").await;
    for name in ["deployments", "replicasets", "kubelet"] {
        test.idle(name).await;
    }
    let count = || ["deployments", "replicasets", "kubelet"].map(|name| test.status(name).reconciles);
    let (revision, before) = (test.host.store().revision(&Scope::Everything).await.unwrap(), count());
    for name in ["deployments", "replicasets", "kubelet"] {
        let definition = test.host.definition(name).unwrap();
        let overrides = homeostat_runtime::Overrides { concurrency: Some(7), ..definition.overrides };
        test.host.put(Definition { overrides, ..definition }).await.unwrap();
        test.idle(name).await;
    }
    let after = count();
    assert!(
        after.iter().zip(before).all(|(after, before)| *after > before),
        "the resync reconciled: {before:?} {after:?}"
    );
    assert_eq!(test.host.store().revision(&Scope::Everything).await.unwrap(), revision, "the resync wrote something");
}
