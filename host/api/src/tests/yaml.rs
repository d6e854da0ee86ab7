//! Responses in YAML.

use super::*;

const YAML: &str = "application/yaml";

/// Sends a request without a body. Returns the code, the content type and the text of the response.
async fn text(server: &Server, path: &str, accept: &str) -> (u16, String, String) {
    let response = server.send("GET", path, accept, "").await;
    let (code, media) = (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap().to_owned());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, media, String::from_utf8(bytes.to_vec()).unwrap())
}

fn parsed(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).unwrap()
}

#[tokio::test]
async fn resources_lists_tables_discovery_and_refusals_come_in_yaml() {
    let server = Server::start().await;
    // A reader of YAML 1.1 would take the plain words for a boolean, a number and a time.
    let words = json!({ "a": "yes", "b": "010", "c": "12:30:45", "d": "1e3", "e": "~", "f": "a\nb\n" });
    let mut web = deployment("web", "web", 1);
    web["metadata"]["annotations"] = words.clone();
    assert_eq!(server.ask("POST", DEPLOYMENTS, &web).await.code, 201);
    let one = format!("{DEPLOYMENTS}/web");
    for path in [&one, DEPLOYMENTS, "/apis", "/apis/apps/v1"] {
        let (code, media, yaml) = text(&server, path, YAML).await;
        assert_eq!((code, media.as_str()), (200, YAML), "{path}");
        assert_eq!(parsed(&yaml), server.get(path).await, "{path}");
    }
    let (_, _, yaml) = text(&server, &one, YAML).await;
    let quoted = ["a: 'yes'", "b: '010'", "d: '1e3'"]
        .map(|line| yaml.contains(line) || yaml.contains(&line.replace('\'', "\"")));
    assert_eq!(quoted, [true; 3], "{yaml}");
    let (code, media, yaml) = text(&server, DEPLOYMENTS, "application/yaml;as=Table;v=v1;g=meta.k8s.io").await;
    assert_eq!((code, media.as_str(), &parsed(&yaml)["kind"]), (200, YAML, &json!("Table")));
    let (code, media, yaml) = text(&server, &format!("{DEPLOYMENTS}/missing"), YAML).await;
    assert_eq!((code, media.as_str(), &parsed(&yaml)["reason"]), (404, YAML, &json!("NotFound")));
    assert_eq!(text(&server, &one, "application/yaml;q=0.1, application/json").await.1, "application/json");
}

#[tokio::test]
async fn a_watch_has_no_form_in_yaml() {
    let server = Server::start().await;
    let path = format!("{DEPLOYMENTS}?watch=1");
    let (code, media, yaml) = text(&server, &path, YAML).await;
    assert_eq!((code, media.as_str(), &parsed(&yaml)["reason"]), (406, YAML, &json!("NotAcceptable")));
    let response = server.send("GET", &path, "application/yaml, application/json", "").await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
}

#[tokio::test]
async fn a_response_that_is_too_large_for_yaml_is_refused() {
    let server = Server::start().await;
    for number in 0..10 {
        let mut web = deployment(&format!("web-{number}"), "web", 1);
        web["spec"]["text"] = "x".repeat(900 << 10).into();
        assert_eq!(server.ask("POST", DEPLOYMENTS, &web).await.code, 201);
    }
    assert_eq!(text(&server, DEPLOYMENTS, "application/json").await.0, 200);
    let (code, _, refusal) = text(&server, DEPLOYMENTS, YAML).await;
    assert!(code == 406 && refusal.contains("8 MiB"), "{code} {refusal}");
    assert_eq!(text(&server, &format!("{DEPLOYMENTS}?limit=2"), YAML).await.0, 200);
}

#[tokio::test]
async fn yaml_that_is_no_utf_8_is_refused() {
    let server = Server::start().await;
    let mut body = deployment("web", "web", 1).to_string().into_bytes();
    let at = body.windows(3).position(|part| part == b"web").unwrap();
    body[at] = 0xff;
    for (kind, code) in [(YAML, 400), ("application/json", 422)] {
        assert_eq!(server.send_bytes("POST", DEPLOYMENTS, kind, body.clone().into()).await.status(), code, "{kind}");
    }
}
