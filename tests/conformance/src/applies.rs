//! Server-side apply: what it sets and removes, and its conflicts.

use std::sync::Arc;

use homeostat_store::{
    Change, Error, EventType, FieldConflict, Options, Precondition, Propagation, Request, Resource, Result, Store,
    Write, WriteResponse,
};
use serde_json::{Value, json};

use crate::{Difference, Fixture, Make, create, delete, with_metadata};

pub(crate) async fn apply(store: &dyn Store, manager: &str, document: Value, force: bool) -> Result<WriteResponse> {
    store.write(Write::Apply { document, manager: manager.into(), force }).await
}

pub(crate) async fn applied(store: &Fixture, manager: &str, spec: Value) -> Arc<Resource> {
    apply(&***store, manager, store.thing("a", spec), false).await.unwrap().resource
}

pub(crate) async fn by(store: &dyn Store, manager: &str, write: Write) -> WriteResponse {
    store.submit(Request { manager: manager.into(), ..write.into() }).await.unwrap()
}

pub(crate) fn updating(document: Value) -> Write {
    Write::Update { document, precondition: Precondition::default() }
}

pub(crate) fn merging(store: &Fixture, patch: Value) -> Write {
    Write::Patch { key: store.key("a"), change: Change::Merge(patch), precondition: Precondition::default() }
}

/// Returns the entries, each without its time.
pub(crate) fn entries(store: &Fixture, resource: &Resource) -> Vec<Value> {
    let mut entries = resource.document()["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    for entry in &mut entries {
        let time = entry.as_object_mut().unwrap().remove("time");
        // A server leaves the time out where an apply adds nothing but an owner.
        let is_time = time.as_ref().and_then(Value::as_str).is_some_and(|time| time.len() == 20 && time.ends_with('Z'));
        assert!(is_time || time.is_none() && store.differs(Difference::ServerRules), "{time:?}");
    }
    entries
}

pub(crate) fn entry(store: &Fixture, manager: &str, operation: &str, fields: Value) -> Value {
    json!({
        "manager": store.manager(manager), "operation": operation, "apiVersion": store.api_version("v1"),
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    })
}

fn conflict(store: &Fixture, field: &str, manager: &str, version: Option<&str>) -> FieldConflict {
    let version = version.map(|version| store.api_version(version));
    FieldConflict { field: field.into(), manager: store.manager(manager), version, subresource: None }
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn fields_no_longer_applied_are_removed_and_fields_of_others_stay(make: Make) {
    let store = make(Options::default()).await;
    let first = applied(&store, "me", json!({"x": 1, "y": {"z": 1}, "list": [1]})).await;
    let fields = json!({"f:spec": {".": {}, "f:x": {}, "f:y": {".": {}, "f:z": {}}, "f:list": {}}});
    assert_eq!(entries(&store, &first), [entry(&store, "me", "Apply", fields)]);
    by(&**store, "other", merging(&store, json!({"spec": {"foreign": 1, "y": {"foreign": 1}}}))).await;
    let second = applied(&store, "me", json!({"x": 2})).await;
    assert_eq!(second.generation(), 3);
    if store.differs(Difference::UntypedMerges) {
        // An unknown object belongs to its manager with all that it has.
        return assert_eq!(second.document()["spec"], json!({"x": 2, "foreign": 1}));
    }
    assert_eq!(second.document()["spec"], json!({"x": 2, "y": {"foreign": 1}, "foreign": 1}));
    let foreign = json!({"f:spec": {"f:foreign": {}, "f:y": {"f:foreign": {}}}});
    let own = entry(&store, "me", "Apply", json!({"f:spec": {".": {}, "f:x": {}}}));
    assert_eq!(entries(&store, &second), [own, entry(&store, "other", "Update", foreign)]);
    assert_eq!(store.get(&store.key("a")).await.unwrap(), second);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn a_conflict_names_field_and_owner_and_changes_nothing(make: Make) {
    let store = make(Options::default()).await;
    applied(&store, "helm", json!({"x": 1, "y": 1})).await;
    by(&**store, "kubectl", merging(&store, json!({"spec": {"y": 2}}))).await;
    let before = store.everything().await;
    let refused = apply(&**store, "me", store.thing("a", json!({"x": 3, "y": 3, "z": 3})), false).await;
    let conflicts = vec![conflict(&store, ".spec.x", "helm", None), conflict(&store, ".spec.y", "kubectl", Some("v1"))];
    assert_eq!(refused, Err(Error::ApplyConflict { key: store.key("a"), conflicts }));
    let (helm, kubectl, version) = (store.manager("helm"), store.manager("kubectl"), store.api_version("v1"));
    assert_eq!(
        refused.unwrap_err().to_string(),
        format!(
            "Apply failed with 2 conflicts: conflicts with {helm:?}:\n- .spec.x\n\
             conflicts with {kubectl:?} using {version}:\n- .spec.y"
        )
    );
    let refused = apply(&**store, "me", store.thing("a", json!({"y": 3})), false).await.unwrap_err();
    let text = format!("Apply failed with 1 conflict: conflict with {kubectl:?} using {version}: .spec.y");
    assert_eq!(refused.to_string(), text);
    assert_eq!(store.everything().await, before);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn force_takes_a_field_and_its_former_owner_does_not_remove_it(make: Make) {
    let store = make(Options::default()).await;
    applied(&store, "one", json!({"x": 1})).await;
    applied(&store, "two", json!({"x": 1})).await;
    let forced = apply(&**store, "me", store.thing("a", json!({"x": 2})), true).await.unwrap().resource;
    assert_eq!(forced.document()["spec"], json!({"x": 2}));
    let named: Vec<_> =
        entries(&store, &forced).into_iter().filter(|entry| entry["fieldsV1"]["f:spec"]["f:x"] == json!({})).collect();
    assert_eq!(named, [entry(&store, "me", "Apply", json!({"f:spec": {".": {}, "f:x": {}}}))]);
    assert_eq!(applied(&store, "one", json!({})).await.document()["spec"], json!({"x": 2}));
    let refused = apply(&**store, "two", store.thing("a", json!({"x": 1})), false).await;
    assert_eq!(
        refused,
        Err(Error::ApplyConflict { key: store.key("a"), conflicts: vec![conflict(&store, ".spec.x", "me", None)] })
    );
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn a_shared_field_stays_until_its_last_manager_drops_it(make: Make) {
    let store = make(Options::default()).await;
    applied(&store, "one", json!({"x": 1})).await;
    applied(&store, "two", json!({"x": 1})).await;
    assert_eq!(applied(&store, "one", json!({})).await.document()["spec"], json!({"x": 1}));
    // The only remaining owner can change it.
    assert_eq!(applied(&store, "two", json!({"x": 2})).await.document()["spec"], json!({"x": 2}));
    let wanted = if store.differs(Difference::UntypedMerges) { Value::Null } else { json!({}) };
    assert_eq!(applied(&store, "two", json!({})).await.document()["spec"], wanted);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn an_apply_that_changes_neither_value_nor_owner_makes_no_revision(make: Make) {
    let store = make(Options::default()).await;
    by(&**store, "other", Write::Create { document: store.thing("a", json!({"x": 1})) }).await;
    let mut document =
        with_metadata(store.thing("a", json!({"x": 1, "list": [1, {"y": 2}]})), json!({"labels": {"l": "v"}}));
    apply(&**store, "me", document.clone(), false).await.unwrap();
    let before = store.everything().await;
    for force in [false, true] {
        let again = apply(&**store, "me", document.clone(), force).await.unwrap();
        assert_eq!((again.change, &again.resource), (None, &before.1[0]));
        // The host's own fields and the status are not applied.
        document["status"] = json!({"ready": true});
        document["metadata"]["generation"] = json!(77);
        document["metadata"]["managedFields"] = json!([]);
    }
    assert_eq!(store.everything().await, before);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn a_new_owner_alone_makes_a_revision_of_an_apply(make: Make) {
    let store = make(Options::default()).await;
    let first = applied(&store, "one", json!({"x": 1})).await;
    let shared = apply(&**store, "two", store.thing("a", json!({"x": 1})), false).await.unwrap();
    assert_eq!(shared.change, Some(EventType::Modified));
    assert_eq!(shared.resource.generation(), first.generation());
    assert_eq!(entries(&store, &shared.resource).len(), 2);
    // But not to an update.
    let same =
        store.submit(Request { manager: "three".into(), ..updating(store.thing("a", json!({"x": 1}))).into() }).await;
    assert_eq!(same.unwrap().change, None);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn an_update_takes_a_field_and_the_applier_then_conflicts(make: Make) {
    let store = make(Options::default()).await;
    applied(&store, "me", json!({"x": 1, "y": 1})).await;
    let updated = by(&**store, "other", updating(store.thing("a", json!({"x": 2, "y": 1})))).await.resource;
    assert_eq!(
        entries(&store, &updated),
        [
            entry(&store, "me", "Apply", json!({"f:spec": {".": {}, "f:y": {}}})),
            entry(&store, "other", "Update", json!({"f:spec": {"f:x": {}}}))
        ]
    );
    let refused = apply(&**store, "me", store.thing("a", json!({"x": 1, "y": 1})), false).await;
    let conflicts = vec![conflict(&store, ".spec.x", "other", Some("v1"))];
    assert_eq!(refused, Err(Error::ApplyConflict { key: store.key("a"), conflicts }));
    // It can yield: the field stays with its new owner.
    assert_eq!(applied(&store, "me", json!({"y": 1})).await.document()["spec"], json!({"x": 2, "y": 1}));
    // A field that an update removes has no owner.
    let removed = by(&**store, "other", updating(store.thing("a", json!({"y": 1})))).await.resource;
    assert_eq!(entries(&store, &removed), [entry(&store, "me", "Apply", json!({"f:spec": {".": {}, "f:y": {}}}))]);
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A document with the annotation of a client-side apply.
fn with_last_applied(store: &Fixture, spec: Value) -> Value {
    let applied = format!("{}\n", store.thing("a", spec.clone()));
    with_metadata(store.thing("a", spec), json!({"annotations": {LAST_APPLIED: applied}}))
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn a_client_side_apply_of_kubectl_does_not_conflict_with_its_server_side_apply(make: Make) {
    let store = make(Options::default()).await;
    let create = Write::Create { document: with_last_applied(&store, json!({"image": "1", "size": 1})) };
    by(&**store, "kubectl-client-side-apply", create).await;
    let change = json!({"image": "2", "size": 1});
    for manager in ["me", "kubectl-last-applied"] {
        let refused = apply(&**store, manager, store.thing("a", change.clone()), false).await;
        assert!(matches!(refused, Err(Error::ApplyConflict { .. })), "{manager}");
    }
    if store.manager("kubectl") != "kubectl" {
        // Then no apply is that of kubectl.
        let refused = apply(&**store, "kubectl", store.thing("a", change), false).await;
        return assert!(matches!(refused, Err(Error::ApplyConflict { .. })), "{refused:?}");
    }
    let taken = apply(&**store, "kubectl", store.thing("a", change), false).await.unwrap().resource;
    assert_eq!(taken.document()["spec"]["image"], "2");
    let renewed = taken.document()["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    let renewed: Value = serde_json::from_str(renewed).unwrap();
    assert_eq!(renewed["spec"]["image"], "2", "the annotation goes along");
    let again = store.thing("a", json!({"image": "2", "size": 1}));
    assert_eq!(apply(&**store, "kubectl", again, false).await.unwrap().change, None);

    // Fields that another manager has changed since belong to that manager.
    by(&**store, "other", merging(&store, json!({"spec": {"size": 5}}))).await;
    let refused = apply(&**store, "kubectl", store.thing("a", json!({"image": "3", "size": 1})), false).await;
    let Err(Error::ApplyConflict { conflicts, .. }) = refused else { panic!("{refused:?}") };
    let fields: Vec<&str> = conflicts.iter().map(|conflict| conflict.field.as_str()).collect();
    assert_eq!(fields, [".spec.size"]);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn labels_finalizers_and_owners_are_merged_by_item(make: Make) {
    let store = make(Options::default()).await;
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": uid});
    let metadata = |name: &str| {
        json!({
            "labels": {name: "v"}, "annotations": {name: "v"}, "finalizers": [format!("example.dev/{name}")],
            "ownerReferences": [owner(name)],
        })
    };
    for name in ["one", "two"] {
        apply(&**store, name, with_metadata(store.thing("a", json!({})), metadata(name)), false).await.unwrap();
    }
    let both = store.get(&store.key("a")).await.unwrap();
    assert_eq!(both.labels().map(|(name, _)| name).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(both.annotations().count(), 2);
    assert_eq!(both.finalizers().collect::<Vec<_>>(), ["example.dev/one", "example.dev/two"]);
    assert_eq!(both.owners().iter().map(|owner| owner.uid.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    let fields = &entries(&store, &both)[0]["fieldsV1"]["f:metadata"];
    assert_eq!(fields["f:finalizers"], json!({"v:\"example.dev/one\"": {}}));
    assert_eq!(fields["f:ownerReferences"], json!({"k:{\"uid\":\"one\"}": {}}));
    let left = applied(&store, "one", json!({})).await;
    assert_eq!(left.finalizers().collect::<Vec<_>>(), ["example.dev/two"]);
    assert_eq!((left.labels().count(), left.annotations().count(), left.owners().len()), (1, 1, 1));
    let none = applied(&store, "two", json!({})).await;
    let metadata = none.document()["metadata"].as_object().unwrap();
    let left = ["labels", "annotations", "finalizers", "ownerReferences"]
        .iter()
        .filter(|field| metadata.contains_key(**field));
    assert_eq!(left.count(), 0, "{metadata:?}");
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn an_apply_can_carry_preconditions(make: Make) {
    let store = make(Options::default()).await;
    let guarded = |metadata| with_metadata(store.thing("a", json!({"x": 2})), metadata);
    for metadata in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let refused = apply(&**store, "me", guarded(metadata), true).await;
        assert_eq!(refused, Err(Error::Conflict { key: store.key("a"), current: None }));
    }
    let first = applied(&store, "me", json!({"x": 1})).await;
    let second = applied(&store, "me", json!({"x": 3})).await;
    for metadata in [json!({"uid": "other"}), json!({"resourceVersion": first.revision().to_string()})] {
        let refused = apply(&**store, "me", guarded(metadata), true).await;
        assert_eq!(refused, Err(Error::Conflict { key: store.key("a"), current: Some(second.revision()) }));
    }
    let right = json!({"uid": first.uid(), "resourceVersion": second.revision().to_string()});
    assert_eq!(
        apply(&**store, "me", guarded(right), false).await.unwrap().resource.document()["spec"],
        json!({"x": 2})
    );
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn a_dry_run_finds_conflicts_and_stores_nothing(make: Make) {
    let store = make(Options::default()).await;
    applied(&store, "one", json!({"x": 1})).await;
    let before = store.everything().await;
    let dry = |force| {
        let write = Write::Apply { document: store.thing("a", json!({"x": 2})), manager: "two".into(), force };
        store.submit(Request { dry_run: true, ..write.into() })
    };
    assert!(matches!(dry(false).await, Err(Error::ApplyConflict { .. })));
    let forced = dry(true).await.unwrap();
    assert_eq!(forced.change, Some(EventType::Modified));
    assert_eq!(entries(&store, &forced.resource).len(), 2);
    assert_eq!(store.everything().await, before);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn a_deletion_waits_for_the_finalizers_of_every_manager(make: Make) {
    let store = make(Options::default()).await;
    let held =
        |name: &str| with_metadata(store.thing("a", json!({})), json!({"finalizers": [format!("example.dev/{name}")]}));
    for name in ["one", "two"] {
        apply(&**store, name, held(name), false).await.unwrap();
    }
    let before = entries(&store, &store.get(&store.key("a")).await.unwrap());
    let marked = delete(&**store, store.key("a"), Propagation::Foreground).await.unwrap().resource;
    assert_eq!(marked.finalizers().count(), 3);
    // The finalizer of the deletion has no owner.
    assert_eq!(entries(&store, &marked), before);
    let added = apply(&**store, "three", held("three"), false).await;
    store.assert_invalid(&added, "metadata.finalizers");
    let one = apply(&**store, "one", store.thing("a", json!({})), false).await.unwrap();
    assert_eq!(one.resource.finalizers().collect::<Vec<_>>(), ["example.dev/two", "foregroundDeletion"]);
    store.write(merging(&store, json!({"metadata": {"finalizers": ["example.dev/two"]}}))).await.unwrap();
    let two = apply(&**store, "two", store.thing("a", json!({})), false).await.unwrap();
    assert_eq!(two.change, Some(EventType::Deleted));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn a_field_that_is_null_is_not_applied_and_a_null_in_a_list_is_refused(make: Make) {
    let store = make(Options::default()).await;
    let mut document =
        with_metadata(store.thing("a", json!({"x": {"y": null, "z": 1}})), json!({"creationTimestamp": null}));
    document["status"] = json!(null);
    let applied = apply(&**store, "me", document, false).await.unwrap();
    let has_nulls = store.differs(Difference::UntypedMerges);
    let wanted = if has_nulls { json!({"x": {"y": null, "z": 1}}) } else { json!({"x": {"z": 1}}) };
    assert_eq!(applied.resource.document()["spec"], wanted);
    let gone = apply(&**store, "me", store.thing("a", json!({"x": {"z": null}})), false).await.unwrap();
    let left = gone.resource.document()["spec"]["x"].get("z");
    assert_eq!(left, has_nulls.then_some(&Value::Null), "what is no longer applied goes");
    let refused = apply(&**store, "me", store.thing("a", json!({"x": [null]})), false).await;
    assert!(
        has_nulls && refused.is_ok() || matches!(&refused, Err(Error::Invalid { path, .. }) if path == "spec.x[0]"),
        "{refused:?}"
    );
}

/// S11: like container ports, whose protocol defaults to TCP.
pub(crate) async fn an_item_of_a_list_may_leave_out_a_key_that_has_a_default(make: Make) {
    let store = make(Options::default()).await;
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "required": ["port"], "properties": {
            "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"},
        }},
    });
    let spec = json!({"type": "object", "properties": {"ports": ports}});
    store.set_schema(json!({"type": "object", "properties": {"spec": spec}})).await;
    for (name, ports) in [("one", json!([{"port": 80}])), ("two", json!([{"port": 80, "protocol": "UDP"}]))] {
        apply(&**store, name, store.thing("a", json!({"ports": ports})), false).await.unwrap();
    }
    let named =
        apply(&**store, "one", store.thing("a", json!({"ports": [{"port": 80, "name": "web"}]})), false).await.unwrap();
    let wanted = json!([{"port": 80, "protocol": "TCP", "name": "web"}, {"port": 80, "protocol": "UDP"}]);
    assert_eq!(named.resource.document()["spec"]["ports"], wanted);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn a_status_is_applied_as_all_else_is(make: Make) {
    let store = make(Options::default()).await;
    let report = async |manager: &str, status: Value, force| {
        let mut document = store.thing("a", json!({"x": 7}));
        document["status"] = status;
        document["metadata"]["labels"] = json!({"a": "b"});
        store.write(Write::ApplyStatus { document, manager: manager.into(), force }).await
    };
    let absent = report("one", json!({}), false).await;
    assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
    let created = applied(&store, "one", json!({"x": 1})).await;
    let status = report("one", json!({"ready": 1, "phase": "up", "gone": null}), false).await.unwrap().resource;
    assert_eq!(status.document()["spec"], json!({"x": 1}), "nothing but the status is applied");
    assert_eq!((status.generation(), status.labels().count()), (created.generation(), 0));
    let mut fields = json!({"f:status": {".": {}, "f:phase": {}, "f:ready": {}}});
    if store.differs(Difference::UntypedMerges) {
        fields["f:status"]["f:gone"] = json!({});
    }
    let mut of_status = entry(&store, "one", "Apply", fields);
    of_status["subresource"] = json!("status");
    assert_eq!(
        entries(&store, &status),
        [entry(&store, "one", "Apply", json!({"f:spec": {".": {}, "f:x": {}}})), of_status]
    );

    let Err(Error::ApplyConflict { conflicts, .. }) = report("two", json!({"ready": 2}), false).await else {
        panic!("one owns it")
    };
    let one = FieldConflict { subresource: Some("status".into()), ..conflict(&store, ".status.ready", "one", None) };
    assert_eq!(conflicts, [one]);
    assert_eq!(report("two", json!({"ready": 2}), true).await.unwrap().resource.status()["ready"], 2);
    let left = report("one", json!({}), false).await.unwrap().resource;
    assert_eq!(left.status(), &json!({"ready": 2}), "what one no longer applies goes, what two took stays");
    assert_eq!(report("one", json!({}), false).await.unwrap().change, None);
    let spec = applied(&store, "one", json!({"x": 2})).await;
    assert_eq!(spec.status(), &json!({"ready": 2}), "an apply of the rest leaves the status alone");

    let mut stale = store.thing("a", json!({}));
    stale["metadata"]["resourceVersion"] = json!(created.revision().to_string());
    let stale = store.write(Write::ApplyStatus { document: stale, manager: "one".into(), force: true }).await;
    assert!(matches!(stale, Err(Error::Conflict { .. })), "{stale:?}");
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn a_strategic_patch_of_a_status_merges_by_the_keys_of_the_schema(make: Make) {
    let store = make(Options::default()).await;
    let parts = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["part"],
        "items": {"type": "object", "required": ["part"], "properties": {
            "part": {"type": "string"}, "up": {"type": "boolean"},
        }},
    });
    let status = json!({"type": "object", "properties": {"parts": parts}});
    store.set_schema(json!({"type": "object", "properties": {"status": status}})).await;
    create(&**store, store.thing("a", json!({}))).await;
    let patch = async |status: Value| {
        let change = Change::Strategic(json!({"status": status, "spec": {"x": 1}}));
        store.write(Write::PatchStatus { key: store.key("a"), change }).await.unwrap().resource
    };
    patch(json!({"parts": [{"part": "one", "up": true}, {"part": "two", "up": true}]})).await;
    let patched = patch(json!({"parts": [{"part": "two", "up": false}]})).await;
    let mut wanted = json!([{"part": "one", "up": true}, {"part": "two", "up": false}]);
    if store.differs(Difference::UntypedMerges) {
        wanted = json!([{"part": "two", "up": false}]);
    }
    assert_eq!((&patched.status()["parts"], patched.generation()), (&wanted, 1));
}
