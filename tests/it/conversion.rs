//! Conversion by a webhook or a component: with an unmodified `kubectl`, with a webhook that misbehaves, and beside a
//! real kube-apiserver.

mod component;
mod webhook;

use std::process::Stdio;

use homeostat_fixtures::memory_store;
use homeostat_runtime::{BuiltInGroups, Options};
use homeostat_store::{Key, Kind};
use homeostat_testing::{eventually, eventually_blocking, soon};
use homeostat_tests::{HostProcess, TestHost, ask_plain, guest, shared_bare_cluster};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use webhook::{Behaviour, Webhook};

use crate::kubectl::Cluster;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "sites.v1.example.com";
const BETA: &str = "sites.v1beta1.example.com";

/// Returns a definition with this storage version.
fn definition(stored: &str, conversion: &Value) -> Value {
    let version = |name: &str, fields: Value, column: &str| {
        let status = json!({ "type": "object", "properties": { "copies": { "type": "integer" } } });
        let properties = json!({ "spec": { "type": "object", "properties": fields }, "status": status });
        json!({
            "name": name, "served": true, "storage": name == stored,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } },
            "additionalPrinterColumns": [{ "name": column, "type": "string", "jsonPath": format!(".spec.{}", column.to_lowercase()) }],
            "subresources": { "status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.copies",
            } },
        })
    };
    let (text, number) = (json!({ "type": "string" }), json!({ "type": "integer" }));
    let stable = version("v1", json!({ "address": text, "replicas": number }), "Address");
    let beta = version("v1beta1", json!({ "host": text, "port": number, "replicas": number }), "Host");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "sites.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "kind": "Site", "plural": "sites" },
            "versions": [stable, beta], "conversion": conversion,
        },
    })
}

fn site(version: &str, spec: &Value) -> Value {
    json!({ "apiVersion": format!("example.com/{version}"), "kind": "Site", "metadata": { "name": "web" }, "spec": spec })
}

/// Starts a host with the kind, and a resource that is stored as `v1`.
async fn sites(webhook: &Webhook) -> Cluster {
    sites_of(TestHost::start().await, &definition("v1", &webhook.conversion())).await
}

/// Starts the API of a host with the kind of this definition, and a resource that is stored as `v1`.
pub(crate) async fn sites_of(test: TestHost, definition: &Value) -> Cluster {
    let cluster = Cluster::over(test).await;
    define(&cluster, definition).await;
    cluster.done(&["wait", "--for=condition=Established", "crd/sites.example.com"]).await;
    cluster.file("web.json", &site("v1", &json!({ "address": "a:1" })).to_string());
    cluster.done(&["create", "-f", "web.json"]).await;
    cluster
}

async fn define(cluster: &Cluster, definition: &Value) {
    cluster.file("crd.json", &definition.to_string());
    cluster.done(&["apply", "-f", "crd.json"]).await;
}

/// Waits until the definition names these stored versions.
async fn stored_versions(cluster: &Cluster, wanted: Value) {
    let are_stored = async || {
        let found = cluster.json(&["get", "crd", "sites.example.com"]).await["status"]["storedVersions"].clone();
        (found == wanted).then_some(())
    };
    eventually("the stored versions", are_stored).await;
}

async fn stored(cluster: &Cluster) -> Value {
    let key = Key::new(Kind::new("example.com", "v1", "Site"), "", "web");
    let resource = cluster.test.host.store().get_view(&key, homeostat_store::View::Metadata).await.unwrap();
    let document = resource.document();
    json!({ "apiVersion": document["apiVersion"], "spec": document["spec"] })
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_reads_and_writes_a_kind_in_every_version_by_a_webhook() {
    let webhook = Webhook::start().await;
    let cluster = sites(&webhook).await;
    reads_and_writes_in_every_version(&cluster).await;
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn admission_policies_see_a_kind_in_the_version_of_their_rules() {
    let webhook = Webhook::start().await;
    let test = TestHost::with(memory_store(), |options| Options { built_in: BuiltInGroups::All, ..options }).await;
    let cluster = sites_of(test, &definition("v1", &webhook.conversion())).await;
    let rule = json!({
        "operations": ["UPDATE"], "apiGroups": ["example.com"], "apiVersions": ["v1beta1"], "resources": ["sites"],
    });
    let constraints = json!({ "resourceRules": [rule] });
    let port = json!({ "patchType": "ApplyConfiguration", "applyConfiguration": {
        "expression": "Object{spec: Object.spec{port: object.spec.port + 1}}",
    } });
    let validation =
        json!({ "expression": "object.spec.port < 9", "messageExpression": "'port ' + string(object.spec.port)" });
    for (kind, spec, binding) in [
        (
            "MutatingAdmissionPolicy",
            json!({ "matchConstraints": constraints, "mutations": [port], "reinvocationPolicy": "Never" }),
            json!({ "policyName": "port" }),
        ),
        (
            "ValidatingAdmissionPolicy",
            json!({ "matchConstraints": constraints, "validations": [validation] }),
            json!({ "policyName": "port", "validationActions": ["Deny"] }),
        ),
    ] {
        for (kind, spec) in [(kind.to_owned(), spec), (format!("{kind}Binding"), binding)] {
            let document = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": "port" }, "spec": spec,
            });
            cluster.file("policy.json", &document.to_string());
            cluster.done(&["create", "-f", "policy.json"]).await;
        }
    }
    // Of a write in either version, the policies see the other one or the same, and the stored one is theirs.
    cluster.done(&["patch", V1, "web", "--type=merge", "-p", r#"{"spec":{"address":"b:3"}}"#]).await;
    assert_eq!(stored(&cluster).await["spec"]["address"], "b:4");
    cluster.done(&["patch", BETA, "web", "--type=merge", "-p", r#"{"spec":{"port":6}}"#]).await;
    assert_eq!(stored(&cluster).await["spec"]["address"], "b:7");
    for (kind, patch) in [(V1, r#"{"spec":{"address":"b:8"}}"#), (BETA, r#"{"spec":{"port":8}}"#)] {
        let refused = cluster.refused(&["patch", kind, "web", "--type=merge", "-p", patch]).await;
        assert!(refused.contains("denied request: port 9"), "{refused}");
    }
}

/// Makes every sort of request in both versions. `web` is stored as `v1`.
async fn reads_and_writes_in_every_version(cluster: &Cluster) {
    let spec = async |kind: &str| cluster.json(&["get", kind, "web"]).await["spec"].clone();
    assert_eq!(spec(BETA).await, json!({ "host": "a", "port": 1 }));
    assert_eq!(spec(V1).await, json!({ "address": "a:1" }));
    for (kind, heading, cell) in [(BETA, "HOST", "a"), (V1, "ADDRESS", "a:1")] {
        let table = cluster.done(&["get", kind]).await;
        assert!(
            table.contains(heading) && table.lines().nth(1).unwrap().split_whitespace().nth(1) == Some(cell),
            "{table}"
        );
    }
    let list = cluster.json(&["get", BETA, "--chunk-size=1"]).await;
    assert_eq!(list["items"][0]["spec"]["host"], "a");

    let mut watch = cluster.command(&["get", BETA, "-w", "-o", "jsonpath={.spec.port}{'\\n'}"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert_eq!(soon(lines.next_line()).await.unwrap().unwrap(), "1");
    cluster.done(&["patch", BETA, "web", "--type=merge", "-p", r#"{"spec":{"port":2}}"#]).await;
    assert_eq!(soon(lines.next_line()).await.unwrap().unwrap(), "2");
    drop(watch);

    let operation = r#"[{"op":"replace","path":"/spec/address","value":"b:3"}]"#;
    cluster.done(&["patch", V1, "web", "--type=json", "-p", operation]).await;
    assert_eq!(spec(BETA).await, json!({ "host": "b", "port": 3 }));
    cluster.file("beta.json", &site("v1beta1", &json!({ "host": "c", "port": 4 })).to_string());
    cluster.done(&["replace", "-f", "beta.json"]).await;
    assert_eq!(spec(V1).await, json!({ "address": "c:4" }));
    cluster.file("beta.json", &site("v1beta1", &json!({ "host": "d", "port": 4 })).to_string());
    cluster.done(&["apply", "-f", "beta.json"]).await;
    assert_eq!(spec(V1).await, json!({ "address": "d:4" }));
    cluster.file("beta.json", &site("v1beta1", &json!({ "host": "e" })).to_string());
    let conflict = cluster.refused(&["apply", "--server-side", "--field-manager=other", "-f", "beta.json"]).await;
    assert!(conflict.contains(".spec.host"), "{conflict}");
    cluster.done(&["apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "beta.json"]).await;
    assert_eq!(spec(V1).await, json!({ "address": "e:4" }));
    cluster.done(&["scale", BETA, "web", "--replicas=3"]).await;
    cluster
        .done(&["patch", BETA, "web", "--subresource=status", "--type=merge", "-p", r#"{"status":{"copies":2}}"#])
        .await;
    let web = cluster.json(&["get", V1, "web"]).await;
    assert_eq!((&web["spec"]["replicas"], &web["status"]["copies"]), (&json!(3), &json!(2)));
    assert_eq!(
        stored(cluster).await,
        json!({ "apiVersion": "example.com/v1", "spec": { "address": "e:4", "replicas": 3 } })
    );
    cluster.done(&["delete", BETA, "web"]).await;
    cluster.refused(&["get", V1, "web"]).await;
    cluster.done(&["create", "-f", "beta.json"]).await;
    assert_eq!(stored(cluster).await["apiVersion"], "example.com/v1");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_webhook_that_fails_holds_up_only_those_who_need_it() {
    let (webhook, stranger) = (Webhook::start().await, Webhook::start().await);
    let cluster = sites(&webhook).await;
    for (behaviour, reason) in [
        (Behaviour::Says("<html>".to_owned()), "the answer is not JSON"),
        (Behaviour::Says("x".repeat(9 << 20)), "the answer has more than 8 MiB"),
        (Behaviour::Converts(|answer| answer["response"]["uid"] = "x".into()), "expected response.uid="),
        (
            Behaviour::Converts(|answer| answer["response"]["convertedObjects"][0]["metadata"]["name"] = "x".into()),
            "must have the same name: web != x",
        ),
        (
            Behaviour::Converts(|answer| {
                answer["response"]["result"] = json!({ "status": "Failure", "message": "no port is left" });
            }),
            "conversion webhook for example.com/v1, Kind=Site failed: no port is left",
        ),
    ] {
        webhook.set(behaviour);
        let said = cluster.refused(&["get", BETA, "web"]).await;
        assert!(said.contains("Error from server: conversion webhook for example.com/v1, Kind=Site"), "{said}");
        assert!(said.contains(reason), "{said}");
        cluster.refused(&["patch", BETA, "web", "--type=merge", "-p", r#"{"spec":{"port":2}}"#]).await;
        cluster.refused(&["get", BETA]).await;
    }
    webhook.set(Behaviour::Hangs);
    let before = webhook.reviews();
    let waiting = cluster.command(&["get", BETA, "web"]).stdout(Stdio::null()).spawn().unwrap();
    eventually("the review to arrive", async || (webhook.reviews() > before).then_some(())).await;
    cluster.done(&["patch", V1, "web", "--type=merge", "-p", r#"{"spec":{"address":"a:5"}}"#]).await;
    assert_eq!(cluster.json(&["get", V1]).await["items"][0]["spec"]["address"], "a:5");
    drop(waiting);

    webhook.alters(|_| {});
    define(&cluster, &definition("v1", &stranger.conversion_with_authority_of(&webhook))).await;
    let untrusted = cluster.refused(&["get", BETA, "web"]).await;
    assert!(untrusted.contains("/convert?timeout=30s") && untrusted.contains("ertificate"), "{untrusted}");
    let conversion = stranger.conversion();
    drop(stranger);
    define(&cluster, &definition("v1", &conversion)).await;
    let away = cluster.refused(&["get", BETA, "web"]).await;
    assert!(away.contains("/convert?timeout=30s") && away.contains("refused"), "{away}");
    let service = json!({ "service": { "namespace": "n", "name": "s", "path": "/convert" } });
    let service = json!({ "conversionReviewVersions": ["v1"], "clientConfig": service });
    define(&cluster, &definition("v1", &json!({ "strategy": "Webhook", "webhook": service }))).await;
    let unresolved = cluster.refused(&["get", BETA, "web"]).await;
    assert!(
        unresolved.contains("https://s.n.svc:443/convert") && unresolved.contains("clientConfig.url"),
        "{unresolved}"
    );
    define(&cluster, &definition("v1", &webhook.conversion())).await;
    assert_eq!(cluster.json(&["get", BETA, "web"]).await["spec"], json!({ "host": "a", "port": 5 }));
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn resources_are_rewritten_in_a_new_storage_version_once_they_can_be_converted() {
    let webhook = Webhook::start().await;
    let cluster = sites(&webhook).await;
    stored_versions(&cluster, json!(["v1"])).await;
    webhook.set(Behaviour::Says(String::new()));
    define(&cluster, &definition("v1beta1", &webhook.conversion())).await;
    stored_versions(&cluster, json!(["v1", "v1beta1"])).await;
    assert_eq!(cluster.json(&["get", V1, "web"]).await["spec"], json!({ "address": "a:1" }), "it is stored so");
    cluster.refused(&["get", BETA, "web"]).await;
    let mut without = definition("v1beta1", &webhook.conversion());
    without["spec"]["versions"].as_array_mut().unwrap().remove(0);
    cluster.file("crd.json", &without.to_string());
    let refused = cluster.refused(&["apply", "-f", "crd.json"]).await;
    assert!(refused.contains("status.storedVersions[0]"), "{refused}");
    webhook.alters(|_| {});
    // A change of the definition is tried at once.
    cluster.done(&["annotate", "crd", "sites.example.com", "now=1"]).await;
    stored_versions(&cluster, json!(["v1beta1"])).await;
    let wanted = json!({ "apiVersion": "example.com/v1beta1", "spec": { "host": "a", "port": 1 } });
    assert_eq!(stored(&cluster).await, wanted);
    assert_eq!(cluster.json(&["get", V1, "web"]).await["spec"], json!({ "address": "a:1" }));
    define(&cluster, &without).await;
    cluster.refused(&["get", V1, "web"]).await;
}

#[tokio::test]
async fn a_guest_reads_and_writes_what_is_stored_in_an_older_version_by_a_conversion() {
    let (webhook, test) = (Webhook::start().await, TestHost::start().await);
    let guest = test.definition("status", &guest("guest-status")).await;
    let manages = guest.component.describe().manages.clone();
    let define = |stored: &str| {
        let version = |name: &str, field: &str| {
            let spec = json!({ "type": "object", "properties": { field: { "type": "string" } } });
            let status = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
            let schema = json!({ "type": "object", "properties": { "spec": spec, "status": status } });
            json!({
                "name": name, "served": true, "storage": name == stored, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
            })
        };
        let scope = if manages.namespaced { "Namespaced" } else { "Cluster" };
        let group = &manages.kind.group;
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{}.{group}", manages.plural) },
            "spec": {
                "group": group, "scope": scope, "names": { "kind": manages.kind.name, "plural": manages.plural },
                "versions": [version("v1", "text"), version("v1alpha1", "words")], "conversion": webhook.conversion(),
            },
        })
    };
    test.apply(define("v1alpha1")).await;
    let older = Kind::new(&manages.kind.group, "v1alpha1", &manages.kind.name);
    test.apply(json!({
        "apiVersion": older.api_version(), "kind": older.name, "metadata": { "name": "a" }, "spec": { "words": "abc" },
    }))
    .await;
    webhook.set(Behaviour::Says(String::new()));
    test.apply(define("v1")).await;
    test.host.put(guest).await.unwrap();
    // The document has no `text` before its conversion, and the guest never sees it so.
    let is_refused = async || {
        let entry = test.host.queue("status", 10).unwrap().into_iter().next()?;
        entry.last_error.filter(|error| error.contains("conversion webhook for")).map(drop)
    };
    eventually("the guest to get the error of the conversion", is_refused).await;
    webhook.alters(|_| {});
    let key = Key::new(manages.kind.clone(), if manages.namespaced { "default" } else { "" }, "a");
    let measured = test.until(&key, "is measured", |document| document["status"]["characters"] == 3).await;
    assert_eq!(measured.document()["spec"], json!({ "text": "abc" }));
    let key = Key::new(older, key.namespace(), "a");
    assert_eq!(test.get(&key).await.unwrap().document()["spec"], json!({ "words": "abc" }));
}

/// Returns a message without the random uid of its review.
fn without_uid(message: &Value) -> String {
    let message = message.as_str().unwrap_or_default();
    for (start, end) in [("response.uid=\"", "\""), ("must have the same UID: ", " != ")] {
        if let Some((before, rest)) = message.split_once(start) {
            return format!("{before}{}", rest.split_once(end).map_or(rest, |(_, rest)| rest));
        }
    }
    message.to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn answers_of_a_webhook_are_judged_as_a_real_api_server_judges_them() {
    let webhook = Webhook::start().await;
    let ask = |method: &'static str, path: String, body: Option<Value>, port: u16| {
        tokio::task::block_in_place(|| {
            let theirs = shared_bare_cluster().request(method, &path, body.as_ref());
            let ours = ask_plain(port, method, &path, body.as_ref()).unwrap();
            // With a text, which has no body here, an API server says that it does not serve a group yet.
            [theirs, ours].map(|answer| (answer.status, serde_json::from_str(&answer.text).unwrap_or_default()))
        })
    };
    let (folder, scratch) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let host =
        tokio::task::block_in_place(|| HostProcess::start_on_port("http", folder.path(), scratch.path(), &[], &[]));
    let port: u16 = host.server().rsplit_once(':').unwrap().1.parse().unwrap();
    let created = ask("POST", DEFINITIONS.to_owned(), Some(definition("v1", &webhook.conversion())), port);
    assert_eq!(created.map(|(code, _)| code), [201, 201]);
    let path = |version: &str, name: &str| format!("/apis/example.com/{version}/sites{name}");
    tokio::task::block_in_place(|| {
        let is_served = || ask("GET", path("v1", ""), None, port).iter().all(|(code, _)| *code == 200);
        eventually_blocking("both serve the kind", || is_served().then_some(()));
    });
    let made = ask("POST", path("v1", ""), Some(site("v1", &json!({ "address": "a:1" }))), port);
    assert_eq!(made.map(|(code, _)| code), [201, 201]);
    let cases: [fn(&mut Value); 15] = [
        |_| {},
        |answer| answer["response"]["result"] = json!({ "status": "Failure", "message": "no port is left" }),
        |answer| answer["response"]["result"] = json!({ "status": "Failure" }),
        |answer| answer["response"]["result"] = json!({}),
        |answer| answer["response"]["uid"] = "x".into(),
        |answer| answer["response"]["convertedObjects"] = json!([]),
        |answer| {
            let one = answer["response"]["convertedObjects"][0].clone();
            answer["response"]["convertedObjects"] = json!([one, one]);
        },
        |answer| answer["response"]["convertedObjects"][0]["apiVersion"] = "example.com/v1".into(),
        |answer| answer["response"]["convertedObjects"][0]["kind"] = "Other".into(),
        |answer| answer["response"]["convertedObjects"][0]["metadata"]["name"] = "x".into(),
        |answer| answer["response"]["convertedObjects"][0]["metadata"]["uid"] = "x".into(),
        |answer| answer["response"]["convertedObjects"][0]["metadata"]["namespace"] = "x".into(),
        |answer| answer["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({ "a": 1 }),
        |answer| answer["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({ "a": "b" }),
        |answer| answer["response"]["convertedObjects"][0]["spec"]["unknown"] = json!(1),
    ];
    for (number, change) in cases.into_iter().enumerate() {
        webhook.alters(change);
        let [theirs, ours] = ask("GET", path("v1beta1", "/web"), None, port);
        let shown = |body: &Value| [body["spec"].clone(), body["metadata"]["labels"].clone()];
        let compared = |(code, body): &(u16, Value)| (*code, without_uid(&body["message"]), shown(body));
        assert_eq!(compared(&theirs), compared(&ours), "case {number}: theirs is left");
        // A new revision, so that nothing of it is cached.
        webhook.alters(|_| {});
        let address = json!({ "spec": { "address": format!("a:{}", number + 2) } });
        let mut current = ask("GET", path("v1", "/web"), None, port);
        for (_, document) in &mut current {
            document["spec"] = address["spec"].clone();
        }
        let [(_, theirs), (_, ours)] = current;
        let codes = tokio::task::block_in_place(|| {
            let path = path("v1", "/web");
            let theirs = shared_bare_cluster().request("PUT", &path, Some(&theirs));
            let ours = ask_plain(port, "PUT", &path, Some(&ours)).unwrap();
            [theirs.status, ours.status]
        });
        assert_eq!(codes, [200, 200]);
    }
}
