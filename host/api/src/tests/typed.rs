//! Built-in kinds and definitions, as clients see them that have a type for each.

use super::*;

/// A request for a certificate that is as long as it says: PEM of an empty sequence, in base64.
const CERTIFICATE_REQUEST: &str =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUFBPQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const MERGE: &str = "application/merge-patch+json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn accepting(server: &Server, path: &str, accept: &str) -> (u16, String, Vec<u8>) {
    let response = server.send("GET", path, accept, "").await;
    let code = response.status().as_u16();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    (code, kind, response.into_body().collect().await.unwrap().to_bytes().to_vec())
}

fn definition() -> Value {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.demo.dev" },
        "spec": {
            "group": "demo.dev", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "my-Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

#[tokio::test]
async fn the_items_of_a_list_have_no_kind() {
    let server = Server::with_built_in().await;
    server.ask("POST", CONFIG_MAPS, &json!({ "metadata": { "name": "a" }, "data": { "k": "v" } })).await;
    let list = server.get(CONFIG_MAPS).await;
    assert_eq!((&list["kind"], &list["items"][0]["data"]), (&json!("ConfigMapList"), &json!({ "k": "v" })));
    assert_eq!((&list["items"][0]["kind"], &list["items"][0]["apiVersion"]), (&Value::Null, &Value::Null));
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/a")).await["kind"], "ConfigMap");
}

#[tokio::test]
async fn definitions_and_the_metadata_of_each_kind_are_read_and_written_in_protobuf() {
    let server = Server::with_built_in().await;
    let encoded = homeostat_builtin::protobuf::encode(&definition()).unwrap();
    assert_eq!(server.send_bytes("POST", DEFINITIONS, PROTOBUF, encoded.into()).await.status(), 201);
    let (code, kind, body) = accepting(&server, &format!("{DEFINITIONS}/widgets.demo.dev"), PROTOBUF).await;
    assert_eq!((code, kind.as_str()), (200, PROTOBUF));
    assert_eq!(homeostat_builtin::protobuf::decode(&body).unwrap()["spec"]["names"]["kind"], "my-Widget");
    let widgets = "/apis/demo.dev/v1/namespaces/default/widgets";
    let widget = json!({ "apiVersion": "demo.dev/v1", "kind": "my-Widget", "metadata": { "name": "w" }, "a": "b" });
    assert_eq!(server.ask("POST", widgets, &widget).await.code, 201);
    let metadata = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let (code, _, body) = accepting(&server, &format!("{widgets}/w"), &metadata).await;
    let decoded = homeostat_builtin::protobuf::decode(&body).unwrap();
    assert_eq!((code, &decoded["kind"], &decoded["a"]), (200, &json!("PartialObjectMetadata"), &Value::Null));
    assert_eq!(decoded["metadata"]["name"], "w");
    assert_eq!(accepting(&server, &format!("{widgets}/w"), PROTOBUF).await.0, 406);
}

#[tokio::test]
async fn lists_come_in_protobuf() {
    let server = Server::with_built_in().await;
    let map = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } });
    assert_eq!(server.ask("POST", CONFIG_MAPS, &map).await.code, 201);
    let (code, kind, body) = accepting(&server, CONFIG_MAPS, PROTOBUF).await;
    let list = server.get(CONFIG_MAPS).await;
    assert_eq!((code, kind.as_str(), &list["items"][0]["data"]), (200, PROTOBUF, &json!({ "k": "v" })));
    assert_eq!(body, homeostat_builtin::protobuf::encode(&list).unwrap());
}

/// Sends a request that accepts protobuf, and else JSON. Returns the code, and the document if it is protobuf.
async fn in_protobuf(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let types = ["application/json", &format!("{PROTOBUF},application/json")];
    let response = server.send_accepting(method, path, types, body).await;
    let (code, media) = (response.status().as_u16(), response.headers()["content-type"].clone());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(media, PROTOBUF, "{method} {path}: {}", String::from_utf8_lossy(&body));
    (code, homeostat_builtin::protobuf::decode(&body).unwrap())
}

#[tokio::test]
async fn each_status_comes_in_protobuf_to_who_prefers_it() {
    let server = Server::with_built_in().await;
    let missing = format!("{CONFIG_MAPS}/missing");
    let (code, refusal) = in_protobuf(&server, "GET", &missing, &Value::Null).await;
    assert_eq!((code, &refusal), (404, &server.ask("GET", &missing, &Value::Null).await.body));
    let (code, refusal) = in_protobuf(&server, "GET", "/api/v1/strangers", &Value::Null).await;
    assert_eq!((code, &refusal["kind"], &refusal["reason"]), (404, &json!("Status"), &json!("NotFound")));
    let bad = json!({ "metadata": { "name": "UPPER" } });
    let (code, refusal) = in_protobuf(&server, "POST", CONFIG_MAPS, &bad).await;
    assert_eq!((code, &refusal["details"]["causes"][0]["field"]), (422, &json!("metadata.name")));
    server.ask("POST", CONFIG_MAPS, &json!({ "metadata": { "name": "a" } })).await;
    let (code, deleted) = in_protobuf(&server, "DELETE", &format!("{CONFIG_MAPS}/a"), &Value::Null).await;
    assert_eq!((code, &deleted["status"], &deleted["details"]["name"]), (200, &json!("Success"), &json!("a")));
}

#[tokio::test]
async fn a_scale_comes_in_protobuf() {
    let server = Server::with_built_in().await;
    let pod = json!({ "containers": [{ "name": "c", "image": "i" }] });
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": pod });
    let expressions = json!([
        { "key": "tier", "operator": "DoesNotExist" }, { "key": "app", "operator": "In", "values": ["web", "api"] },
    ]);
    let selector = json!({ "matchLabels": { "app": "web" }, "matchExpressions": expressions });
    let spec = json!({ "replicas": 2, "selector": selector, "template": template });
    let deployment = json!({ "metadata": { "name": "web" }, "spec": spec });
    assert_eq!(server.ask("POST", DEPLOYMENTS, &deployment).await.code, 201);
    let path = format!("{DEPLOYMENTS}/web/scale");
    let (code, scale) = in_protobuf(&server, "GET", &path, &Value::Null).await;
    assert_eq!((code, &scale["kind"], &scale["spec"]["replicas"]), (200, &json!("Scale"), &json!(2)));
    assert_eq!(scale["status"]["selector"], "app=web,app in (api,web),!tier");
}

#[tokio::test]
async fn a_read_sets_the_defaults_that_a_definition_has_now() {
    let server = Server::with_built_in().await;
    server.ask("POST", DEFINITIONS, &definition()).await;
    let widgets = "/apis/demo.dev/v1/namespaces/default/widgets";
    let widget = |name: &str| json!({ "apiVersion": "demo.dev/v1", "kind": "my-Widget", "metadata": { "name": name } });
    server.ask("POST", widgets, &widget("old")).await;
    let patch = r#"[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/a/default","value":"A"}]"#;
    let path = format!("{DEFINITIONS}/widgets.demo.dev");
    let patched = server.send("PATCH", &path, "application/json-patch+json", patch).await;
    assert_eq!(patched.status(), 200);
    server.ask("POST", widgets, &widget("new")).await;
    for name in ["old", "new"] {
        assert_eq!(server.get(&format!("{widgets}/{name}")).await["a"], "A", "{name}");
    }
    // A write of the metadata alone stores no default, and its answer shows it.
    let labelled = server.send("PATCH", &format!("{widgets}/old"), MERGE, r#"{"metadata":{"labels":{"x":"y"}}}"#).await;
    assert_eq!(answer(labelled).await.body["a"], "A");
    let list = server.get(widgets).await;
    assert!(list["items"].as_array().unwrap().iter().all(|widget| widget["a"] == "A"), "{list}");
}

#[tokio::test]
async fn a_write_of_the_status_of_a_built_in_kind_changes_annotations_too() {
    let server = Server::with_built_in().await;
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } });
    server.ask("POST", JOBS, &json!({ "metadata": { "name": "j" }, "spec": { "template": template } })).await;
    let patch = json!({ "metadata": { "annotations": { "a": "1" } }, "spec": { "parallelism": 7 } }).to_string();
    let path = format!("{JOBS}/j/status");
    let patched = answer(server.send("PATCH", &path, MERGE, &patch).await).await;
    assert_eq!(
        (&patched.body["metadata"]["annotations"]["a"], &patched.body["spec"]["parallelism"]),
        (&json!("1"), &json!(1))
    );
    let mut document = patched.body;
    document["metadata"]["annotations"] = json!({ "b": "2" });
    document["status"]["active"] = 3.into();
    let updated = server.ask("PUT", &path, &document).await;
    assert_eq!(updated.body["metadata"]["annotations"], json!({ "b": "2" }), "{}", updated.body);
    assert_eq!(updated.body["status"]["active"], 3);
    // The revision of the document is a precondition.
    assert_eq!(server.ask("PUT", &path, &document).await.code, 409);
}

#[tokio::test]
async fn a_deleted_job_leaves_its_pods_unless_the_client_says_otherwise() {
    let server = Server::with_built_in().await;
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } });
    for (name, body, waits) in [("a", json!({}), true), ("b", json!({ "propagationPolicy": "Background" }), false)] {
        let job =
            json!({ "metadata": { "name": name, "finalizers": ["demo.dev/wait"] }, "spec": { "template": template } });
        server.ask("POST", JOBS, &job).await;
        let deleted = server.ask("DELETE", &format!("{JOBS}/{name}"), &body).await;
        let finalizers = deleted.body["metadata"]["finalizers"].as_array().unwrap();
        assert_eq!(finalizers.contains(&json!("orphan")), waits, "{}", deleted.body);
    }
}

#[tokio::test]
async fn a_certificate_is_approved_by_its_own_path() {
    let server = Server::with_built_in().await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let spec = json!({ "request": CERTIFICATE_REQUEST, "signerName": "demo.dev/s", "usages": ["client auth"] });
    let created = server.ask("POST", requests, &json!({ "metadata": { "name": "system:node:a" }, "spec": spec })).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let path = format!("{requests}/system:node:a/approval");
    let mut document = server.get(&path).await;
    let condition = json!({ "type": "Approved", "status": "True", "reason": "Because", "message": "" });
    document["status"] = json!({ "certificate": "YQ==", "conditions": [condition] });
    let approved = server.ask("PUT", &path, &document).await;
    assert_eq!(approved.body["status"]["conditions"][0]["type"], "Approved", "{}", approved.body);
    assert_eq!(approved.body["status"]["certificate"], Value::Null);
    let patch = json!({ "status": { "certificate": "YQ==" } }).to_string();
    let patched = answer(server.send("PATCH", &path, MERGE, &patch).await).await;
    assert_eq!((patched.code, &patched.body["status"]["certificate"]), (200, &Value::Null), "{}", patched.body);
    // The status has the certificate, and keeps the verdict.
    let status = format!("{requests}/system:node:a/status");
    let patch = json!({ "status": { "certificate": "YQ==", "conditions": null } }).to_string();
    let issued = answer(server.send("PATCH", &status, MERGE, &patch).await).await;
    assert_eq!(issued.body["status"]["certificate"], "YQ==", "{}", issued.body);
    assert_eq!(issued.body["status"]["conditions"][0]["type"], "Approved");
    // Clients in other languages than Go escape the colon.
    assert_eq!(server.get(&format!("{requests}/system%3Anode%3Aa")).await["metadata"]["name"], "system:node:a");
    assert_eq!(server.ask("GET", &format!("{requests}/system%2Fnode"), &Value::Null).await.code, 404);
}

#[tokio::test]
async fn an_invalid_timeout_is_refused_and_a_short_one_is_kept() {
    let server = Server::with_built_in().await;
    let refused = server.ask("GET", "/version?timeout=soon", &Value::Null).await;
    let words = "invalid timeout specified in the request URL - time: invalid duration \"soon\"";
    assert_eq!((refused.code, &refused.body["message"]), (400, &json!(words)));
    for fine in ["0s", "1m30s", "100h"] {
        assert_eq!(server.ask("GET", &format!("/version?timeout={fine}"), &Value::Null).await.code, 200);
    }
}

#[tokio::test]
async fn yaml_within_braces_has_tabs_and_a_duplicate_key_has_its_line() {
    let server = Server::with_built_in().await;
    let apply = "application/apply-patch+yaml";
    let path = format!("{CONFIG_MAPS}/a?fieldManager=m");
    let body = "{\n\t\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n\t\"data\": {\"k\": \"v\",},\n}";
    assert_eq!(server.send("PATCH", &path, apply, body).await.status(), 201);
    let tab = "apiVersion: v1\nkind: ConfigMap\ndata:\n\tk: v\n";
    assert_eq!(server.send("PATCH", &path, apply, tab).await.status(), 400);
    let twice = "apiVersion: v1\nkind: ConfigMap\ndata:\n  k: v\n  k: w\n";
    let refused = answer(server.send("PATCH", &path, apply, twice).await).await;
    assert_eq!(refused.body["message"], "error decoding YAML: line 5: key \"k\" already set in map");
}

#[tokio::test]
async fn a_number_in_yaml_that_begins_with_zero_is_octal() {
    let server = Server::with_built_in().await;
    let path = "/api/v1/namespaces/default/pods/a?fieldManager=m";
    let body = "apiVersion: v1\nkind: Pod\nspec:\n  containers: [{name: c, image: i}]\n  volumes:\n  - name: v\n    \
                secret: {secretName: s, defaultMode: 0400}\n";
    let response = server.send("PATCH", path, "application/apply-patch+yaml", body).await;
    let applied = answer(response).await;
    assert_eq!((applied.code, &applied.body["spec"]["volumes"][0]["secret"]["defaultMode"]), (201, &json!(0o400)));
}

#[tokio::test]
async fn what_the_host_does_not_act_on_is_stored_with_a_warning() {
    let server = Server::with_built_in().await;
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": "v1.demo.dev" },
        "spec": { "group": "demo.dev", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1 },
    });
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let response = server.send("POST", path, "application/json", &service.to_string()).await;
    let warning = response.headers()["warning"].to_str().unwrap();
    assert_eq!(warning, "299 - \"APIService.apiregistration.k8s.io is stored, and does not act on this host\"");
    assert_eq!(response.status(), 201);
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": { "name": "a" },
        "spec": { "priorityLevelConfiguration": { "name": "exempt" } },
    });
    let path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    let response = server.send("POST", path, "application/json", &schema.to_string()).await;
    let warning = response.headers()["warning"].to_str().unwrap();
    assert_eq!(warning, "299 - \"FlowSchema.flowcontrol.apiserver.k8s.io is stored, and does not act on this host\"");
    let hooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "a" },
        "webhooks": [{
            "name": "a.demo.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": { "name": "s", "namespace": "n" } },
        }],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let response = server.send("POST", path, "application/json", &hooks.to_string()).await;
    let warning = response.headers()["warning"].to_str().unwrap();
    assert!(warning.contains("webhooks[0].clientConfig.service: this host calls no services"), "{warning}");
}

#[tokio::test]
async fn writes_and_deletions_warn_as_an_api_server_does() {
    let server = Server::with_built_in().await;
    let warnings = |headers: &axum::http::HeaderMap| -> Vec<String> {
        let values = headers.get_all("warning").iter();
        values.map(|warning| warning.to_str().unwrap().to_owned()).collect()
    };
    let service = json!({
        "metadata": { "name": "a" }, "b": 1,
        "spec": { "ports": [{ "port": 80 }], "trafficDistribution": "PreferClose", "a": 1 },
    });
    let path = "/api/v1/namespaces/default/services";
    let response = server.send("POST", path, "application/json", &service.to_string()).await;
    let expected = [
        r#"299 - "unknown field \"b\"""#,
        r#"299 - "unknown field \"spec.a\"""#,
        r#"299 - "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"""#,
    ];
    assert_eq!((response.status().as_u16(), warnings(response.headers())), (201, expected.map(str::to_owned).to_vec()));
    let refused = json!({ "metadata": { "name": "b" }, "spec": { "ports": [{ "prot": 80 }] } });
    let response = server.send("POST", path, "application/json", &refused.to_string()).await;
    let expected = vec![r#"299 - "unknown field \"spec.ports[0].prot\"""#.to_owned()];
    assert_eq!((response.status().as_u16(), warnings(response.headers())), (422, expected));
    let pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "imag": "i" }] } });
    let response = server.send("POST", "/api/v1/namespaces/default/pods", "application/json", &pod.to_string()).await;
    let expected = vec![r#"299 - "unknown field \"spec.containers[0].imag\"""#.to_owned()];
    assert_eq!((response.status().as_u16(), warnings(response.headers())), (422, expected), "its priority is a draft");
    let response = server.send("GET", "/api/v1/namespaces/default/endpoints", "", "").await;
    assert!(warnings(response.headers())[0].contains("v1 Endpoints is deprecated in v1.33+"), "{response:?}");
    let job = json!({
        "metadata": { "name": "j" },
        "spec": { "template": { "spec": {
            "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
        } } },
    });
    assert_eq!(server.ask("POST", JOBS, &job).await.code, 201);
    let deletion = format!("{JOBS}/j?dryRun=All");
    let response = server.send("DELETE", &deletion, "", "").await;
    assert!(warnings(response.headers())[0].contains("child pods are preserved by default"), "{response:?}");
    let response = server.send("DELETE", &format!("{deletion}&propagationPolicy=Background"), "", "").await;
    assert!(warnings(response.headers()).is_empty(), "{response:?}");
}

#[tokio::test]
async fn a_field_that_a_document_leaves_out_is_selected_by_its_zero() {
    let server = Server::with_built_in().await;
    let event = |name: &str, more: Value| {
        let mut event = json!({
            "metadata": { "name": name }, "involvedObject": { "namespace": "default" }, "reportingComponent": "theirs",
            "reportingInstance": "one", "action": "Do", "reason": "Test", "type": "Normal",
            "eventTime": "2026-01-01T00:00:00.000000Z",
        });
        event.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        event
    };
    let nodes = "/api/v1/nodes";
    let events = "/api/v1/namespaces/default/events";
    for (path, document) in [
        (nodes, json!({ "metadata": { "name": "open" } })),
        (nodes, json!({ "metadata": { "name": "closed" }, "spec": { "unschedulable": true } })),
        (events, event("a.1", json!({}))),
        (events, event("a.2", json!({ "source": { "component": "ours" } }))),
    ] {
        let made = server.ask("POST", path, &document).await;
        assert_eq!(made.code, 201, "{:?}", made.body);
    }
    let names = async |path: &str, selector: &str| {
        let list = server.get(&format!("{path}?fieldSelector={selector}")).await;
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(nodes, "spec.unschedulable%3Dfalse").await, ["open"]);
    assert_eq!(names(nodes, "spec.unschedulable!%3Dfalse").await, ["closed"]);
    assert_eq!(names(nodes, "spec.unschedulable%3Dtrue").await, ["closed"]);
    assert_eq!(names(nodes, "spec.unschedulable%3Dno").await, [""; 0]);
    assert_eq!(names(nodes, "spec.unschedulable%3D").await, [""; 0]);
    assert_eq!(names(nodes, "spec.unschedulable!%3D").await, ["closed", "open"]);
    assert_eq!(names(events, "source%3Dtheirs").await, ["a.1"]);
    assert_eq!(names(events, "source%3Dours").await, ["a.2"]);
    assert_eq!(names(events, "source!%3Dours").await, ["a.1"]);
}

/// Returns the fields of a protobuf message of texts and messages, in their order.
fn fields(mut message: &[u8]) -> Vec<(u8, &[u8])> {
    let mut fields = Vec::new();
    while let [tag, rest @ ..] = message {
        assert_eq!(tag & 7, 2, "{message:?}");
        let size_bytes = 1 + rest.iter().take_while(|byte| **byte >= 0x80).count();
        let (size, rest) = rest.split_at(size_bytes);
        let size = size.iter().rev().fold(0, |size, byte| (size << 7) | usize::from(byte & 0x7f));
        let (field, after) = rest.split_at(size);
        fields.push((tag >> 3, field));
        message = after;
    }
    fields
}

/// The frames of a watch in protobuf.
struct Frames {
    body: Incoming,
    received: Vec<u8>,
}

impl Frames {
    /// Returns the type and the object of the next event. Each frame begins with its size in four bytes.
    async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some((size, rest)) = self.received.split_first_chunk() {
                let size = u32::from_be_bytes(*size) as usize;
                if let Some((event, after)) = rest.split_at_checked(size) {
                    let found = fields(event);
                    let [(1, event_type), (2, extension)] = found[..] else { panic!("{found:?}") };
                    let [(1, object)] = fields(extension)[..] else { panic!("{extension:?}") };
                    let object = homeostat_builtin::protobuf::decode(object).unwrap();
                    let event_type = String::from_utf8(event_type.to_vec()).unwrap();
                    self.received = after.to_vec();
                    return (event_type, object);
                }
            }
            let frame = soon(self.body.frame()).await.unwrap().unwrap();
            self.received.extend(frame.into_data().unwrap());
        }
    }
}

#[tokio::test]
async fn a_watch_of_a_built_in_kind_comes_in_frames_of_protobuf() {
    let server = Server::with_built_in().await;
    let map = |value: &str| json!({ "metadata": { "name": "a" }, "data": { "k": value } });
    assert_eq!(server.ask("POST", CONFIG_MAPS, &map("v")).await.code, 201);
    let watch = format!(
        "{CONFIG_MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    );
    let response = server.send("GET", &watch, &format!("{PROTOBUF};stream=watch"), "").await;
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(response.headers()["content-type"], format!("{PROTOBUF};stream=watch"));
    let mut frames = Frames { body: response.into_body(), received: Vec::new() };
    let path = format!("{CONFIG_MAPS}/a");
    let (event_type, object) = frames.next().await;
    assert_eq!((event_type.as_str(), &object), ("ADDED", &server.get(&path).await));
    let (event_type, mark) = frames.next().await;
    let end = &mark["metadata"]["annotations"]["k8s.io/initial-events-end"];
    assert_eq!((event_type.as_str(), &mark["kind"], end), ("BOOKMARK", &json!("ConfigMap"), &json!("true")));
    assert_eq!(server.ask("PUT", &path, &map("w")).await.code, 200);
    let (event_type, object) = frames.next().await;
    assert_eq!((event_type.as_str(), &object), ("MODIFIED", &server.get(&path).await));
    assert_eq!(server.ask("DELETE", &path, &Value::Null).await.code, 200);
    let (event_type, object) = frames.next().await;
    assert_eq!((event_type.as_str(), &object["data"]), ("DELETED", &json!({ "k": "w" })));
}

#[tokio::test]
async fn a_watch_in_protobuf_from_an_unknown_revision_ends_with_a_frame() {
    let server = Server::with_built_in().await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=999999");
    let response = server.send("GET", &path, &format!("{PROTOBUF};stream=watch"), "").await;
    assert_eq!(response.headers()["content-type"], format!("{PROTOBUF};stream=watch"));
    let (event_type, status) = Frames { body: response.into_body(), received: Vec::new() }.next().await;
    assert_eq!((event_type.as_str(), &status["kind"], &status["code"]), ("ERROR", &json!("Status"), &json!(410)));
}
