//! Requests of clients in other languages with their default settings, and requests that must be refused.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Sends a request with only these headers and `host`.
pub(super) async fn ask_with(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
    let stream = UnixStream::connect(socket).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).unwrap();
    answer(soon(sender.send_request(request)).await.unwrap()).await
}

#[tokio::test]
async fn watch_parameters_parse_in_the_forms_of_every_client() {
    let server = Server::start().await;
    for yes in ["true", "True", "TRUE", "t", "1", "yes"] {
        let mut watch = server.follow(&format!("{DEPLOYMENTS}?watch={yes}&allowWatchBookmarks=False")).await;
        server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
        assert_eq!(watch.event().await, event("ADDED", "web"), "{yes}");
        server.ask("DELETE", &format!("{DEPLOYMENTS}/web"), &Value::Null).await;
    }
    let list = server.get(&format!("{DEPLOYMENTS}?watch=False")).await;
    assert_eq!(list["kind"], "DeploymentList");
}

#[tokio::test]
async fn the_force_parameter_parses_in_the_forms_of_every_client() {
    let server = Server::start().await;
    let apply = async |query: &str, replicas: u32| {
        let (path, body) = (format!("{DEPLOYMENTS}/web?{query}"), deployment("web", "web", replicas).to_string());
        answer(server.send("PATCH", &path, "application/apply-patch+yaml", &body).await).await.code
    };
    assert_eq!(apply("fieldManager=one", 1).await, 201);
    assert_eq!(apply("fieldManager=two&force=False", 2).await, 409);
    assert_eq!(apply("fieldManager=two&force=0", 2).await, 409);
    assert_eq!(apply("fieldManager=two&force=True", 2).await, 200);
    assert_eq!(apply("fieldManager=three&force=maybe", 3).await, 200, "as in Kubernetes");
}

#[tokio::test]
async fn invalid_revision_match_is_refused() {
    let server = Server::start().await;
    for (query, code) in [
        ("resourceVersion=0&resourceVersionMatch=Newest", 422),
        ("resourceVersionMatch=Exact", 422),
        ("watch=1&resourceVersion=0&resourceVersionMatch=Newest", 422),
        ("watch=1&sendInitialEvents=true", 422),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan", 200),
    ] {
        assert_eq!(server.ask("GET", &format!("{DEPLOYMENTS}?{query}"), &Value::Null).await.code, code, "{query}");
    }
    let collection = format!("{DEPLOYMENTS}?resourceVersion=0&resourceVersionMatch=Newest");
    assert_eq!(server.ask("DELETE", &collection, &Value::Null).await.code, 422);
}

#[tokio::test]
async fn a_bookmark_of_metadata_is_metadata() {
    let server = Server::start().await;
    let form = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for path in [DEPLOYMENTS, "/api/v1/events"] {
        let response = server.send("GET", &format!("{path}?{query}"), form, "").await;
        let mut lines = Lines { body: response.into_body(), buffer: String::new() };
        let mark = lines.next().await.unwrap();
        assert_eq!(mark["type"], "BOOKMARK", "{mark}");
        let object = &mark["object"];
        let kind = (&object["kind"], &object["apiVersion"]);
        assert_eq!(kind, (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1")));
        assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        assert!(object["metadata"]["resourceVersion"].is_string(), "{mark}");
    }
}

#[tokio::test]
async fn a_discovery_path_may_end_with_a_slash() {
    let server = Server::start().await;
    for path in ["/version", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1"] {
        assert_eq!(server.get(&format!("{path}/")).await, server.get(path).await, "{path}");
    }
    let version = server.get("/version").await;
    for demanded in
        ["buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion", "gitVersion", "major", "minor", "platform"]
    {
        assert!(version[demanded].is_string(), "{demanded}");
    }
    for path in ["/apis//", "/versions/", "/version/x"] {
        assert_eq!(server.ask("GET", path, &Value::Null).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn a_post_without_a_type_is_json() {
    let server = Server::start().await;
    let body = deployment("web", "web", 1).to_string();
    let created = ask_with(&server, "POST", DEPLOYMENTS, &[], body.clone()).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let of_a_page = ask_with(&server, "POST", DEPLOYMENTS, &[("origin", "https://site.example")], body.clone()).await;
    assert_eq!(of_a_page.code, 403, "{}", of_a_page.body);
    let of_a_form = ask_with(&server, "POST", DEPLOYMENTS, &[("content-type", "text/plain")], body).await;
    assert_eq!(of_a_form.code, 415, "{}", of_a_form.body);
}

#[tokio::test]
async fn a_deletion_comes_without_a_body_or_in_protobuf() {
    let server = Server::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    let protobuf = "application/vnd.kubernetes.protobuf";
    let options = |policy: &str| {
        let field = |number: u8, content: &[u8]| [&[number << 3 | 2, content.len() as u8], content].concat();
        let kind = [field(1, b"v1"), field(2, b"DeleteOptions")].concat();
        [b"k8s\0", &field(1, &kind)[..], &field(2, &field(4, policy.as_bytes()))].concat()
    };
    let headers = [("content-type", protobuf)];
    for (headers, body, code) in [
        (&[][..], Vec::new(), 200),
        (&[], b"null".to_vec(), 200),
        (&headers, Vec::new(), 200),
        (&headers, options("Orphan"), 200),
        (&headers, options("Sideways"), 422),
        (&headers, b"{}".to_vec(), 400),
    ] {
        server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
        let deleted = ask_with(&server, "DELETE", &path, headers, body.clone()).await;
        assert_eq!(deleted.code, code, "{headers:?} {body:?}: {}", deleted.body);
        let left = server.ask("GET", &path, &Value::Null).await.code;
        assert_eq!(left, if code == 200 { 404 } else { 200 }, "{headers:?} {body:?}");
    }
    assert_eq!(ask_with(&server, "DELETE", DEPLOYMENTS, &headers, options("Orphan")).await.code, 200);
}

#[tokio::test]
async fn a_body_says_its_kind_and_version() {
    let server = Server::start().await;
    assert_eq!(server.ask("POST", DEFINITIONS, &site_definition()).await.code, 201);
    let sites = "/apis/example.com/v1/sites";
    let whole = json!({ "apiVersion": "example.com/v1", "kind": "Site", "metadata": { "name": "one" }, "spec": {} });
    assert_eq!(server.ask("POST", sites, &whole).await.code, 201);
    for field in ["apiVersion", "kind"] {
        for value in [None, Some(json!("")), Some(Value::Null)] {
            let mut part = whole.clone();
            match value {
                Some(value) => part[field] = value,
                None => drop(part.as_object_mut().unwrap().remove(field)),
            }
            for (method, path) in [
                ("POST", format!("{sites}?dryRun=All")),
                ("PUT", format!("{sites}/one")),
                ("PUT", format!("{sites}/one/status")),
            ] {
                let refused = server.ask(method, &path, &part).await;
                assert_eq!(refused.code, 400, "{method} {path} {part}: {}", refused.body);
            }
            let apply = server.send("PATCH", &format!("{sites}/one?fieldManager=a"), APPLY, &part.to_string()).await;
            assert_eq!(apply.status(), 400, "{part}");
        }
    }
}

/// An API server knows the built-in kinds, and some clients leave `kind` and `apiVersion` out.
#[tokio::test]
async fn a_body_of_a_built_in_kind_may_omit_kind_and_version() {
    let server = Server::start().await;
    let body = json!({ "metadata": { "name": "red" } });
    assert_eq!(server.ask("POST", DEPLOYMENTS, &body).await.body["kind"], "Deployment");
    assert_eq!(server.apply("red", &body).await.code, 400, "whoever applies says it");
}

#[tokio::test]
async fn an_apply_with_owners_of_fields_is_refused() {
    let server = Server::start().await;
    let mut document = deployment("web", "web", 1);
    for (owners, code) in [(json!([]), 400), (json!([{ "manager": "me" }]), 400), (Value::Null, 201)] {
        document["metadata"]["managedFields"] = owners;
        let answer = server.apply("web", &document).await;
        assert_eq!(answer.code, code, "{}", answer.body);
    }
}

const APPLY: &str = "application/apply-patch+yaml";

/// Longer than the limit of a body, and than the socket buffers.
const LONG: usize = 20 << 20;

/// Sends a head and a whole body before it reads, and returns the connection.
async fn send_all(server: &Server, head: &str, body: &[u8]) -> UnixStream {
    let Address::Unix(socket) = server.handle.address() else { panic!("not a socket") };
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let sending = async {
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body).await.expect("the server takes all of it");
    };
    soon(sending).await;
    stream
}

/// Reads until a text has arrived.
async fn read_until(stream: &mut UnixStream, expected: &str) -> String {
    let mut received = Vec::new();
    while !String::from_utf8_lossy(&received).contains(expected) {
        let read = soon(stream.read_buf(&mut received)).await.unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&received));
    }
    String::from_utf8(received).unwrap()
}

#[tokio::test]
async fn a_client_that_sends_a_body_that_is_too_long_gets_its_answer() {
    let server = Server::start().await;
    let head = |more: &str| format!("POST {DEPLOYMENTS} HTTP/1.1\r\nhost: localhost\r\n{more}\r\n\r\n");
    let chunked = [format!("{LONG:x}\r\n").as_bytes(), &vec![b'x'; LONG], b"\r\n0\r\n\r\n"].concat();
    for (head, body) in [
        (head(&format!("content-type: application/json\r\ncontent-length: {LONG}")), vec![b'x'; LONG]),
        (head("content-type: application/json\r\ntransfer-encoding: chunked"), chunked),
    ] {
        let mut stream = send_all(&server, &head, &body).await;
        let received = read_until(&mut stream, "RequestEntityTooLarge").await;
        assert!(received.starts_with("HTTP/1.1 413 "), "{received}");
        // No byte of the body is left to be taken for the next request.
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        assert!(read_until(&mut stream, "\r\n\r\nok").await.contains("HTTP/1.1 200 "));
    }
    let page = head(&format!("origin: https://site.example\r\ncontent-length: {LONG}"));
    let received = read_until(&mut send_all(&server, &page, &vec![b'x'; LONG]).await, "Forbidden").await;
    assert!(received.starts_with("HTTP/1.1 403 "), "{received}");
}

#[tokio::test]
async fn a_definition_of_nearly_a_mebibyte_and_a_half_is_stored() {
    let server = Server::start().await;
    let mut definition = site_definition();
    let schema = json!({ "type": "object", "description": "x".repeat(1_500_000) });
    definition["spec"]["versions"][0]["schema"] = json!({ "openAPIV3Schema": schema });
    let created = server.ask("POST", DEFINITIONS, &definition).await;
    assert_eq!(created.code, 201, "{}", created.body["message"]);
    let site = json!({ "apiVersion": "example.com/v1", "kind": "Site", "metadata": { "name": "a" } });
    assert_eq!(server.ask("POST", "/apis/example.com/v1/sites", &site).await.code, 201);
    let mut larger = site.clone();
    larger["metadata"]["name"] = "b".into();
    larger["spec"] = "x".repeat(1_600_000).into();
    let refused = server.ask("POST", "/apis/example.com/v1/sites", &larger).await;
    assert_eq!((refused.code, &refused.body["reason"]), (413, &json!("RequestEntityTooLarge")));
}

#[tokio::test]
async fn a_request_with_expect_continue_is_refused_before_its_body() {
    let server = Server::start().await;
    let head = format!(
        "POST {DEPLOYMENTS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {LONG}\r\n\
         expect: 100-continue\r\n\r\n"
    );
    let received = read_until(&mut send_all(&server, &head, b"").await, "RequestEntityTooLarge").await;
    assert!(received.starts_with("HTTP/1.1 413 "), "{received}");
}

#[tokio::test]
async fn unknown_metadata_is_refused_and_numbers_are_stored_as_in_kubernetes() {
    let server = Server::start().await;
    let mut document = deployment("web", "web", 1);
    document["metadata"]["colour"] = "red".into();
    let strict = server.ask("POST", &format!("{DEPLOYMENTS}?fieldValidation=Strict"), &document).await;
    let message = json!(
        "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \"metadata.colour\""
    );
    assert_eq!((strict.code, &strict.body["message"]), (400, &message));
    let warned =
        server.send("POST", &format!("{DEPLOYMENTS}?dryRun=All"), "application/json", &document.to_string()).await;
    assert_eq!(warned.headers()["warning"], r#"299 - "unknown field \"metadata.colour\"""#);
    assert_eq!(answer(warned).await.body["metadata"].get("colour"), None);

    let long = json!({ "metadata": { "name": "x".repeat(64) } });
    assert_eq!(server.ask("POST", "/api/v1/namespaces", &long).await.code, 422);

    let text = deployment("web", "web", 7).to_string().replace("\"replicas\":7", "\"replicas\":7.0,\"share\":2.50");
    let created = server.send("POST", DEPLOYMENTS, "application/json", &text).await;
    let created = created.into_body().collect().await.unwrap().to_bytes();
    let created = String::from_utf8_lossy(&created);
    assert!(created.contains(r#""spec":{"replicas":7,"share":2.5}"#), "{created}");
}

#[tokio::test]
async fn a_caller_learns_who_it_is_and_what_it_may_do() {
    let server = Server::start().await;
    let who = server.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await;
    assert_eq!((who.code, &who.body["kind"]), (201, &json!("SelfSubjectReview")));
    assert_eq!(who.body["status"]["userInfo"]["username"], "local");
    let attributes = json!({ "spec": { "resourceAttributes": { "verb": "create", "resource": "pods" } } });
    let may = server.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &attributes).await;
    assert_eq!((may.code, &may.body["status"]["allowed"]), (201, &json!(true)));
    let token = json!({ "spec": { "token": "none" } });
    let review = server.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &token).await;
    assert_eq!((review.code, &review.body["status"]["authenticated"]), (201, &json!(false)));
    assert_eq!(server.ask("GET", "/apis/authentication.k8s.io/v1/tokenreviews", &Value::Null).await.code, 405);
    let group = server.get("/apis/authorization.k8s.io/v1").await;
    let names: Vec<&str> =
        group["resources"].as_array().unwrap().iter().filter_map(|review| review["name"].as_str()).collect();
    assert!(names.contains(&"selfsubjectaccessreviews"), "{names:?}");
}

#[tokio::test]
async fn a_field_selector_excludes_values() {
    let server = Server::start().await;
    for name in ["a", "b"] {
        server.ask("POST", DEPLOYMENTS, &deployment(name, "web", 1)).await;
    }
    let list = server.get(&format!("{DEPLOYMENTS}?fieldSelector=metadata.name!%3Da,spec.replicas%3D1")).await;
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().filter_map(|item| item["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["b"]);
}
