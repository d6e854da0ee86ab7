//! The managers of fields, as `metadata.managedFields` has them after each verb, and as clients write them.

use homeostat_store::{Change, Error, EventType, Options, Precondition, Request, Write};
use serde_json::{Value, json};

use crate::applies::{applied, apply, by, entries, entry, merging, updating};
use crate::{Difference, Make, create, update, with_metadata};

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn every_verb_notes_its_manager(make: Make) {
    let store = make(Options::default()).await;
    by(&**store, "creator", Write::Create { document: store.thing("a", json!({"a": 1})) }).await;
    by(&**store, "updater", updating(store.thing("a", json!({"a": 1, "b": 1})))).await;
    by(&**store, "merger", merging(&store, json!({"spec": {"c": 1}}))).await;
    let change = Change::Json(json!([{"op": "add", "path": "/spec/d", "value": 1}]));
    let patch = Write::Patch { key: store.key("a"), change, precondition: Precondition::default() };
    let last = by(&**store, "patcher", patch).await.resource;
    let owners: Vec<(String, Value)> = entries(&store, &last)
        .into_iter()
        .map(|entry| (entry["manager"].as_str().unwrap().to_owned(), entry["fieldsV1"]["f:spec"].clone()))
        .collect();
    let of = |manager: &str| owners.iter().find(|(name, _)| *name == store.manager(manager)).unwrap().1.clone();
    assert_eq!(of("creator"), json!({".": {}, "f:a": {}}));
    assert_eq!(of("updater"), json!({"f:b": {}}));
    assert_eq!(of("merger"), json!({"f:c": {}}));
    assert_eq!(of("patcher"), json!({"f:d": {}}));
    assert_eq!(owners.len(), 4);
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn a_status_is_owned_apart_from_the_rest(make: Make) {
    let store = make(Options::default()).await;
    let status = |status| Write::UpdateStatus { key: store.key("a"), status, precondition: Precondition::default() };
    by(&**store, "me", Write::Create { document: store.thing("a", json!({"x": 1})) }).await;
    let ready = by(&**store, "me", status(json!({"ready": true, "count": 1}))).await.resource;
    let mut own = entry(&store, "me", "Update", json!({"f:status": {".": {}, "f:ready": {}, "f:count": {}}}));
    own["subresource"] = json!("status");
    let mut found = entries(&store, &ready);
    assert_eq!(found.len(), 2);
    found.retain(|entry| entry.get("subresource").is_some());
    assert_eq!(found, [own]);
    // A field that is no longer applied, and a field of another manager, do not belong to this manager.
    let other = by(&**store, "other", status(json!({"ready": false}))).await.resource;
    let fields: Vec<Value> =
        entries(&store, &other).into_iter().filter(|entry| entry.get("subresource").is_some()).collect();
    assert_eq!(fields.len(), 2);
    assert!(
        fields
            .iter()
            .any(|entry| entry["manager"] == store.manager("me") && entry["fieldsV1"] == json!({"f:status": {}}))
    );
    assert!(fields.iter().any(|entry| entry["fieldsV1"] == json!({"f:status": {"f:ready": {}}})));
    // Applying a document without a status removes no status field.
    let mut document = store.thing("a", json!({"x": 1}));
    document["status"] = json!({"ready": true});
    let left = apply(&**store, "applier", document, false).await.unwrap().resource;
    assert_eq!(left.status(), &json!({"ready": false}));
    let gone = by(&**store, "me", status(Value::Null)).await.resource;
    assert!(entries(&store, &gone).iter().all(|entry| entry.get("subresource").is_none()), "{gone:?}");
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn owners_that_are_not_understood_stay_and_a_reset_forgets_them(make: Make) {
    let store = make(Options::default()).await;
    let first = applied(&store, "me", json!({"x": 1})).await;
    let thief = |change: Value| {
        let mut entry = entry(&store, "thief", "Apply", json!({"f:spec": {"f:x": {}}}));
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
        let document = with_metadata(store.thing("a", json!({"x": 1})), json!({"managedFields": owners}));
        assert_eq!(update(&**store, document).await.unwrap().change, None, "{owners}");
        let patch = merging(&store, json!({"metadata": {"managedFields": owners}}));
        assert_eq!(store.write(patch).await.unwrap().change, None, "{owners}");
    }
    let mut refusals = vec![thief(json!({"manager": "x".repeat(129)}))];
    if !store.differs(Difference::ServerRules) {
        refusals.push(thief(json!({"subresource": "a\nb"})));
    }
    for owners in refusals {
        let refused = store.write(merging(&store, json!({"metadata": {"managedFields": owners}}))).await;
        let is_named = |path: &str| path.starts_with("metadata.managedFields[0].");
        let is_refused = match &refused {
            Err(Error::Invalid { path, .. }) => is_named(path),
            Err(Error::InvalidFields { violations, .. }) => {
                store.differs(Difference::ServerRules) && violations.iter().all(|violation| is_named(&violation.path))
            }
            _ => false,
        };
        assert!(is_refused, "{refused:?}");
    }
    assert_eq!(store.get(&store.key("a")).await.unwrap(), first);
    if store.differs(Difference::ServerRules) {
        // A server ignores an empty list: it comes from clients that do not know the field.
        let patch = merging(&store, json!({"metadata": {"managedFields": []}}));
        return assert_eq!(store.write(patch).await.unwrap().change, None);
    }
    for reset in [json!([]), json!([{}])] {
        let patch = merging(&store, json!({"metadata": {"managedFields": reset}}));
        let forgotten = store.write(patch.clone()).await.unwrap();
        assert_eq!(forgotten.change, Some(EventType::Modified), "{reset}");
        assert_eq!(forgotten.resource.document()["metadata"].get("managedFields"), None);
        assert_eq!(forgotten.resource.generation(), first.generation());
        assert_eq!(store.write(patch).await.unwrap().change, None);
        // Until the first apply, nothing is tracked; then the existing fields have an owner.
        let again = applied(&store, "me", json!({"x": 1})).await;
        let managers: Vec<Value> = entries(&store, &again).iter().map(|entry| entry["manager"].clone()).collect();
        assert_eq!(managers, [json!(store.manager("me")), json!("before-first-apply")]);
    }
}

/// S11: an apply sets and unsets its own fields, and a conflict names fields and owners.
pub(crate) async fn owners_are_those_that_an_update_or_a_patch_of_the_resource_names(make: Make) {
    let store = make(Options::default()).await;
    let owning = |manager: &str, field: &str| entry(&store, manager, "Apply", json!({"f:spec": {field: {}}}));
    let first = applied(&store, "me", json!({"x": 1, "y": 1})).await;
    let given = json!([owning("you", "f:y"), owning("me", "f:x")]);
    let patch = json!([{"op": "replace", "path": "/metadata/managedFields", "value": given}]);
    let change = Change::Json(patch);
    let write = Write::Patch { key: store.key("a"), change, precondition: Precondition::default() };
    let written = by(&**store, "patcher", write.clone()).await;
    assert_eq!(written.change, Some(EventType::Modified));
    let kept = written.resource.document()["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(*kept, [owning("me", "f:x"), owning("you", "f:y")], "in order, and nobody owns owners");
    assert_eq!(written.resource.generation(), first.generation());
    assert_eq!(by(&**store, "patcher", write).await.change, None, "they are so already");
    // The owners that were written decide which fields an apply removes.
    let left = applied(&store, "me", json!({"z": 1})).await;
    assert_eq!(left.document()["spec"], json!({"y": 1, "z": 1}));

    // The writer owns the fields that the same write changes, even if its `managedFields` say otherwise.
    let mut document = store.thing("a", json!({"y": 2, "z": 1}));
    document["metadata"]["managedFields"] = json!([owning("you", "f:y"), owning("you", "f:z")]);
    let written = by(&**store, "writer", updating(document.clone())).await.resource;
    let managers: Vec<Value> = written.document()["metadata"]["managedFields"].as_array().unwrap().clone();
    assert_eq!(managers[0], owning("you", "f:z"));
    assert_eq!(
        (&managers[1]["manager"], &managers[1]["fieldsV1"]),
        (&json!(store.manager("writer")), &json!({"f:spec": {"f:y": {}}}))
    );

    // A status write ignores them, and so does a creation.
    let before = store.everything().await;
    let forged = json!({"metadata": {"managedFields": [owning("thief", "f:y")]}});
    let status = Write::PatchStatus { key: store.key("a"), change: Change::Merge(forged) };
    assert_eq!(store.write(status).await.unwrap().change, None);
    assert_eq!(store.everything().await, before);
    document["metadata"]["name"] = json!("b");
    let entries = create(&**store, document).await.document()["metadata"]["managedFields"].clone();
    assert_eq!((entries.as_array().unwrap().len(), &entries[0]["manager"]), (1, &json!(store.manager("homeostat"))));
}

pub(crate) async fn owners_that_come_to_too_much_are_refused(make: Make) {
    let store = make(Options::default()).await;
    let first = applied(&store, "me", json!({"x": 1})).await;
    let many: serde_json::Map<String, Value> = (0..20_000).map(|at| (format!("f:field-{at}"), json!({}))).collect();
    let owners = json!([entry(&store, "you", "Apply", json!({"f:spec": many}))]);
    let refused = store.write(merging(&store, json!({"metadata": {"managedFields": owners}}))).await;
    if store.differs(Difference::ServerRules) {
        // They count as a part of the document alone.
        assert!(store.document_max() > 20_000 * 20 && refused.is_ok(), "{refused:?}");
        return;
    }
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    assert_eq!(store.get(&store.key("a")).await.unwrap(), first);
}

pub(crate) async fn a_manager_cannot_have_just_any_name(make: Make) {
    let store = make(Options::default()).await;
    let long = "x".repeat(129);
    for manager in ["", long.as_str(), "line\nbreak"] {
        let create = Write::Create { document: store.thing("a", json!({})) };
        let created = store.submit(Request { manager: manager.into(), ..create.into() }).await;
        for refused in [created, apply(&**store, manager, store.thing("a", json!({})), true).await] {
            assert!(matches!(&refused, Err(Error::Invalid { path, .. }) if path == "fieldManager"), "{refused:?}");
        }
    }
    let fits = &long[1 + store.manager("").len()..];
    assert!(apply(&**store, fits, store.thing("a", json!({})), true).await.is_ok());
}
