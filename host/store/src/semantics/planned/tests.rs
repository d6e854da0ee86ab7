use std::sync::Arc;

use serde_json::{Value, json};

use crate::schema::Schemas;
use crate::semantics::{Decision, Validation, WritePlan, plan_write};
use crate::{
    Change, DOCUMENT_BYTES_MAX, Error, Key, Kind, Precondition, Propagation, Request, Resource, Result, Revision,
    SystemClockAndIds, Write,
};

fn kind(version: &str) -> Kind {
    Kind::new("demo.dev", version, "Widget")
}

/// The kind has a conversion, and `v2` is its storage version.
fn plan(request: Request, current: Option<&Arc<Resource>>) -> Result<WritePlan> {
    let schemas = Schemas::default();
    schemas.set_converted(&kind("v2"), ["v1", "v2"].map(|version| (version.to_owned(), None)));
    let lookup = |_: &Key| Ok(current.cloned());
    plan_write(&SystemClockAndIds, &schemas, request, Revision(9), Validation::Complete, lookup)
}

fn document(version: &str, metadata: &Value) -> Value {
    let mut document = json!({
        "apiVersion": format!("demo.dev/{version}"), "kind": "Widget", "spec": {"size": 1.0}, "status": {"ready": true},
        "metadata": {"name": "a", "uid": "u", "generation": 4},
    });
    let more = metadata.as_object().cloned().unwrap_or_default();
    document["metadata"].as_object_mut().expect("it is one").extend(more);
    document
}

fn current(version: &str, metadata: &Value) -> Arc<Resource> {
    let mut document = document(version, metadata);
    document["metadata"]["resourceVersion"] = json!("5");
    Arc::new(Resource::from_document(document).expect("well formed"))
}

fn planned(write: Write) -> Request {
    Request { is_planned: true, ..write.into() }
}

fn update(document: Value, revision: u64) -> Request {
    let precondition = Precondition { uid: Some("u".to_owned()), revision: Some(Revision(revision)) };
    planned(Write::Update { document, precondition })
}

#[test]
fn a_planned_write_stores_its_document_with_the_metadata_of_the_host() {
    let created = plan(planned(Write::Create { document: document("v2", &json!({})) }), None).expect("well formed");
    let mut wanted = document("v2", &json!({"resourceVersion": "9"}));
    wanted["spec"]["size"] = json!(1);
    assert_eq!(created.decision.resource().document(), &wanted);
    let before = current("v1", &json!({}));
    let updated = plan(update(document("v2", &json!({})), 5), Some(&before)).expect("well formed");
    assert_eq!(updated.decision.resource().document(), &wanted);
    assert!(matches!(updated.decision, Decision::Put(_)));
}

#[test]
fn a_planned_write_of_an_equal_document_changes_nothing() {
    let mut same = document("v2", &json!({}));
    same["spec"]["size"] = json!(1);
    let mut before = same.clone();
    before["metadata"]["resourceVersion"] = json!("5");
    let before = Arc::new(Resource::from_document(before).expect("well formed"));
    let unchanged = plan(update(same, 5), Some(&before)).expect("well formed").decision;
    assert_eq!(unchanged, Decision::Unchanged(before));
}

#[test]
fn a_planned_write_without_the_last_finalizer_removes_a_deleted_resource() {
    let deleting = json!({"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["x.dev/y"]});
    let before = current("v2", &deleting);
    let held = plan(update(document("v2", &deleting), 5), Some(&before)).expect("well formed").decision;
    assert!(!matches!(held, Decision::Remove(_)));
    let free = document("v2", &json!({"deletionTimestamp": "2026-01-02T03:04:05Z"}));
    assert!(matches!(plan(update(free, 5), Some(&before)).expect("well formed").decision, Decision::Remove(_)));
}

#[test]
fn a_planned_write_fails_when_the_resource_is_not_the_one_of_its_decision() {
    let before = current("v2", &json!({}));
    let whole = || document("v2", &json!({}));
    let exists = plan(planned(Write::Create { document: whole() }), Some(&before));
    assert!(matches!(exists, Err(Error::AlreadyExists { .. })));
    assert!(matches!(plan(update(whole(), 4), Some(&before)), Err(Error::Conflict { .. })));
    assert!(matches!(plan(update(whole(), 5), None), Err(Error::NotFound { .. })));
    let other = plan(update(document("v1", &json!({})), 5), Some(&before));
    assert!(matches!(other, Err(Error::OtherVersion { .. })), "it is not the storage version");
    let unnamed = plan(update(document("v2", &json!({"uid": ""})), 5), Some(&before));
    assert!(matches!(unnamed, Err(Error::Invalid { .. })));
    let mut long = whole();
    long["spec"] = json!("x".repeat(usize::try_from(DOCUMENT_BYTES_MAX).expect("it fits")));
    assert!(matches!(plan(update(long, 5), Some(&before)), Err(Error::TooLarge { .. })));
    let key = Key::new(kind("v2"), "", "a");
    let delete = Write::Delete {
        key,
        precondition: Precondition::default(),
        propagation: Propagation::Background,
        grace_seconds: None,
    };
    assert!(matches!(plan(planned(delete), Some(&before)), Err(Error::Invalid { .. })));
}

#[test]
fn no_other_write_changes_the_version_of_a_document_of_a_kind_with_a_conversion() {
    let key = |version: &str| Key::new(kind(version), "", "a");
    let patch = |version: &str| {
        let change = Change::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        Write::Patch { key: key(version), change, precondition: Precondition::default() }.into()
    };
    let before = current("v1", &json!({}));
    let refused = plan(patch("v2"), Some(&before)).expect_err("it is stored as v1");
    assert_eq!(refused, Error::OtherVersion { key: key("v2"), stored: "v1".to_owned() });
    let labelled = plan(patch("v1"), Some(&before)).expect("finalizers and garbage collection need no conversion");
    assert_eq!(labelled.decision.resource().document()["apiVersion"], "demo.dev/v1");
    let mut new = document("v1", &json!({}));
    new["metadata"] = json!({"name": "a"});
    assert!(matches!(plan(Write::Create { document: new }.into(), None), Err(Error::OtherVersion { .. })));
    let delete = Write::Delete {
        key: key("v2"),
        precondition: Precondition::default(),
        propagation: Propagation::Background,
        grace_seconds: None,
    };
    let deleted = plan(delete.into(), Some(&before)).expect("a deletion needs no conversion").decision;
    assert_eq!(deleted.resource().document()["apiVersion"], "demo.dev/v1");
}
