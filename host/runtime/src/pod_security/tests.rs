//! Tests of Pod Security, on a whole host over memory.

use homeostat_component::Engine;
use homeostat_fixtures::memory_store;
use homeostat_store::{Change, Precondition};
use serde_json::json;

use super::*;
use crate::{BuiltInGroups, Host, Options};

async fn host() -> Host {
    let engine = Engine::new(homeostat_component::EngineOptions::default()).expect("the engine starts");
    let options = Options { built_in: BuiltInGroups::All, ..Options::new(engine, memory_store()) };
    Host::start(options).await.expect("the host starts")
}

async fn add_namespace(host: &Host, labels: Value) {
    let metadata = json!({ "name": "safe", "labels": labels });
    let document = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
    host.write(Write::Create { document }.into()).await.expect("the labels are valid");
}

fn pod(name: &str, context: Value) -> Write {
    let container = json!({ "name": "c", "image": "i", "securityContext": context });
    let metadata = json!({ "name": name, "namespace": "safe" });
    let spec = json!({ "containers": [container] });
    Write::Create { document: json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }) }
}

/// Writes, and returns the error or the warnings.
async fn write(host: &Host, write: Write) -> Result<Vec<String>, String> {
    let requester = Requester::host();
    match host.write_as(write.into(), &requester).await {
        Ok(_) => Ok(requester.take_warnings()),
        Err(error) => Err(crate::reasons::chain(&error)),
    }
}

#[tokio::test]
async fn a_namespace_refuses_pods_by_its_level_and_warns_of_others() {
    let host = host().await;
    add_namespace(&host, json!({ ENFORCE: "baseline", WARN: "restricted" })).await;
    let refused = write(&host, pod("root", json!({ "privileged": true }))).await.expect_err("it is privileged");
    let words = "violates PodSecurity \"baseline:latest\": privileged (container \"c\" must not set \
                 securityContext.privileged=true)";
    assert!(refused.contains(words) && refused.contains("pods \"root\" is forbidden"), "{refused}");
    let warnings = write(&host, pod("plain", json!({}))).await.expect("it is of the level");
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("would violate PodSecurity \"restricted:latest\": "),
        "{warnings:?}"
    );
    let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{
        "name": "c", "image": "i", "securityContext": { "privileged": true },
    }] } });
    let spec = json!({ "selector": { "matchLabels": { "a": "b" } }, "template": template });
    let metadata = json!({ "name": "web", "namespace": "safe" });
    let document = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec });
    let warnings = write(&host, Write::Create { document }).await.expect("no pod is created");
    assert!(warnings.len() == 1 && warnings[0].contains("privileged (container"), "{warnings:?}");

    // A label does not make the pod another one, and an image does.
    let key = Key::new(priorities::pods(), "safe", "plain");
    let change = |patch: Value| Write::Patch {
        key: key.clone(),
        change: Change::Strategic(patch),
        precondition: Precondition::default(),
    };
    assert_eq!(write(&host, change(json!({ "metadata": { "labels": { "a": "b" } } }))).await, Ok(vec![]));
    let image = json!({ "spec": { "containers": [{ "name": "c", "image": "j" }] } });
    assert_eq!(write(&host, change(image)).await.map(|warnings| warnings.len()), Ok(1));
}

#[tokio::test]
async fn another_level_of_a_namespace_warns_of_its_pods() {
    let host = host().await;
    add_namespace(&host, json!({})).await;
    for name in ["b", "a", "c"] {
        assert_eq!(write(&host, pod(name, json!({ "privileged": name != "c" }))).await, Ok(vec![]));
    }
    let key = Key::new(namespaces(), "", "safe");
    let label = |level: &str| Write::Patch {
        key: key.clone(),
        change: Change::Merge(json!({ "metadata": { "labels": { ENFORCE: level } } })),
        precondition: Precondition::default(),
    };
    let warnings = write(&host, label("baseline")).await.expect("the level is valid");
    let words = "existing pods in namespace \"safe\" violate the new PodSecurity enforce level \"baseline:latest\"";
    assert_eq!(warnings, [words, "a (and 1 other pod): privileged"]);
    assert_eq!(write(&host, label("privileged")).await, Ok(vec![]));
    let refused = write(&host, label("strict")).await.expect_err("there is no such level");
    assert!(refused.contains("must be one of privileged, baseline, restricted"), "{refused}");
}

#[test]
fn labels_that_are_missing_or_unknown_have_a_level() {
    let namespace = |labels: Value| {
        let document = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": "n", "uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
        } });
        Policy::of(&Resource::from_document(document).expect("it is a resource"))
    };
    let texts = |policy: &Policy| [policy.enforce.text(), policy.warn.text()];
    assert_eq!(texts(&namespace(json!({}))), ["privileged:latest", "privileged:latest"]);
    assert_eq!(texts(&namespace(json!({ ENFORCE: "baseline" }))), ["baseline:latest", "baseline:latest"]);
    assert_eq!(texts(&namespace(json!({ ENFORCE: "odd", WARN: "odd" }))), ["restricted:latest", "privileged:latest"]);
    let pinned = json!({ ENFORCE: "baseline", "pod-security.kubernetes.io/enforce-version": "v1.24" });
    assert_eq!(texts(&namespace(pinned)), ["baseline:v1.24", "baseline:v1.24"]);
}
