use homeostat_store::{Kind, Precondition, Propagation, Resource, Revision, Write};
use serde_json::{Value, json};

use super::{DesiredResource, KEY_ANNOTATION, UNREADABLE_ANNOTATION, spec_of, status_value, step, with_status};
use crate::settings::{StatusForm, ValueForm};

fn kind() -> Kind {
    Kind::new("kumori.systems", "v1", "V3Deployment")
}

fn desired(spec: Result<Value, String>) -> DesiredResource {
    DesiredResource { namespace: "team".into(), name: "web".into(), key: "team/web".into(), spec }
}

fn current(change: impl FnOnce(&mut Value)) -> Resource {
    let mut document = json!({
        "apiVersion": "kumori.systems/v1",
        "kind": "V3Deployment",
        "metadata": {
            "name": "web", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 2,
            "annotations": {KEY_ANNOTATION: "team/web", "other": "stays"},
        },
        "spec": {"size": 1},
    });
    change(&mut document);
    Resource::from_document(document).expect("a whole document")
}

#[test]
fn the_first_value_creates_its_resource() {
    let Some(Write::Create { document }) = step(&kind(), Some(&desired(Ok(json!({"size": 1})))), None) else {
        panic!("no creation");
    };
    let metadata = json!({"name": "web", "namespace": "team", "annotations": {KEY_ANNOTATION: "team/web"}});
    let wanted =
        json!({"apiVersion": "kumori.systems/v1", "kind": "V3Deployment", "metadata": metadata, "spec": {"size": 1}});
    assert_eq!(document, wanted);
}

#[test]
fn a_value_without_a_spec_still_has_a_resource_that_says_why() {
    let Some(Write::Create { document }) = step(&kind(), Some(&desired(Err("no JSON".into()))), None) else {
        panic!("no creation");
    };
    assert_eq!(document["metadata"]["annotations"][UNREADABLE_ANNOTATION], "no JSON");
    assert_eq!(document.get("spec"), None);
}

#[test]
fn another_value_changes_the_spec_and_nothing_else() {
    assert_eq!(step(&kind(), Some(&desired(Ok(json!({"size": 1})))), Some(&current(|_| {}))), None);
    let write = step(&kind(), Some(&desired(Ok(json!({"size": 2})))), Some(&current(|_| {})));
    let Some(Write::Update { document, precondition }) = write else { panic!("no update") };
    assert_eq!(precondition, Precondition { uid: None, revision: Some(Revision(7)) });
    assert_eq!(document["spec"], json!({"size": 2}));
    assert_eq!(document["metadata"]["annotations"], json!({KEY_ANNOTATION: "team/web", "other": "stays"}));
}

#[test]
fn a_value_that_became_unreadable_leaves_the_last_spec() {
    let write = step(&kind(), Some(&desired(Err("no JSON".into()))), Some(&current(|_| {})));
    let Some(Write::Update { document, .. }) = write else { panic!("no update") };
    assert_eq!(document["spec"], json!({"size": 1}));
    assert_eq!(document["metadata"]["annotations"][UNREADABLE_ANNOTATION], "no JSON");
    let told = current(|it| it["metadata"]["annotations"][UNREADABLE_ANNOTATION] = json!("no JSON"));
    assert_eq!(step(&kind(), Some(&desired(Err("no JSON".into()))), Some(&told)), None);
    let write = step(&kind(), Some(&desired(Ok(json!({"size": 1})))), Some(&told));
    let Some(Write::Update { document, .. }) = write else { panic!("no update") };
    assert_eq!(document["metadata"]["annotations"].get(UNREADABLE_ANNOTATION), None);
}

#[test]
fn a_deleted_value_deletes_its_resource_once() {
    let key = current(|_| {}).key().clone();
    let precondition = Precondition { uid: Some("u".into()), revision: None };
    let wanted = Write::Delete { key, precondition, propagation: Propagation::Background, grace_seconds: None };
    assert_eq!(step(&kind(), None, Some(&current(|_| {}))), Some(wanted));
    assert_eq!(step(&kind(), None, None), None);
    let deleting = current(|it| it["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:00:00Z"));
    assert_eq!(step(&kind(), None, Some(&deleting)), None);
    assert_eq!(step(&kind(), Some(&desired(Ok(json!({"size": 9})))), Some(&deleting)), None, "it goes first");
}

#[test]
fn specs_are_read_in_both_forms_without_the_status() {
    let read = |text: &str, form, status| spec_of(text.as_bytes(), form, status);
    let text = r#"{"spec":{"a":1},"status":{"b":2}}"#;
    assert_eq!(read(text, ValueForm::Spec, Some("/status")), Ok(json!({"spec": {"a": 1}})));
    assert_eq!(read(text, ValueForm::Document, Some("/status")), Ok(json!({"a": 1})));
    assert_eq!(read(text, ValueForm::Spec, Some("/x/y")), Ok(json!({"spec": {"a": 1}, "status": {"b": 2}})));
    for wrong in ["", "[]", "7", "{"] {
        assert!(read(wrong, ValueForm::Spec, None).is_err(), "{wrong}");
    }
    assert!(read("{}", ValueForm::Document, None).is_err());
}

#[test]
fn a_status_goes_where_the_binding_says() {
    let resource = current(|it| it["status"] = json!({"ready": true}));
    assert_eq!(status_value(&resource, StatusForm::Bare).as_deref(), Some(r#"{"ready":true}"#));
    let wrapped = r#"{"observedGeneration":2,"status":{"ready":true}}"#;
    assert_eq!(status_value(&resource, StatusForm::Wrapped).as_deref(), Some(wrapped));
    assert_eq!(status_value(&current(|_| {}), StatusForm::Bare), None);
    let status = json!({"ready": true});
    let written = with_status(br#"{"a":1}"#, "/status", &status).expect("it differs");
    assert_eq!(written, r#"{"a":1,"status":{"ready":true}}"#);
    assert_eq!(with_status(written.as_bytes(), "/status", &status), None, "it is there");
    assert_eq!(with_status(b"no json", "/status", &status), None);
    assert_eq!(with_status(b"{}", "/deep/status", &status), None);
}
