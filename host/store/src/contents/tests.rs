use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{Contents, Documents, SharedContents};
use crate::history::Bounds;
use crate::model::Path;
use crate::{
    Error, Event, EventType, Key, Kind, LabelRequirement, Query, Resource, Revision, Scope, Selector, SystemClockAndIds,
};

const BOUNDS: Bounds = Bounds { events_max: 100, bytes_max: 1 << 20, age_max: Duration::from_secs(3600) };

fn pod(name: &str, owner: &str, revision: u64) -> Arc<Resource> {
    let owners = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": owner}]);
    let metadata = json!({
        "name": name, "resourceVersion": revision.to_string(), "labels": {"of": owner}, "ownerReferences": owners,
    });
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    Resource::from_document(document).expect("well formed").without_document()
}

fn rows(pods: &[Arc<Resource>]) -> BTreeMap<Path, Arc<Resource>> {
    pods.iter().map(|pod| (Path::of(pod.key()), Arc::clone(pod))).collect()
}

fn query() -> Query {
    Query::all(Kind::new("", "v1", "Pod"))
}

fn change(kind: EventType, resource: &Arc<Resource>, previous: Option<&Arc<Resource>>) -> Event {
    let (resource, revision) = (Arc::clone(resource), resource.revision());
    Event { kind, resource, previous: previous.cloned(), revision }
}

fn names(items: &[Arc<Resource>]) -> Vec<&str> {
    items.iter().map(|resource| resource.key().name()).collect()
}

#[test]
fn the_index_by_owner_follows_changes_over_gaps_of_revisions() {
    let [one, two, moved, gone] = [pod("a", "x", 3), pod("b", "x", 7), pod("a", "y", 20), pod("b", "x", 40)];
    let mut contents =
        Contents::of(rows(&[Arc::clone(&one), Arc::clone(&two)]), Revision(9), BOUNDS, Documents::Shared);
    let owned = |contents: &Contents, owner: &str| names(&contents.dependents(owner)).join(",");
    assert_eq!((owned(&contents, "x"), owned(&contents, "y")), ("a,b".into(), String::new()));
    contents.commit(change(EventType::Modified, &moved, Some(&one)), SystemTime::UNIX_EPOCH);
    assert_eq!((owned(&contents, "x"), owned(&contents, "y")), ("b".into(), "a".into()));
    contents.advance(Revision(30));
    contents.commit(change(EventType::Deleted, &gone, Some(&two)), SystemTime::UNIX_EPOCH);
    contents.advance(Revision(25));
    assert_eq!((owned(&contents, "x"), owned(&contents, "y")), (String::new(), "a".into()));
    assert_eq!((contents.oldest(), contents.newest()), (Revision(9), Revision(40)));
    let selector = Selector { owner: Some("y".into()), ..Selector::default() };
    let page = contents.list(&Query { selector, ..query() }, "id", &[], Vec::new()).expect("a valid query");
    assert_eq!((names(&page.items), page.revision), (vec!["a"], Revision(40)));
}

#[test]
fn newer_rows_replace_stored_ones_on_the_first_page() {
    let contents = Contents::of(rows(&[pod("a", "x", 3), pod("b", "x", 4)]), Revision(9), BOUNDS, Documents::Shared);
    let row = |name: &str, newer: Option<Arc<Resource>>| (Path::of(&Key::new(query().kind, "", name)), newer);
    let newer = vec![row("a", None), row("b", Some(pod("b", "x", 11))), row("c", Some(pod("c", "x", 12)))];
    let page = contents.list(&query(), "id", &[], newer).expect("a valid query");
    let found: Vec<_> = page.items.iter().map(|pod| (pod.key().name(), pod.revision().0)).collect();
    assert_eq!((found, page.revision), (vec![("b", 11), ("c", 12)], Revision(9)));
}

#[tokio::test]
async fn contents_that_give_copies_keep_no_parsed_document() {
    let pods: Vec<_> = (0..50).map(|number| pod(&format!("n{number}"), "x", number)).collect();
    let contents = Contents::of(rows(&pods), Revision(60), BOUNDS, Documents::Copied);
    let shared = SharedContents::new(contents, Arc::new(SystemClockAndIds));
    let mut watch = shared.watch(Scope::Everything, Revision(60));
    let changed = pod("n1", "y", 61);
    shared.lock().expect("it is open").commit(change(EventType::Modified, &changed, Some(&pods[1])));
    let event = watch.next().await.expect("it is open");
    assert_eq!(event.resource.label("of"), Some("y"));
    assert_eq!(event.previous.as_ref().and_then(|previous| previous.label("of")), Some("x"));
    let contents = shared.lock_expired().expect("it is open");
    let labels = vec![LabelRequirement::Equals("of".into(), "x".into())];
    let selector = Selector { labels, ..Selector::default() };
    let page = contents.list(&Query { selector, ..query() }, "id", &[], Vec::new()).expect("a valid query");
    assert_eq!(page.items.len(), 49);
    assert!(contents.get(pods[0].key()).expect("it is there").document().is_object());
    assert!(contents.all_stored().values().chain(&pods).chain([&changed]).all(|stored| !stored.has_document()));
}

#[tokio::test]
async fn watches_deliver_what_is_kept_before_the_error_of_the_end() {
    let contents = Contents::new(Revision(5), BOUNDS, Documents::Copied);
    let shared = SharedContents::new(contents, Arc::new(SystemClockAndIds));
    let mut watch = shared.watch(Scope::Everything, Revision(5));
    shared.lock().expect("it is open").commit(change(EventType::Added, &pod("a", "x", 8), None));
    let end = Error::Expired { oldest: Revision(8) };
    shared.end(end.clone());
    shared.end(Error::Closed);
    assert_eq!(watch.next().await.map(|event| event.revision), Ok(Revision(8)));
    assert_eq!(watch.next().await, Err(end.clone()));
    assert_eq!(shared.lock().err(), Some(end));
    assert!(shared.has_ended() && shared.newest() == Revision(8));
}
