//! The fields that the namespace of a new pod, its service account and its runtime class give it, beside a real kube-apiserver.

use homeostat_testing::eventually_blocking;
use homeostat_tests::{Request, shared_cluster};
use regex::Regex;
use serde_json::{Value, json};

use crate::comparison::{Pair, Verdict, answer_difference, with};

const NAMESPACE: &str = "new-pods";
const APPLY: &str = "application/apply-patch+yaml";

/// Makes the namespace with its accounts, amounts and class on both. A controller of the cluster makes the first account.
fn start() -> Pair {
    let cluster = shared_cluster();
    let pair = Pair::start_beside(cluster);
    pair.make_namespace(NAMESPACE);
    let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    let body = json!({ "metadata": { "name": "default" } }).to_string();
    let made = pair.send_here(&Request {
        method: "POST",
        body: body.as_bytes(),
        content_type: "application/json",
        ..Request::get(&accounts)
    });
    assert_eq!(made.status, 201, "{made:?}");
    eventually_blocking("the cluster to make the account", || {
        (cluster.request("GET", &format!("{accounts}/default"), None).status == 200).then_some(())
    });
    let enforces = json!({ "kubernetes.io/enforce-mountable-secrets": "true" });
    for account in [
        json!({ "metadata": { "name": "silent" }, "automountServiceAccountToken": false }),
        json!({ "metadata": { "name": "pulling" }, "imagePullSecrets": [{ "name": "registry" }] }),
        json!({ "metadata": { "name": "strict", "annotations": enforces }, "secrets": [{ "name": "known" }] }),
    ] {
        let made = pair.ask("POST", &accounts, &account);
        assert_eq!(made.each_ref().map(|answer| answer.status), [201, 201], "{made:?}");
    }
    let limit = json!({ "type": "Container", "default": { "cpu": "500m" }, "defaultRequest": { "cpu": "100m" } });
    let range = json!({ "metadata": { "name": "range" }, "spec": { "limits": [limit] } });
    pair.make(&format!("/api/v1/namespaces/{NAMESPACE}/limitranges"), &range);
    let class = json!({
        "metadata": { "name": NAMESPACE }, "handler": "vm", "overhead": { "podFixed": { "cpu": "250m" } },
        "scheduling": { "nodeSelector": { "vm": "yes" } },
    });
    pair.make("/apis/node.k8s.io/v1/runtimeclasses", &class);
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All");
    eventually_blocking("both know the range", || {
        let answers = pair.ask("POST", &pods, &pod("ready", json!({})));
        answers.iter().all(|answer| answer.json()["metadata"]["annotations"].is_object()).then_some(())
    });
    pair
}

fn pod(name: &str, spec: Value) -> Value {
    let spec = with(json!({ "containers": [{ "name": "c", "image": "i" }] }), &spec);
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}

/// Pods by what is special about them.
fn pods() -> Vec<(&'static str, Value)> {
    let at_path = json!([{ "name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" }]);
    let own = json!([{ "name": "own", "emptyDir": {} }]);
    let of_strict = |secret: &str| {
        let volumes = json!([{ "name": "v", "secret": { "secretName": secret } }]);
        json!({ "serviceAccountName": "strict", "volumes": volumes })
    };
    let with_env = |secret: &str| {
        let reference = json!({ "secretKeyRef": { "name": secret, "key": "k" } });
        let container = json!({ "name": "c", "image": "i", "env": [{ "name": "V", "valueFrom": reference }] });
        json!({ "serviceAccountName": "strict", "containers": [container] })
    };
    let mut all: Vec<(&str, Value)> = [
        ("plain", json!({})),
        ("two-lists", json!({ "initContainers": [{ "name": "i", "image": "i" }] })),
        ("opted-out", json!({ "automountServiceAccountToken": false })),
        ("silent", json!({ "serviceAccountName": "silent" })),
        ("opted-in", json!({ "serviceAccountName": "silent", "automountServiceAccountToken": true })),
        ("former-field", json!({ "serviceAccount": "silent" })),
        ("missing", json!({ "serviceAccountName": "missing" })),
        ("pulling", json!({ "serviceAccountName": "pulling" })),
        ("own-pull", json!({ "serviceAccountName": "pulling", "imagePullSecrets": [{ "name": "mine" }] })),
        ("known", of_strict("known")),
        ("unknown", of_strict("unknown")),
        ("unknown-env", with_env("unknown")),
        ("strict-pull", json!({ "serviceAccountName": "strict", "imagePullSecrets": [{ "name": "mine" }] })),
        ("ephemeral", json!({ "ephemeralContainers": [{ "name": "e", "image": "i" }] })),
        (
            "own-volume",
            json!({ "volumes": own, "containers": [{ "name": "c", "image": "i", "volumeMounts": at_path }] }),
        ),
        ("own-name", json!({ "volumes": [{ "name": "kube-api-access-mine", "emptyDir": {} }] })),
        ("of-class", json!({ "runtimeClassName": NAMESPACE })),
        ("of-no-class", json!({ "runtimeClassName": "missing" })),
        (
            "own-amounts",
            json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1m" } } }] }),
        ),
    ]
    .map(|(name, spec)| (name, pod(name, spec)))
    .into();
    let mirror = json!({ "kubernetes.io/config.mirror": "x" });
    for (name, annotations, spec) in [
        ("mirror", &mirror, json!({ "nodeName": "n" })),
        ("mirror-nowhere", &mirror, json!({})),
        ("mirror-account", &mirror, json!({ "nodeName": "n", "serviceAccountName": "silent" })),
        (
            "mirror-secret",
            &mirror,
            json!({ "nodeName": "n", "volumes": [{ "name": "v", "secret": { "secretName": "s" } }] }),
        ),
        ("cheap", &json!({ "controller.kubernetes.io/pod-deletion-cost": "-1" }), json!({})),
        ("no-cost", &json!({ "controller.kubernetes.io/pod-deletion-cost": "+1" }), json!({})),
    ] {
        let mut annotated = pod(name, spec);
        annotated["metadata"]["annotations"] = annotations.clone();
        all.push((name, annotated));
    }
    all
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn new_pods_get_what_a_real_api_server_gives_them_and_nobody_owns_it() {
    let pair = start();
    let all = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let generated = Regex::new("kube-api-access-[a-z0-9]{5}\\b").unwrap();
    let mut differences = Vec::new();
    let mut compare = |what: &str, method: &str, path: &str, content_type: &str, body: &Value| {
        let body = body.to_string();
        let answers = pair.send(&Request { method, content_type, body: body.as_bytes(), ..Request::get(path) });
        let found = answer_difference(answers, &[], Some(&generated));
        differences.extend(found.map(|found| format!("{what}, {method} {path}:\n{found}")));
    };
    for (what, pod) in pods() {
        compare(what, "POST", &all, "application/json", &pod);
        let mut applied = pod;
        let name = format!("{what}-applied");
        applied["metadata"]["name"] = json!(name);
        let path = format!("{all}/{name}?fieldManager=me");
        compare(what, "PATCH", &path, APPLY, &applied);
        // The manager does not own what was added, so it does not remove it.
        compare(what, "PATCH", &path, APPLY, &applied);
        applied["spec"]["containers"][0]["image"] = json!("j");
        compare(what, "PATCH", &path, APPLY, &applied);
    }
    let mut named = pod("", json!({}));
    named["metadata"] = json!({ "generateName": "kube-api-access-" });
    compare("generated name", "POST", &all, "application/json", &named);
    for (name, value) in [
        ("kubernetes.io/config.mirror", "y"),
        ("container.apparmor.security.beta.kubernetes.io/c", "unconfined"),
        ("controller.kubernetes.io/pod-deletion-cost", "x"),
    ] {
        let patch = json!({ "metadata": { "annotations": { name: value } } });
        for pod in ["plain", "mirror"] {
            // A real server tells some causes twice.
            let [theirs, ours] = pair.ask("PATCH", &format!("{all}/{pod}"), &patch).map(|answer| Verdict::of(&answer));
            assert_eq!(theirs, ours, "{name} of {pod}");
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

/// A host runs without the controller that makes the account of each namespace.
#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_namespace_without_accounts_takes_pods_as_a_server_without_them() {
    let pair = Pair::start();
    pair.make_namespace("no-accounts");
    for (name, spec) in [("plain", json!({})), ("named", json!({ "serviceAccountName": "missing" }))] {
        pair.make("/api/v1/namespaces/no-accounts/pods", &pod(name, spec));
    }
}
