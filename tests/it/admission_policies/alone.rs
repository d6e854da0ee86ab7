//! Policies on the host alone: what a kube-apiserver does not promise, and what is of the host.

use homeostat_fixtures::memory_store;
use homeostat_runtime::{BuiltInGroups, Options};
use homeostat_store::Key;
use homeostat_tests::{TestHost, guest};
use serde_json::{Value, json};

const VERSION: &str = "admissionregistration.k8s.io/v1";

/// Starts a host with built-in kinds.
async fn host() -> TestHost {
    TestHost::with(memory_store(), |options| Options { built_in: BuiltInGroups::All, ..options }).await
}

/// Makes a policy of mutations by the fields that expressions apply, and its binding.
async fn mutate(test: &TestHost, name: &str, group: &str, resource: &str, expressions: &[&str]) {
    let mutation = |expression: &&str| json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } });
    let rule = json!({
        "operations": ["CREATE", "UPDATE"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resource],
    });
    test.apply(json!({
        "apiVersion": VERSION, "kind": "MutatingAdmissionPolicy", "metadata": { "name": name },
        "spec": {
            "reinvocationPolicy": "Never", "matchConstraints": { "resourceRules": [rule] },
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
    let trace = |letter: &str| {
        format!("Object{{data: Object.data{{trace: (has(object.data) ? object.data.trace : '') + '{letter}'}}}}")
    };
    for name in ["c", "a", "b"] {
        mutate(&test, name, "", "configmaps", &[&trace(name), &trace(&name.to_uppercase())]).await;
    }
    test.apply(map("traced")).await;
    let key = Key::new(homeostat_store::Kind::new("", "v1", "ConfigMap"), "default", "traced");
    test.until(&key, "is traced", |document| document["data"]["trace"] == "aAbBcC").await;
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
