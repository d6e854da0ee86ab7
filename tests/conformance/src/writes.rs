//! Creations and changes: revisions, generations, conflicts, field owners.

use homeostat_store::{Change, Error, EventType, Options, Precondition, Revision, Write};
use serde_json::{Value, json};

use crate::{Difference, Make, create, delete, update, update_status, with_metadata};

fn expecting(uid: Option<&str>, revision: Option<Revision>) -> Precondition {
    Precondition { uid: uid.map(str::to_owned), revision }
}

pub(crate) async fn a_created_resource_has_its_metadata_filled_in(make: Make) {
    let store = make(Options::default()).await;
    let mut document = with_metadata(
        store.thing("a", json!({"size": 1})),
        json!({"uid": "mine", "generation": 7, "labels": {"a": "b"}}),
    );
    document["status"] = json!({"ready": true});
    let created = create(&**store, document).await;
    assert_eq!(created.key(), &store.key("a"));
    store.assert_count(created.revision(), 1);
    assert_eq!(created.generation(), 1);
    assert_ne!(created.uid(), "mine");
    assert_eq!(created.uid().len(), 36);
    assert_eq!(created.status(), &Value::Null);
    assert_eq!(created.label("a"), Some("b"));
    let at = created.document()["metadata"]["creationTimestamp"].as_str().unwrap();
    assert!(at.len() == 20 && at.ends_with('Z') && at.as_bytes()[10] == b'T', "{at}");
    assert_eq!(store.get(&store.key("a")).await.unwrap(), created);
}

/// S1: revisions only grow.
pub(crate) async fn revisions_only_grow_and_by_one(make: Make) {
    let store = make(Options::default()).await;
    let mut begin = store.begin().await;
    let start = begin.at;
    store.assert_count(start, 0);
    let created = create(&**store, store.thing("a", json!({}))).await;
    let updated = update(&**store, store.thing("a", json!({"x": 1}))).await.unwrap().resource;
    let ready = update_status(&**store, store.key("a"), json!({"ready": true})).await.unwrap().resource;
    let gone = delete(&**store, store.key("a"), Default::default()).await.unwrap();
    let end = begin.see_deletion(&gone).await;
    store.assert_newest(end).await;
    let again = create(&**store, store.thing("a", json!({}))).await;
    let all = [created.revision(), updated.revision(), ready.revision(), end, again.revision()];
    store.assert_consecutive(start, all);
    store.assert_count(again.revision(), 5);
}

/// S2: a write with an outdated precondition is a conflict and changes nothing.
pub(crate) async fn creating_an_existing_resource_is_refused_and_changes_nothing(make: Make) {
    let store = make(Options::default()).await;
    let created = create(&**store, store.thing("a", json!({"x": 1}))).await;
    let before = store.everything().await;
    let refused = store.write(Write::Create { document: store.thing("a", json!({"x": 2})) }).await;
    assert_eq!(refused, Err(Error::AlreadyExists { key: store.key("a"), current: created.revision() }));
    assert_eq!(store.everything().await, before);
}

/// S2: a write with an outdated precondition is a conflict and changes nothing.
pub(crate) async fn an_old_revision_or_another_uid_is_a_conflict_and_changes_nothing(make: Make) {
    let store = make(Options::default()).await;
    let old = create(&**store, store.thing("a", json!({"x": 1}))).await;
    let new = update(&**store, store.thing("a", json!({"x": 2}))).await.unwrap().resource;
    let before = store.everything().await;
    let conflict = Err(Error::Conflict { key: store.key("a"), current: Some(new.revision()) });
    let later = Revision(new.revision().0 + 7);
    let document = store.thing("a", json!({"x": 3}));
    for precondition in
        [expecting(None, Some(old.revision())), expecting(Some("other"), None), expecting(None, Some(later))]
    {
        let (document, precondition) = (document.clone(), precondition.clone());
        let merge = Change::Merge(json!({"spec": {"x": 4}}));
        for write in [
            Write::Update { document, precondition: precondition.clone() },
            Write::UpdateStatus { key: store.key("a"), status: json!(1), precondition: precondition.clone() },
            Write::Patch { key: store.key("a"), change: merge, precondition: precondition.clone() },
            Write::Delete { key: store.key("a"), precondition, propagation: Default::default(), grace_seconds: None },
        ] {
            assert_eq!(store.write(write.clone()).await, conflict, "{write:?}");
        }
    }
    for metadata in [
        json!({"resourceVersion": old.revision().to_string()}),
        json!({"uid": "other"}),
        json!({"resourceVersion": "what"}),
    ] {
        assert_eq!(update(&**store, with_metadata(document.clone(), metadata)).await, conflict);
    }
    assert_eq!(store.everything().await, before);
    let right = with_metadata(document, json!({"resourceVersion": new.revision().to_string(), "uid": old.uid()}));
    store.assert_next(new.revision(), update(&**store, right).await.unwrap().resource.revision());
}

/// S3: a write that changes nothing makes no revision.
pub(crate) async fn a_write_that_changes_nothing_makes_no_revision(make: Make) {
    let store = make(Options::default()).await;
    let document =
        with_metadata(store.thing("a", json!({"x": [1, {"y": null}]})), json!({"labels": {}, "finalizers": null}));
    create(&**store, document.clone()).await;
    update_status(&**store, store.key("a"), json!({"ready": true})).await.unwrap();
    let apply = Write::Apply { document: store.thing("a", json!({})), manager: "me".into(), force: false };
    // The first apply adds an owner.
    store.write(apply.clone()).await.unwrap();
    let before = store.everything().await;
    let precondition = Precondition::default();
    for write in [
        Write::Update { document: document.clone(), precondition: precondition.clone() },
        Write::Update { document: before.1[0].document().clone(), precondition: precondition.clone() },
        Write::UpdateStatus { key: store.key("a"), status: json!({"ready": true}), precondition: precondition.clone() },
        Write::Patch { key: store.key("a"), change: Change::Merge(json!({})), precondition: precondition.clone() },
        Write::Patch { key: store.key("a"), change: Change::Json(json!([])), precondition },
        apply,
    ] {
        let written = store.write(write.clone()).await.unwrap();
        assert_eq!(written.change, None, "{write:?}");
        assert_eq!(written.resource, before.1[0]);
    }
    assert_eq!(store.everything().await, before);
}

/// S4: only changes of the spec and the beginning of a deletion raise the generation, and the status has its own verb.
pub(crate) async fn the_generation_grows_with_the_spec_only(make: Make) {
    let store = make(Options::default()).await;
    create(&**store, store.thing("a", json!({"x": 1}))).await;
    let labelled = with_metadata(store.thing("a", json!({"x": 1})), json!({"labels": {"a": "b"}}));
    assert_eq!(update(&**store, labelled).await.unwrap().resource.generation(), 1);
    assert_eq!(update_status(&**store, store.key("a"), json!({"x": 9})).await.unwrap().resource.generation(), 1);
    assert_eq!(update(&**store, store.thing("a", json!({"x": 2}))).await.unwrap().resource.generation(), 2);
    let mut data = store.thing("a", json!({"x": 2}));
    data["data"] = json!("outside of spec");
    data["metadata"]["generation"] = json!(77);
    assert_eq!(update(&**store, data).await.unwrap().resource.generation(), 3);
}

/// S4: only changes of the spec and the beginning of a deletion raise the generation, and the status has its own verb.
pub(crate) async fn status_is_written_by_its_own_verb_alone(make: Make) {
    let store = make(Options::default()).await;
    create(&**store, store.thing("a", json!({"x": 1}))).await;
    let ready = update_status(&**store, store.key("a"), json!({"ready": true})).await.unwrap().resource;
    assert_eq!(ready.document()["spec"], json!({"x": 1}));
    let mut document = store.thing("a", json!({"x": 2}));
    document["status"] = json!({"ready": false});
    let updated = update(&**store, document.clone()).await.unwrap().resource;
    assert_eq!(updated.status(), &json!({"ready": true}));
    let change = Change::Merge(json!({"status": null, "spec": {"x": 3}}));
    let patched =
        store.write(Write::Patch { key: store.key("a"), change, precondition: Default::default() }).await.unwrap();
    assert_eq!(patched.resource.status(), &json!({"ready": true}));
    let applied = store.write(Write::Apply { document, manager: "me".into(), force: true }).await.unwrap();
    assert_eq!(applied.resource.status(), &json!({"ready": true}));
    let none = update_status(&**store, store.key("a"), Value::Null).await.unwrap().resource;
    assert!(none.document().get("status").is_none());
}

pub(crate) async fn a_generated_name_begins_as_asked_and_is_new_each_time(make: Make) {
    let store = make(Options::default()).await;
    let mut document = store.thing("a", json!({}));
    document["metadata"] = json!({"namespace": "default", "generateName": "thing-"});
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let name = create(&**store, document.clone()).await.key().name().to_owned();
        assert!(name.starts_with("thing-") && name.len() == 11, "{name}");
        names.insert(name);
    }
    assert_eq!(names.len(), 50);
    document["metadata"]["generateName"] = json!("x".repeat(300));
    let long = store.write(Write::Create { document: document.clone() }).await;
    if store.differs(Difference::ServerRules) {
        store.assert_invalid(&long, "metadata.generateName");
    } else {
        long.unwrap();
    }
    document["metadata"]["generateName"] = json!("Upper");
    let refused = store.write(Write::Create { document }).await;
    store.assert_invalid(&refused, "metadata.generateName");
}

pub(crate) async fn a_merge_patch_sets_and_removes(make: Make) {
    let store = make(Options::default()).await;
    create(&**store, store.thing("a", json!({"keep": 1, "drop": 2, "deep": {"a": 1}}))).await;
    let change = Change::Merge(json!({"spec": {"drop": null, "deep": {"b": 2}}, "metadata": {"labels": {"l": "v"}}}));
    let patched =
        store.write(Write::Patch { key: store.key("a"), change, precondition: Default::default() }).await.unwrap();
    assert_eq!(patched.resource.document()["spec"], json!({"keep": 1, "deep": {"a": 1, "b": 2}}));
    assert_eq!(patched.resource.label("l"), Some("v"));
}

pub(crate) async fn a_json_patch_is_all_or_nothing(make: Make) {
    let store = make(Options::default()).await;
    create(&**store, store.thing("a", json!({"list": [1, 2]}))).await;
    let before = store.everything().await;
    let patch = |operations| Write::Patch {
        key: store.key("a"),
        change: Change::Json(operations),
        precondition: Default::default(),
    };
    let fails = json!([{"op": "add", "path": "/spec/x", "value": 1}, {"op": "test", "path": "/spec/x", "value": 2}]);
    let refused = store.write(patch(fails)).await;
    store.assert_invalid(&refused, "patch[1]");
    assert_eq!(store.everything().await, before);
    let works = json!([{"op": "add", "path": "/spec/list/-", "value": 3}, {"op": "remove", "path": "/spec/list/0"}]);
    assert_eq!(store.write(patch(works)).await.unwrap().resource.document()["spec"]["list"], json!([2, 3]));
}

pub(crate) async fn a_patch_cannot_change_host_owned_metadata(make: Make) {
    let store = make(Options::default()).await;
    let created = create(&**store, store.thing("a", json!({}))).await;
    let merge = |metadata| Write::Patch {
        key: store.key("a"),
        change: Change::Merge(json!({"metadata": metadata})),
        precondition: Default::default(),
    };
    for (metadata, wanted) in
        [(json!({"name": "b"}), "metadata.name"), (json!({"namespace": "other"}), "metadata.namespace")]
    {
        store.assert_invalid(&store.write(merge(metadata)).await, wanted);
    }
    let mut ignored = json!({
        "uid": null, "generation": 9, "deletionTimestamp": "2000-01-01T00:00:00Z",
        "creationTimestamp": "2000-01-01T00:00:00Z",
    });
    if !store.differs(Difference::ServerRules) {
        ignored["managedFields"] = json!([1]);
    }
    assert_eq!(store.write(merge(ignored)).await.unwrap().change, None);
    assert_eq!(store.get(&store.key("a")).await.unwrap(), created);
}

pub(crate) async fn apply_creates_then_merges_then_changes_nothing(make: Make) {
    let store = make(Options::default()).await;
    let apply = |spec| Write::Apply { document: store.thing("a", spec), manager: "me".into(), force: false };
    assert_eq!(store.write(apply(json!({"x": 1}))).await.unwrap().change, Some(EventType::Added));
    update(&**store, store.thing("a", json!({"x": 1, "y": 2}))).await.unwrap();
    let merged = store.write(apply(json!({"x": 3}))).await.unwrap();
    assert_eq!(merged.change, Some(EventType::Modified));
    assert_eq!(merged.resource.document()["spec"], json!({"x": 3, "y": 2}));
    assert_eq!(store.write(apply(json!({"x": 3}))).await.unwrap().change, None);
    let nobody =
        store.write(Write::Apply { document: store.thing("a", json!({})), manager: String::new(), force: false }).await;
    assert!(matches!(nobody, Err(Error::Invalid { .. })));
}

pub(crate) async fn writing_to_a_missing_resource_is_not_found(make: Make) {
    let store = make(Options::default()).await;
    let before = store.everything().await;
    let missing =
        |answer| assert!(matches!(&answer, Err(Error::NotFound { what }) if what.ends_with("default/a")), "{answer:?}");
    missing(update(&**store, store.thing("a", json!({}))).await);
    missing(update_status(&**store, store.key("a"), json!({})).await);
    missing(delete(&**store, store.key("a"), Default::default()).await);
    let change = Change::Merge(json!({}));
    missing(store.write(Write::Patch { key: store.key("a"), change, precondition: Default::default() }).await);
    assert_eq!(store.everything().await, before);
}

/// S2: a write with an outdated precondition is a conflict and changes nothing.
pub(crate) async fn one_of_many_concurrent_updates_of_one_revision_wins(make: Make) {
    let store = make(Options::default()).await;
    let created = create(&**store, store.thing("a", json!({}))).await;
    let mut racers = tokio::task::JoinSet::new();
    for racer in 0..20 {
        let (store, revision) = (store.clone(), created.revision());
        racers.spawn(async move {
            let document = store.thing("a", json!({"racer": racer}));
            store.write(Write::Update { document, precondition: expecting(None, Some(revision)) }).await
        });
    }
    let answers = racers.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Err(Error::Conflict { .. }))).count(), 19);
    let last = store.get(&store.key("a")).await.unwrap();
    store.assert_next(created.revision(), last.revision());
    store.assert_newest(last.revision()).await;
}

pub(crate) async fn concurrent_patches_without_precondition_all_count(make: Make) {
    let store = make(Options::default()).await;
    let created = create(&**store, store.thing("a", json!({}))).await;
    let mut patches = tokio::task::JoinSet::new();
    for number in 0..200 {
        let store = store.clone();
        patches.spawn(async move {
            let change = Change::Merge(json!({"spec": {number.to_string(): number}}));
            store.write(Write::Patch { key: store.key("a"), change, precondition: Default::default() }).await.unwrap()
        });
    }
    let mut revisions: Vec<_> = patches.join_all().await.iter().map(|written| written.resource.revision()).collect();
    revisions.sort_unstable();
    assert_eq!(revisions.len(), 200);
    store.assert_consecutive(created.revision(), revisions);
    let last = store.get(&store.key("a")).await.unwrap();
    assert_eq!(last.document()["spec"].as_object().unwrap().len(), 200);
    assert_eq!(last.generation(), 201);
}

pub(crate) async fn after_close_everything_is_refused(make: Make) {
    let store = make(Options::default()).await;
    create(&**store, store.thing("a", json!({}))).await;
    assert_eq!(store.health(), Ok(()));
    store.close().await;
    store.close().await;
    assert_eq!(store.health(), Err(Error::Closed));
    assert_eq!(store.get(&store.key("a")).await, Err(Error::Closed));
    assert_eq!(update(&**store, store.thing("a", json!({}))).await, Err(Error::Closed));
    assert_eq!(store.kinds().await, Err(Error::Closed));
}
