use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::is_unchanged;
use crate::fixture::{widget, widget_key};
use crate::schema::VersionSchema;
use crate::semantics::{self, Validation, WriteContext};
use crate::{Change, FieldValidation, Precondition, Propagation, Request, Resource, Revision, Write};

fn document(spec: Value) -> Value {
    widget("a", spec)
}

fn apply(spec: Value) -> Write {
    Write::Apply { document: document(spec), manager: "me".into(), force: false }
}

fn update_status(status: Value) -> Write {
    Write::UpdateStatus { key: widget_key("a"), status, precondition: Precondition::default() }
}

/// Makes a write as a server does that knows managers by a prefix.
fn written(current: Option<&Arc<Resource>>, mut write: Write, revision: u64) -> Arc<Resource> {
    if let Write::Apply { manager, .. } = &mut write {
        *manager = rename(manager);
    }
    let context = WriteContext {
        now: SystemTime::UNIX_EPOCH,
        uid: "u".into(),
        revision: Revision(revision),
        manager: rename("me"),
        version: VersionSchema::default(),
        subresource: None,
        validation: Validation::Complete,
    };
    let decision = semantics::decide(&widget_key("a"), current, write, &context).expect("a valid write");
    Arc::clone(decision.resource())
}

fn rename(manager: &str) -> String {
    format!("homeostat/{manager}")
}

fn cached() -> Arc<Resource> {
    let applied = written(None, apply(json!({"color": "red", "ports": [1, 2]})), 3);
    written(Some(&applied), update_status(json!({"ready": 2, "share": 1.5})), 4)
}

fn request(write: Write) -> Request {
    Request { manager: "me".into(), ..Request::from(write) }
}

#[test]
fn a_write_of_what_is_there_is_unchanged() {
    let cached = cached();
    let mut updated = cached.document().clone();
    updated["metadata"]["resourceVersion"] = json!("4");
    let merge = |patch: Value| Write::Patch {
        key: widget_key("a"),
        change: Change::Merge(patch),
        precondition: Precondition { uid: Some("u".into()), revision: None },
    };
    for write in [
        apply(json!({"color": "red", "ports": [1, 2]})),
        update_status(json!({"ready": 2.0, "share": 1.5})),
        Write::PatchStatus { key: widget_key("a"), change: Change::Merge(json!({"status": {"ready": 2}})) },
        Write::Update { document: updated, precondition: Precondition::default() },
        merge(json!({"spec": {"color": "red", "shape": null}})),
    ] {
        assert!(is_unchanged(&request(write.clone()), &cached, rename), "{write:?}");
    }
}

#[test]
fn a_write_that_may_change_something_is_sent() {
    let cached = cached();
    let stale = Precondition { uid: None, revision: Some(Revision(3)) };
    let foreign = Write::Apply { document: document(json!({"color": "red"})), manager: "other".into(), force: false };
    for write in [
        apply(json!({"color": "red"})),
        apply(json!({"color": "blue", "ports": [1, 2]})),
        foreign,
        update_status(json!({"ready": 3})),
        update_status(Value::Null),
        Write::UpdateStatus { key: widget_key("a"), status: json!({"ready": 2, "share": 1.5}), precondition: stale },
        Write::Create { document: document(json!({})) },
        Write::Delete {
            key: widget_key("a"),
            precondition: Precondition::default(),
            propagation: Propagation::Background,
            grace_seconds: None,
        },
    ] {
        assert!(!is_unchanged(&request(write.clone()), &cached, rename), "{write:?}");
    }
    let same = update_status(json!({"ready": 2, "share": 1.5}));
    assert!(!is_unchanged(&Request { dry_run: true, ..request(same.clone()) }, &cached, rename));
    let strict = Request { field_validation: FieldValidation::Strict, ..request(same) };
    assert!(!is_unchanged(&strict, &cached, rename));
}
