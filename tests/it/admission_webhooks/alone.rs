//! What a kube-apiserver has no counterpart of, or what is of the host alone.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use homeostat_fixtures::memory_store;
use homeostat_runtime::{BuiltInGroups, Options};
use homeostat_store::{Change, Key, Kind, Precondition, Query, Write};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::replies::reply;
use crate::review_server::{Reply, ReviewServer};

fn configuration(server: &ReviewServer, kind: &str, path: &str, group: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": path },
        "webhooks": [{
            "name": format!("{path}.light.dev"), "clientConfig": server.client_config(path), "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{ "operations": ["*"], "apiGroups": [group], "apiVersions": ["*"], "resources": ["*/*"] }],
        }],
    })
}

/// Starts a host with built-in kinds.
async fn host() -> TestHost {
    TestHost::with(memory_store(), |options| Options { built_in: BuiltInGroups::All, ..options }).await
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "default" } })
}

#[tokio::test]
async fn a_guest_whose_write_a_webhook_refuses_gets_the_refusal_as_an_error() {
    let (server, test) = (ReviewServer::start(reply).await, host().await);
    let guest = test.definition("status", &guest("guest-status")).await;
    let manages = guest.component.describe().manages.clone();
    test.host.put(guest).await.unwrap();
    let group = &manages.kind.group;
    test.apply(configuration(&server, "ValidatingWebhookConfiguration", "deny", group)).await;
    let refused = test
        .host
        .apply_resource(
            json!({
                "apiVersion": manages.kind.api_version(), "kind": manages.kind.name, "metadata": { "name": "a" },
                "spec": { "text": "abc" },
            }),
            "me",
            false,
        )
        .await;
    let refused = refused.unwrap_err().to_string();
    assert_eq!(refused, "admission webhook \"deny.light.dev\" denied the request: no light");
    // The resource comes while nothing refuses it, and the guest writes its status.
    let key = Key::new(Kind::new("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"), "", "deny");
    let rules =
        json!([{ "operations": ["UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/status"] }]);
    let mut narrow = configuration(&server, "ValidatingWebhookConfiguration", "deny", group);
    narrow["webhooks"][0]["rules"] = rules;
    test.apply(narrow).await;
    server.take_reviews();
    test.apply(json!({
        "apiVersion": manages.kind.api_version(), "kind": manages.kind.name, "metadata": { "name": "a" },
        "spec": { "text": "abc" },
    }))
    .await;
    let is_told = async || {
        let entry = test.host.queue("status", 10).unwrap().into_iter().next()?;
        entry.last_error.filter(|error| error.contains("denied the request: no light")).map(drop)
    };
    eventually("the guest to get the refusal", is_told).await;
    let review = server.take_reviews().pop().unwrap();
    assert_eq!(review["request"]["userInfo"]["username"], "homeostat:controller:status");
    // Without the configuration, its next try succeeds.
    let (precondition, propagation) = Default::default();
    test.host.write(Write::Delete { key, precondition, propagation, grace_seconds: None }.into()).await.unwrap();
    let key = Key::new(manages.kind.clone(), if manages.namespaced { "default" } else { "" }, "a");
    test.until(&key, "is measured", |document| document["status"]["characters"] == 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_another_one_overtakes_is_reviewed_again() {
    let (seen, is_seen) = sync_channel(1);
    let (go, may_go) = sync_channel::<()>(1);
    let (may_go, first) = (Mutex::new(may_go), Mutex::new(true));
    let server = ReviewServer::start(move |path, review| {
        if std::mem::take(&mut *first.lock()) {
            seen.send(()).unwrap();
            may_go.lock().recv_timeout(Duration::from_secs(60)).unwrap();
        }
        reply(path, review)
    })
    .await;
    let test = host().await;
    let mut settings = configuration(&server, "MutatingWebhookConfiguration", "count", "");
    settings["webhooks"][0]["rules"][0]["operations"] = json!(["UPDATE"]);
    test.apply(map("a")).await;
    test.apply(settings).await;
    let key = Key::new(Kind::new("", "v1", "ConfigMap"), "default", "a");
    let patch = |name: &str| {
        let change = Change::Merge(json!({ "data": { name: "x" } }));
        Write::Patch { key: key.clone(), change, precondition: Precondition::default() }
    };
    let (host, write) = (test.host.clone(), patch("mine"));
    let mine = tokio::spawn(async move { host.write(write.into()).await });
    tokio::task::spawn_blocking(move || is_seen.recv_timeout(Duration::from_secs(60)).unwrap()).await.unwrap();
    // This one passes no webhook, as a write of the host itself.
    test.host.write_unreviewed(patch("theirs").into()).await.unwrap();
    go.send(()).unwrap();
    let written = mine.await.unwrap().unwrap().resource;
    assert_eq!(written.document()["data"], json!({ "mine": "x", "theirs": "x" }));
    assert_eq!((written.label("count"), server.reviews()), (Some("1"), 2));
}

#[tokio::test]
async fn more_configurations_than_the_bound_refuse_writes_but_not_their_own_deletion() {
    let (server, test) = (ReviewServer::start(reply).await, host().await);
    let kind = Kind::new("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration");
    let mut long = configuration(&server, "MutatingWebhookConfiguration", "admit", "none.dev");
    long["metadata"]["annotations"] = json!({ "long": "x".repeat(200_000) });
    for number in 0..43 {
        long["metadata"]["name"] = format!("long-{number}").into();
        test.apply(long.clone()).await;
    }
    let refused = test.host.apply_resource(map("a"), "me", false).await.unwrap_err().to_string();
    assert!(refused.contains("8 MiB of the kind admissionregistration.k8s.io/v1/Mutating"), "{refused}");
    loop {
        let page = test.host.store().list(&Query::all(kind.clone())).await.unwrap().items;
        for resource in &page {
            let (precondition, propagation) = Default::default();
            let write = Write::Delete { key: resource.key().clone(), precondition, propagation, grace_seconds: None };
            test.host.write(write.into()).await.unwrap();
        }
        if page.is_empty() {
            break;
        }
    }
    test.apply(map("a")).await;
}

#[tokio::test]
async fn a_service_is_not_called_and_a_collected_configuration_ends() {
    let (server, test) = (ReviewServer::start(|_, _| Reply::Failure(500)).await, host().await);
    let mut service = configuration(&server, "ValidatingWebhookConfiguration", "service", "");
    service["webhooks"][0]["clientConfig"] = json!({ "service": { "namespace": "n", "name": "s" } });
    test.apply(service).await;
    test.apply(configuration(&server, "ValidatingWebhookConfiguration", "owned", "")).await;
    let refused = test.host.apply_resource(map("a"), "me", false).await.unwrap_err().to_string();
    assert!(refused.contains("failed calling webhook \"owned.light.dev\""), "{refused}");
    // As the garbage collector deletes it, past the plug-ins.
    let key = Key::new(Kind::new("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"), "", "owned");
    let (precondition, propagation) = Default::default();
    test.host
        .store()
        .submit(Write::Delete { key, precondition, propagation, grace_seconds: None }.into())
        .await
        .unwrap();
    test.apply(map("a")).await;
}
