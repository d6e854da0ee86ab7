//! What is sent to both servers. Each case has a namespace of its own, in which its webhooks alone are called.

use serde_json::{Value, json};

use super::webhook::{Webhook, mutating, validating};

/// Webhooks, and the requests that both servers get.
pub(super) struct Case {
    pub(super) what: String,
    pub(super) webhooks: Vec<Webhook>,
    pub(super) requests: Vec<Sent>,
}

/// A request, mostly for lamps.
pub(super) struct Sent {
    pub(super) method: &'static str,
    /// The path of all resources, with `CASE` for the namespace.
    pub(super) collection: &'static str,
    /// The rest of the path.
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: Value,
}

const LAMPS: &str = "/apis/light.dev/v1/namespaces/CASE/lamps";
const BETA_LAMPS: &str = "/apis/light.dev/v1beta1/namespaces/CASE/lamps";
const PODS: &str = "/api/v1/namespaces/CASE/pods";
const NAMESPACE: &str = "/api/v1/namespaces/CASE";

const JSON: &str = "application/json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const PATCH: &str = "application/json-patch+json";

fn send(method: &'static str, path: &str, content_type: &'static str, body: Value) -> Sent {
    Sent { method, collection: LAMPS, path: path.to_owned(), content_type, body }
}

fn lamp(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "light.dev/v1", "kind": "Lamp", "metadata": { "name": name }, "spec": spec })
}

fn red(name: &str) -> Value {
    lamp(name, json!({ "color": "red" }))
}

fn create(document: Value) -> Sent {
    send("POST", "", JSON, document)
}

fn patch(path: &str, change: Value) -> Sent {
    send("PATCH", path, MERGE, change)
}

fn delete(path: &str) -> Sent {
    send("DELETE", path, JSON, json!({}))
}

/// Writes of all sorts.
pub(super) fn writes() -> Case {
    let beta = json!({
        "apiVersion": "light.dev/v1beta1", "kind": "Lamp", "metadata": { "name": "beta" }, "spec": {},
    });
    let requests = vec![
        create(lamp("one", json!({}))),
        send("POST", "?dryRun=All", JSON, lamp("two", json!({}))),
        Sent { collection: BETA_LAMPS, ..create(beta) },
        create(lamp("bad", json!({ "watts": 200 }))),
        patch("/one", json!({ "spec": { "watts": 7 } })),
        patch("/one", json!({ "spec": { "watts": 7 } })),
        send("PATCH", "/one", PATCH, json!([{ "op": "add", "path": "/spec/watts", "value": 8 }])),
        send("PATCH", "/one?fieldManager=person&force=true", APPLY, lamp("one", json!({ "watts": 9 }))),
        send("PATCH", "/three?fieldManager=person", APPLY, lamp("three", json!({ "watts": 9 }))),
        patch("/one/status", json!({ "status": { "lit": true } })),
        patch("/one", json!({ "metadata": { "labels": { "a": "b" } } })),
        patch("/one", json!({ "metadata": { "finalizers": ["light.dev/held"] } })),
        delete("/one"),
        patch("/one", json!({ "metadata": { "finalizers": null } })),
        delete("/one"),
        patch("/one", json!({ "spec": { "watts": 7 } })),
    ];
    Case { what: "writes".to_owned(), webhooks: vec![mutating("color"), validating("admit")], requests }
}

/// Replies that are wrong, refuse, or change what cannot be.
pub(super) fn replies() -> impl Iterator<Item = Case> {
    const PATHS: [&str; 24] = [
        "html",
        "failure",
        "absent",
        "stranger",
        "other-kind",
        "other-version",
        "impossible",
        "untyped-patch",
        "typed-nothing",
        "other-type",
        "undecodable",
        "unreadable",
        "empty-patch",
        "deny",
        "deny-silently",
        "deny-with-reason",
        "deny-with-details",
        "unknown-field",
        "too-bright",
        "status",
        "no-change",
        "warn",
        "rename",
        "admit",
    ];
    let of_path = |path: &'static str| {
        [mutating(path), validating(path)].map(|webhook| {
            let change = patch("/one", json!({ "spec": { "watts": 1 } }));
            let what = format!("{path} of {}", webhook.plural());
            Case { what, webhooks: vec![webhook], requests: vec![create(red("one")), change, delete("/one")] }
        })
    };
    PATHS.into_iter().flat_map(of_path)
}

/// Returns a rule for a resource.
fn rule(operation: &str, resource: &str, scope: &str) -> Value {
    json!({ "rules": [{
        "operations": [operation], "apiGroups": ["light.dev"], "apiVersions": ["v1"], "resources": [resource], "scope": scope,
    }] })
}

fn selected(selector: Value) -> Value {
    json!({ "objectSelector": selector })
}

/// Returns a selector of namespaces. `CASE` is replaced.
fn inside(dark: &str) -> Value {
    json!({ "namespaceSelector": { "matchLabels": { "case": "CASE", "dark": dark } } })
}

fn conditions(expressions: &[&str]) -> Value {
    let condition = |(at, text): (usize, &&str)| json!({ "name": format!("c{at}"), "expression": text });
    json!({ "matchConditions": expressions.iter().enumerate().map(condition).collect::<Vec<_>>() })
}

/// Writes that match by rules, selectors and conditions, or do not.
pub(super) fn matches() -> impl Iterator<Item = Case> {
    let other_version =
        json!([{ "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["v1beta1"], "resources": ["lamps"] }]);
    let mut ignored = conditions(&["object.spec.none == 'x'"]);
    ignored["failurePolicy"] = "Ignore".into();
    let changes = [
        rule("CREATE", "lamps", "*"),
        rule("UPDATE", "lamps", "Namespaced"),
        rule("UPDATE", "lamps/status", "*"),
        rule("*", "*/status", "*"),
        rule("*", "lamps/*", "*"),
        rule("*", "lamps", "Cluster"),
        rule("DELETE", "*", "*"),
        json!({ "rules": other_version }),
        json!({ "rules": other_version, "matchPolicy": "Exact" }),
        selected(json!({ "matchLabels": { "a": "b" } })),
        selected(json!({ "matchExpressions": [{ "key": "a", "operator": "NotIn", "values": ["b"] }] })),
        selected(json!({ "matchExpressions": [{ "key": "a", "operator": "Exists" }] })),
        inside("yes"),
        inside("no"),
        conditions(&["object.spec.color == 'red'"]),
        conditions(&["has(object.spec.color)", "request.operation != 'DELETE'"]),
        conditions(&["object.spec.none == 'x'"]),
        conditions(&["object.spec.none == 'x'", "object.spec.other == 'x'"]),
        conditions(&["object.spec.none == 'x'", "request.operation == 'CREATE'"]),
        ignored,
        conditions(&["oldObject == null || oldObject.spec.watts == 5"]),
        conditions(&["request.userInfo.username.size() > 0 && request.dryRun == false && request.name != ''"]),
        conditions(&["object != null && object.metadata.name.startsWith('o') && request.resource.resource == 'lamps'"]),
    ];
    let of_change = |change: Value| {
        [mutating("count"), validating("warn")].map(|webhook| {
            let requests = vec![
                create(red("one")),
                patch("/one", json!({ "spec": { "watts": 1 }, "metadata": { "labels": { "a": "b" } } })),
                patch("/one/status", json!({ "status": { "lit": true } })),
                delete("/one"),
            ];
            let what = format!("{change} of {}", webhook.plural());
            Case { what, webhooks: vec![webhook.with(&change)], requests }
        })
    };
    changes.into_iter().flat_map(of_change)
}

/// Failures, dry runs and versions of reviews.
pub(super) fn policies() -> impl Iterator<Item = Case> {
    let nowhere = json!({ "url": "https://127.0.0.1:1/none" });
    let changes = [
        ("html", json!({ "failurePolicy": "Ignore" })),
        ("silence", json!({ "failurePolicy": "Ignore", "timeoutSeconds": 1 })),
        ("silence", json!({ "failurePolicy": "Fail", "timeoutSeconds": 1 })),
        ("deny", json!({ "failurePolicy": "Ignore" })),
        ("count", json!({ "sideEffects": "NoneOnDryRun" })),
        ("count", json!({ "admissionReviewVersions": ["v2", "v1beta1", "v1"] })),
        ("stranger", json!({ "admissionReviewVersions": ["v1beta1"] })),
        ("other-version", json!({ "admissionReviewVersions": ["v1beta1"] })),
        ("untyped-patch", json!({ "admissionReviewVersions": ["v1beta1"] })),
        ("count", json!({ "clientConfig": nowhere, "failurePolicy": "Ignore" })),
        ("count", json!({ "clientConfig": nowhere })),
    ];
    let of_change = |(path, change): (&'static str, Value)| {
        [mutating(path), validating(path)].map(|webhook| {
            let requests = vec![create(red("one")), send("POST", "?dryRun=All", JSON, red("dry"))];
            let what = format!("{change} of {} at {path}", webhook.plural());
            Case { what, webhooks: vec![webhook.with(&change)], requests }
        })
    };
    changes.into_iter().flat_map(of_change)
}

/// Several webhooks, one after the other, and again.
pub(super) fn orders() -> impl Iterator<Item = Case> {
    let again = |path| mutating(path).with(&json!({ "reinvocationPolicy": "IfNeeded" }));
    let orders = [
        [again("count"), mutating("count-too"), validating("warn")],
        [mutating("count"), again("count-too"), validating("admit")],
        [again("count"), mutating("admit"), again("count-too")],
        [again("count"), again("count-too"), mutating("deny")],
        [mutating("warn"), validating("warn"), mutating("count")],
        [mutating("warn"), validating("deny"), mutating("count")],
        [mutating("warn"), mutating("too-bright"), validating("admit")],
    ];
    orders.into_iter().enumerate().map(|(number, webhooks)| {
        let requests = vec![create(red("one")), patch("/one", json!({ "spec": { "watts": 1 } }))];
        Case { what: format!("order {number}"), webhooks: webhooks.into(), requests }
    })
}

/// Parts of pods, and the finalizers of a namespace.
pub(super) fn parts() -> impl Iterator<Item = Case> {
    let parts = json!(["pods/ephemeralcontainers", "pods/resize", "pods/status"]);
    let all = [
        (mutating("warn"), parts.clone()),
        (validating("warn"), json!(["pods/*", "namespaces/*"])),
        (validating("warn"), json!(["pods", "namespaces"])),
        (validating("deny"), parts),
        (validating("deny"), json!(["namespaces/finalize"])),
    ];
    all.into_iter().map(|(webhook, resources)| {
        let rule = json!({ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources });
        let what = format!("{resources} of {}", webhook.plural());
        Case { what, webhooks: vec![webhook.with(&json!({ "rules": [rule] }))], requests: changes_of_parts() }
    })
}

fn changes_of_parts() -> Vec<Sent> {
    let container = |cpu: &str| json!({ "name": "c", "image": "a:1", "resources": { "requests": { "cpu": cpu } } });
    let part = |name: &str, change: Value| Sent {
        collection: PODS,
        ..send("PATCH", &format!("/one/{name}"), STRATEGIC, json!({ "spec": change }))
    };
    // This document is the whole new namespace.
    let labels = json!({ "case": "CASE", "dark": "yes", "kubernetes.io/metadata.name": "CASE" });
    let finalized = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "CASE", "labels": labels },
        "spec": { "finalizers": ["kubernetes", "light.dev/held"] },
    });
    let pod = json!({ "metadata": { "name": "one" }, "spec": { "containers": [container("100m")] } });
    vec![
        Sent { collection: PODS, ..create(pod) },
        part("ephemeralcontainers", json!({ "ephemeralContainers": [{ "name": "look", "image": "b:1" }] })),
        part("resize", json!({ "containers": [container("200m")] })),
        part("status", json!({})),
        Sent { collection: NAMESPACE, ..send("PUT", "/finalize", JSON, finalized) },
    ]
}

/// A webhook of each kind that refuses: once both servers call it, they know the others.
pub(super) fn probes() -> [Case; 2] {
    [mutating("deny"), validating("deny")].map(|webhook| Case {
        what: "probe".to_owned(),
        webhooks: vec![webhook],
        requests: Vec::new(),
    })
}
