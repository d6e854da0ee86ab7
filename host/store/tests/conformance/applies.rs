//! Server-side apply: field ownership and its effect on writes.

use std::sync::Arc;

use homeostat_store::schema::Schema;
use homeostat_store::{
    Change, Error, EventType, FieldConflict, Precondition, Propagation, Request, Resource, Result, Store, Write,
    WriteResponse,
};
use serde_json::{Value, json};

use crate::{Make, create, delete, everything, key, on_every_store, thing, update, with_metadata};

on_every_store!(
    fields_no_longer_applied_are_removed_and_fields_of_others_stay,
    a_conflict_names_field_and_owner_and_changes_nothing,
    force_takes_a_field_and_its_former_owner_does_not_remove_it,
    a_shared_field_stays_until_its_last_manager_drops_it,
    an_apply_that_changes_neither_value_nor_owner_makes_no_revision,
    a_new_owner_alone_makes_a_revision_of_an_apply,
    an_update_takes_a_field_and_the_applier_then_conflicts,
    every_verb_notes_its_manager,
    a_status_is_owned_apart_from_the_rest,
    a_status_is_applied_as_all_else_is,
    a_strategic_patch_of_a_status_merges_by_the_keys_of_the_schema,
    owners_that_are_not_understood_stay_and_a_reset_forgets_them,
    owners_are_those_that_an_update_or_a_patch_of_the_resource_names,
    owners_that_come_to_too_much_are_refused,
    a_client_side_apply_of_kubectl_does_not_conflict_with_its_server_side_apply,
    labels_finalizers_and_owners_are_merged_by_item,
    an_apply_can_carry_preconditions,
    a_manager_cannot_have_just_any_name,
    a_dry_run_finds_conflicts_and_stores_nothing,
    a_deletion_waits_for_the_finalizers_of_every_manager,
    an_item_of_a_list_may_leave_out_a_key_that_has_a_default,
    a_field_that_is_null_is_not_applied_and_a_null_in_a_list_is_refused,
);

async fn apply(store: &dyn Store, manager: &str, document: Value, force: bool) -> Result<WriteResponse> {
    store.write(Write::Apply { document, manager: manager.into(), force }).await
}

async fn applied(store: &dyn Store, manager: &str, spec: Value) -> Arc<Resource> {
    apply(store, manager, thing("a", spec), false).await.unwrap().resource
}

async fn by(store: &dyn Store, manager: &str, write: Write) -> WriteResponse {
    store.submit(Request { manager: manager.into(), ..write.into() }).await.unwrap()
}

fn updating(document: Value) -> Write {
    Write::Update { document, precondition: Precondition::default() }
}

fn merging(patch: Value) -> Write {
    Write::Patch { key: key("a"), change: Change::Merge(patch), precondition: Precondition::default() }
}

/// Returns the entries, each without its time.
fn entries(resource: &Resource) -> Vec<Value> {
    let mut entries = resource.document()["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    for entry in &mut entries {
        let time = entry.as_object_mut().unwrap().remove("time").unwrap();
        let time = time.as_str().unwrap();
        assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    }
    entries
}

fn entry(manager: &str, operation: &str, fields: Value) -> Value {
    json!({
        "manager": manager, "operation": operation, "apiVersion": "example.dev/v1", "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    })
}

fn conflict(field: &str, manager: &str, version: Option<&str>) -> FieldConflict {
    let version = version.map(str::to_owned);
    FieldConflict { field: field.into(), manager: manager.into(), version, subresource: None }
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn fields_no_longer_applied_are_removed_and_fields_of_others_stay(make: Make) {
    let store = make(Default::default());
    let first = applied(&**store, "me", json!({"x": 1, "y": {"z": 1}, "list": [1]})).await;
    let fields = json!({"f:spec": {".": {}, "f:x": {}, "f:y": {".": {}, "f:z": {}}, "f:list": {}}});
    assert_eq!(entries(&first), [entry("me", "Apply", fields)]);
    by(&**store, "other", merging(json!({"spec": {"foreign": 1, "y": {"foreign": 1}}}))).await;
    let second = applied(&**store, "me", json!({"x": 2})).await;
    assert_eq!(second.document()["spec"], json!({"x": 2, "y": {"foreign": 1}, "foreign": 1}));
    assert_eq!(second.generation(), 3);
    let foreign = json!({"f:spec": {"f:foreign": {}, "f:y": {"f:foreign": {}}}});
    let own = entry("me", "Apply", json!({"f:spec": {".": {}, "f:x": {}}}));
    assert_eq!(entries(&second), [own, entry("other", "Update", foreign)]);
    assert_eq!(store.get(&key("a")).await.unwrap(), second);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn a_conflict_names_field_and_owner_and_changes_nothing(make: Make) {
    let store = make(Default::default());
    applied(&**store, "helm", json!({"x": 1, "y": 1})).await;
    by(&**store, "kubectl", merging(json!({"spec": {"y": 2}}))).await;
    let before = everything(&**store).await;
    let refused = apply(&**store, "me", thing("a", json!({"x": 3, "y": 3, "z": 3})), false).await;
    let conflicts = vec![conflict(".spec.x", "helm", None), conflict(".spec.y", "kubectl", Some("example.dev/v1"))];
    assert_eq!(refused, Err(Error::ApplyConflict { key: key("a"), conflicts }));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "Apply failed with 2 conflicts: conflicts with \"helm\":\n- .spec.x\n\
         conflicts with \"kubectl\" using example.dev/v1:\n- .spec.y"
    );
    let refused = apply(&**store, "me", thing("a", json!({"y": 3})), false).await.unwrap_err();
    let text = "Apply failed with 1 conflict: conflict with \"kubectl\" using example.dev/v1: .spec.y";
    assert_eq!(refused.to_string(), text);
    assert_eq!(everything(&**store).await, before);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn force_takes_a_field_and_its_former_owner_does_not_remove_it(make: Make) {
    let store = make(Default::default());
    applied(&**store, "one", json!({"x": 1})).await;
    applied(&**store, "two", json!({"x": 1})).await;
    let forced = apply(&**store, "me", thing("a", json!({"x": 2})), true).await.unwrap().resource;
    assert_eq!(forced.document()["spec"], json!({"x": 2}));
    let named: Vec<_> =
        entries(&forced).into_iter().filter(|entry| entry["fieldsV1"]["f:spec"]["f:x"] == json!({})).collect();
    assert_eq!(named, [entry("me", "Apply", json!({"f:spec": {".": {}, "f:x": {}}}))]);
    assert_eq!(applied(&**store, "one", json!({})).await.document()["spec"], json!({"x": 2}));
    let refused = apply(&**store, "two", thing("a", json!({"x": 1})), false).await;
    assert_eq!(refused, Err(Error::ApplyConflict { key: key("a"), conflicts: vec![conflict(".spec.x", "me", None)] }));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn a_shared_field_stays_until_its_last_manager_drops_it(make: Make) {
    let store = make(Default::default());
    applied(&**store, "one", json!({"x": 1})).await;
    applied(&**store, "two", json!({"x": 1})).await;
    assert_eq!(applied(&**store, "one", json!({})).await.document()["spec"], json!({"x": 1}));
    // The only remaining owner can change it.
    assert_eq!(applied(&**store, "two", json!({"x": 2})).await.document()["spec"], json!({"x": 2}));
    assert_eq!(applied(&**store, "two", json!({})).await.document()["spec"], json!({}));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn an_apply_that_changes_neither_value_nor_owner_makes_no_revision(make: Make) {
    let store = make(Default::default());
    by(&**store, "other", Write::Create { document: thing("a", json!({"x": 1})) }).await;
    let mut document = with_metadata(thing("a", json!({"x": 1, "list": [1, {"y": 2}]})), json!({"labels": {"l": "v"}}));
    apply(&**store, "me", document.clone(), false).await.unwrap();
    let before = everything(&**store).await;
    for force in [false, true] {
        let again = apply(&**store, "me", document.clone(), force).await.unwrap();
        assert_eq!((again.change, &again.resource), (None, &before.1[0]));
        // The host's own fields and the status are not applied.
        document["status"] = json!({"ready": true});
        document["metadata"]["generation"] = json!(77);
        document["metadata"]["managedFields"] = json!([]);
    }
    assert_eq!(everything(&**store).await, before);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn a_new_owner_alone_makes_a_revision_of_an_apply(make: Make) {
    let store = make(Default::default());
    let first = applied(&**store, "one", json!({"x": 1})).await;
    let shared = apply(&**store, "two", thing("a", json!({"x": 1})), false).await.unwrap();
    assert_eq!(shared.change, Some(EventType::Modified));
    assert_eq!(shared.resource.generation(), first.generation());
    assert_eq!(entries(&shared.resource).len(), 2);
    // But not to an update.
    let same = store.submit(Request { manager: "three".into(), ..updating(thing("a", json!({"x": 1}))).into() }).await;
    assert_eq!(same.unwrap().change, None);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn an_update_takes_a_field_and_the_applier_then_conflicts(make: Make) {
    let store = make(Default::default());
    applied(&**store, "me", json!({"x": 1, "y": 1})).await;
    let updated = by(&**store, "other", updating(thing("a", json!({"x": 2, "y": 1})))).await.resource;
    assert_eq!(
        entries(&updated),
        [
            entry("me", "Apply", json!({"f:spec": {".": {}, "f:y": {}}})),
            entry("other", "Update", json!({"f:spec": {"f:x": {}}}))
        ]
    );
    let refused = apply(&**store, "me", thing("a", json!({"x": 1, "y": 1})), false).await;
    let conflicts = vec![conflict(".spec.x", "other", Some("example.dev/v1"))];
    assert_eq!(refused, Err(Error::ApplyConflict { key: key("a"), conflicts }));
    // It can yield: the field stays with its new owner.
    assert_eq!(applied(&**store, "me", json!({"y": 1})).await.document()["spec"], json!({"x": 2, "y": 1}));
    // A field that an update removes has no owner.
    let removed = by(&**store, "other", updating(thing("a", json!({"y": 1})))).await.resource;
    assert_eq!(entries(&removed), [entry("me", "Apply", json!({"f:spec": {".": {}, "f:y": {}}}))]);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn every_verb_notes_its_manager(make: Make) {
    let store = make(Default::default());
    by(&**store, "creator", Write::Create { document: thing("a", json!({"a": 1})) }).await;
    by(&**store, "updater", updating(thing("a", json!({"a": 1, "b": 1})))).await;
    by(&**store, "merger", merging(json!({"spec": {"c": 1}}))).await;
    let change = Change::Json(json!([{"op": "add", "path": "/spec/d", "value": 1}]));
    let patch = Write::Patch { key: key("a"), change, precondition: Precondition::default() };
    let last = by(&**store, "patcher", patch).await.resource;
    let owners: Vec<(String, Value)> = entries(&last)
        .into_iter()
        .map(|entry| (entry["manager"].as_str().unwrap().to_owned(), entry["fieldsV1"]["f:spec"].clone()))
        .collect();
    let of = |manager: &str| owners.iter().find(|(name, _)| name == manager).unwrap().1.clone();
    assert_eq!(of("creator"), json!({".": {}, "f:a": {}}));
    assert_eq!(of("updater"), json!({"f:b": {}}));
    assert_eq!(of("merger"), json!({"f:c": {}}));
    assert_eq!(of("patcher"), json!({"f:d": {}}));
    assert_eq!(owners.len(), 4);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn a_status_is_owned_apart_from_the_rest(make: Make) {
    let store = make(Default::default());
    let status = |status| Write::UpdateStatus { key: key("a"), status, precondition: Precondition::default() };
    by(&**store, "me", Write::Create { document: thing("a", json!({"x": 1})) }).await;
    let ready = by(&**store, "me", status(json!({"ready": true, "count": 1}))).await.resource;
    let mut own = entry("me", "Update", json!({"f:status": {".": {}, "f:ready": {}, "f:count": {}}}));
    own["subresource"] = json!("status");
    let mut found = entries(&ready);
    assert_eq!(found.len(), 2);
    found.retain(|entry| entry.get("subresource").is_some());
    assert_eq!(found, [own]);
    // A field that is no longer applied, and a field of another manager, do not belong to this manager.
    let other = by(&**store, "other", status(json!({"ready": false}))).await.resource;
    let fields: Vec<Value> = entries(&other).into_iter().filter(|entry| entry.get("subresource").is_some()).collect();
    assert_eq!(fields.len(), 2);
    assert!(fields.iter().any(|entry| entry["manager"] == "me" && entry["fieldsV1"] == json!({"f:status": {}})));
    assert!(fields.iter().any(|entry| entry["fieldsV1"] == json!({"f:status": {"f:ready": {}}})));
    // Applying a document without a status removes no status field.
    let mut document = thing("a", json!({"x": 1}));
    document["status"] = json!({"ready": true});
    let left = apply(&**store, "applier", document, false).await.unwrap().resource;
    assert_eq!(left.status(), &json!({"ready": false}));
    let gone = by(&**store, "me", status(Value::Null)).await.resource;
    assert!(entries(&gone).iter().all(|entry| entry.get("subresource").is_none()), "{gone:?}");
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn owners_that_are_not_understood_stay_and_a_reset_forgets_them(make: Make) {
    let store = make(Default::default());
    let first = applied(&**store, "me", json!({"x": 1})).await;
    let thief = |change: Value| {
        let mut entry = entry("thief", "Apply", json!({"f:spec": {"f:x": {}}}));
        entry.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!([entry])
    };
    let mut same = first.document()["metadata"]["managedFields"].clone();
    same[0]["time"] = json!("2000-01-01T00:00:00Z");
    for owners in [
        json!(null),
        json!("what"),
        json!([1]),
        json!({}),
        thief(json!({"operation": "Steal"})),
        thief(json!({"apiVersion": ""})),
        thief(json!({"fieldsType": "FieldsV2"})),
        thief(json!({"fieldsType": null})),
        thief(json!({"fieldsV1": 1})),
        thief(json!({"fieldsV1": {}})),
        thief(json!({"manager": 1})),
        thief(json!({"time": "yesterday"})),
        same,
    ] {
        let document = with_metadata(thing("a", json!({"x": 1})), json!({"managedFields": owners}));
        assert_eq!(update(&**store, document).await.unwrap().change, None, "{owners}");
        let patch = merging(json!({"metadata": {"managedFields": owners}}));
        assert_eq!(store.write(patch).await.unwrap().change, None, "{owners}");
    }
    for owners in [thief(json!({"manager": "x".repeat(129)})), thief(json!({"subresource": "a\nb"}))] {
        let refused = store.write(merging(json!({"metadata": {"managedFields": owners}}))).await;
        let is_named = |path: &str| path.starts_with("metadata.managedFields[0].");
        assert!(matches!(&refused, Err(Error::Invalid { path, .. }) if is_named(path)), "{refused:?}");
    }
    assert_eq!(store.get(&key("a")).await.unwrap(), first);
    for reset in [json!([]), json!([{}])] {
        let patch = merging(json!({"metadata": {"managedFields": reset}}));
        let forgotten = store.write(patch.clone()).await.unwrap();
        assert_eq!(forgotten.change, Some(EventType::Modified), "{reset}");
        assert_eq!(forgotten.resource.document()["metadata"].get("managedFields"), None);
        assert_eq!(forgotten.resource.generation(), first.generation());
        assert_eq!(store.write(patch).await.unwrap().change, None);
        // Until the first apply, nothing is tracked; then the existing fields have an owner.
        let again = applied(&**store, "me", json!({"x": 1})).await;
        let managers: Vec<Value> = entries(&again).iter().map(|entry| entry["manager"].clone()).collect();
        assert_eq!(managers, ["me", "before-first-apply"]);
    }
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn owners_are_those_that_an_update_or_a_patch_of_the_resource_names(make: Make) {
    let store = make(Default::default());
    let owning = |manager: &str, field: &str| entry(manager, "Apply", json!({"f:spec": {field: {}}}));
    let first = applied(&**store, "me", json!({"x": 1, "y": 1})).await;
    let given = json!([owning("you", "f:y"), owning("me", "f:x")]);
    let patch = json!([{"op": "replace", "path": "/metadata/managedFields", "value": given}]);
    let change = Change::Json(patch);
    let write = Write::Patch { key: key("a"), change, precondition: Precondition::default() };
    let written = by(&**store, "patcher", write.clone()).await;
    assert_eq!(written.change, Some(EventType::Modified));
    let kept = written.resource.document()["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(*kept, [owning("me", "f:x"), owning("you", "f:y")], "in order, and nobody owns owners");
    assert_eq!(written.resource.generation(), first.generation());
    assert_eq!(by(&**store, "patcher", write).await.change, None, "they are so already");
    // The owners that were written decide which fields an apply removes.
    let left = applied(&**store, "me", json!({"z": 1})).await;
    assert_eq!(left.document()["spec"], json!({"y": 1, "z": 1}));

    // The writer owns the fields that the same write changes, even if its `managedFields` say otherwise.
    let mut document = thing("a", json!({"y": 2, "z": 1}));
    document["metadata"]["managedFields"] = json!([owning("you", "f:y"), owning("you", "f:z")]);
    let written = by(&**store, "writer", updating(document.clone())).await.resource;
    let managers: Vec<Value> = written.document()["metadata"]["managedFields"].as_array().unwrap().clone();
    assert_eq!(managers[0], owning("you", "f:z"));
    assert_eq!(
        (&managers[1]["manager"], &managers[1]["fieldsV1"]),
        (&json!("writer"), &json!({"f:spec": {"f:y": {}}}))
    );

    // A status write ignores them, and so does a creation.
    let before = everything(&**store).await;
    let forged = json!({"metadata": {"managedFields": [owning("thief", "f:y")]}});
    let status = Write::PatchStatus { key: key("a"), change: Change::Merge(forged) };
    assert_eq!(store.write(status).await.unwrap().change, None);
    assert_eq!(everything(&**store).await, before);
    document["metadata"]["name"] = json!("b");
    let entries = create(&**store, document).await.document()["metadata"]["managedFields"].clone();
    assert_eq!((entries.as_array().unwrap().len(), &entries[0]["manager"]), (1, &json!("homeostat")));
}

async fn owners_that_come_to_too_much_are_refused(make: Make) {
    let store = make(Default::default());
    let first = applied(&**store, "me", json!({"x": 1})).await;
    let many: serde_json::Map<String, Value> = (0..20_000).map(|at| (format!("f:field-{at}"), json!({}))).collect();
    let owners = json!([entry("you", "Apply", json!({"f:spec": many}))]);
    let refused = store.write(merging(json!({"metadata": {"managedFields": owners}}))).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    assert_eq!(store.get(&key("a")).await.unwrap(), first);
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A document with the annotation of a client-side apply.
fn with_last_applied(spec: Value) -> Value {
    let applied = format!("{}\n", thing("a", spec.clone()));
    with_metadata(thing("a", spec), json!({"annotations": {LAST_APPLIED: applied}}))
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn a_client_side_apply_of_kubectl_does_not_conflict_with_its_server_side_apply(make: Make) {
    let store = make(Default::default());
    let create = Write::Create { document: with_last_applied(json!({"image": "1", "size": 1})) };
    by(&**store, "kubectl-client-side-apply", create).await;
    let change = json!({"image": "2", "size": 1});
    for manager in ["me", "kubectl-last-applied"] {
        let refused = apply(&**store, manager, thing("a", change.clone()), false).await;
        assert!(matches!(refused, Err(Error::ApplyConflict { .. })), "{manager}");
    }
    let taken = apply(&**store, "kubectl", thing("a", change), false).await.unwrap().resource;
    assert_eq!(taken.document()["spec"]["image"], "2");
    let renewed = taken.document()["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    let renewed: Value = serde_json::from_str(renewed).unwrap();
    assert_eq!(renewed["spec"]["image"], "2", "the annotation goes along");
    let again = thing("a", json!({"image": "2", "size": 1}));
    assert_eq!(apply(&**store, "kubectl", again, false).await.unwrap().change, None);

    // Fields that another manager has changed since belong to that manager.
    by(&**store, "other", merging(json!({"spec": {"size": 5}}))).await;
    let refused = apply(&**store, "kubectl", thing("a", json!({"image": "3", "size": 1})), false).await;
    let Err(Error::ApplyConflict { conflicts, .. }) = refused else { panic!("{refused:?}") };
    let fields: Vec<&str> = conflicts.iter().map(|conflict| conflict.field.as_str()).collect();
    assert_eq!(fields, [".spec.size"]);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn labels_finalizers_and_owners_are_merged_by_item(make: Make) {
    let store = make(Default::default());
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": uid});
    let metadata = |name: &str| {
        json!({
            "labels": {name: "v"}, "annotations": {name: "v"}, "finalizers": [format!("example.dev/{name}")],
            "ownerReferences": [owner(name)],
        })
    };
    for name in ["one", "two"] {
        apply(&**store, name, with_metadata(thing("a", json!({})), metadata(name)), false).await.unwrap();
    }
    let both = store.get(&key("a")).await.unwrap();
    assert_eq!(both.labels().map(|(name, _)| name).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(both.annotations().count(), 2);
    assert_eq!(both.finalizers().collect::<Vec<_>>(), ["example.dev/one", "example.dev/two"]);
    assert_eq!(both.owners().iter().map(|owner| owner.uid.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    let fields = &entries(&both)[0]["fieldsV1"]["f:metadata"];
    assert_eq!(fields["f:finalizers"], json!({"v:\"example.dev/one\"": {}}));
    assert_eq!(fields["f:ownerReferences"], json!({"k:{\"uid\":\"one\"}": {}}));
    let left = applied(&**store, "one", json!({})).await;
    assert_eq!(left.finalizers().collect::<Vec<_>>(), ["example.dev/two"]);
    assert_eq!((left.labels().count(), left.annotations().count(), left.owners().len()), (1, 1, 1));
    let none = applied(&**store, "two", json!({})).await;
    let metadata = none.document()["metadata"].as_object().unwrap();
    let left = ["labels", "annotations", "finalizers", "ownerReferences"]
        .iter()
        .filter(|field| metadata.contains_key(**field));
    assert_eq!(left.count(), 0, "{metadata:?}");
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn an_apply_can_carry_preconditions(make: Make) {
    let store = make(Default::default());
    let guarded = |metadata| with_metadata(thing("a", json!({"x": 2})), metadata);
    for metadata in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let refused = apply(&**store, "me", guarded(metadata), true).await;
        assert_eq!(refused, Err(Error::Conflict { key: key("a"), current: None }));
    }
    let first = applied(&**store, "me", json!({"x": 1})).await;
    let second = applied(&**store, "me", json!({"x": 3})).await;
    for metadata in [json!({"uid": "other"}), json!({"resourceVersion": first.revision().to_string()})] {
        let refused = apply(&**store, "me", guarded(metadata), true).await;
        assert_eq!(refused, Err(Error::Conflict { key: key("a"), current: Some(second.revision()) }));
    }
    let right = json!({"uid": first.uid(), "resourceVersion": second.revision().to_string()});
    assert_eq!(
        apply(&**store, "me", guarded(right), false).await.unwrap().resource.document()["spec"],
        json!({"x": 2})
    );
}

async fn a_manager_cannot_have_just_any_name(make: Make) {
    let store = make(Default::default());
    let long = "x".repeat(129);
    for manager in ["", long.as_str(), "line\nbreak"] {
        let create = Write::Create { document: thing("a", json!({})) };
        let created = store.submit(Request { manager: manager.into(), ..create.into() }).await;
        for refused in [created, apply(&**store, manager, thing("a", json!({})), true).await] {
            assert!(matches!(&refused, Err(Error::Invalid { path, .. }) if path == "fieldManager"), "{refused:?}");
        }
    }
    assert!(apply(&**store, &long[1..], thing("a", json!({})), true).await.is_ok());
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn a_dry_run_finds_conflicts_and_stores_nothing(make: Make) {
    let store = make(Default::default());
    applied(&**store, "one", json!({"x": 1})).await;
    let before = everything(&**store).await;
    let dry = |force| {
        let write = Write::Apply { document: thing("a", json!({"x": 2})), manager: "two".into(), force };
        store.submit(Request { dry_run: true, ..write.into() })
    };
    assert!(matches!(dry(false).await, Err(Error::ApplyConflict { .. })));
    let forced = dry(true).await.unwrap();
    assert_eq!(forced.change, Some(EventType::Modified));
    assert_eq!(entries(&forced.resource).len(), 2);
    assert_eq!(everything(&**store).await, before);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn a_deletion_waits_for_the_finalizers_of_every_manager(make: Make) {
    let store = make(Default::default());
    let held =
        |name: &str| with_metadata(thing("a", json!({})), json!({"finalizers": [format!("example.dev/{name}")]}));
    for name in ["one", "two"] {
        apply(&**store, name, held(name), false).await.unwrap();
    }
    let before = entries(&store.get(&key("a")).await.unwrap());
    let marked = delete(&**store, key("a"), Propagation::Foreground).await.unwrap().resource;
    assert_eq!(marked.finalizers().count(), 3);
    // The finalizer of the deletion has no owner.
    assert_eq!(entries(&marked), before);
    let added = apply(&**store, "three", held("three"), false).await;
    assert!(matches!(&added, Err(Error::Invalid { path, .. }) if path == "metadata.finalizers"), "{added:?}");
    let one = apply(&**store, "one", thing("a", json!({})), false).await.unwrap();
    assert_eq!(one.resource.finalizers().collect::<Vec<_>>(), ["example.dev/two", "foregroundDeletion"]);
    store.write(merging(json!({"metadata": {"finalizers": ["example.dev/two"]}}))).await.unwrap();
    let two = apply(&**store, "two", thing("a", json!({})), false).await.unwrap();
    assert_eq!(two.change, Some(EventType::Deleted));
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn a_field_that_is_null_is_not_applied_and_a_null_in_a_list_is_refused(make: Make) {
    let store = make(Default::default());
    let mut document = with_metadata(thing("a", json!({"x": {"y": null, "z": 1}})), json!({"creationTimestamp": null}));
    document["status"] = json!(null);
    let applied = apply(&**store, "me", document, false).await.unwrap();
    assert_eq!(applied.resource.document()["spec"], json!({"x": {"z": 1}}));
    let gone = apply(&**store, "me", thing("a", json!({"x": {"z": null}})), false).await.unwrap();
    assert!(gone.resource.document()["spec"]["x"].get("z").is_none(), "what is no longer applied goes");
    let refused = apply(&**store, "me", thing("a", json!({"x": [null]})), false).await;
    assert!(matches!(&refused, Err(Error::Invalid { path, .. }) if path == "spec.x[0]"), "{refused:?}");
}

/// S11: like container ports, whose protocol defaults to TCP.
async fn an_item_of_a_list_may_leave_out_a_key_that_has_a_default(make: Make) {
    let store = make(Default::default());
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "required": ["port"], "properties": {
            "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"},
        }},
    });
    let spec = json!({"type": "object", "properties": {"ports": ports}});
    let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": spec}})).unwrap();
    store.schemas().set(key("a").kind(), [("v1".to_owned(), Some(schema))]);
    for (name, ports) in [("one", json!([{"port": 80}])), ("two", json!([{"port": 80, "protocol": "UDP"}]))] {
        apply(&**store, name, thing("a", json!({"ports": ports})), false).await.unwrap();
    }
    let named =
        apply(&**store, "one", thing("a", json!({"ports": [{"port": 80, "name": "web"}]})), false).await.unwrap();
    let wanted = json!([{"port": 80, "protocol": "TCP", "name": "web"}, {"port": 80, "protocol": "UDP"}]);
    assert_eq!(named.resource.document()["spec"]["ports"], wanted);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn a_status_is_applied_as_all_else_is(make: Make) {
    let store = make(Default::default());
    let report = async |manager: &str, status: Value, force| {
        let mut document = thing("a", json!({"x": 7}));
        document["status"] = status;
        document["metadata"]["labels"] = json!({"a": "b"});
        store.write(Write::ApplyStatus { document, manager: manager.into(), force }).await
    };
    let absent = report("one", json!({}), false).await;
    assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
    let created = applied(&**store, "one", json!({"x": 1})).await;
    let status = report("one", json!({"ready": 1, "phase": "up", "gone": null}), false).await.unwrap().resource;
    assert_eq!(status.document()["spec"], json!({"x": 1}), "nothing but the status is applied");
    assert_eq!((status.generation(), status.labels().count()), (created.generation(), 0));
    let mut of_status = entry("one", "Apply", json!({"f:status": {".": {}, "f:phase": {}, "f:ready": {}}}));
    of_status["subresource"] = json!("status");
    assert_eq!(entries(&status), [entry("one", "Apply", json!({"f:spec": {".": {}, "f:x": {}}})), of_status]);

    let Err(Error::ApplyConflict { conflicts, .. }) = report("two", json!({"ready": 2}), false).await else {
        panic!("one owns it")
    };
    let one = FieldConflict { subresource: Some("status".into()), ..conflict(".status.ready", "one", None) };
    assert_eq!(conflicts, [one]);
    assert_eq!(report("two", json!({"ready": 2}), true).await.unwrap().resource.status()["ready"], 2);
    let left = report("one", json!({}), false).await.unwrap().resource;
    assert_eq!(left.status(), &json!({"ready": 2}), "what one no longer applies goes, what two took stays");
    assert_eq!(report("one", json!({}), false).await.unwrap().change, None);
    let spec = applied(&**store, "one", json!({"x": 2})).await;
    assert_eq!(spec.status(), &json!({"ready": 2}), "an apply of the rest leaves the status alone");

    let mut stale = thing("a", json!({}));
    stale["metadata"]["resourceVersion"] = json!(created.revision().to_string());
    let stale = store.write(Write::ApplyStatus { document: stale, manager: "one".into(), force: true }).await;
    assert!(matches!(stale, Err(Error::Conflict { .. })), "{stale:?}");
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
async fn a_strategic_patch_of_a_status_merges_by_the_keys_of_the_schema(make: Make) {
    let store = make(Default::default());
    let parts = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["part"],
        "items": {"type": "object", "required": ["part"], "properties": {
            "part": {"type": "string"}, "up": {"type": "boolean"},
        }},
    });
    let status = json!({"type": "object", "properties": {"parts": parts}});
    let schema = Schema::parse(&json!({"type": "object", "properties": {"status": status}})).unwrap();
    store.schemas().set(key("a").kind(), [("v1".to_owned(), Some(schema))]);
    create(&**store, thing("a", json!({}))).await;
    let patch = async |status: Value| {
        let change = Change::Strategic(json!({"status": status, "spec": {"x": 1}}));
        store.write(Write::PatchStatus { key: key("a"), change }).await.unwrap().resource
    };
    patch(json!({"parts": [{"part": "one", "up": true}, {"part": "two", "up": true}]})).await;
    let patched = patch(json!({"parts": [{"part": "two", "up": false}]})).await;
    let wanted = json!([{"part": "one", "up": true}, {"part": "two", "up": false}]);
    assert_eq!((&patched.status()["parts"], patched.generation()), (&wanted, 1));
}
