use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::{ReplaceError, replace};
use crate::model::Path;
use crate::{EventType, Resource, Revision};

type Rows = BTreeMap<Path, Arc<Resource>>;

fn resource(name: u8, uid: u64, revision: u64) -> Arc<Resource> {
    let metadata = json!({"name": format!("n{name}"), "uid": uid.to_string(), "resourceVersion": revision.to_string()});
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    Arc::new(Resource::from_document(document).expect("well formed"))
}

fn put(rows: &mut Rows, resource: Arc<Resource>) {
    rows.insert(Path::of(resource.key()), resource);
}

fn none<'a>() -> impl Iterator<Item = (&'a Path, &'a Arc<Resource>)> {
    std::iter::empty()
}

/// A change of one of a few names: it creates or updates the resource, or deletes it. The others change
/// nothing here, they are changes of other kinds.
#[derive(Debug, Clone, Copy)]
enum Step {
    Put(u8),
    Delete(u8),
    Other,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![3 => (0..6_u8).prop_map(Step::Put), 2 => (0..6_u8).prop_map(Step::Delete), 1 => Just(Step::Other)]
}

/// Makes the changes after `rows`, whose last revision is `at`.
fn run(rows: &mut Rows, mut at: u64, steps: &[Step]) -> u64 {
    for step in steps {
        at += 1;
        match step {
            Step::Put(name) => {
                let path = Path::of(resource(*name, 0, 0).key());
                let uid = rows.get(&path).map_or(at, |before| before.uid().parse().expect("a number"));
                rows.insert(path, resource(*name, uid, at));
            }
            Step::Delete(name) => drop(rows.remove(&Path::of(resource(*name, 0, 0).key()))),
            Step::Other => {}
        }
    }
    at
}

proptest! {
    #[test]
    fn events_of_any_gap_lead_to_the_list_in_the_order_of_revisions(
        before in prop::collection::vec(step(), 0..30),
        missed in prop::collection::vec(step(), 0..30),
    ) {
        let mut cached = Rows::new();
        let through = run(&mut cached, 0, &before);
        let mut listed = cached.clone();
        let at = run(&mut listed, through, &missed);
        let events = replace((&cached, Revision(through)), (&listed, Revision(at)), none()).expect("the list is newer");
        let mut last = Revision(through);
        for event in events {
            prop_assert!(event.revision > last && event.revision.0 <= at);
            prop_assert_eq!(event.resource.revision(), event.revision);
            last = event.revision;
            let path = Path::of(event.resource.key());
            prop_assert_eq!(event.previous.as_ref(), cached.get(&path));
            prop_assert_eq!(event.kind == EventType::Added, event.previous.is_none());
            match event.kind {
                EventType::Deleted => drop(cached.remove(&path)),
                EventType::Added | EventType::Modified => drop(cached.insert(path, event.resource)),
            }
        }
        prop_assert_eq!(cached, listed);
    }
}

#[test]
fn a_list_that_contradicts_the_cache_is_refused() {
    let (mut cached, mut listed) = (Rows::new(), Rows::new());
    put(&mut cached, resource(1, 1, 5));
    assert_eq!(replace((&cached, Revision(9)), (&cached, Revision(8)), none()), Err(ReplaceError::Stale));
    assert_eq!(replace((&cached, Revision(9)), (&cached, Revision(9)), none()), Ok(Vec::new()));
    // No revision is left for the deletion.
    assert_eq!(replace((&cached, Revision(9)), (&listed, Revision(9)), none()), Err(ReplaceError::Contradiction));
    for (revision, at) in [(6, 12), (9, 12), (13, 12)] {
        put(&mut listed, resource(1, 1, revision));
        let refused = replace((&cached, Revision(9)), (&listed, Revision(at)), none());
        assert_eq!(refused, Err(ReplaceError::Contradiction), "{revision}");
    }
    put(&mut listed, resource(1, 1, 10));
    put(&mut listed, resource(2, 2, 10));
    assert_eq!(replace((&cached, Revision(9)), (&listed, Revision(12)), none()), Err(ReplaceError::Contradiction));
}

#[test]
fn a_listed_resource_older_than_the_cached_one_shows_that_the_content_went_back() {
    let (mut cached, mut listed) = (Rows::new(), Rows::new());
    [resource(1, 1, 5), resource(2, 2, 7)].into_iter().for_each(|resource| put(&mut cached, resource));
    // The first one contradicts the cache.
    put(&mut listed, resource(1, 1, 8));
    for uid in [2, 3] {
        put(&mut listed, resource(2, uid, 6));
        let refused = |at| replace((&cached, Revision(9)), (&listed, Revision(at)), none());
        let went_back = ReplaceError::WentBack { cached: Revision(7), listed: Revision(6) };
        assert_eq!((refused(1000), refused(9)), (Err(went_back), Err(went_back)));
        assert_eq!(refused(8), Err(ReplaceError::Stale), "a server that lags");
    }
}

#[test]
fn a_recreated_resource_is_modified_and_its_previous_has_the_other_uid() {
    let (mut cached, mut listed) = (Rows::new(), Rows::new());
    put(&mut cached, resource(1, 1, 5));
    put(&mut listed, resource(1, 2, 12));
    let events = replace((&cached, Revision(9)), (&listed, Revision(20)), none()).expect("the list is newer");
    let [event] = &*events else { panic!("one event: {events:?}") };
    assert_eq!((event.kind, event.revision), (EventType::Modified, Revision(12)));
    assert_eq!((event.resource.uid(), event.previous.as_ref().expect("it was cached").uid()), ("2", "1"));
}

#[test]
fn a_shown_resource_that_came_and_went_has_two_events() {
    let (mut cached, mut listed, mut shown) = (Rows::new(), Rows::new(), Rows::new());
    put(&mut cached, resource(1, 1, 5));
    put(&mut listed, resource(2, 2, 11));
    [resource(1, 1, 5), resource(2, 2, 11), resource(3, 3, 12)]
        .into_iter()
        .for_each(|resource| put(&mut shown, resource));
    let replaced = |at| replace((&cached, Revision(9)), (&listed, Revision(at)), shown.iter());
    let seen: Vec<_> = replaced(13)
        .expect("there are enough revisions")
        .iter()
        .map(|event| (event.kind, event.resource.uid().to_owned(), event.revision.0))
        .collect();
    let [added, deleted] = [EventType::Added, EventType::Deleted];
    let wanted = [(deleted, "1", 10), (added, "2", 11), (added, "3", 12), (deleted, "3", 13)];
    assert_eq!(seen, wanted.map(|(kind, uid, at)| (kind, uid.to_owned(), at)));
    assert_eq!(replaced(12), Err(ReplaceError::Contradiction));
}
