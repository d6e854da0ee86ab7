//! Paths that mean nothing, and the list of those that do.

use super::*;

#[tokio::test]
async fn an_unknown_path_is_answered_with_a_page_or_a_status() {
    let server = Server::with_built_in().await;
    for path in ["/nothing", "/apis/nobody.dev/v1/things", "/apis/nobody.dev", "/healthz/"] {
        let response = server.send("GET", path, "application/json", "").await;
        assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8", "{path}");
        let answer = answer(response).await;
        assert_eq!((answer.code, &answer.body), (404, &json!("404 page not found\n")), "{path}");
    }
    for path in [
        "/api/v1/things",
        "/api/v2",
        "/api/v1//pods",
        "/api/v1/namespaces/default/pods/a%2Fb",
        "/apis/apps/v1/namespaces/default/things/x",
        "/apis/apps/v9",
        "/apis/apps/v9/deployments",
    ] {
        let answer = server.ask("GET", path, &Value::Null).await;
        assert_eq!((answer.code, &answer.body["reason"]), (404, &json!("NotFound")), "{path}");
        assert_eq!(answer.body["message"], "the server could not find the requested resource", "{path}");
    }
}

#[tokio::test]
async fn the_root_lists_the_paths_of_the_server() {
    let server = Server::with_built_in().await;
    let root = server.get("/").await;
    let paths: Vec<&str> = root["paths"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for path in ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/openapi/v2", "/version"] {
        assert!(paths.contains(&path), "{path}: {paths:?}");
        assert_ne!(server.ask("GET", path, &Value::Null).await.code, 404, "{path}");
    }
    assert!(paths.is_sorted(), "{paths:?}");
}

#[tokio::test]
async fn a_path_of_resources_may_end_with_a_slash() {
    let server = Server::with_built_in().await;
    for path in ["/api/v1/namespaces/default/pods", "/apis/apps/v1/deployments"] {
        assert_eq!(server.get(&format!("{path}/")).await["kind"], server.get(path).await["kind"], "{path}");
    }
}

#[tokio::test]
async fn an_empty_namespace_stands_for_all() {
    let server = Server::with_built_in().await;
    assert_eq!(server.get("/api/v1/namespaces//pods").await["kind"], "PodList");
    assert_eq!(server.ask("GET", "/api/v1/namespaces//pods/a", &Value::Null).await.code, 404);
}

#[tokio::test]
async fn an_old_path_of_a_watch_watches() {
    let server = Server::with_built_in().await;
    for name in ["a", "b"] {
        server.ask("POST", "/api/v1/namespaces", &json!({ "metadata": { "name": name } })).await;
    }
    for path in ["/api/v1/watch/namespaces?timeoutSeconds=1", "/api/v1/watch/namespaces/a?timeoutSeconds=1"] {
        let answer = answer(server.send("GET", path, "application/json", "").await).await;
        let lines: Vec<Value> = answer.body.as_str().map_or_else(
            || vec![answer.body.clone()],
            |text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        );
        let names: Vec<&Value> = lines.iter().map(|line| &line["object"]["metadata"]["name"]).collect();
        assert!(answer.code == 200 && names.contains(&&json!("a")), "{path}: {names:?}");
        assert_eq!(names.len() == 1, path.contains("/a?"), "{path}: {names:?}");
    }
}
