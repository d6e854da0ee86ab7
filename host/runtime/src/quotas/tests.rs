//! Tests of quotas, on a whole host over memory.

use homeostat_component::Engine;
use homeostat_fixtures::memory_store;
use homeostat_store::{Change, Key, Kind, Precondition, Request, Subresource, Write};
use homeostat_testing::eventually;
use serde_json::{Value, json};

use crate::listing::ADMISSION_RESOURCES_MAX;
use crate::{BuiltInGroups, Error, Host, Options};

async fn host() -> Host {
    let engine = Engine::new(homeostat_component::EngineOptions::default()).expect("the engine starts");
    let options = Options { built_in: BuiltInGroups::All, ..Options::new(engine, memory_store()) };
    Host::start(options).await.expect("the host starts")
}

fn quota_key(name: &str) -> Key {
    Key::new(super::quotas(), "default", name)
}

/// Creates a quota with the status that a controller writes before the first resource.
async fn add_quota(host: &Host, name: &str, mut spec: Value, hard: Value) {
    spec["hard"] = hard.clone();
    let metadata = json!({ "name": name, "namespace": "default" });
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec });
    host.write(Write::Create { document: quota }.into()).await.expect("quotas can be created");
    let used: Value =
        hard.as_object().expect("it is an object").keys().map(|name| (name.clone(), json!("0"))).collect();
    set_status(host, name, json!({ "hard": hard, "used": used })).await;
}

async fn set_status(host: &Host, name: &str, status: Value) {
    let write = Write::UpdateStatus { key: quota_key(name), status, precondition: Precondition::default() };
    host.write(write.into()).await.expect("statuses can be written");
}

async fn used(host: &Host, name: &str) -> Value {
    host.store().get(&quota_key(name)).await.expect("the quota exists").document()["status"]["used"].clone()
}

fn request(kind: &str, name: &str, spec: Value) -> Request {
    let metadata = json!({ "name": name, "namespace": "default" });
    let mut document = json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata });
    if !spec.is_null() {
        document["spec"] = spec;
    }
    Write::Create { document }.into()
}

async fn create(host: &Host, kind: &str, name: &str, spec: Value) -> Result<(), Error> {
    host.write(request(kind, name, spec)).await.map(drop)
}

async fn refusal(host: &Host, kind: &str, name: &str, spec: Value) -> String {
    let refused = create(host, kind, name, spec).await.expect_err("the quota forbids it");
    assert!(matches!(refused, Error::Forbidden(_)), "{refused}");
    refused.to_string()
}

fn pod(requests: Value) -> Value {
    json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": requests } }] })
}

#[tokio::test]
async fn a_new_resource_is_charged_until_the_quota_is_used_up() {
    let host = host().await;
    add_quota(&host, "q", json!({}), json!({ "configmaps": "3", "count/configmaps": "2", "pods": "1" })).await;
    create(&host, "ConfigMap", "a", Value::Null).await.expect("the quota has room");
    let mut trial = request("ConfigMap", "trial", Value::Null);
    trial.dry_run = true;
    host.write(trial).await.expect("the quota has room");
    create(&host, "ConfigMap", "b", Value::Null).await.expect("a dry run is not charged");
    let reason = "configmaps \"c\" is forbidden: exceeded quota: q, requested: count/configmaps=1, \
                  used: count/configmaps=2, limited: count/configmaps=2";
    assert_eq!(refusal(&host, "ConfigMap", "c", Value::Null).await, reason);
    assert_eq!(used(&host, "q").await, json!({ "configmaps": "2", "count/configmaps": "2", "pods": "0" }));
    create(&host, "Secret", "free", Value::Null).await.expect("no quota is for secrets");
}

#[tokio::test]
async fn a_refused_write_is_charged_to_nobody() {
    let host = host().await;
    add_quota(&host, "q", json!({}), json!({ "configmaps": "5", "services": "5" })).await;
    create(&host, "ConfigMap", "a", Value::Null).await.expect("the quota has room");
    create(&host, "ConfigMap", "a", Value::Null).await.expect_err("it exists");
    create(&host, "Service", "bad", json!({ "type": "Nothing" })).await.expect_err("it is invalid");
    assert_eq!(used(&host, "q").await, json!({ "configmaps": "1", "services": "0" }));
}

#[tokio::test]
async fn pods_count_with_their_amounts_and_must_name_limited_ones() {
    let host = host().await;
    let hard = json!({ "requests.cpu": "1", "memory": "1Gi", "requests.example.com/gpu": "2", "pods": "9" });
    add_quota(&host, "q", json!({}), hard).await;
    let gpu = |mut requests: Value| {
        requests["example.com/gpu"] = json!("2");
        let mut spec = pod(requests);
        spec["containers"][0]["resources"]["limits"] = json!({ "example.com/gpu": "2" });
        spec
    };
    create(&host, "Pod", "a", gpu(json!({ "cpu": "600m", "memory": "512Mi" }))).await.expect("the quota has room");
    let all = json!({ "requests.cpu": "600m", "memory": "512Mi", "requests.example.com/gpu": "2", "pods": "1" });
    assert_eq!(used(&host, "q").await, all);
    for (spec, words) in [
        (
            pod(json!({ "cpu": "500m", "memory": "1Mi" })),
            "requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1",
        ),
        (
            pod(json!({ "cpu": "100m", "memory": "600Mi" })),
            "requested: memory=600Mi, used: memory=512Mi, limited: memory=1Gi",
        ),
        (gpu(json!({ "cpu": "1m", "memory": "1Mi" })), "requested: requests.example.com/gpu=2,"),
        (pod(json!({})), "pods \"b\" is forbidden: failed quota: q: must specify memory for: c; requests.cpu for: c"),
    ] {
        let refused = refusal(&host, "Pod", "b", spec).await;
        assert!(refused.contains(words), "{refused}");
    }
    // The pod names its own amounts, so that its containers need none.
    let mut spec = pod(json!({}));
    spec["resources"] = json!({ "requests": { "cpu": "100m", "memory": "1Mi" } });
    create(&host, "Pod", "b", spec).await.expect("the quota has room");
    assert_eq!(used(&host, "q").await["requests.cpu"], "700m");
}

#[tokio::test]
async fn a_quota_with_scopes_is_for_the_pods_in_all_of_them() {
    let host = host().await;
    let hard = || json!({ "pods": "5" });
    add_quota(&host, "best-effort", json!({ "scopes": ["BestEffort", "NotTerminating"] }), hard()).await;
    add_quota(&host, "not-best-effort", json!({ "scopes": ["NotBestEffort"] }), hard()).await;
    add_quota(&host, "deadline", json!({ "scopes": ["Terminating"] }), hard()).await;
    let class = |operator: &str, values: Value| {
        let mut expression = json!({ "scopeName": "PriorityClass", "operator": operator });
        if !values.is_null() {
            expression["values"] = values;
        }
        json!({ "scopeSelector": { "matchExpressions": [expression] } })
    };
    add_quota(&host, "critical", class("In", json!(["system-node-critical"])), hard()).await;
    add_quota(&host, "others", class("NotIn", json!(["system-node-critical"])), hard()).await;
    add_quota(&host, "any-class", class("Exists", Value::Null), hard()).await;
    let affinity = json!({ "scopes": ["CrossNamespacePodAffinity"] });
    add_quota(&host, "affinity", affinity, hard()).await;

    create(&host, "Pod", "a", pod(json!({}))).await.expect("the quotas have room");
    let mut spec = pod(json!({ "cpu": "1m" }));
    spec["activeDeadlineSeconds"] = json!(60);
    spec["priorityClassName"] = json!("system-node-critical");
    let term = json!({ "topologyKey": "zone", "namespaces": ["other"] });
    spec["affinity"] = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
    create(&host, "Pod", "b", spec).await.expect("the quotas have room");
    for (quota, pods) in [
        ("best-effort", "1"),
        ("not-best-effort", "1"),
        ("deadline", "1"),
        ("critical", "1"),
        ("others", "1"),
        ("any-class", "1"),
        ("affinity", "1"),
    ] {
        assert_eq!(used(&host, quota).await["pods"], pods, "{quota}");
    }
    // With a deadline, the first pod counts for the other quota, too.
    let key = Key::new(Kind::new("", "v1", "Pod"), "default", "a");
    let change = Change::Merge(json!({ "spec": { "activeDeadlineSeconds": 5 } }));
    host.write(Write::Patch { key, change, precondition: Precondition::default() }.into())
        .await
        .expect("it is possible");
    assert_eq!(used(&host, "deadline").await["pods"], "2");
    assert_eq!(used(&host, "not-best-effort").await["pods"], "1");
}

#[tokio::test]
async fn services_and_claims_of_volumes_count_what_a_change_adds() {
    let host = host().await;
    let hard = json!({ "services": "5", "services.nodeports": "2", "services.loadbalancers": "0" });
    add_quota(&host, "services", json!({}), hard).await;
    create(&host, "Service", "a", json!({ "ports": [{ "port": 80 }] })).await.expect("the quota has room");
    let patch = |kind: &str, name: &str, change: Value| {
        let key = Key::new(Kind::new("", "v1", kind), "default", name);
        Write::Patch { key, change: Change::Merge(change), precondition: Precondition::default() }.into()
    };
    host.write(patch("Service", "a", json!({ "spec": { "type": "NodePort" } }))).await.expect("the quota has room");
    let all = json!({ "services": "1", "services.nodeports": "1", "services.loadbalancers": "0" });
    assert_eq!(used(&host, "services").await, all);
    let more = patch("Service", "a", json!({ "spec": { "type": "LoadBalancer" } }));
    let refused = host.write(more).await.expect_err("the quota forbids it").to_string();
    assert!(refused.contains("exceeded quota: services, requested: services.loadbalancers=1"), "{refused}");

    let hard = json!({ "requests.storage": "10Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1" });
    add_quota(&host, "storage", json!({}), hard).await;
    let claim = |class: &str, size: &str| {
        json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": { "requests": { "storage": size } } })
    };
    create(&host, "PersistentVolumeClaim", "a", claim("gold", "6Gi")).await.expect("the quota has room");
    let refused = refusal(&host, "PersistentVolumeClaim", "b", claim("gold", "1Gi")).await;
    assert!(refused.contains("requested: gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,"), "{refused}");
    create(&host, "PersistentVolumeClaim", "b", claim("silver", "4Gi")).await.expect("the quota has room");
    let refused = refusal(&host, "PersistentVolumeClaim", "c", claim("silver", "1")).await;
    assert!(refused.contains("requested: requests.storage=1, used: requests.storage=10Gi"), "{refused}");
}

#[tokio::test]
async fn a_quota_that_no_controller_counts_limits_nothing() {
    let host = host().await;
    let metadata = json!({ "name": "q", "namespace": "default" });
    let spec = json!({ "hard": { "configmaps": "0" } });
    let quota = json!({ "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec });
    host.write(Write::Create { document: quota }.into()).await.expect("quotas can be created");
    create(&host, "ConfigMap", "a", Value::Null).await.expect("nothing is counted");
    set_status(&host, "q", json!({ "hard": { "configmaps": "5" } })).await;
    let refused = refusal(&host, "ConfigMap", "b", Value::Null).await;
    assert!(refused.contains("status unknown for quota: q, resources: configmaps"), "{refused}");
}

#[tokio::test]
async fn writers_at_the_same_time_do_not_exceed_a_quota_together() {
    let host = std::sync::Arc::new(host().await);
    add_quota(&host, "q", json!({}), json!({ "configmaps": "10" })).await;
    let writers: Vec<_> = (0..40)
        .map(|number| {
            let host = host.clone();
            tokio::spawn(async move { create(&host, "ConfigMap", &format!("m{number}"), Value::Null).await.is_ok() })
        })
        .collect();
    let mut created = 0;
    for writer in writers {
        created += usize::from(writer.await.expect("the writer ends"));
    }
    assert_eq!(created, 10);
    assert_eq!(used(&host, "q").await["configmaps"], "10");
}

#[tokio::test]
async fn a_namespace_with_too_many_quotas_admits_no_new_resources() {
    let host = host().await;
    let hard = json!({ "hard": { "configmaps": "5" } });
    for number in 0..=ADMISSION_RESOURCES_MAX {
        create(&host, "ResourceQuota", &format!("q{number}"), hard.clone()).await.expect("there is room for it");
    }
    for kind in ["ConfigMap", "ResourceQuota"] {
        let refused = refusal(&host, kind, "more", hard.clone()).await;
        assert!(refused.contains("has more than 1000 resources of the kind v1/ResourceQuota"), "{refused}");
    }
    let write = Write::Delete {
        key: quota_key("q0"),
        precondition: Precondition::default(),
        propagation: homeostat_store::Propagation::default(),
        grace_seconds: None,
    };
    host.write(write.into()).await.expect("it can be deleted");
    create(&host, "ConfigMap", "more", Value::Null).await.expect("the quotas are few enough");
}

#[tokio::test]
async fn a_quota_limits_a_namespace_that_was_remembered_without_one() {
    let host = host().await;
    create(&host, "ConfigMap", "before", Value::Null).await.expect("there is no quota");
    add_quota(&host, "q", json!({}), json!({ "configmaps": "0" })).await;
    refusal(&host, "ConfigMap", "after", Value::Null).await;
}

#[tokio::test]
async fn a_quota_whose_writer_is_gone_limits_its_namespace() {
    let host = host().await;
    create(&host, "ConfigMap", "before", Value::Null).await.expect("there is no quota");
    let mut write = Box::pin(host.write(request("ResourceQuota", "q", json!({ "hard": { "configmaps": "0" } }))));
    // The client goes away while the host writes.
    let polled =
        std::future::poll_fn(|context| std::task::Poll::Ready(write.as_mut().poll(context).is_pending())).await;
    assert!(polled, "the write takes more than one step");
    drop(write);
    eventually("the quota to be written", || {
        let store = host.store();
        async move { store.get(&quota_key("q")).await.ok() }
    })
    .await;
    let hard = json!({ "configmaps": "0" });
    set_status(&host, "q", json!({ "hard": hard, "used": hard })).await;
    refusal(&host, "ConfigMap", "after", Value::Null).await;
}

#[tokio::test]
async fn a_resize_is_charged_for_what_it_adds() {
    let host = host().await;
    add_quota(&host, "q", json!({}), json!({ "requests.cpu": "500m" })).await;
    create(&host, "Pod", "a", pod(json!({ "cpu": "100m" }))).await.expect("the quota has room");
    let resize = async |cpu: &str| {
        let key = Key::new(Kind::new("", "v1", "Pod"), "default", "a");
        let change = Change::Strategic(json!({ "spec": pod(json!({ "cpu": cpu })) }));
        let write = Write::Patch { key, change, precondition: Precondition::default() };
        host.write(Request { subresource: Some(Subresource::Resize), ..write.into() }).await
    };
    let refused = resize("900m").await.expect_err("the quota forbids it").to_string();
    assert!(refused.contains("requested: requests.cpu=800m, used: requests.cpu=100m"), "{refused}");
    assert_eq!(used(&host, "q").await["requests.cpu"], "100m");
    let resized = resize("400m").await.expect("the quota has room");
    let cpu = resized.resource.document().pointer("/spec/containers/0/resources/requests/cpu").cloned();
    assert_eq!((used(&host, "q").await["requests.cpu"].clone(), cpu), (json!("400m"), Some(json!("400m"))));
}
