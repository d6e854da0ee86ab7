//! Tests of the addresses of services, on a whole host over memory.

use homeostat_component::Engine;
use homeostat_fixtures::memory_store;
use homeostat_store::{Change, Error as StoreError, Key, Precondition, Write};
use serde_json::{Value, json};

use super::services;
use crate::{BuiltInGroups, Error, Host, Options};

async fn host() -> Host {
    let engine = Engine::new(homeostat_component::EngineOptions::default()).expect("the engine starts");
    let options = Options { built_in: BuiltInGroups::All, ..Options::new(engine, memory_store()) };
    Host::start(options).await.expect("the host starts")
}

fn service(name: &str, mut spec: Value) -> Value {
    if spec["ports"].is_null() {
        spec["ports"] = json!([{ "port": 80 }]);
    }
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "default" }, "spec": spec })
}

fn create(name: &str, spec: Value) -> Write {
    Write::Create { document: service(name, spec) }
}

fn node_port(port: u32) -> Value {
    json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": port }] })
}

fn patch(name: &str, change: Change) -> Write {
    Write::Patch { key: Key::new(services(), "default", name), change, precondition: Precondition::default() }
}

/// Returns the path and the words of the only violation of a write.
async fn refusal(host: &Host, write: Write) -> (String, String) {
    match host.write(write.into()).await.expect_err("the service is refused") {
        Error::Store(StoreError::InvalidFields { mut violations, .. }) if violations.len() == 1 => {
            let violation = violations.remove(0);
            (violation.path, violation.detail)
        }
        other => panic!("another refusal: {other}"),
    }
}

#[tokio::test]
async fn a_service_cannot_choose_what_another_one_has() {
    let host = host().await;
    let address = json!({ "clusterIP": "10.96.7.7" });
    host.write(create("a", address.clone()).into()).await.expect("the address is free");
    let taken = "[\"10.96.7.7\"]: failed to allocate IP 10.96.7.7: provided IP is already allocated";
    assert_eq!(refusal(&host, create("b", address.clone())).await, ("spec.clusterIPs".to_owned(), taken.to_owned()));
    // The service keeps its own.
    host.write(patch("a", Change::Merge(json!({ "spec": address }))).into()).await.expect("it is its own");

    host.write(create("c", node_port(30_123)).into()).await.expect("the port is free");
    let path = "spec.ports[0].nodePort".to_owned();
    let taken = "30123: provided port is already allocated".to_owned();
    assert_eq!(refusal(&host, create("d", node_port(30_123))).await, (path.clone(), taken.clone()));
    host.write(create("d", node_port(30_124)).into()).await.expect("the port is free");
    let operation = json!([{ "op": "replace", "path": "/spec/ports/0/nodePort", "value": 30_123 }]);
    assert_eq!(refusal(&host, patch("d", Change::Json(operation))).await, (path, taken));
    let ports = json!({ "spec": { "ports": [{ "port": 80, "protocol": "UDP", "nodePort": 30_125 }] } });
    host.write(patch("d", Change::Merge(ports)).into()).await.expect("the port is free");
}

#[tokio::test]
async fn a_service_chooses_from_the_ranges() {
    let host = host().await;
    let outside = create("a", json!({ "clusterIP": "10.112.0.1" }));
    let words =
        "[\"10.112.0.1\"]: failed to allocate IP 10.112.0.1: the provided network does not match the current range";
    assert_eq!(refusal(&host, outside).await, ("spec.clusterIPs".to_owned(), words.to_owned()));
    let words = "29999: provided port is not in the valid range. The range of valid ports is 30000-32767";
    assert_eq!(
        refusal(&host, create("a", node_port(29_999))).await,
        ("spec.ports[0].nodePort".to_owned(), words.to_owned())
    );
    for spec in [json!({ "clusterIP": "10.111.255.254" }), json!({ "clusterIP": "None" }), json!({}), node_port(32_767)]
    {
        let name = format!("s{}", spec.to_string().len());
        host.write(create(&name, spec).into()).await.expect("the service chooses well");
    }
}
