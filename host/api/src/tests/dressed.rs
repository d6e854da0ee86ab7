//! Controllers, whose presentation differs from the stored document.

use homeostat_store::{Scope, Write};

use super::*;

const CONTROLLERS: &str = "/apis/homeostat.dev/v1alpha1/controllers";
const REVISIONS: &str = "/apis/homeostat.dev/v1alpha1/controllerrevisions";

/// A controller with a secret header value.
fn controller() -> Value {
    let headers = json!({ "authorization": { "value": "Bearer hush" } });
    let grants = json!({ "http": [{ "urls": ["https://a.example/*"], "headers": headers }] });
    json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "Controller", "metadata": { "name": "one" },
        "spec": { "component": { "file": "a.wasm" }, "grants": grants },
    })
}

fn revision() -> Value {
    let spec = json!({ "controller": "one", "number": 1, "spec": controller()["spec"] });
    json!({
        "apiVersion": "homeostat.dev/v1alpha1", "kind": "ControllerRevision", "metadata": { "name": "one-1" }, "spec": spec,
    })
}

#[tokio::test]
async fn header_values_are_redacted_for_writers_and_readers() {
    let server = Server::start().await;
    for (path, mut document) in [(CONTROLLERS, controller()), (REVISIONS, revision())] {
        let created = server.ask("POST", path, &document).await;
        assert_eq!(created.code, 201, "{}", created.body);
        let one = format!("{path}/{}", document["metadata"]["name"].as_str().unwrap());
        document["metadata"]["labels"] = json!({ "a": "b" });
        let updated = server.ask("PUT", &one, &document).await;
        assert_eq!(updated.code, 200, "{}", updated.body);
        for shown in [created.body, updated.body, server.get(&one).await] {
            let shown = shown.to_string();
            assert!(shown.contains("***") && !shown.contains("hush"), "{shown}");
        }
    }
}

#[tokio::test]
async fn header_values_are_redacted_in_watches_and_collection_deletes() {
    let server = Server::start().await;
    for (path, document) in [(CONTROLLERS, controller()), (REVISIONS, revision())] {
        let after = server.host.store().revision(&Scope::Everything).await.unwrap();
        server.host.store().write(Write::Create { document }).await.unwrap();
        for watch in 0..2 {
            let mut lines = server.follow(&format!("{path}?watch=true&resourceVersion={after}")).await;
            let shown = lines.next().await.unwrap().to_string();
            assert!(shown.contains("***") && !shown.contains("hush"), "watch {watch}: {shown}");
        }
        let deleted = server.ask("DELETE", path, &Value::Null).await;
        let shown = deleted.body.to_string();
        assert!(deleted.code == 200 && shown.contains("***") && !shown.contains("hush"), "{shown}");
    }
}
