//! CBOR, as clients in Go speak it that allow and prefer it.

use homeostat_builtin::cbor;

use super::*;

/// The `Accept` header of such a client.
const ACCEPT: &str = "application/json;q=0.9,application/cbor;q=1";

async fn send(server: &Server, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, String, Value) {
    let body = if body.is_null() { Vec::new() } else { cbor::encode(body) };
    let response = server.send_accepting(method, path, [content_type, ACCEPT], body.into()).await;
    let (code, media) = (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap().to_owned());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let document = if media == cbor::CONTENT_TYPE { cbor::decode(&bytes).unwrap() } else { Value::Null };
    (code, media, document)
}

#[tokio::test]
async fn resources_are_written_read_and_listed_in_cbor() {
    let server = Server::start().await;
    let names: Vec<String> = (0..3).map(|number| format!("web-{number}")).collect();
    for name in &names {
        let (code, media, created) =
            send(&server, "POST", DEPLOYMENTS, cbor::CONTENT_TYPE, &deployment(name, "web", 1)).await;
        assert_eq!((code, media.as_str(), &created["spec"]["replicas"]), (201, cbor::CONTENT_TYPE, &json!(1)));
    }
    let path = format!("{DEPLOYMENTS}/web-0?fieldManager=test&force=true");
    let applied = send(&server, "PATCH", &path, cbor::APPLY_CONTENT_TYPE, &deployment("web-0", "web", 4)).await;
    assert_eq!((applied.0, &applied.2["spec"]["replicas"]), (200, &json!(4)));
    let (code, media, list) = send(&server, "GET", DEPLOYMENTS, "", &Value::Null).await;
    assert_eq!((code, media.as_str(), &list["kind"]), (200, cbor::CONTENT_TYPE, &json!("DeploymentList")));
    assert_eq!(list["items"], server.get(DEPLOYMENTS).await["items"]);
    assert!(list["metadata"]["resourceVersion"].is_string(), "{list}");
}

#[tokio::test]
async fn a_refusal_comes_in_cbor() {
    let server = Server::start().await;
    let path = format!("{DEPLOYMENTS}/missing");
    let (code, media, refusal) = send(&server, "GET", &path, "", &Value::Null).await;
    assert_eq!((code, media.as_str()), (404, cbor::CONTENT_TYPE));
    assert_eq!(refusal, server.ask("GET", &path, &Value::Null).await.body);
}

#[tokio::test]
async fn a_watch_is_a_sequence_of_cbor() {
    let server = Server::start().await;
    let path = format!("{DEPLOYMENTS}?watch=1");
    let response = server.send("GET", &path, ACCEPT, "").await;
    assert_eq!(response.headers()["content-type"], cbor::SEQUENCE_CONTENT_TYPE);
    server.ask("POST", DEPLOYMENTS, &deployment("web", "web", 1)).await;
    let mut body = response.into_body();
    let frame = soon(body.frame()).await.unwrap().unwrap().into_data().unwrap();
    let event = cbor::decode(&frame).unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("web")));
}
