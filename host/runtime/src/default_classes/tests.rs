//! Tests of default classes, on a whole host over memory.

use homeostat_component::Engine;
use homeostat_fixtures::memory_store;
use homeostat_store::Write;

use super::*;
use crate::{BuiltInGroups, Host, Options};

async fn host() -> Host {
    let engine = Engine::new(homeostat_component::EngineOptions::default()).expect("the engine starts");
    let options = Options { built_in: BuiltInGroups::All, ..Options::new(engine, memory_store()) };
    Host::start(options).await.expect("the host starts")
}

/// Creates a resource, and returns its spec.
async fn spec_of(host: &Host, document: Value) -> Value {
    let written = host.write(Write::Create { document }.into()).await.expect("it is valid");
    written.resource.document()["spec"].clone()
}

fn claim(name: &str, annotations: &Value, class: &Value) -> Value {
    let mut spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    if !class.is_null() {
        spec["storageClassName"] = class.clone();
    }
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec,
        "metadata": { "name": name, "namespace": "default", "annotations": annotations },
    })
}

fn storage_class(name: &str, annotation: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/disk",
        "metadata": { "name": name, "annotations": { annotation: "true" } },
    })
}

#[tokio::test]
async fn a_claim_without_a_class_gets_the_default_one() {
    let host = host().await;
    let none = || json!({});
    assert_eq!(spec_of(&host, claim("early", &none(), &Value::Null)).await["storageClassName"], Value::Null);
    for (name, annotation) in [
        ("b", "storageclass.kubernetes.io/is-default-class"),
        ("a", "storageclass.beta.kubernetes.io/is-default-class"),
        ("none", "other.example.com/is-default-class"),
    ] {
        spec_of(&host, storage_class(name, annotation)).await;
    }
    let given = spec_of(&host, claim("given", &none(), &Value::Null)).await["storageClassName"].clone();
    assert!(given == "a" || given == "b", "{given}");
    assert_eq!(spec_of(&host, claim("empty", &none(), &"".into())).await["storageClassName"], "");
    let former = json!({ "volume.beta.kubernetes.io/storage-class": "" });
    assert_eq!(spec_of(&host, claim("former", &former, &Value::Null)).await["storageClassName"], Value::Null);
}

#[tokio::test]
async fn an_ingress_without_a_class_gets_the_default_one() {
    let host = host().await;
    let class = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "spec": { "controller": "example.com/ingress" },
        "metadata": { "name": "web", "annotations": { "ingressclass.kubernetes.io/is-default-class": "true" } },
    });
    spec_of(&host, class).await;
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let ingress = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": { "defaultBackend": backend },
            "metadata": { "name": name, "namespace": "default", "annotations": annotations },
        })
    };
    assert_eq!(spec_of(&host, ingress("a", json!({}))).await["ingressClassName"], "web");
    let named = json!({ "kubernetes.io/ingress.class": "other" });
    assert_eq!(spec_of(&host, ingress("b", named)).await["ingressClassName"], Value::Null);
}

#[test]
fn the_newest_class_comes_first_and_then_the_first_name() {
    let class = |name: &str, created: &str| (Reverse(created.to_owned()), name.to_owned());
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
    let classes = [class("a", old), class("c", new), class("b", new)];
    assert_eq!(classes.into_iter().min(), Some(class("b", new)));
}
