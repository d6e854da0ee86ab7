//! Events of the core group and of `events.k8s.io`, which are the same resources.

use super::*;

const OWN: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const CORE: &str = "/api/v1/namespaces/default/events";
const MERGE: &str = "application/merge-patch+json";

fn event() -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "e" },
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "a.b/c", "reportingInstance": "i",
        "action": "A", "reason": "R", "type": "Normal", "note": "n",
        "regarding": { "kind": "Pod", "name": "p", "namespace": "default" },
    })
}

async fn patched(server: &Server, path: &str, content_type: &str, patch: &Value) -> Answer {
    answer(server.send("PATCH", &format!("{path}/e"), content_type, &patch.to_string()).await).await
}

#[tokio::test]
async fn an_event_of_its_own_group_changes_only_its_series_and_metadata() {
    let server = Server::with_built_in().await;
    let created = server.ask("POST", OWN, &event()).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let series = json!({ "count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z" });
    let counted = patched(&server, OWN, "application/strategic-merge-patch+json", &json!({ "series": series })).await;
    assert_eq!((counted.code, &counted.body["series"]), (200, &series), "{}", counted.body);
    let labelled = json!([
        { "op": "test", "path": "/note", "value": "n" },
        { "op": "add", "path": "/metadata/labels", "value": { "a": "b" } },
    ]);
    let labelled = patched(&server, OWN, "application/json-patch+json", &labelled).await;
    assert_eq!((labelled.code, &labelled.body["metadata"]["labels"]["a"]), (200, &json!("b")), "{}", labelled.body);
    let replaced = json!([{ "op": "replace", "path": "/note", "value": "m" }]);
    let mut document = labelled.body.clone();
    document["note"] = "m".into();
    for refused in [
        patched(&server, OWN, MERGE, &json!({ "note": "m" })).await,
        patched(&server, OWN, "application/json-patch+json", &replaced).await,
        server.ask("PUT", &format!("{OWN}/e"), &document).await,
    ] {
        let causes = json!([{ "reason": "FieldValueInvalid", "message": "Invalid value: \"m\": field is immutable", "field": "message" }]);
        assert_eq!((refused.code, &refused.body["details"]["causes"]), (422, &causes), "{}", refused.body);
    }
    let unknown = patched(&server, OWN, MERGE, &json!({ "message": "m" })).await;
    assert_eq!((unknown.code, &unknown.body["note"]), (200, &json!("n")), "{}", unknown.body);
    let path = format!("{OWN}/e?fieldValidation=Strict");
    let strict = answer(server.send("PATCH", &path, MERGE, &json!({ "message": "m" }).to_string()).await).await;
    let message = strict.body["message"].as_str().unwrap_or_default();
    assert!(strict.code == 422 && message.contains("unknown field \"message\""), "{}", strict.body);
    let changed = patched(&server, CORE, MERGE, &json!({ "message": "m" })).await;
    assert_eq!((changed.code, &changed.body["message"]), (200, &json!("m")), "{}", changed.body);
    assert_eq!(server.get(&format!("{OWN}/e")).await["note"], "m");
}

#[tokio::test]
async fn a_conflict_of_an_applied_event_names_the_fields_of_its_group() {
    let server = Server::with_built_in().await;
    assert_eq!(server.ask("POST", &format!("{OWN}?fieldManager=first"), &event()).await.code, 201);
    let mut document = event();
    document["note"] = "m".into();
    let path = format!("{OWN}/e?fieldManager=second");
    let refused =
        answer(server.send("PATCH", &path, "application/apply-patch+yaml", &document.to_string()).await).await;
    let cause = &refused.body["details"]["causes"][0];
    assert_eq!((refused.code, &cause["field"]), (409, &json!(".note")), "{}", refused.body);
    assert_eq!(cause["message"], "conflict with \"first\" using events.k8s.io/v1");
}
