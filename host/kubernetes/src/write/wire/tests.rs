use homeostat_store::{Change, Error, FieldValidation, Key, Kind, Precondition, Propagation, Revision, Write};
use http::Method;
use serde_json::{Value, json};

use super::{Form, Subject, Wire};
use crate::catalog::ServedKind;

fn served(status: bool) -> ServedKind {
    let plural = "widgets".to_owned();
    ServedKind { namespaced: true, plural, status, ..ServedKind::new(Kind::new("example.dev", "v1", "Widget")) }
}

fn key() -> Key {
    Key::new(Kind::new("example.dev", "v1", "Widget"), "n", "a")
}

fn document(rest: &Value) -> Value {
    let mut document = json!({"apiVersion": "example.dev/v1", "kind": "Widget",
        "metadata": {"name": "a", "namespace": "n"}, "spec": {"size": 1}});
    for (field, value) in rest.as_object().unwrap() {
        document[field] = value.clone();
    }
    document
}

const PRECONDITION: fn() -> Precondition = || Precondition { uid: Some("u".to_owned()), revision: Some(Revision(7)) };

/// Returns the method, path, parameters, type and body of the request of a write.
fn sent(write: &Write, served: &ServedKind, dry_run: bool) -> (Method, String, String, &'static str, Value) {
    let form = Form { served, prefix: "h/", manager: "m", dry_run, field_validation: FieldValidation::Ignore };
    let wire = form.wire(write, &Subject::of(write).unwrap()).unwrap();
    parts(&wire)
}

fn parts(wire: &Wire) -> (Method, String, String, &'static str, Value) {
    let (path, parameters) = wire.call.uri.split_once('?').unwrap_or((&wire.call.uri, ""));
    let (content_type, body) = wire.call.body.clone().unwrap();
    let body = serde_json::from_slice(&body).unwrap();
    (wire.call.method.clone(), path.to_owned(), parameters.to_owned(), content_type, body)
}

const ITEM: &str = "/apis/example.dev/v1/namespaces/n/widgets/a";
const STATUS: &str = "/apis/example.dev/v1/namespaces/n/widgets/a/status";
const PARAMETERS: &str = "fieldManager=h%2Fm&fieldValidation=Ignore";

#[test]
fn a_create_posts_the_document_without_its_status_and_identity() {
    let metadata = json!({"name": "a", "namespace": "n", "uid": "u", "labels": {"a": "b"}});
    let write = Write::Create { document: document(&json!({"status": {"x": 1}, "metadata": metadata})) };
    let (method, path, parameters, content_type, body) = sent(&write, &served(true), true);
    assert_eq!((method, path.as_str()), (Method::POST, "/apis/example.dev/v1/namespaces/n/widgets"));
    assert_eq!((parameters, content_type), (format!("{PARAMETERS}&dryRun=All"), "application/json"));
    let metadata = json!({"name": "a", "namespace": "n", "labels": {"a": "b"}});
    assert_eq!(body, document(&json!({"metadata": metadata})));
}

#[test]
fn a_create_of_a_revision_is_refused() {
    let write = |revision: &str| {
        let metadata = json!({"name": "a", "namespace": "n", "resourceVersion": revision});
        Write::Create { document: document(&json!({ "metadata": metadata })) }
    };
    let served = served(true);
    let form =
        Form { served: &served, prefix: "", manager: "m", dry_run: false, field_validation: FieldValidation::Ignore };
    let refused = form.wire(&write("7"), &Subject::of(&write("7")).unwrap());
    assert!(matches!(refused, Err(Error::Invalid { path, .. }) if path == "metadata.resourceVersion"));
    assert!(form.wire(&write(""), &Subject::of(&write("")).unwrap()).is_ok());
}

#[test]
fn an_update_puts_the_document_at_the_revision_it_replaces() {
    let served = served(true);
    let form =
        Form { served: &served, prefix: "", manager: "m", dry_run: false, field_validation: FieldValidation::Strict };
    let write =
        Write::Update { document: document(&json!({"status": {"x": 1}})), precondition: Precondition::default() };
    let subject = Subject::of(&write).unwrap();
    let Write::Update { document: sent, precondition } = &write else { unreachable!() };
    let wire = form.update(sent, precondition, &subject, Some(Revision(9)), Some(&json!({"y": 2}))).unwrap();
    let (method, path, parameters, _, body) = parts(&wire);
    assert_eq!((method, path.as_str()), (Method::PUT, ITEM));
    assert_eq!(parameters, "fieldManager=m&fieldValidation=Strict");
    let metadata = json!({"name": "a", "namespace": "n", "resourceVersion": "9"});
    assert_eq!(body, document(&json!({"metadata": metadata})));
    let wire = form.update(sent, &PRECONDITION(), &subject, Some(Revision(9)), None).unwrap();
    let body = parts(&wire).4;
    assert_eq!((&body["metadata"]["resourceVersion"], &body["metadata"]["uid"]), (&json!("7"), &json!("u")));
    assert_eq!(wire.uid.as_deref(), Some("u"));
}

#[test]
fn an_update_keeps_the_status_of_a_kind_that_has_it_in_the_document() {
    let served = served(false);
    let form =
        Form { served: &served, prefix: "", manager: "m", dry_run: false, field_validation: FieldValidation::Ignore };
    let asked = document(&json!({"status": {"x": 1}}));
    let subject = Subject::of(&Write::Create { document: asked.clone() }).unwrap();
    let wire = form.update(&asked, &Precondition::default(), &subject, None, Some(&json!({"y": 2}))).unwrap();
    assert_eq!(parts(&wire).4["status"], json!({"y": 2}));
    let wire = form.update(&asked, &Precondition::default(), &subject, None, Some(&Value::Null)).unwrap();
    assert_eq!(parts(&wire).4.get("status"), None);
}

#[test]
fn a_status_is_replaced_without_its_document() {
    let write = |status, precondition| Write::UpdateStatus { key: key(), status, precondition };
    let (method, path, parameters, content_type, body) =
        sent(&write(json!({"x": 1}), PRECONDITION()), &served(true), false);
    assert_eq!((method, path.as_str(), parameters.as_str()), (Method::PATCH, STATUS, PARAMETERS));
    assert_eq!(content_type, "application/json-patch+json");
    let expected = json!([{"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "add", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/status", "value": {"x": 1}}]);
    assert_eq!(body, expected);
    let (_, path, _, content_type, body) = sent(&write(Value::Null, PRECONDITION()), &served(false), false);
    assert_eq!((path.as_str(), content_type), (ITEM, "application/json-patch+json"));
    assert_eq!(body[0], expected[0]);
    let removed = json!([{"op": "add", "path": "/status", "value": {}}, {"op": "remove", "path": "/status"}]);
    assert_eq!((&body[2], &body[3]), (&removed[0], &removed[1]), "a status that is not there can be removed, too");
}

#[test]
fn a_patch_of_the_status_has_nothing_else() {
    let merge = json!({"metadata": {"uid": "u", "labels": {"a": "b"}}, "spec": {"size": 2}, "status": {"x": 1}});
    let write = |change| Write::PatchStatus { key: key(), change };
    let (_, path, _, content_type, body) = sent(&write(Change::Merge(merge.clone())), &served(true), false);
    assert_eq!((path.as_str(), content_type), (STATUS, "application/merge-patch+json"));
    assert_eq!(body, json!({"metadata": {"uid": "u"}, "status": {"x": 1}}));
    let (_, path, _, content_type, _) = sent(&write(Change::Strategic(merge)), &served(false), false);
    assert_eq!((path.as_str(), content_type), (ITEM, "application/strategic-merge-patch+json"));
    let operation = |op: &str, path: &str| json!({"op": op, "path": path, "value": 1});
    let all = [operation("test", "/spec/size"), operation("add", "/spec/size"), operation("add", "/status/x")];
    let (.., body) = sent(&write(Change::Json(json!(all))), &served(true), false);
    assert_eq!(body, json!([all[0], all[2]]));
    let (.., body) = sent(&write(Change::Json(json!([operation("add", "/metadata/uid")]))), &served(true), false);
    assert_eq!(body, json!([operation("test", "/metadata/uid")]), "the server would not look at it");
}

#[test]
fn a_patch_leaves_out_the_status_where_the_server_would_take_it() {
    let patch = json!({"spec": {"size": 2}, "status": {"x": 1}});
    let write = Write::Patch { key: key(), change: Change::Merge(patch.clone()), precondition: PRECONDITION() };
    let (_, path, _, _, body) = sent(&write, &served(false), false);
    assert_eq!(path, ITEM);
    assert_eq!(body, json!({"spec": {"size": 2}, "metadata": {"uid": "u", "resourceVersion": "7"}}));
    let write =
        Write::Patch { key: key(), change: Change::Merge(patch.clone()), precondition: Precondition::default() };
    assert_eq!(sent(&write, &served(true), false).4, patch);
    let operations = json!([{"op": "remove", "path": "/status/x"}, {"op": "remove", "path": "/statusless"}]);
    let write = Write::Patch { key: key(), change: Change::Json(operations), precondition: Precondition::default() };
    assert_eq!(sent(&write, &served(false), false).4, json!([{"op": "remove", "path": "/statusless"}]));
}

#[test]
fn a_json_patch_tests_its_preconditions_first() {
    let change = Change::Json(json!([{"op": "remove", "path": "/spec/size"}]));
    let write = Write::Patch { key: key(), change, precondition: PRECONDITION() };
    let (.., body) = sent(&write, &served(true), false);
    assert_eq!(body[0]["op"], "test");
    assert_eq!(body[1]["path"], "/metadata/resourceVersion");
    assert_eq!(body[2]["path"], "/spec/size");
}

#[test]
fn a_request_knows_whether_something_has_to_hold() {
    let served = served(true);
    let form =
        Form { served: &served, prefix: "", manager: "m", dry_run: false, field_validation: FieldValidation::Ignore };
    let is_conditional = |write: Write| form.wire(&write, &Subject::of(&write).unwrap()).unwrap().is_conditional;
    let change = Change::Merge(json!({"spec": {"size": 1}}));
    for (precondition, expected) in [(PRECONDITION(), true), (Precondition::default(), false)] {
        let (status, propagation) = (json!({}), Propagation::Background);
        let patch = Write::Patch { key: key(), change: change.clone(), precondition: precondition.clone() };
        assert_eq!(is_conditional(patch), expected);
        let status = Write::UpdateStatus { key: key(), status, precondition: precondition.clone() };
        assert_eq!(is_conditional(status), expected);
        assert_eq!(
            is_conditional(Write::Delete { key: key(), precondition, propagation, grace_seconds: None }),
            expected
        );
    }
    let own = Change::Json(json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}]));
    assert!(is_conditional(Write::PatchStatus { key: key(), change: own }));
}

#[test]
fn an_apply_names_its_own_manager() {
    let metadata = json!({"name": "a", "namespace": "n", "uid": "u", "managedFields": [], "creationTimestamp": null});
    let asked = document(&json!({"status": {"x": 1}, "metadata": metadata}));
    let apply = Write::Apply { document: asked.clone(), manager: "other".to_owned(), force: true };
    let (method, path, parameters, content_type, body) = sent(&apply, &served(true), false);
    assert_eq!((method, path.as_str(), content_type), (Method::PATCH, ITEM, "application/apply-patch+yaml"));
    assert_eq!(parameters, "fieldManager=h%2Fother&fieldValidation=Ignore&force=true");
    assert_eq!(body, document(&json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}})));
    let apply = Write::ApplyStatus { document: asked, manager: "other".to_owned(), force: false };
    let (_, path, parameters, _, body) = sent(&apply, &served(true), false);
    assert_eq!((path.as_str(), parameters.ends_with("&force=false")), (STATUS, true));
    let expected = json!({"apiVersion": "example.dev/v1", "kind": "Widget",
        "metadata": {"name": "a", "namespace": "n", "uid": "u"}, "status": {"x": 1}});
    assert_eq!(body, expected);
}

#[test]
fn a_delete_has_its_preconditions_and_propagation() {
    let write = Write::Delete {
        key: key(),
        precondition: PRECONDITION(),
        propagation: Propagation::Orphan,
        grace_seconds: None,
    };
    let (method, path, parameters, _, body) = sent(&write, &served(true), true);
    assert_eq!((method, path.as_str(), parameters.as_str()), (Method::DELETE, ITEM, ""));
    let expected = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan", "dryRun": ["All"],
        "preconditions": {"uid": "u", "resourceVersion": "7"}});
    assert_eq!(body, expected);
    let write = Write::Delete {
        key: key(),
        precondition: Precondition::default(),
        propagation: Propagation::Background,
        grace_seconds: None,
    };
    assert_eq!(sent(&write, &served(true), false).4.get("preconditions"), None);
}

#[test]
fn what_names_no_resource_is_refused() {
    let refused = |document: Value| Subject::of(&Write::Create { document }).unwrap_err();
    assert!(matches!(refused(json!([])), Error::Invalid { .. }));
    assert!(matches!(refused(json!({"apiVersion": "v1", "kind": "Pod"})), Error::Invalid { .. }));
    assert!(matches!(refused(json!({"metadata": {}, "kind": "Pod"})), Error::Invalid { .. }));
    let without_namespace = Write::Create { document: document(&json!({"metadata": {"name": "a"}})) };
    let served = served(true);
    let form =
        Form { served: &served, prefix: "", manager: "m", dry_run: false, field_validation: FieldValidation::Ignore };
    let error = form.wire(&without_namespace, &Subject::of(&without_namespace).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Invalid { path, .. } if path == "metadata.namespace"));
}
