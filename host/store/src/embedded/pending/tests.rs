use serde_json::json;

use super::*;
use crate::model::Path;

/// Returns the change that a resource of this name makes at a revision.
fn change(name: &str, revision: u64, kind: EventType) -> Change {
    let document =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "resourceVersion": revision.to_string()}});
    let resource = Arc::new(Resource::from_document(document).expect("well formed"));
    let path = Path::of(resource.key());
    let event = Event { kind, resource, previous: None, revision: Revision(revision) };
    Change { path, event, document: vec![b' '; 1000] }
}

#[test]
fn a_decision_sees_the_last_change_until_the_pages_have_it() {
    let (created, changed) = (change("a", 1, EventType::Added), change("a", 3, EventType::Modified));
    let (gone, path) = (change("b", 2, EventType::Deleted), created.path.clone());
    let mut pending = Pending::default();
    for change in [&created, &gone, &changed] {
        pending.add(change);
    }
    assert_eq!(pending.latest(&path), Some(Some(&changed.event.resource)));
    assert_eq!(pending.latest(&gone.path), Some(None), "it is gone, whatever the pages say");
    pending.settle(Revision(2));
    assert_eq!(
        pending.latest(&path),
        Some(Some(&changed.event.resource)),
        "the first change is settled, not the last one"
    );
    assert_eq!(pending.latest(&gone.path), None);
    pending.settle(Revision(3));
    assert_eq!(pending.latest(&path), None);
}

#[test]
fn what_is_pending_is_bounded_in_number_and_size() {
    for (count, bytes) in [(CHANGES_MAX, 1), (17, 1 << 20)] {
        let mut pending = Pending::default();
        for revision in 1..=count as u64 {
            assert!(!pending.is_full(), "{revision}");
            let change = change("a", revision, EventType::Modified);
            pending.add(&Change { document: vec![b' '; bytes], ..change });
            if pending.bytes >= BYTES_MAX {
                break;
            }
        }
        assert!(pending.is_full());
        pending.settle(Revision(count as u64));
        assert!(!pending.is_full() && pending.bytes == 0 && pending.latest.is_empty());
    }
}
