//! Policies on the host alone: what a kube-apiserver does not promise, and what is of the host.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_fixtures::memory_store;
use homeostat_runtime::{BuiltInGroups, Options};
use homeostat_store::Key;
use homeostat_tests::{TestHost, guest};
use serde_json::{Value, json};

use crate::review_server::{Reply, ReviewServer};

const VERSION: &str = "admissionregistration.k8s.io/v1";

/// Starts a host with built-in kinds.
async fn host() -> TestHost {
    TestHost::with(memory_store(), |options| Options { built_in: BuiltInGroups::All, ..options }).await
}

/// Makes a policy of mutations by the fields that expressions apply, and its binding. It is called once.
async fn mutate(test: &TestHost, name: &str, group: &str, resource: &str, expressions: &[&str]) {
    mutate_again(test, name, group, resource, expressions, "Never").await;
}

/// As [`mutate`], with a `reinvocationPolicy`.
async fn mutate_again(
    test: &TestHost,
    name: &str,
    group: &str,
    resource: &str,
    expressions: &[&str],
    reinvocation: &str,
) {
    let mutation = |expression: &&str| json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } });
    let rule = json!({
        "operations": ["CREATE", "UPDATE"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resource],
    });
    test.apply(json!({
        "apiVersion": VERSION, "kind": "MutatingAdmissionPolicy", "metadata": { "name": name },
        "spec": {
            "reinvocationPolicy": reinvocation, "matchConstraints": { "resourceRules": [rule] },
            "mutations": expressions.iter().map(mutation).collect::<Vec<_>>(),
        },
    }))
    .await;
    test.apply(json!({
        "apiVersion": VERSION, "kind": "MutatingAdmissionPolicyBinding", "metadata": { "name": name },
        "spec": { "policyName": name },
    }))
    .await;
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "default" } })
}

#[tokio::test]
async fn policies_act_in_the_order_of_their_names() {
    let test = host().await;
    for name in ["c", "a", "b"] {
        mutate(&test, name, "", "configmaps", &[&trace(name), &trace(&name.to_uppercase())]).await;
    }
    test.apply(map("traced")).await;
    let key = Key::new(homeostat_store::Kind::new("", "v1", "ConfigMap"), "default", "traced");
    test.until(&key, "is traced", |document| document["data"]["trace"] == "aAbBcC").await;
}

/// Returns an expression that adds a letter to the trace of a config map.
fn trace(letter: &str) -> String {
    format!("Object{{data: Object.data{{trace: (has(object.data) ? object.data.trace : '') + '{letter}'}}}}")
}

/// Replies to a review with a patch that adds `w` to the trace of a config map.
fn traced(_path: &str, review: &Value) -> Reply {
    let trace = review["request"]["object"]["data"]["trace"].as_str().unwrap_or_default();
    let patch = json!([{ "op": "add", "path": "/data", "value": { "trace": format!("{trace}w") } }]);
    Reply::Review(json!({
        "apiVersion": review["apiVersion"], "kind": review["kind"],
        "response": {
            "uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch",
            "patch": STANDARD.encode(patch.to_string()),
        },
    }))
}

/// A policy comes before a webhook. Each of them is called again if it asks for it and the other one changes the document.
#[tokio::test]
async fn policies_and_webhooks_see_what_the_others_change() {
    let (server, test) = (ReviewServer::start(traced).await, host().await);
    let key = |name: &str| Key::new(homeostat_store::Kind::new("", "v1", "ConfigMap"), "default", name);
    for (name, of_policy, of_webhook, wanted) in [
        ("once", "Never", "Never", "pw"),
        ("policy-again", "IfNeeded", "Never", "pwp"),
        ("webhook-again", "Never", "IfNeeded", "pw"),
        ("both-again", "IfNeeded", "IfNeeded", "pwpw"),
    ] {
        mutate_again(&test, "trace", "", "configmaps", &[&trace("p")], of_policy).await;
        test.apply(json!({
            "apiVersion": VERSION, "kind": "MutatingWebhookConfiguration", "metadata": { "name": "trace" },
            "webhooks": [{
                "name": "trace.light.dev", "clientConfig": server.client_config("trace"), "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "reinvocationPolicy": of_webhook,
                "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] }],
            }],
        }))
        .await;
        test.apply(map(name)).await;
        let found = test.host.store().get_live(&key(name)).await.unwrap();
        assert_eq!(found.document()["data"]["trace"], wanted, "{name}");
    }
}

#[tokio::test]
async fn the_status_of_a_guest_is_mutated() {
    let test = host().await;
    let guest = test.definition("status", &guest("guest-status")).await;
    let manages = guest.component.describe().manages.clone();
    test.host.put(guest).await.unwrap();
    let expression = "Object{status: Object.status{characters: object.status.characters + 39}}";
    mutate(&test, "more", &manages.kind.group, "*/status", &[expression]).await;
    test.apply(json!({
        "apiVersion": manages.kind.api_version(), "kind": manages.kind.name, "metadata": { "name": "a" },
        "spec": { "text": "abc" },
    }))
    .await;
    let key = Key::new(manages.kind.clone(), if manages.namespaced { "default" } else { "" }, "a");
    test.until(&key, "is measured", |document| document["status"]["characters"] == 42).await;
}

#[tokio::test]
async fn variables_that_use_each_other_without_end_are_refused() {
    let test = host().await;
    let variable = |at: usize| json!({ "name": format!("v{at}"), "expression": format!("[variables.v{}]", at - 1) });
    let variables = std::iter::once(json!({ "name": "v0", "expression": "1" })).chain((1..1_000).map(variable));
    let rule =
        json!({ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] });
    let policy = json!({
        "apiVersion": VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": { "name": "deep" },
        "spec": {
            "matchConstraints": { "resourceRules": [rule] }, "variables": variables.collect::<Vec<_>>(),
            "validations": [{ "expression": "variables.v999 == variables.v999" }],
        },
    });
    let refused = format!("{:?}", test.host.apply_resource(policy, "me", false).await.unwrap_err());
    assert!(refused.contains("nested deeper than 250 levels with its variables"), "{refused}");
}
