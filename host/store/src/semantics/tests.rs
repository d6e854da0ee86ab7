use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Decision, Validation, WriteContext, WritePlan, address, decide, plan_write, timestamp};
use crate::fixture::pod_key;
use crate::patch::tests::json_value;
use crate::schema::{Schemas, VersionSchema};
use crate::{Change, Precondition, Propagation, Resource, Revision, SystemClockAndIds, Write};

fn moment(revision: u64) -> WriteContext {
    WriteContext {
        now: SystemTime::UNIX_EPOCH + Duration::from_millis(1_500),
        uid: format!("uid-{revision}"),
        revision: Revision(revision),
        manager: "test".to_owned(),
        version: VersionSchema::default(),
        subresource: None,
        validation: Validation::Complete,
    }
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default"}, "spec": spec})
}

fn created() -> Arc<Resource> {
    let decision =
        decide(&pod_key("a"), None, Write::Create { document: pod(json!({})) }, &moment(1)).expect("well formed");
    Arc::clone(decision.resource())
}

#[test]
fn a_created_document_is_exactly_this() {
    let wanted = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": {},
        "metadata": {
            "name": "a", "namespace": "default", "uid": "uid-1", "creationTimestamp": "1970-01-01T00:00:01Z", "resourceVersion": "1",
            "generation": 1,
            "managedFields": [{
                "manager": "test", "operation": "Update", "apiVersion": "v1", "time": "1970-01-01T00:00:01Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}},
            }],
        },
    });
    assert_eq!(created().document(), &wanted);
}

#[test]
fn times_have_whole_seconds_and_never_fail() {
    let at = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    assert_eq!(at(1_767_323_045).map(timestamp).as_deref(), Some("2026-01-02T03:04:05Z"));
    if let Some(far) = at(1 << 50) {
        assert_eq!(timestamp(far), "1970-01-01T00:00:00Z");
    }
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(timestamp(before), "1969-12-31T23:59:59Z");
}

#[test]
fn a_name_is_generated_only_where_there_is_none() {
    let generating = |name: Value| Write::Create {
        document: json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-", "name": name}}),
    };
    for (name, wanted) in [(Value::Null, "a-bcdfg"), (json!(""), "a-bcdfg"), (json!("own"), "own")] {
        let mut write = generating(name);
        assert_eq!(address(&mut write, || "bcdfg".to_owned()).expect("well formed").name(), wanted);
        let Write::Create { document } = write else { panic!("still a create") };
        assert_eq!(document["metadata"]["name"], json!(wanted));
    }
    let mut update = Write::Update {
        document: json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}}),
        precondition: Precondition::default(),
    };
    assert!(address(&mut update, || "bcdfg".to_owned()).is_err());
}

#[test]
fn a_resource_written_in_another_version_keeps_its_identity() {
    let mut document = pod(json!({}));
    document["apiVersion"] = json!("v2");
    let write = Write::Update { document, precondition: Precondition::default() };
    let Ok(Decision::Put(updated)) = decide(&pod_key("a"), Some(&created()), write, &moment(2)) else {
        panic!("it changes")
    };
    assert_eq!(updated.key().kind().version, "v2");
    assert_eq!(updated.uid(), "uid-1");
}

#[test]
fn the_input_and_the_result_of_a_decision_are_kept_as_text() {
    let Ok(Decision::Put(current)) = decide(&pod_key("a"), None, Write::Create { document: pod(json!(1)) }, &moment(1))
    else {
        panic!("there was nothing")
    };
    let write = Write::Update { document: pod(json!(2)), precondition: Precondition::default() };
    let performed =
        plan_write(&SystemClockAndIds, &Schemas::default(), write.into(), Revision(2), Validation::Complete, |_| {
            Ok(Some(Arc::clone(&current)))
        });
    let WritePlan { previous, decision, .. } = performed.expect("well formed");
    assert!(!previous.is_some_and(|previous| previous.has_document()));
    assert!(!decision.resource().has_document());
    // A cached document without other users is freed as well.
    let write = Write::Update { document: pod(json!(3)), precondition: Precondition::default() };
    let performed =
        plan_write(&SystemClockAndIds, &Schemas::default(), write.into(), Revision(2), Validation::Complete, |_| {
            let read = Resource::from_text(current.text())?;
            assert!(read.document().is_object());
            Ok(Some(Arc::new(read)))
        });
    assert!(!performed.expect("well formed").previous.is_some_and(|previous| previous.has_document()));
    // A document that a caller uses stays cached.
    assert_eq!(decision.resource().document()["spec"], json!(2));
    assert!(decision.resource().has_document() && Arc::ptr_eq(decision.resource(), &decision.resource().detached()));
}

#[test]
fn an_apply_by_a_manager_without_fields_is_idempotent() {
    let apply = |spec| Write::Apply { document: pod(spec), manager: "me".to_owned(), force: false };
    let delete = Write::Delete {
        key: pod_key("a"),
        precondition: Precondition::default(),
        propagation: Propagation::Foreground,
        grace_seconds: None,
    };
    let mut current = None;
    for (write, revision) in [apply(json!(false)), delete, apply(Value::Null)].into_iter().zip(1..) {
        let decision = decide(&pod_key("a"), current.as_ref(), write, &moment(revision)).expect("well formed");
        current = Some(Arc::clone(decision.resource()));
    }
    // The host sets the finalizer of a foreground deletion.
    let again = decide(&pod_key("a"), current.as_ref(), apply(Value::Null), &moment(4)).expect("well formed");
    assert!(matches!(&again, Decision::Unchanged(_)), "{again:?}");
}

fn any_write() -> impl Strategy<Value = Write> {
    let document = || {
        (json_value(), json_value(), json_value()).prop_map(|(metadata, spec, status)| {
            let mut document = pod(spec);
            if let (Value::Object(fields), Some(own)) = (metadata, document["metadata"].as_object_mut()) {
                let names = ["labels", "finalizers", "ownerReferences", "uid", "generation"];
                own.extend(names.map(str::to_owned).into_iter().zip(fields.into_values()));
            }
            document["status"] = status;
            document
        })
    };
    let none = Precondition::default;
    prop_oneof![
        document().prop_map(|document| Write::Create { document }),
        document().prop_map(move |document| Write::Update { document, precondition: none() }),
        json_value().prop_map(move |status| Write::UpdateStatus { key: pod_key("a"), status, precondition: none() }),
        json_value().prop_map(move |patch| Write::Patch {
            key: pod_key("a"),
            change: Change::Merge(patch),
            precondition: none()
        }),
        json_value().prop_map(move |patch| Write::Patch {
            key: pod_key("a"),
            change: Change::Merge(json!({"metadata": {"finalizers": ["x"]}, "spec": patch})),
            precondition: none(),
        }),
        document().prop_map(|document| Write::Apply { document, manager: "me".to_owned(), force: false }),
        prop_oneof![Just(Propagation::Background), Just(Propagation::Foreground), Just(Propagation::Orphan)].prop_map(
            move |propagation| Write::Delete {
                key: pod_key("a"),
                precondition: none(),
                propagation,
                grace_seconds: None
            }
        ),
    ]
}

proptest! {
    #[test]
    fn a_decision_keeps_the_promises_to_readers(writes in proptest::collection::vec(any_write(), 1..12)) {
        let mut current: Option<Arc<Resource>> = None;
        for (write, revision) in writes.into_iter().zip(1..) {
            let before = current.clone();
            let Ok(decision) = decide(&pod_key("a"), before.as_ref(), write.clone(), &moment(revision)) else { continue };
            let after = Arc::clone(decision.resource());
            // A stored document can be parsed again.
            prop_assert_eq!(after.text(), after.document().to_string());
            prop_assert_eq!(&Resource::from_document(after.document().clone()).expect("kept"), &*after);
            prop_assert_eq!(&Resource::from_text(after.text()).expect("kept"), &*after);
            prop_assert_eq!(after.key(), &pod_key("a"));
            match (&before, &decision) {
                (Some(before), Decision::Unchanged(_)) => prop_assert_eq!(before, &after),
                (None, Decision::Unchanged(_) | Decision::Remove(..)) => prop_assert!(false, "there was nothing"),
                _ => prop_assert_eq!(after.revision(), Revision(revision)),
            }
            if let Some(before) = &before {
                let spec = |resource: &Resource| {
                    let mut document = resource.document().clone();
                    document.as_object_mut().map(|fields| (fields.remove("metadata"), fields.remove("status")));
                    document
                };
                prop_assert_eq!(before.uid(), after.uid());
                let is_new = spec(before) != spec(&after) || after.is_deleting() && !before.is_deleting();
                prop_assert_eq!(after.generation() - before.generation(), u64::from(is_new));
                let own = matches!(write, Write::UpdateStatus { .. });
                prop_assert!(own || before.status() == after.status());
            }
            // Repeating the write changes nothing, except for creations and deletions.
            current = match decision {
                Decision::Remove(..) => None,
                Decision::Put(..) | Decision::Unchanged(_) => {
                    if !matches!(write, Write::Create { .. }) {
                        let again = decide(&pod_key("a"), Some(&after), write, &moment(revision + 1));
                        let settled = matches!(again, Ok(Decision::Unchanged(_)) | Err(_));
                        prop_assert!(settled, "{:?}", again);
                    }
                    Some(after)
                }
            };
        }
    }
}
