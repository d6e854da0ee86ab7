//! Deletion: finalizers, propagation, and reuse of names.

use homeostat_store::{Error, EventType, FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Options, Propagation, Resource};
use serde_json::json;

use crate::{Make, create, delete, is_gone, update, with_metadata};

fn finalizers(resource: &Resource) -> Vec<&str> {
    resource.finalizers().collect()
}

pub(crate) async fn a_resource_without_finalizers_goes_at_once(make: Make) {
    let store = make(Options::default()).await;
    let created = create(&**store, store.thing("a", json!({"x": 1}))).await;
    let gone = delete(&**store, store.key("a"), Propagation::Background).await.unwrap();
    assert_eq!(gone.change, Some(EventType::Deleted));
    assert_eq!(gone.resource.uid(), created.uid());
    assert_eq!(gone.resource.document()["spec"], json!({"x": 1}));
    assert!(is_gone(&**store, &store.key("a")).await);
}

/// S5: finalizers hold a deletion.
pub(crate) async fn finalizers_hold_a_deletion_and_the_last_one_lets_it_go(make: Make) {
    let store = make(Options::default()).await;
    let held = |finalizers| with_metadata(store.thing("a", json!({})), json!({"finalizers": finalizers}));
    create(&**store, held(json!(["one.dev/a", "two.dev/b"]))).await;
    let marked = delete(&**store, store.key("a"), Propagation::Background).await.unwrap();
    assert_eq!(marked.change, Some(EventType::Modified));
    assert!(marked.resource.is_deleting());
    assert_eq!(marked.resource.generation(), 2, "whoever waits for a new generation sees the deletion begin");
    let fewer = update(&**store, held(json!(["two.dev/b"]))).await.unwrap();
    assert_eq!(fewer.change, Some(EventType::Modified));
    assert!(fewer.resource.is_deleting(), "an update cannot take a deletion back");
    assert_eq!(fewer.resource.generation(), 2);
    let last = update(&**store, held(json!([]))).await.unwrap();
    assert_eq!(last.change, Some(EventType::Deleted));
    store.assert_newest(last.resource.revision()).await;
    assert!(is_gone(&**store, &store.key("a")).await);
}

/// S5: finalizers hold a deletion.
pub(crate) async fn a_second_deletion_changes_only_the_propagation(make: Make) {
    let store = make(Options::default()).await;
    create(&**store, with_metadata(store.thing("a", json!({})), json!({"finalizers": ["one.dev/a"]}))).await;
    let first = delete(&**store, store.key("a"), Propagation::Background).await.unwrap().resource;
    let since = |resource: &Resource| resource.document()["metadata"]["deletionTimestamp"].clone();
    let policies = [
        (Propagation::Foreground, vec!["one.dev/a", FINALIZER_FOREGROUND]),
        (Propagation::Orphan, vec!["one.dev/a", FINALIZER_ORPHAN]),
        (Propagation::Background, vec!["one.dev/a"]),
    ];
    for (propagation, left) in policies {
        let changed = delete(&**store, store.key("a"), propagation).await.unwrap();
        assert_eq!((changed.change, finalizers(&changed.resource)), (Some(EventType::Modified), left));
        assert_eq!((changed.resource.generation(), since(&changed.resource)), (first.generation(), since(&first)));
        let again = delete(&**store, store.key("a"), propagation).await.unwrap();
        assert_eq!((again.change, again.resource), (None, changed.resource));
    }
    // Without another finalizer the second deletion is the last one.
    create(&**store, store.thing("b", json!({}))).await;
    assert!(delete(&**store, store.key("b"), Propagation::Foreground).await.unwrap().resource.is_deleting());
    let gone = delete(&**store, store.key("b"), Propagation::Background).await.unwrap();
    assert_eq!(gone.change, Some(EventType::Deleted));
    assert!(is_gone(&**store, &store.key("b")).await);
}

/// S5: finalizers hold a deletion.
pub(crate) async fn a_finalizer_cannot_be_added_to_a_resource_being_deleted(make: Make) {
    let store = make(Options::default()).await;
    create(&**store, with_metadata(store.thing("a", json!({})), json!({"finalizers": ["one.dev/a"]}))).await;
    delete(&**store, store.key("a"), Propagation::Background).await.unwrap();
    let more = with_metadata(store.thing("a", json!({})), json!({"finalizers": ["one.dev/a", "two.dev/b"]}));
    let refused = update(&**store, more).await;
    store.assert_invalid(&refused, "metadata.finalizers");
}

/// S6: a resource that is created again has another uid.
pub(crate) async fn a_name_that_is_used_again_is_another_resource(make: Make) {
    let store = make(Options::default()).await;
    let first = create(&**store, store.thing("a", json!({}))).await;
    update(&**store, store.thing("a", json!({"x": 1}))).await.unwrap();
    delete(&**store, store.key("a"), Propagation::Background).await.unwrap();
    let second = create(&**store, store.thing("a", json!({}))).await;
    assert_ne!(first.uid(), second.uid());
    assert_eq!(second.generation(), 1);
    assert!(second.revision() > first.revision());
    let stale = with_metadata(store.thing("a", json!({"x": 2})), json!({"uid": first.uid()}));
    assert!(matches!(update(&**store, stale).await, Err(Error::Conflict { .. })));
}

pub(crate) async fn foreground_and_orphan_leave_their_finalizer(make: Make) {
    let store = make(Options::default()).await;
    for (name, propagation, finalizer) in
        [("a", Propagation::Foreground, FINALIZER_FOREGROUND), ("b", Propagation::Orphan, FINALIZER_ORPHAN)]
    {
        create(&**store, store.thing(name, json!({}))).await;
        let marked = delete(&**store, store.key(name), propagation).await.unwrap().resource;
        assert!(marked.is_deleting());
        assert_eq!(finalizers(&marked), [finalizer]);
        let released = with_metadata(store.thing(name, json!({})), json!({"finalizers": []}));
        assert_eq!(update(&**store, released).await.unwrap().change, Some(EventType::Deleted));
    }
    let orphaned = with_metadata(store.thing("c", json!({})), json!({"finalizers": ["one.dev/a", FINALIZER_ORPHAN]}));
    create(&**store, orphaned).await;
    let marked = delete(&**store, store.key("c"), Propagation::Foreground).await.unwrap().resource;
    assert_eq!(finalizers(&marked), ["one.dev/a", FINALIZER_FOREGROUND]);
}
