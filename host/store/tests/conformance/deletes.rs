//! Deletion: finalizers, propagation, and reuse of names.

use homeostat_store::{Error, EventType, FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Propagation, Resource};
use serde_json::json;

use crate::{Make, create, delete, is_gone, key, on_every_store, thing, update, with_metadata};

on_every_store!(
    a_resource_without_finalizers_goes_at_once,
    finalizers_hold_a_deletion_and_the_last_one_lets_it_go,
    a_second_deletion_changes_nothing,
    a_finalizer_cannot_be_added_to_a_resource_being_deleted,
    a_name_that_is_used_again_is_another_resource,
    foreground_and_orphan_leave_their_finalizer,
);

fn finalizers(resource: &Resource) -> Vec<&str> {
    resource.finalizers().collect()
}

async fn a_resource_without_finalizers_goes_at_once(make: Make) {
    let store = make(Default::default());
    let created = create(&**store, thing("a", json!({"x": 1}))).await;
    let gone = delete(&**store, key("a"), Propagation::Background).await.unwrap();
    assert_eq!(gone.change, Some(EventType::Deleted));
    assert_eq!(gone.resource.uid(), created.uid());
    assert_eq!(gone.resource.document()["spec"], json!({"x": 1}));
    assert!(is_gone(&**store, &key("a")).await);
}

/// S5: finalizers hold a deletion.
async fn finalizers_hold_a_deletion_and_the_last_one_lets_it_go(make: Make) {
    let store = make(Default::default());
    let held = |finalizers| with_metadata(thing("a", json!({})), json!({"finalizers": finalizers}));
    create(&**store, held(json!(["one.dev/a", "two.dev/b"]))).await;
    let marked = delete(&**store, key("a"), Propagation::Background).await.unwrap();
    assert_eq!(marked.change, Some(EventType::Modified));
    assert!(marked.resource.is_deleting());
    assert_eq!(marked.resource.generation(), 1);
    let fewer = update(&**store, held(json!(["two.dev/b"]))).await.unwrap();
    assert_eq!(fewer.change, Some(EventType::Modified));
    assert!(fewer.resource.is_deleting(), "an update cannot take a deletion back");
    let last = update(&**store, held(json!([]))).await.unwrap();
    assert_eq!(last.change, Some(EventType::Deleted));
    assert_eq!(last.resource.revision(), store.revision());
    assert!(is_gone(&**store, &key("a")).await);
}

/// S5: finalizers hold a deletion.
async fn a_second_deletion_changes_nothing(make: Make) {
    let store = make(Default::default());
    create(&**store, with_metadata(thing("a", json!({})), json!({"finalizers": ["one.dev/a"]}))).await;
    let first = delete(&**store, key("a"), Propagation::Background).await.unwrap();
    for propagation in [Propagation::Background, Propagation::Foreground, Propagation::Orphan] {
        let second = delete(&**store, key("a"), propagation).await.unwrap();
        assert_eq!(second.change, None);
        assert_eq!(second.resource, first.resource);
    }
    assert_eq!(store.revision(), first.resource.revision());
}

/// S5: finalizers hold a deletion.
async fn a_finalizer_cannot_be_added_to_a_resource_being_deleted(make: Make) {
    let store = make(Default::default());
    create(&**store, with_metadata(thing("a", json!({})), json!({"finalizers": ["one.dev/a"]}))).await;
    delete(&**store, key("a"), Propagation::Background).await.unwrap();
    let more = with_metadata(thing("a", json!({})), json!({"finalizers": ["one.dev/a", "two.dev/b"]}));
    let refused = update(&**store, more).await;
    assert!(matches!(&refused, Err(Error::Invalid { path, .. }) if path == "metadata.finalizers"), "{refused:?}");
}

/// S6: a resource that is created again has another uid.
async fn a_name_that_is_used_again_is_another_resource(make: Make) {
    let store = make(Default::default());
    let first = create(&**store, thing("a", json!({}))).await;
    update(&**store, thing("a", json!({"x": 1}))).await.unwrap();
    delete(&**store, key("a"), Propagation::Background).await.unwrap();
    let second = create(&**store, thing("a", json!({}))).await;
    assert_ne!(first.uid(), second.uid());
    assert_eq!(second.generation(), 1);
    assert!(second.revision() > first.revision());
    let stale = with_metadata(thing("a", json!({"x": 2})), json!({"uid": first.uid()}));
    assert!(matches!(update(&**store, stale).await, Err(Error::Conflict { .. })));
}

async fn foreground_and_orphan_leave_their_finalizer(make: Make) {
    let store = make(Default::default());
    for (name, propagation, finalizer) in
        [("a", Propagation::Foreground, FINALIZER_FOREGROUND), ("b", Propagation::Orphan, FINALIZER_ORPHAN)]
    {
        create(&**store, thing(name, json!({}))).await;
        let marked = delete(&**store, key(name), propagation).await.unwrap().resource;
        assert!(marked.is_deleting());
        assert_eq!(finalizers(&marked), [finalizer]);
        let released = with_metadata(thing(name, json!({})), json!({"finalizers": []}));
        assert_eq!(update(&**store, released).await.unwrap().change, Some(EventType::Deleted));
    }
    let orphaned = with_metadata(thing("c", json!({})), json!({"finalizers": ["one.dev/a", FINALIZER_ORPHAN]}));
    create(&**store, orphaned).await;
    let marked = delete(&**store, key("c"), Propagation::Foreground).await.unwrap().resource;
    assert_eq!(finalizers(&marked), ["one.dev/a", FINALIZER_FOREGROUND]);
}
