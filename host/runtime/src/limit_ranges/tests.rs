//! Tests of limit ranges, on a whole host over memory.

use homeostat_component::Engine;
use homeostat_fixtures::memory_store;
use homeostat_store::{Change, Key, Kind, Precondition, Request, Subresource, Write};
use serde_json::{Value, json};

use crate::{BuiltInGroups, Error, Host, Options};

async fn with_range(limits: Value) -> Host {
    let engine = Engine::new(homeostat_component::EngineOptions::default()).expect("the engine starts");
    let options = Options { built_in: BuiltInGroups::All, ..Options::new(engine, memory_store()) };
    let host = Host::start(options).await.expect("the host starts");
    let metadata = json!({ "name": "r", "namespace": "default" });
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": { "limits": limits },
    });
    host.write(Write::Create { document: range }.into()).await.expect("ranges can be created");
    host
}

async fn create(host: &Host, kind: &str, spec: Value) -> Result<Value, Error> {
    let document = json!({
        "apiVersion": "v1", "kind": kind, "metadata": { "name": "x", "namespace": "default" }, "spec": spec,
    });
    let mut request: homeostat_store::Request = Write::Create { document }.into();
    request.dry_run = true;
    Ok(host.write(request).await?.resource.document().clone())
}

fn pod(resources: Value) -> Value {
    json!({ "containers": [{ "name": "c", "image": "i", "resources": resources }] })
}

#[tokio::test]
async fn a_new_pod_gets_the_amounts_that_it_lacks() {
    let limits = json!([{ "type": "Container", "default": { "cpu": "500m", "memory": "64Mi" },
        "defaultRequest": { "cpu": "100m", "memory": "32Mi" } }]);
    let host = with_range(limits).await;
    let made = create(&host, "Pod", pod(json!({}))).await.expect("the range allows it");
    let all = json!({
        "limits": { "cpu": "500m", "memory": "64Mi" }, "requests": { "cpu": "100m", "memory": "32Mi" },
    });
    assert_eq!(made["spec"]["containers"][0]["resources"], all);
    let words = "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c";
    assert_eq!(made["metadata"]["annotations"]["kubernetes.io/limit-ranger"], words);
    // Its own limit is its request, too.
    let made = create(&host, "Pod", pod(json!({ "limits": { "cpu": "300m" } }))).await.expect("the range allows it");
    let mixed = json!({
        "limits": { "cpu": "300m", "memory": "64Mi" }, "requests": { "cpu": "300m", "memory": "32Mi" },
    });
    assert_eq!(made["spec"]["containers"][0]["resources"], mixed);
}

#[tokio::test]
async fn a_pod_beyond_the_bounds_of_its_namespace_is_forbidden() {
    let host = with_range(json!([
        { "type": "Container", "min": { "cpu": "100m" }, "max": { "cpu": "1" }, "maxLimitRequestRatio": { "cpu": "2" } },
        { "type": "Pod", "max": { "memory": "1Gi" } },
    ]))
    .await;
    let fine = json!({ "requests": { "cpu": "500m", "memory": "1Gi" }, "limits": { "cpu": "1", "memory": "1Gi" } });
    create(&host, "Pod", pod(fine.clone())).await.expect("the range allows it");
    for (list, cpu, words) in [
        ("requests", "50m", "minimum cpu usage per Container is 100m, but request is 50m"),
        ("limits", "2", "maximum cpu usage per Container is 1, but limit is 2"),
        ("requests", "400m", "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000"),
    ] {
        let mut resources = fine.clone();
        resources[list]["cpu"] = cpu.into();
        let refused = create(&host, "Pod", pod(resources)).await.expect_err("the range forbids it");
        assert!(matches!(refused, Error::Forbidden(_)) && refused.to_string().contains(words), "{refused}");
    }
    let mut two = pod(fine);
    let second = json!({ "name": "d", "image": "i", "resources": two["spec"]["containers"][0]["resources"] });
    let first = two["containers"][0]["resources"].clone();
    two["containers"].as_array_mut().expect("it is a list").push(second);
    two["containers"][1]["resources"] = first;
    let refused = create(&host, "Pod", two).await.expect_err("the range forbids it").to_string();
    assert!(
        refused.contains("pods \"x\" is forbidden: maximum memory usage per Pod is 1Gi, but limit is"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_claim_beyond_the_bounds_of_its_namespace_is_forbidden() {
    let limits = json!([{ "type": "PersistentVolumeClaim", "min": { "storage": "1Gi" }, "max": { "storage": "2Gi" } }]);
    let host = with_range(limits).await;
    let claim =
        |size: &str| json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } } });
    create(&host, "PersistentVolumeClaim", claim("2Gi")).await.expect("the range allows it");
    for (size, words) in [
        ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
        ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
    ] {
        let refused = create(&host, "PersistentVolumeClaim", claim(size)).await.expect_err("the range forbids it");
        assert!(refused.to_string().contains(words), "{refused}");
    }
}

#[tokio::test]
async fn a_resize_beyond_the_bounds_of_its_namespace_is_forbidden() {
    let host = with_range(json!([{ "type": "Container", "max": { "cpu": "1" } }])).await;
    let amounts = |cpu: &str| json!({ "requests": { "cpu": "100m" }, "limits": { "cpu": cpu } });
    let metadata = json!({ "name": "x", "namespace": "default" });
    let document = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod(amounts("500m")) });
    host.write(Write::Create { document }.into()).await.expect("the range allows it");
    let resize = async |cpu: &str| {
        let key = Key::new(Kind::new("", "v1", "Pod"), "default", "x");
        let change = Change::Strategic(json!({ "spec": pod(amounts(cpu)) }));
        let write = Write::Patch { key, change, precondition: Precondition::default() };
        host.write(Request { subresource: Some(Subresource::Resize), ..write.into() }).await
    };
    resize("900m").await.expect("the range allows it");
    let refused = resize("1200m").await.expect_err("the range forbids it");
    let words = "pods \"x\" is forbidden: maximum cpu usage per Container is 1, but limit is 1200m";
    assert!(matches!(refused, Error::Forbidden(_)) && refused.to_string().contains(words), "{refused}");
}
