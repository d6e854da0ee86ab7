//! Applies to pods that others delete meanwhile, on a whole host over memory.

use homeostat_component::{Engine, EngineOptions};
use homeostat_fixtures::{FaultyStore, memory_store};
use homeostat_store::{Key, Kind, Precondition, Propagation, Write};
use serde_json::json;

use crate::{BuiltInGroups, Host, Options};

#[tokio::test]
async fn an_apply_to_a_pod_that_goes_meanwhile_makes_a_complete_pod() {
    let store = FaultyStore::over(memory_store());
    let engine = Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() }).unwrap();
    let options = Options { built_in: BuiltInGroups::All, ..Options::new(engine, store.clone()) };
    let host = Host::start(options).await.unwrap();
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "usual" },
        "value": 50, "globalDefault": true,
    });
    host.write(Write::Create { document: class }.into()).await.unwrap();
    let pod = |image: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default" },
            "spec": { "containers": [{ "name": "c", "image": image }] },
        })
    };
    let apply = |image: &str| Write::Apply { document: pod(image), manager: "m".to_owned(), force: false };
    let first = host.write(apply("a").into()).await.unwrap().resource;
    let (key, precondition) = (Key::new(Kind::new("", "v1", "Pod"), "default", "p"), Precondition::default());
    store.come_between(Write::Delete { key, precondition, propagation: Propagation::Background, grace_seconds: None });
    let second = host.write(apply("b").into()).await.unwrap().resource;
    assert_ne!(first.uid(), second.uid());
    let spec = &second.document()["spec"];
    assert_eq!((&spec["priorityClassName"], &spec["containers"][0]["image"]), (&json!("usual"), &json!("b")));
    // An apply to the pod that stays needs no priority of its own.
    let third = host.write(apply("c").into()).await.unwrap().resource;
    assert_eq!((third.uid(), &third.document()["spec"]["priority"]), (second.uid(), &json!(50)));
}
