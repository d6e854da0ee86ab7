//! Writes of a part of a pod or of a namespace.

use std::sync::Arc;
use std::time::SystemTime;

use homeostat_store::schema::VersionSchema;
use homeostat_store::semantics::{Validation, WriteContext, decide};
use homeostat_store::{Change, Error, Key, Kind, Precondition, Resource, Revision, Subresource, Write};
use serde_json::{Value, json};

fn key(kind: &str, namespace: &str) -> Key {
    Key::new(Kind::new("", "v1", kind), namespace, "web")
}

fn context(key: &Key, revision: u64, subresource: Option<Subresource>) -> WriteContext {
    WriteContext {
        now: SystemTime::UNIX_EPOCH,
        uid: "1".into(),
        revision: Revision(revision),
        manager: "test".into(),
        version: VersionSchema { schema: crate::schema(key.kind()).map(Arc::new), ..VersionSchema::default() },
        subresource,
        validation: Validation::Complete,
    }
}

/// Writes to a resource through a subresource, and returns the resource, or the sorted paths of the violations.
fn write(
    before: Option<&Arc<Resource>>,
    key: &Key,
    write: Write,
    subresource: Option<Subresource>,
) -> Result<Arc<Resource>, Vec<String>> {
    let context = context(key, before.map_or(1, |before| before.revision().0 + 1), subresource);
    match decide(key, before, write, &context) {
        Ok(decision) => Ok(Arc::clone(decision.resource())),
        Err(Error::InvalidFields { violations, .. }) => Err(violations.into_iter().map(|found| found.path).collect()),
        Err(error) => panic!("{error}"),
    }
}

fn patch(before: &Arc<Resource>, patch: Value, subresource: Option<Subresource>) -> Result<Arc<Resource>, Vec<String>> {
    let change = Change::Strategic(patch);
    let key = before.key().clone();
    write(Some(before), &key.clone(), Write::Patch { key, change, precondition: Precondition::default() }, subresource)
}

fn pod() -> Arc<Resource> {
    let container = json!({
        "name": "web", "image": "nginx:1",
        "resources": { "requests": { "cpu": "100m" }, "limits": { "cpu": "200m", "memory": "1Gi" } },
    });
    let document = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "namespace": "default", "labels": { "a": "b" } },
        "spec": { "containers": [container] },
    });
    write(None, &key("Pod", "default"), Write::Create { document }, None).expect("it is valid")
}

/// Returns a field of a resource.
fn at(resource: &Resource, pointer: &str) -> Value {
    resource.document().pointer(pointer).cloned().unwrap_or_default()
}

/// Returns the subresources with owners in `managedFields`.
fn owned_parts(resource: &Resource) -> Vec<String> {
    let owners = at(resource, "/metadata/managedFields");
    let parts = owners.as_array().expect("it has owners").iter();
    parts.map(|owner| owner["subresource"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_resize_changes_the_amounts_of_containers_alone() {
    let resize = Some(Subresource::Resize);
    let (before, container) = (pod(), "/spec/containers/0");
    let patched = json!({
        "metadata": { "labels": { "a": "c" } },
        "spec": { "hostNetwork": true, "containers": [
            { "name": "web", "image": "nginx:2", "resources": { "limits": { "cpu": "300m" } } },
        ] },
    });
    let after = patch(&before, patched, resize).expect("it is allowed");
    assert_eq!(at(&after, &format!("{container}/resources/limits")), json!({ "cpu": "300m", "memory": "1Gi" }));
    for same in ["/spec/containers/0/image", "/spec/hostNetwork", "/metadata/labels"] {
        assert_eq!(at(&after, same), at(&before, same), "{same}");
    }
    assert_eq!((after.generation(), owned_parts(&after)), (2, vec![String::new(), "resize".to_owned()]));
    let of = |resources: Value| json!({ "spec": { "containers": [{ "name": "web", "resources": resources }] } });
    let refused = [
        (json!({ "spec": { "containers": [{ "name": "new", "image": "a" }] } }), "spec.containers"),
        (of(json!({ "limits": { "memory": null } })), "spec.containers[0].resources.limits"),
        (of(json!({ "limits": { "cpu": "1m" } })), "spec.containers[0].resources.requests"),
        (of(json!({ "limits": { "ephemeral-storage": "1Gi" } })), "spec"),
        (of(json!({ "requests": { "cpu": "200m", "memory": "1Gi" } })), "spec"),
    ];
    for (patched, path) in refused {
        let found = patch(&before, patched.clone(), resize).expect_err("it is forbidden");
        assert!(found.iter().any(|found| found == path), "{patched}: {found:?}");
    }
    // Through the pod itself, no amount changes.
    assert_eq!(patch(&before, of(json!({ "limits": { "cpu": "300m" } })), None), Err(vec!["spec".to_owned()]));
}

#[test]
fn ephemeral_containers_are_added_and_never_changed() {
    let part = Some(Subresource::EphemeralContainers);
    let with = |fields: Value| {
        let mut container = json!({ "name": "look", "image": "busybox:1" });
        container.as_object_mut().expect("it is one").extend(fields.as_object().expect("it is one").clone());
        json!({ "spec": { "activeDeadlineSeconds": 5, "ephemeralContainers": [container] } })
    };
    let before = pod();
    assert_eq!(patch(&before, with(json!({})), None), Err(vec!["spec".to_owned()]));
    let after = patch(&before, with(json!({ "targetContainerName": "web" })), part).expect("it is allowed");
    assert_eq!(at(&after, "/spec/ephemeralContainers/0/imagePullPolicy"), "IfNotPresent");
    assert_eq!(at(&after, "/spec/activeDeadlineSeconds"), Value::Null);
    assert_eq!(owned_parts(&after), ["", "ephemeralcontainers"]);
    // Another change of the pod leaves them.
    let labelled = patch(&after, json!({ "metadata": { "labels": { "c": "d" } } }), None).expect("it is allowed");
    assert_eq!(at(&labelled, "/spec/ephemeralContainers"), at(&after, "/spec/ephemeralContainers"));
    let list = "spec.ephemeralContainers";
    let removal = json!({ "spec": { "ephemeralContainers": null } });
    for (patched, path) in [
        (with(json!({ "image": "busybox:2" })), list.to_owned()),
        (removal, list.to_owned()),
        (with(json!({ "targetContainerName": "none" })), format!("{list}[0].targetContainerName")),
        (with(json!({ "ports": [{ "containerPort": 80 }] })), format!("{list}[0].ports")),
        (with(json!({ "name": "web" })), format!("{list}[0].name")),
    ] {
        let found = patch(&after, patched.clone(), part).expect_err("it is forbidden");
        assert!(found.contains(&path), "{patched}: {found:?}");
    }
}

#[test]
fn an_apply_of_a_subresource_creates_nothing() {
    let key = key("Pod", "default");
    let document = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
    });
    let context = context(&key, 1, Some(Subresource::Resize));
    let write = Write::Apply { document, manager: "test".into(), force: false };
    assert!(matches!(decide(&key, None, write, &context), Err(Error::NotFound { .. })));
}

#[test]
fn a_document_of_wrong_types_is_refused_by_its_schema_alone() {
    let before = pod();
    for containers in [json!(["x"]), json!([5]), json!("x"), json!([{ "name": "web", "resources": "x" }])] {
        let mut document = before.document().clone();
        document["spec"]["containers"] = containers.clone();
        for subresource in [None, Some(Subresource::Resize), Some(Subresource::EphemeralContainers)] {
            let update = Write::Update { document: document.clone(), precondition: Precondition::default() };
            let refused = write(Some(&before), before.key(), update, subresource).expect_err("it has wrong types");
            assert!(refused.iter().any(|path| path.starts_with("spec.containers")), "{containers}: {refused:?}");
        }
    }
}

#[test]
fn a_subresource_sets_no_owners() {
    let before = pod();
    let patched = json!({ "metadata": { "managedFields": [{}] } });
    let after = patch(&before, patched.clone(), Some(Subresource::Resize)).expect("it is allowed");
    assert_eq!(at(&after, "/metadata/managedFields"), at(&before, "/metadata/managedFields"));
    let after = patch(&before, patched, None).expect("it is allowed");
    assert_eq!(at(&after, "/metadata/managedFields"), Value::Null);
}

#[test]
fn only_finalize_changes_the_finalizers_of_a_namespace() {
    let document = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "web" } });
    let before = write(None, &key("Namespace", ""), Write::Create { document }, None).expect("it is valid");
    let finalizers = |resource: &Resource| at(resource, "/spec/finalizers");
    let change = json!({ "spec": { "finalizers": ["kubernetes", "demo.dev/wait"] } });
    assert_eq!(finalizers(&patch(&before, change.clone(), None).expect("it changes nothing")), json!(["kubernetes"]));
    let finalize = Some(Subresource::Finalize);
    let after = patch(&before, change, finalize).expect("it is allowed");
    assert_eq!(finalizers(&after), json!(["kubernetes", "demo.dev/wait"]));
    let found = patch(&before, json!({ "spec": { "finalizers": ["kubernetes", "plain"] } }), finalize);
    assert_eq!(found, Err(vec!["spec.finalizers[1]".to_owned()]));
}
