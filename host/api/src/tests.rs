//! A whole server on a unix socket, with requests as any client sends them.

use std::time::Duration;

use homeostat_component::{Engine, EngineOptions, KindDeclaration, Severity};
use homeostat_runtime::events::{EventSource, NewEvent};
use homeostat_runtime::{BuiltInGroups, Host, KindInfo, Options as HostOptions};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Kind, Options as StoreOptions, Store};
use homeostat_testing::within;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::{Address, Handle, Options, serve};

/// No response takes this long.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(10);

/// Waits for a response, or for a step towards it.
#[track_caller]
fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    within(RESPONSE_TIME_MAX, future)
}

struct Server {
    host: Host,
    handle: Handle,
    _folder: tempfile::TempDir,
}

struct Answer {
    code: u16,
    change: String,
    body: Value,
}

impl Server {
    async fn start() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        Self::over(StoreOptions::default(), options).await
    }

    async fn over(stored: StoreOptions, options: Options) -> Self {
        Self::on(std::sync::Arc::new(MemoryStore::new(stored)), options).await
    }

    /// Starts a server with the built-in kinds of Kubernetes.
    async fn with_built_in() -> Self {
        let store = std::sync::Arc::new(MemoryStore::new(StoreOptions::default()));
        Self::serving(BuiltInGroups::All, store, Options::default()).await
    }

    async fn on(store: std::sync::Arc<dyn Store>, options: Options) -> Self {
        Self::serving(BuiltInGroups::None, store, options).await
    }

    async fn serving(built_in: BuiltInGroups, store: std::sync::Arc<dyn Store>, options: Options) -> Self {
        let engine = Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() }).unwrap();
        let host = Host::start(HostOptions { built_in, ..HostOptions::new(engine, store) }).await.unwrap();
        for (kind, plural) in
            [(Kind::new("apps", "v1", "Deployment"), "deployments"), (Kind::new("", "v1", "Pod"), "pods")]
        {
            let declaration =
                KindDeclaration { kind, plural: plural.into(), namespaced: true, keys_only: false, schema: None };
            host.kinds().declare(KindInfo::declared(&declaration, "test")).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let address = format!("unix:{}", folder.path().join("host.sock").display());
        let handle = serve(Options { address, ..options }, host.clone()).await.unwrap();
        Self { host, handle, _folder: folder }
    }

    async fn send(&self, method: &str, path: &str, content_type: &str, body: &str) -> Response<Incoming> {
        self.send_bytes(method, path, content_type, Bytes::from(body.to_owned())).await
    }

    async fn send_bytes(&self, method: &str, path: &str, content_type: &str, body: Bytes) -> Response<Incoming> {
        // The headers of a GET request state a content type as well, which the server ignores.
        let accept = if method == "GET" { content_type } else { "application/json" };
        self.send_accepting(method, path, [content_type, accept], body).await
    }

    /// Sends a request with these headers `Content-Type` and `Accept`.
    async fn send_accepting(&self, method: &str, path: &str, types: [&str; 2], body: Bytes) -> Response<Incoming> {
        let [content_type, accept] = types;
        let Address::Unix(socket) = self.handle.address() else { panic!("not a socket") };
        let stream = UnixStream::connect(socket).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("accept", accept)
            .header("content-type", content_type);
        let request = request.body(Full::new(body)).unwrap();
        soon(sender.send_request(request)).await.unwrap()
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        answer(self.send(method, path, "application/json", &body).await).await
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, &Value::Null).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.body);
        answer.body
    }

    async fn apply(&self, name: &str, body: &Value) -> Answer {
        let path = format!("{DEPLOYMENTS}/{name}?fieldManager=test");
        answer(self.send("PATCH", &path, "application/apply-patch+yaml", &body.to_string()).await).await
    }

    /// Watches a path, and returns its lines as they arrive.
    async fn follow(&self, path: &str) -> Lines {
        let response = self.send("GET", path, "", "").await;
        assert_eq!(response.status(), 200);
        Lines { body: response.into_body(), buffer: String::new() }
    }
}

async fn answer(response: Response<Incoming>) -> Answer {
    let code = response.status().as_u16();
    let change =
        response.headers().get("homeostat-change").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    Answer {
        code,
        change,
        body: serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::from(&*String::from_utf8_lossy(&bytes))),
    }
}

struct Lines {
    body: Incoming,
    buffer: String,
}

impl Lines {
    /// Returns the next line; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        while !self.buffer.contains('\n') {
            let frame = soon(self.body.frame()).await?;
            self.buffer.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
        let (line, rest) = self.buffer.split_once('\n').map(|(line, rest)| (line.to_owned(), rest.to_owned())).unwrap();
        self.buffer = rest;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Returns type, name and one label of the next event of a watch.
    async fn event(&mut self) -> (String, String) {
        let event = self.next().await.expect("the watch goes on");
        (
            event["type"].as_str().unwrap().to_owned(),
            event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        )
    }
}

mod autoscalers;
mod backup;
mod bounds;
mod cbor;
mod clients;
mod collections;
mod dialect;
mod dressed;
mod events;
mod guarded;
mod hosts;
mod openapi;
mod paths;
mod pods;
mod service_accounts;
mod stores;
mod typed;
mod versions;
mod yaml;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(name: &str, app: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "labels": { "app": app } },
        "spec": { "replicas": replicas },
    })
}

fn event(word: &str, name: &str) -> (String, String) {
    (word.to_owned(), name.to_owned())
}

#[tokio::test]
async fn a_resource_lives_and_dies_through_the_dialect() {
    let server = Server::start().await;
    let web = format!("{DEPLOYMENTS}/web");
    let created = server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
    assert_eq!((created.code, created.change.as_str()), (201, "created"));
    assert_eq!(created.body["metadata"]["namespace"], "default");

    let mut document = server.get(&web).await;
    document["spec"]["replicas"] = 2.into();
    document["status"] = json!({ "readyReplicas": 9 });
    let updated = server.ask("PUT", &web, &document).await;
    assert_eq!((updated.code, updated.change.as_str()), (200, "configured"));
    assert_eq!((&updated.body["spec"]["replicas"], &updated.body["status"]), (&json!(2), &Value::Null));

    let status = json!({ "metadata": { "name": "web" }, "status": { "readyReplicas": 2 } });
    let status = server.ask("PUT", &format!("{web}/status"), &status).await;
    assert_eq!(status.body["status"]["readyReplicas"], 2);

    assert_eq!(server.ask("DELETE", &web, &Value::Null).await.body["status"], "Success");
    let gone = server.ask("GET", &web, &Value::Null).await;
    assert_eq!((gone.code, &gone.body["reason"], &gone.body["kind"]), (404, &json!("NotFound"), &json!("Status")));
    assert_eq!(gone.body["details"], json!({ "group": "apps", "kind": "deployments", "name": "web" }));
}

#[tokio::test]
async fn update_of_a_changed_resource_is_a_conflict() {
    let server = Server::start().await;
    let old = server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await.body;
    let path = format!("{DEPLOYMENTS}/web");
    let patch = r#"{"spec":{"replicas":2}}"#;
    assert_eq!(answer(server.send("PATCH", &path, "application/merge-patch+json", patch).await).await.code, 200);
    let conflict = server.ask("PUT", &format!("{DEPLOYMENTS}/web"), &old).await;
    assert_eq!((conflict.code, &conflict.body["reason"]), (409, &json!("Conflict")));
    let again = server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
    assert_eq!((again.code, &again.body["reason"]), (409, &json!("AlreadyExists")));
    // As in Kubernetes, a creation names no revision.
    assert_eq!(server.ask("POST", DEPLOYMENTS, &old).await.code, 500);
}

#[tokio::test]
async fn apply_reports_its_result() {
    let server = Server::start().await;
    for (replicas, code, change) in [(1, 201, "created"), (2, 200, "configured"), (2, 200, "unchanged")] {
        let answer = server.apply("web", &deployment("web", "web", replicas)).await;
        assert_eq!((answer.code, answer.change.as_str()), (code, change), "{}", answer.body);
    }
}

#[tokio::test]
async fn apply_reads_yaml_and_wants_a_manager() {
    let server = Server::start().await;
    let yaml = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 4\n";
    let path = format!("{DEPLOYMENTS}/web");
    let unnamed = answer(server.send("PATCH", &path, "application/apply-patch+yaml", yaml).await).await;
    assert_eq!(unnamed.code, 422);
    let path = format!("{path}?fieldManager=me");
    let applied = answer(server.send("PATCH", &path, "application/apply-patch+yaml", yaml).await).await;
    assert_eq!((applied.code, &applied.body["spec"]["replicas"]), (201, &json!(4)));
}

#[tokio::test]
async fn patches_are_told_apart_by_their_content_type() {
    let server = Server::start().await;
    server.apply("web", &deployment("web", "web", 1)).await;
    let path = format!("{DEPLOYMENTS}/web");
    let merged =
        answer(server.send("PATCH", &path, "application/merge-patch+json", r#"{"spec":{"replicas":2}}"#).await).await;
    assert_eq!(merged.body["spec"]["replicas"], 2);
    let operations = r#"[{"op":"replace","path":"/spec/replicas","value":3}]"#;
    let patched =
        answer(server.send("PATCH", &path, "application/json-patch+json; charset=utf-8", operations).await).await;
    assert_eq!(patched.body["spec"]["replicas"], 3);
    let strategic = r#"{"spec":{"replicas":4}}"#;
    let merged = answer(server.send("PATCH", &path, "application/strategic-merge-patch+json", strategic).await).await;
    assert_eq!(merged.body["spec"]["replicas"], 4);
    let other = answer(server.send("PATCH", &path, "application/json", "{}").await).await;
    assert_eq!((other.code, &other.body["reason"]), (415, &json!("UnsupportedMediaType")));
}

#[tokio::test]
async fn a_document_that_contradicts_its_path_is_refused() {
    let server = Server::start().await;
    for (pointer, value) in
        [("/metadata/namespace", "other"), ("/metadata/name", "other"), ("/kind", "Pod"), ("/apiVersion", "v1")]
    {
        let mut document = deployment("web", "web", 1);
        document["metadata"]["namespace"] = "default".into();
        *document.pointer_mut(pointer).unwrap() = value.into();
        let refused = server.apply("web", &document).await;
        assert_eq!(refused.code, 400, "{pointer}: {}", refused.body);
    }
}

#[tokio::test]
async fn a_read_asks_past_the_caches_unless_any_revision_will_do() {
    let store = homeostat_fixtures::FaultyStore::over(homeostat_fixtures::memory_store());
    let server = Server::on(store.clone(), Options::default()).await;
    server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
    let one = format!("{DEPLOYMENTS}/web");
    for (query, is_live) in
        [("", true), ("?resourceVersion=", true), ("?resourceVersion=1", true), ("?resourceVersion=0", false)]
    {
        for path in [DEPLOYMENTS, &one] {
            let before = store.live_reads();
            let answer = server.ask("GET", &format!("{path}{query}"), &Value::Null).await;
            assert_eq!((answer.code, store.live_reads() - before), (200, usize::from(is_live)), "{path}{query}");
        }
    }
}

#[tokio::test]
async fn a_list_has_selectors_and_pages() {
    let server = Server::start().await;
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web")] {
        server.apply(name, &deployment(name, app, 1)).await;
    }
    let names = |list: &Value| {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("")
    };
    let list = server.get("/apis/apps/v1/deployments?labelSelector=app%3Dweb").await;
    assert_eq!((names(&list).as_str(), &list["kind"]), ("ac", &json!("DeploymentList")));
    assert_eq!(names(&server.get(&format!("{DEPLOYMENTS}?fieldSelector=metadata.name%3Db")).await), "b");
    assert_eq!(names(&server.get("/apis/apps/v1/namespaces/other/deployments").await), "");
    let first = server.get(&format!("{DEPLOYMENTS}?limit=2")).await;
    assert_eq!(names(&first), "ab");
    let next = first["metadata"]["continue"].as_str().unwrap();
    assert_eq!(names(&server.get(&format!("{DEPLOYMENTS}?limit=2&continue={next}")).await), "c");
}

#[tokio::test]
async fn a_page_says_how_many_items_remain() {
    let server = Server::start().await;
    for name in ["a", "b", "c", "d", "e"] {
        server.apply(name, &deployment(name, "web", 1)).await;
    }
    let (mut remaining, mut next) = (Vec::new(), String::new());
    loop {
        let list = server.get(&format!("{DEPLOYMENTS}?limit=2&continue={next}")).await;
        remaining.push(list["metadata"]["remainingItemCount"].as_u64());
        next = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if next.is_empty() {
            break;
        }
        // A later page shows the same moment, and so does its count.
        server.ask("DELETE", &format!("{DEPLOYMENTS}/e"), &Value::Null).await;
    }
    assert_eq!(remaining, [Some(3), Some(1), None]);
    for query in ["", "?limit=1&labelSelector=app%3Dweb", "?limit=1&fieldSelector=metadata.name!%3Dx"] {
        let list = server.get(&format!("{DEPLOYMENTS}{query}")).await;
        assert_eq!(list["metadata"].get("remainingItemCount"), None, "{query}");
    }
}

#[tokio::test]
async fn a_watch_sends_every_change_after_its_revision() {
    let server = Server::start().await;
    server.apply("a", &deployment("a", "web", 1)).await;
    let revision = server.get(DEPLOYMENTS).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watch =
        server.follow(&format!("{DEPLOYMENTS}?watch=1&resourceVersion={revision}&labelSelector=app%3Dweb")).await;
    server.apply("b", &deployment("b", "web", 1)).await;
    server.apply("x", &deployment("x", "db", 1)).await;
    server.apply("a", &deployment("a", "web", 2)).await;
    server.apply("b", &deployment("b", "db", 1)).await;
    server.ask("DELETE", &format!("{DEPLOYMENTS}/a"), &Value::Null).await;
    for expected in [event("ADDED", "b"), event("MODIFIED", "a"), event("DELETED", "b"), event("DELETED", "a")] {
        assert_eq!(watch.event().await, expected);
    }
}

#[tokio::test]
async fn watch_without_a_revision_starts_with_current_resources() {
    let server = Server::start().await;
    server.apply("a", &deployment("a", "web", 1)).await;
    for marks in ["", "&allowWatchBookmarks=true"] {
        let mut watch = server
            .follow(&format!(
                "{DEPLOYMENTS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan{marks}"
            ))
            .await;
        assert_eq!(watch.event().await, event("ADDED", "a"));
        if !marks.is_empty() {
            assert_eq!(watch.event().await.0, "BOOKMARK");
        }
        server.apply("b", &deployment("b", "web", 1)).await;
        assert_eq!(watch.event().await, event("ADDED", "b"));
        server.ask("DELETE", &format!("{DEPLOYMENTS}/b"), &Value::Null).await;
    }
}

#[tokio::test]
async fn stopping_ends_watches_and_takes_the_socket_away() {
    let server = Server::start().await;
    let mut watch = server.follow(&format!("{DEPLOYMENTS}?watch=1")).await;
    let mut logs = server.follow("/homeostat/v1/logs?follow=1").await;
    server.handle.stop(RESPONSE_TIME_MAX).await;
    assert!(watch.next().await.is_none());
    assert!(logs.next().await.is_none());
    let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
    assert!(!socket.exists());
    server.handle.stop(RESPONSE_TIME_MAX).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let server = Server::with(Options { body_bytes_max: 100, ..Options::default() }).await;
    let refused = server.apply("web", &json!({ "spec": "x".repeat(200) })).await;
    assert_eq!((refused.code, &refused.body["reason"]), (413, &json!("RequestEntityTooLarge")));
}

#[tokio::test]
async fn a_connection_that_asks_nothing_is_cut_off_and_makes_room() {
    let server = Server::with(Options { connections_max: 1, request_ms_max: 100, ..Options::default() }).await;
    let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
    let idle = UnixStream::connect(socket).await.unwrap();
    assert_eq!(server.get("/readyz").await, "ok");
    idle.readable().await.unwrap();
    assert_eq!(idle.try_read(&mut [0; 16]).unwrap(), 0);
}

#[tokio::test]
async fn discovery_lists_declared_kinds() {
    let server = Server::start().await;
    assert_eq!(server.get("/api").await["versions"], json!(["v1"]));
    let groups = server.get("/apis").await;
    let names: Vec<&str> =
        groups["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"apps") && names.contains(&"homeostat.dev") && !names.contains(&""), "{names:?}");
    let resources = server.get("/apis/apps/v1").await["resources"].clone();
    let names: Vec<&Value> = (0..3).map(|at| &resources[at]["name"]).collect();
    assert_eq!(names, ["deployments", "deployments/status", "deployments/scale"]);
    assert_eq!(server.get("/version").await["major"], "1");
    assert_eq!(server.get("/readyz").await, "ok");
    assert_eq!(server.ask("GET", "/apis/nothing", &Value::Null).await.code, 404);
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn site_definition() -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "sites.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": { "kind": "Site", "plural": "sites" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

#[tokio::test]
async fn a_definition_that_is_malformed_or_contradicts_is_refused_before_it_is_stored() {
    let server = Server::start().await;
    let mut nameless = site_definition();
    nameless["spec"]["names"]["plural"] = Value::Null;
    assert_eq!(server.ask("POST", DEFINITIONS, &nameless).await.code, 422);
    assert_eq!(server.get(DEFINITIONS).await["items"], json!([]));

    assert_eq!(server.ask("POST", DEFINITIONS, &site_definition()).await.code, 201);
    let path = format!("{DEFINITIONS}/sites.example.com");
    let patches = [
        ("application/merge-patch+json", json!({ "spec": { "names": { "plural": null } } }), 422),
        ("application/json-patch+json", json!([{ "op": "remove", "path": "/spec/versions" }]), 422),
        ("application/merge-patch+json", json!({ "spec": { "scope": "Namespaced" } }), 422),
    ];
    for (content_type, patch, code) in patches {
        let refused = answer(server.send("PATCH", &path, content_type, &patch.to_string()).await).await;
        assert_eq!(refused.code, code, "{patch}: {}", refused.body);
    }
    assert_eq!(server.get(&path).await["metadata"]["generation"], 1);
}

#[tokio::test]
async fn a_patch_of_a_definition_declares_its_kind_again() {
    let server = Server::start().await;
    server.ask("POST", DEFINITIONS, &site_definition()).await;
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let patch = json!([{ "op": "add", "path": "/spec/versions/0/schema", "value": schema }]).to_string();
    let path = format!("{DEFINITIONS}/sites.example.com");
    let patched = answer(server.send("PATCH", &path, "application/json-patch+json", &patch).await).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    let kind = server.host.kinds().of(&Kind::new("example.com", "v1", "Site")).unwrap();
    assert_eq!(kind.schema, Some(json!({ "type": "object" })));
    let absent = answer(server.send("PATCH", &format!("{DEFINITIONS}/a.b"), "application/json-patch+json", "[]").await);
    assert_eq!(absent.await.code, 404);
}

#[tokio::test]
async fn a_definition_declares_its_kind_at_once() {
    let server = Server::start().await;
    let definition = site_definition();
    let sites = "/apis/example.com/v1/sites";
    assert_eq!(server.ask("GET", sites, &Value::Null).await.code, 404);
    let created = server.ask("POST", DEFINITIONS, &definition).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let site = |metadata| json!({ "apiVersion": "example.com/v1", "kind": "Site", "metadata": metadata });
    assert_eq!(server.ask("POST", sites, &site(json!({ "name": "main" }))).await.code, 201);
    // As in Kubernetes, a namespace of what has none does not count.
    let misplaced = server.ask("POST", sites, &site(json!({ "name": "b", "namespace": "default" }))).await;
    assert_eq!((misplaced.code, &misplaced.body["metadata"]["namespace"]), (201, &Value::Null), "{}", misplaced.body);
    assert_eq!(server.ask("GET", "/apis/example.com/v1/namespaces/default/sites", &Value::Null).await.code, 404);
}

#[tokio::test]
async fn unsupported_request_is_refused_and_changes_nothing() {
    let server = Server::start().await;
    let dry = server.ask("POST", &format!("{DEPLOYMENTS}?dryRun=Some"), &deployment("web", "web", 1)).await;
    assert_eq!(dry.code, 422);
    let body = server.send("POST", DEPLOYMENTS, "application/cbor", "k8s").await;
    assert_eq!(answer(body).await.code, 400);
    let body = server.send("POST", DEPLOYMENTS, "application/vnd.kubernetes.protobuf", "k8s").await;
    assert_eq!(answer(body).await.code, 400);
    assert_eq!(server.get(DEPLOYMENTS).await["items"], json!([]));
    assert_eq!(server.ask("POST", "/livez", &Value::Null).await.body["reason"], "MethodNotAllowed");
}

#[tokio::test]
async fn controllers_are_listed_and_an_unknown_one_is_not_found() {
    let server = Server::start().await;
    let list = server.get("/apis/homeostat.dev/v1alpha1/controllers").await;
    assert_eq!((&list["kind"], &list["items"]), (&json!("ControllerList"), &json!([])));
    for (method, path) in [("GET", "a"), ("GET", "a/queue"), ("POST", "a/suspend"), ("GET", "a/nothing")] {
        let missing =
            server.ask(method, &format!("/apis/homeostat.dev/v1alpha1/controllers/{path}"), &Value::Null).await;
        assert_eq!((missing.code, &missing.body["reason"]), (404, &json!("NotFound")), "{path}");
    }
    let key = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web" });
    for verb in ["enqueue", "retry", "cancel", "expedite"] {
        let path = format!("/apis/homeostat.dev/v1alpha1/controllers/a/queue/{verb}");
        assert_eq!(server.ask("POST", &path, &key).await.code, 404, "{verb}");
        assert_eq!(server.ask("POST", &path, &json!({ "name": "web" })).await.code, 400, "{verb}: it is no key");
    }
}

#[tokio::test]
async fn events_are_chosen_and_followed() {
    let server = Server::start().await;
    let log = server.host.events();
    let note = |controller: &str, reason: &str| {
        let (controller, source, severity) = (&controller.into(), EventSource::Host, Severity::Normal);
        let event = NewEvent { controller, source, key: None, severity, reason, message: "text" };
        log.record("2026-11-20T08:00:00Z".into(), event);
    };
    note("a", "First");
    note("b", "Other");
    let mut all = server.follow("/homeostat/v1/events").await;
    assert_eq!(all.next().await.unwrap()["reason"], "First");
    assert_eq!(all.next().await.unwrap()["reason"], "Other");
    assert!(all.next().await.is_none());

    let mut followed = server.follow("/homeostat/v1/events?controller=a&follow=1").await;
    assert_eq!(followed.next().await.unwrap()["reason"], "First");
    note("b", "Another");
    note("a", "Second");
    assert_eq!(followed.next().await.unwrap()["reason"], "Second");
    assert_eq!(server.ask("GET", "/homeostat/v1/events?key=web", &Value::Null).await.code, 400);
}

#[tokio::test]
async fn kinds_and_dependents_are_told() {
    let server = Server::start().await;
    let kinds = server.get("/homeostat/v1/kinds").await;
    assert!(
        kinds["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|info| info["plural"] == "deployments" && info["namespaced"] == true)
    );
    let owner = server.apply("web", &deployment("web", "web", 1)).await.body;
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    let reference = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid }]);
    let pod =
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web-1", "ownerReferences": reference } });
    assert_eq!(server.ask("POST", "/api/v1/namespaces/default/pods", &pod).await.code, 201);
    let dependents = server.get(&format!("/homeostat/v1/dependents?uid={uid}")).await;
    assert_eq!(dependents["items"][0]["metadata"]["name"], "web-1");
    assert_eq!(server.get("/homeostat/v1/dependents?uid=nobody").await["items"], json!([]));
}

#[tokio::test]
async fn a_page_of_a_web_site_may_not_ask() {
    let server = Server::start().await;
    let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(UnixStream::connect(socket).await.unwrap())).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("/version").header("host", "localhost").header("origin", "https://site.example");
    let response = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    assert_eq!(answer(response).await.code, 403);
}
