//! Tests of priorities, on a whole host over memory.

use homeostat_component::Engine;
use homeostat_fixtures::memory_store;
use homeostat_store::{Precondition, Propagation, Write};
use serde_json::{Value, json};

use super::{Key, classes};
use crate::{BuiltInGroups, Error, Host, Options};

async fn host() -> Host {
    let engine = Engine::new(homeostat_component::EngineOptions::default()).expect("the engine starts");
    let options = Options { built_in: BuiltInGroups::All, ..Options::new(engine, memory_store()) };
    Host::start(options).await.expect("the host starts")
}

async fn create_pod(host: &Host, name: &str, further: Value) -> Result<Value, Error> {
    let mut spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
    spec.as_object_mut().expect("it is an object").extend(further.as_object().expect("it is one").clone());
    let metadata = json!({ "name": name, "namespace": "default" });
    let document = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
    let created = host.write(Write::Create { document }.into()).await?;
    Ok(created.resource.document()["spec"].clone())
}

fn class(name: &str, value: i64, is_default: bool) -> Write {
    Write::Create {
        document: json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
            "value": value, "globalDefault": is_default,
        }),
    }
}

#[tokio::test]
async fn a_pod_gets_the_priority_of_its_class() {
    let host = host().await;
    let plain = create_pod(&host, "plain", json!({})).await.expect("it needs no class");
    assert_eq!((&plain["priority"], plain.get("priorityClassName")), (&json!(0), None));
    let of_system = json!({ "priorityClassName": "system-node-critical" });
    let critical = create_pod(&host, "critical", of_system).await.expect("the class always exists");
    assert_eq!(critical["priority"], 2_000_001_000);
    assert_eq!(critical["preemptionPolicy"], "PreemptLowerPriority");
    for (further, words) in [
        (json!({ "priorityClassName": "high" }), "no PriorityClass with name high was found"),
        (json!({ "priority": 7 }), "the integer value of priority (7) must not be provided"),
    ] {
        let refused = create_pod(&host, "x", further).await.expect_err("Kubernetes refuses it");
        assert!(matches!(refused, Error::Forbidden(_)) && refused.to_string().contains(words), "{refused}");
    }
}

#[tokio::test]
async fn the_default_class_counts_from_its_creation_to_its_deletion() {
    let host = host().await;
    create_pod(&host, "before", json!({})).await.expect("it needs no class");
    host.write(class("usual", 50, true).into()).await.expect("classes can be created");
    let pod = create_pod(&host, "with", json!({})).await.expect("it gets the default");
    assert_eq!((&pod["priority"], &pod["priorityClassName"]), (&json!(50), &json!("usual")));
    let key = Key::new(classes(), "", "usual");
    let (precondition, propagation) = (Precondition::default(), Propagation::Background);
    host.write(Write::Delete { key, precondition, propagation, grace_seconds: None }.into())
        .await
        .expect("classes can be deleted");
    let pod = create_pod(&host, "after", json!({})).await.expect("it needs no class");
    assert_eq!(pod["priority"], 0);
}
