use serde_json::json;

use super::*;
use crate::model::Path;

/// Returns the change that creates a resource of this name at a revision.
fn change(name: &str, revision: u64, kind: EventType) -> UnappliedChange {
    change_of(name, revision, kind, 1000)
}

/// As [`change`], with a document of more than so many bytes.
fn change_of(name: &str, revision: u64, kind: EventType, bytes: usize) -> UnappliedChange {
    let metadata = json!({"name": name, "resourceVersion": revision.to_string()});
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": " ".repeat(bytes)});
    let resource = Arc::new(Resource::from_document(document).expect("well formed"));
    let path = Path::of(resource.key());
    let event = Event { kind, resource, previous: None, revision: Revision(revision) };
    UnappliedChange { path, event }
}

#[test]
fn a_decision_sees_the_last_change_also_when_the_pages_have_it() {
    let (created, changed) = (change("a", 1, EventType::Added), change("a", 3, EventType::Modified));
    let (gone, path) = (change("b", 2, EventType::Deleted), created.path.clone());
    let mut pending = UnappliedChanges::default();
    for change in [&created, &gone, &changed] {
        pending.add(change);
    }
    for settled in 0..=3 {
        pending.mark_applied(Revision(settled));
        assert_eq!(pending.latest(&path), Some(Some(Arc::clone(&changed.event.resource))), "{settled}");
        assert_eq!(pending.latest(&gone.path), Some(None), "it is gone, whatever the pages say; {settled}");
    }
    pending.clear();
    assert_eq!(pending.latest(&path), None, "after a failure, the pages are asked");
}

#[test]
fn unapplied_changes_are_bounded_in_number_and_size() {
    for (count, bytes) in [(CHANGES_MAX, 1), (17, 1 << 20)] {
        let mut pending = UnappliedChanges::default();
        for revision in 1..=count as u64 {
            assert!(!pending.is_full(), "{revision}");
            pending.add(&change_of("a", revision, EventType::Modified, bytes));
            if pending.bytes >= BYTES_MAX {
                break;
            }
        }
        assert!(pending.is_full());
        pending.mark_applied(Revision(count as u64));
        assert!(!pending.is_full() && pending.bytes == 0 && pending.order.is_empty());
    }
}

#[test]
fn cached_applied_changes_are_bounded_and_the_oldest_is_evicted_first() {
    let mut pending = UnappliedChanges::default();
    for revision in 1..=40 {
        // Every second change is to the same resource, which stays the newest.
        let name = if revision % 2 == 0 { "same".to_owned() } else { format!("a{revision}") };
        pending.add(&change_of(&name, revision, EventType::Modified, 1 << 20));
        pending.mark_applied(Revision(revision));
        assert!(pending.recent_bytes <= RECENT_BYTES_MAX, "{}", pending.recent_bytes);
        assert_eq!(pending.recent_bytes, pending.recent.iter().map(|(.., bytes)| bytes).sum::<u64>());
    }
    let known = |name: &str| {
        pending.latest.values().any(|(_, found)| found.as_ref().is_some_and(|found| found.key().name() == name))
    };
    assert!(known("same") && known("a39") && !known("a1"));
    assert_eq!(pending.latest.len(), pending.recent.len() / 2 + 1, "nothing else is left of those that are forgotten");
}

#[test]
fn the_resource_of_an_applied_change_is_compressed_and_stays_so_when_it_is_read() {
    let created = change("a", 1, EventType::Added);
    let mut pending = UnappliedChanges::default();
    pending.add(&created);
    let stored = |pending: &UnappliedChanges| pending.latest[&created.path].1.clone().expect("it was created");
    assert!(!stored(&pending).is_packed(), "the checkpointer still has its text");
    pending.mark_applied(Revision(1));
    let read = pending.latest(&created.path).flatten().expect("it was created");
    assert_eq!(read.document(), created.event.resource.document());
    assert!(stored(&pending).is_packed() && !stored(&pending).has_text() && !stored(&pending).has_document());
}

#[test]
fn the_texts_that_resources_are_compressed_with_are_bounded() {
    let mut pending = UnappliedChanges::default();
    let kinds = DICTIONARIES_MAX as u64 + 3;
    for number in 1..=2 * kinds {
        let metadata = json!({"name": format!("a{number}"), "resourceVersion": number.to_string()});
        let kind = format!("Kind{}", number % kinds);
        let spec = " ".repeat(1000);
        let document = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec});
        let resource = Arc::new(Resource::from_document(document).expect("well formed"));
        let (path, kind) = (Path::of(resource.key()), EventType::Added);
        let event = Event { kind, resource, previous: None, revision: Revision(number) };
        pending.add(&UnappliedChange { path, event });
        pending.mark_applied(Revision(number));
    }
    assert_eq!(pending.dictionaries.len(), DICTIONARIES_MAX);
    let resources = pending.latest.values().filter_map(|(_, resource)| resource.as_ref());
    let unpacked = resources.filter(|resource| !resource.is_packed());
    assert_eq!(unpacked.count(), 6, "two resources of each further kind");
}
