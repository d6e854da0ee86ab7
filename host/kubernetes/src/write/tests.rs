use bytes::Bytes;
use homeostat_fixtures::demo;
use homeostat_store::Resource;
use http::header::{HeaderMap, WARNING};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::{check_manager, deleted_uid, is_gone, unknown_fields};
use crate::requests::ServerResponse;

fn answer(body: &Value) -> ServerResponse {
    ServerResponse { code: StatusCode::OK, headers: HeaderMap::new(), body: Bytes::from(body.to_string()) }
}

fn widget(metadata: &Value) -> Resource {
    let mut document = demo("Widget", "a", json!({}));
    for (field, value) in metadata.as_object().unwrap() {
        document["metadata"][field] = value.clone();
    }
    Resource::from_document(document).unwrap()
}

#[test]
fn a_resource_is_gone_once_nothing_keeps_it() {
    let at = "2026-01-02T03:04:05Z";
    assert!(!is_gone(&widget(&json!({}))));
    assert!(is_gone(&widget(&json!({"deletionTimestamp": at}))));
    assert!(is_gone(&widget(&json!({"deletionTimestamp": at, "deletionGracePeriodSeconds": 0}))));
    assert!(!is_gone(&widget(&json!({"deletionTimestamp": at, "finalizers": ["a/b"]}))));
    assert!(!is_gone(&widget(&json!({"deletionTimestamp": at, "deletionGracePeriodSeconds": 30}))));
    let namespace = |finalizers: Value| {
        let metadata = json!({"name": "a", "deletionTimestamp": at});
        let document =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": {"finalizers": finalizers}});
        Resource::from_document(document).unwrap()
    };
    assert!(!is_gone(&namespace(json!(["kubernetes"]))) && is_gone(&namespace(json!([]))));
}

#[test]
fn the_answer_to_a_deletion_is_a_status_or_the_resource() {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "details": {"name": "a", "uid": "u"}});
    assert_eq!(deleted_uid(&answer(&status)).as_deref(), Some("u"));
    assert_eq!(deleted_uid(&answer(&json!({"kind": "Status", "apiVersion": "v1"}))).as_deref(), Some(""));
    assert_eq!(deleted_uid(&answer(&json!({"kind": "Status", "apiVersion": "example.dev/v1"}))), None);
    assert_eq!(deleted_uid(&answer(&json!({"kind": "Widget", "apiVersion": "example.dev/v1"}))), None);
}

#[test]
fn dropped_fields_are_read_from_warnings() {
    let mut answer = answer(&json!({}));
    for text in [r#"299 - "unknown field \"spec.color\"""#, r#"299 - "v1 is old""#, "nothing"] {
        answer.headers.append(WARNING, HeaderValue::from_static(text));
    }
    assert_eq!(unknown_fields(&answer), ["spec.color"]);
}

#[test]
fn a_manager_has_printable_text_that_fits_behind_the_prefix() {
    assert!(check_manager("h/", "a b").is_ok() && check_manager("h/", &"x".repeat(126)).is_ok());
    for wrong in ["", "a\n", &"x".repeat(127)] {
        assert!(check_manager("h/", wrong).is_err(), "{wrong:?}");
    }
}
