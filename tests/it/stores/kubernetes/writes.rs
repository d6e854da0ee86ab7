//! Writes: the request that each becomes, and what the server makes of it.

use homeostat_store::cached::{CachedState, Upstream};
use homeostat_store::{
    Change, Error, EventType, FieldValidation, Key, Kind, Precondition, Propagation, Request, Resource, Revision, Write,
};
use homeostat_testing::eventually;
use serde_json::{Value, json};

use super::{cluster_store, created, document, known, namespace, notes, send, sent, widgets};

const ANY: Precondition = Precondition { uid: None, revision: None };

fn config_maps() -> Kind {
    Kind::new("", "v1", "ConfigMap")
}

fn pods() -> Kind {
    Kind::new("", "v1", "Pod")
}

fn status(key: &Key, status: Value) -> Write {
    Write::UpdateStatus { key: key.clone(), status, precondition: ANY }
}

fn merge(key: &Key, patch: Value) -> Write {
    Write::Patch { key: key.clone(), change: Change::Merge(patch), precondition: ANY }
}

fn delete(key: &Key, propagation: Propagation) -> Write {
    Write::Delete { key: key.clone(), precondition: ANY, propagation, grace_seconds: None }
}

/// Every write with a precondition.
fn conditional(resource: &Resource, precondition: &Precondition) -> Vec<Write> {
    let mut updated = resource.document().clone();
    for field in ["uid", "resourceVersion"] {
        updated["metadata"].as_object_mut().unwrap().remove(field);
    }
    let (key, precondition) = (|| resource.key().clone(), || precondition.clone());
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let add = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
    let changes = [Change::Merge(label.clone()), Change::Strategic(label), Change::Json(add)];
    let patches = changes.map(|change| Write::Patch { key: key(), change, precondition: precondition() });
    let mut writes: Vec<_> = patches.into();
    writes.extend([
        Write::Update { document: updated, precondition: precondition() },
        Write::UpdateStatus { key: key(), status: json!({"x": 1}), precondition: precondition() },
        Write::UpdateStatus { key: key(), status: Value::Null, precondition: precondition() },
        Write::Delete {
            key: key(),
            precondition: precondition(),
            propagation: Propagation::Background,
            grace_seconds: None,
        },
    ]);
    writes
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn wrong_preconditions_are_conflicts() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    for kind in [widgets(), notes()] {
        let resource = created(&store, &Key::new(kind, &namespace, "a")).await;
        let other = "11111111-1111-1111-1111-111111111111".to_owned();
        let wrong_uid = Precondition { uid: Some(other), revision: None };
        let wrong_revision = Precondition { uid: None, revision: Some(Revision(1)) };
        for wrong in [wrong_uid, wrong_revision] {
            for write in conditional(&resource, &wrong) {
                let refused = send(&store, write.clone()).await;
                let current = Some(resource.revision());
                let expected = Err(Error::Conflict { key: resource.key().clone(), current });
                assert_eq!(refused, expected, "{write:?} {wrong:?}");
            }
        }
        let right = Precondition { uid: Some(resource.uid().to_owned()), revision: Some(resource.revision()) };
        for write in conditional(&resource, &right) {
            let request = Request { dry_run: true, ..write.clone().into() };
            store.submit(request, CachedState::Unknown).await.unwrap_or_else(|error| panic!("{write:?}: {error}"));
        }
        assert_eq!(*store.get(resource.key()).await.unwrap(), *resource, "a dry run changes nothing");
    }
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn each_verb_is_one_request() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    for kind in [widgets(), notes()] {
        let key = Key::new(kind, &namespace, "a");
        let with = |field: &str, value: Value| {
            let mut changed = document(&key);
            changed[field] = value;
            changed
        };
        let writes = [
            Write::Create { document: document(&key) },
            Write::Update { document: with("spec", json!({"size": 2})), precondition: ANY },
            status(&key, json!({"x": 1, "y": [1, 2.5, "z", null]})),
            Write::PatchStatus { key: key.clone(), change: Change::Merge(json!({"status": {"z": 1}})) },
            Write::ApplyStatus { document: with("status", json!({"w": 1})), manager: "other".to_owned(), force: false },
            merge(&key, json!({"spec": {"size": 5}})),
            Write::Apply { document: with("spec", json!({"replicas": 3})), manager: "other".to_owned(), force: false },
            status(&key, Value::Null),
            delete(&key, Propagation::Background),
        ];
        let mut seen = CachedState::Unknown;
        for write in writes {
            let (verb, before) = (write.verb(), store.counts().sent);
            let written = store.submit(write.into(), seen).await.unwrap_or_else(|error| panic!("{verb}: {error}"));
            assert_eq!(store.counts().sent - before, 1, "{verb}");
            let expected = match verb {
                "create" => EventType::Added,
                "delete" => EventType::Deleted,
                _ => EventType::Modified,
            };
            assert_eq!(written.response.change, Some(expected), "{verb}");
            seen = known(&written.response.resource);
        }
    }
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_status_is_replaced_whole_and_nothing_else_is() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    for kind in [widgets(), notes()] {
        let made = created(&store, &Key::new(kind, &namespace, "a")).await;
        sent(&store, status(made.key(), json!({"a": 1, "b": {"c": [1]}}))).await;
        let replaced = sent(&store, status(made.key(), json!({"b": {"d": 1}}))).await;
        assert_eq!(replaced.status(), &json!({"b": {"d": 1}}));
        assert_eq!(replaced.document()["spec"], made.document()["spec"]);
        let updated = sent(&store, Write::Update { document: document(made.key()), precondition: ANY }).await;
        assert_eq!(updated.status(), replaced.status(), "an update keeps the status");
        let removed = sent(&store, status(made.key(), Value::Null)).await;
        assert!(removed.status().is_null());
        let again = store.submit(status(made.key(), Value::Null).into(), known(&removed)).await.unwrap();
        assert_eq!(again.response.change, None, "a write that changes nothing makes no revision");
    }
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_pod_takes_a_whole_status_of_its_type() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    let key = Key::new(pods(), &namespace, "a");
    let mut pod = document(&key);
    pod["spec"] = json!({"containers": [{"name": "c", "image": "i"}]});
    sent(&store, Write::Create { document: pod }).await;
    let at = "2026-01-02T03:04:05Z";
    let container = json!({"name": "c", "ready": true, "restartCount": 0, "image": "i", "imageID": "",
        "state": {"running": {"startedAt": at}}});
    let whole = json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "startTime": at,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at}],
        "containerStatuses": [container]});
    let running = sent(&store, status(&key, whole)).await;
    assert_eq!(running.status()["phase"], "Running");
    let without = sent(&store, status(&key, json!({"phase": "Failed"}))).await;
    assert_eq!(without.status()["phase"], "Failed");
    assert_eq!(without.status().get("containerStatuses"), None, "the status is replaced, and not merged");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn an_apply_names_the_managers_of_its_conflicts() {
    let store = cluster_store().await;
    let key = Key::new(widgets(), &namespace(&store).await, "a");
    let apply = |manager: &str, size: u64, force| {
        let mut document = document(&key);
        document["spec"]["size"] = json!(size);
        Write::Apply { document, manager: manager.to_owned(), force }
    };
    let first = send(&store, apply("one", 1, false)).await.unwrap();
    assert_eq!(first.response.change, Some(EventType::Added));
    assert_eq!(first.response.resource.document()["metadata"]["managedFields"][0]["manager"], "homeostat/one");
    let seen = known(&first.response.resource);
    let again = store.submit(apply("one", 1, false).into(), seen).await.unwrap();
    assert_eq!(again.response.change, None);
    let Err(Error::ApplyConflict { conflicts, .. }) = send(&store, apply("two", 2, false)).await else { panic!() };
    let [conflict] = conflicts.as_slice() else { panic!("{conflicts:?}") };
    assert_eq!((conflict.manager.as_str(), conflict.field.as_str()), ("homeostat/one", ".spec.size"));
    let forced = sent(&store, apply("two", 2, true)).await;
    assert_eq!(forced.document()["spec"]["size"], 2);
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn each_refusal_of_a_server_is_told_by_its_kind() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    let key = Key::new(widgets(), &namespace, "a");
    let made = created(&store, &key).await;
    let create = |document: Value| send(&store, Write::Create { document });
    let exists = create(document(&key)).await;
    assert_eq!(exists, Err(Error::AlreadyExists { key: key.clone(), current: made.revision() }));
    let mut other = document(&Key::new(widgets(), &namespace, "b"));
    other["spec"]["size"] = json!(1000);
    let Err(Error::InvalidFields { violations, .. }) = create(other.clone()).await else { panic!() };
    assert_eq!(violations[0].path, "spec.size");
    other["metadata"]["name"] = json!("NOT_A_NAME");
    let Err(Error::InvalidFields { violations, .. }) = create(other).await else { panic!() };
    assert!(violations.iter().any(|violation| violation.path == "metadata.name"), "{violations:?}");
    let elsewhere = document(&Key::new(widgets(), "missing", "b"));
    assert!(matches!(create(elsewhere).await, Err(Error::NotFound { what }) if what.contains("namespaces")));
    let missing = Key::new(widgets(), &namespace, "missing");
    let writes = [status(&missing, json!({})), merge(&missing, json!({})), delete(&missing, Propagation::Background)];
    for write in writes {
        assert_eq!(send(&store, write).await, Err(Error::NotFound { what: missing.to_string() }));
    }
    let unserved = Key::new(Kind::new("example.dev", "v1", "Nothing"), "a", "b");
    assert!(matches!(store.get(&unserved).await, Err(Error::Unavailable { .. })), "it is no answer about a resource");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_document_that_is_too_large_is_told() {
    let store = cluster_store().await;
    let key = Key::new(widgets(), &namespace(&store).await, "large");
    for bytes in [2_000_000, 4_000_000] {
        let status = status(&key, json!({"a": "x".repeat(bytes)}));
        created(&store, &key).await;
        assert!(matches!(send(&store, status).await, Err(Error::TooLarge { .. })), "{bytes}");
        sent(&store, delete(&key, Propagation::Background)).await;
    }
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn unknown_fields_are_dropped_listed_or_refused() {
    let store = cluster_store().await;
    let mut document = document(&Key::new(widgets(), &namespace(&store).await, "a"));
    document["spec"] = json!({"size": 1, "color": "red"});
    let submit = |field_validation| {
        let write = Write::Create { document: document.clone() };
        store.submit(Request { field_validation, dry_run: true, ..write.into() }, CachedState::Unknown)
    };
    let ignored = submit(FieldValidation::Ignore).await.unwrap().response;
    assert!(ignored.unknown_fields.is_empty() && ignored.resource.document()["spec"].get("color").is_none());
    assert_eq!(submit(FieldValidation::Warn).await.unwrap().response.unknown_fields, ["spec.color"]);
    let refused = submit(FieldValidation::Strict).await;
    assert_eq!(refused, Err(Error::UnknownFields { fields: vec!["spec.color".to_owned()] }));
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn finalizers_hold_a_deletion_and_the_last_one_lets_it_go() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    for kind in [widgets(), pods(), config_maps()] {
        let key = Key::new(kind.clone(), &namespace, "held");
        let mut held = document(&key);
        held["metadata"]["finalizers"] = json!(["example.dev/hold"]);
        match kind.name.as_str() {
            "Pod" => held["spec"] = json!({"containers": [{"name": "c", "image": "i"}]}),
            "ConfigMap" => drop(held.as_object_mut().unwrap().remove("spec")),
            _ => {}
        }
        let made = sent(&store, Write::Create { document: held }).await;
        assert_eq!(made.generation(), u64::from(kind.name != "ConfigMap"), "{kind}");
        let marked = send(&store, delete(&key, Propagation::Background)).await.unwrap().response;
        assert_eq!((marked.change, marked.resource.is_deleting()), (Some(EventType::Modified), true), "{kind}");
        let again = store.submit(delete(&key, Propagation::Background).into(), known(&marked.resource)).await.unwrap();
        assert_eq!(again.response.change, None, "{kind}");
        let released = send(&store, merge(&key, json!({"metadata": {"finalizers": null}}))).await.unwrap();
        assert_eq!((released.response.change, released.at), (Some(EventType::Deleted), None), "{kind}");
        assert!(matches!(store.get(&key).await, Err(Error::NotFound { .. })), "{kind}");
    }
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_deletion_returns_the_last_state() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    for kind in [widgets(), config_maps(), Kind::new("", "v1", "ServiceAccount")] {
        let key = Key::new(kind.clone(), &namespace, "gone");
        let mut made = document(&key);
        made.as_object_mut().unwrap().remove("spec");
        let made = sent(&store, Write::Create { document: made }).await;
        let gone = send(&store, delete(&key, Propagation::Background)).await.unwrap();
        assert_eq!((gone.response.change, gone.at), (Some(EventType::Deleted), None), "{kind}");
        assert_eq!(gone.response.resource.uid(), made.uid(), "{kind}");
        assert!(matches!(store.get(&key).await, Err(Error::NotFound { .. })), "{kind}");
    }
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn foreground_and_orphan_leave_their_finalizer() {
    let store = cluster_store().await;
    let namespace = namespace(&store).await;
    for (propagation, finalizer) in [(Propagation::Foreground, "foregroundDeletion"), (Propagation::Orphan, "orphan")] {
        let made = created(&store, &Key::new(widgets(), &namespace, finalizer.to_lowercase().as_str())).await;
        let marked = send(&store, delete(made.key(), propagation)).await.unwrap().response;
        assert_eq!(marked.change, Some(EventType::Modified));
        assert_eq!(marked.resource.finalizers().collect::<Vec<_>>(), [finalizer]);
    }
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_namespace_is_deleted_by_its_own_controller() {
    let store = cluster_store().await;
    let key = Key::new(Kind::new("", "v1", "Namespace"), "", &namespace(&store).await);
    let marked = send(&store, delete(&key, Propagation::Background)).await.unwrap();
    assert_eq!(marked.response.change, Some(EventType::Modified));
    assert!(marked.response.resource.is_deleting() && marked.at.is_some());
    eventually("the namespace is gone", || async { store.get(&key).await.is_err().then_some(()) }).await;
}
