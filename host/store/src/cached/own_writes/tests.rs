use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::{BYTES_MAX, FENCES_MAX, OwnWrite, OwnWrites, WRITES_MAX};
use crate::fixture::pod_key as key;
use crate::model::Path;
use crate::{Resource, Revision};

fn path(name: &str) -> Path {
    Path::of(&key(name))
}

fn resource(name: &str, uid: &str, revision: u64, bytes: usize) -> Arc<Resource> {
    let metadata = json!({"name": name, "namespace": "default", "uid": uid, "resourceVersion": revision.to_string()});
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": "x".repeat(bytes)});
    Arc::new(Resource::from_document(document).expect("well formed"))
}

fn put(uid: &str, revision: u64) -> OwnWrite {
    OwnWrite::Put(resource("a", uid, revision, 0))
}

fn gone(uid: &str, last: u64, at: Option<u64>) -> OwnWrite {
    OwnWrite::Gone { last: resource("a", uid, last, 0), at: at.map(Revision) }
}

/// Returns what is known of the resource `a`: its revision and uid, `None` if it is gone.
fn known(writes: &OwnWrites) -> Option<Option<(u64, String)>> {
    writes.get(&path("a")).map(|write| match write {
        OwnWrite::Put(resource) => Some((resource.revision().0, resource.uid().to_owned())),
        OwnWrite::Gone { .. } => None,
    })
}

#[test]
fn a_write_is_kept_until_the_cache_has_its_revision() {
    let mut writes = OwnWrites::default();
    writes.record(path("a"), put("u", 5), Revision(5), None);
    assert_eq!(known(&writes), None);
    writes.record(path("a"), put("u", 7), Revision(5), None);
    let count = writes.count();
    writes.settle(Revision(6), |_| Some("u"));
    assert_eq!((known(&writes), writes.has_pending(count)), (Some(Some((7, "u".into()))), true));
    writes.settle(Revision(7), |_| Some("u"));
    assert_eq!((known(&writes), writes.has_pending(count), writes.bytes), (None, false, 0));
    writes.record(path("a"), gone("u", 7, Some(9)), Revision(7), Some("u"));
    writes.settle(Revision(8), |_| Some("u"));
    assert_eq!(known(&writes), Some(None));
    writes.settle(Revision(9), |_| None);
    assert_eq!(known(&writes), None);
}

#[test]
fn a_deletion_without_a_revision_is_kept_until_the_cache_saw_the_uid_go() {
    let mut writes = OwnWrites::default();
    writes.record(path("a"), gone("u", 7, None), Revision(7), Some("u"));
    writes.settle(Revision(20), |_| Some("u"));
    assert_eq!(known(&writes), Some(None));
    writes.settle(Revision(21), |_| Some("v"));
    assert_eq!(known(&writes), None);
    // The cache has not yet seen the creation of the deleted resource.
    writes.record(path("a"), gone("w", 30, None), Revision(25), None);
    writes.settle(Revision(29), |_| None);
    assert_eq!(known(&writes), Some(None));
    writes.settle(Revision(30), |_| Some("w"));
    assert_eq!(known(&writes), Some(None));
    writes.settle(Revision(31), |_| None);
    assert_eq!(known(&writes), None);
    // The cache has seen the deletion before its answer arrived.
    writes.record(path("a"), gone("w", 30, None), Revision(31), None);
    assert_eq!(known(&writes), None);
}

#[test]
fn answers_that_arrive_in_the_wrong_order_take_nothing_back() {
    let mut writes = OwnWrites::default();
    let mut record = |write| {
        writes.record(path("a"), write, Revision(1), None);
        known(&writes).expect("the cache has none of it")
    };
    assert_eq!(record(put("u", 6)), Some((6, "u".into())));
    assert_eq!(record(put("u", 5)), Some((6, "u".into())));
    assert_eq!(record(gone("u", 4, None)), None);
    assert_eq!(record(put("u", 8)), None);
    assert_eq!(record(put("v", 9)), Some((9, "v".into())));
    assert_eq!(record(gone("u", 8, None)), Some((9, "v".into())));
    assert_eq!(record(gone("v", 9, Some(12))), None);
    assert_eq!(record(put("w", 11)), None);
    assert_eq!(record(put("w", 13)), Some((13, "w".into())));
}

#[test]
fn writes_beyond_the_bound_in_bytes_make_reads_wait() {
    let mut writes = OwnWrites::default();
    let half = usize::try_from(BYTES_MAX / 2).expect("it fits");
    for (name, revision) in [("a", 5), ("b", 6), ("c", 7)] {
        writes.record(path(name), OwnWrite::Put(resource(name, "u", revision, half - 1000)), Revision(1), None);
    }
    assert_eq!((writes.rows().len(), writes.floor()), (2, Revision(7)));
    assert!(writes.bytes <= BYTES_MAX && writes.has_room());
    writes.raise_floor(Revision(3));
    assert_eq!(writes.floor(), Revision(7));
}

#[test]
fn writes_and_fences_beyond_their_bound_are_refused() {
    let mut writes = OwnWrites::default();
    for number in 0..WRITES_MAX {
        assert!(writes.has_room());
        writes.record(path(&format!("n{number}")), gone("u", 5, None), Revision(1), None);
    }
    assert!(!writes.has_room());
    writes.settle(Revision(5), |_| None);
    assert!(writes.has_room() && writes.without_revision.is_empty());
    for number in 0..=FENCES_MAX {
        writes.fence(&key(&format!("n{number}")), false);
    }
    assert_eq!((writes.has_room(), writes.fences.len()), (false, FENCES_MAX));
    writes.fence(&key("one that was under way"), true);
    assert_eq!(writes.unanswered(), [key("one that was under way")]);
}

#[test]
fn a_fence_stays_for_a_write_that_was_lost_later() {
    let mut writes = OwnWrites::default();
    writes.fence(&key("a"), true);
    let seen = writes.fence_of(&path("a")).expect("it is fenced");
    writes.fence(&key("a"), false);
    writes.remove_fence(&path("a"), seen);
    assert_eq!(writes.unanswered(), [key("a")]);
    let seen = writes.fence_of(&path("a")).expect("it is fenced");
    writes.remove_fence(&path("a"), seen);
    assert_eq!(writes.fence_of(&path("a")), None);
}

/// A step of one writer, and how far the cache gets afterwards.
#[derive(Debug, Clone, Copy)]
struct Step {
    deletes: bool,
    tells_revision: bool,
    caught_up: u64,
}

fn step() -> impl Strategy<Value = Step> {
    (any::<bool>(), any::<bool>(), 0..4_u64).prop_map(|(deletes, tells_revision, caught_up)| Step {
        deletes,
        tells_revision,
        caught_up,
    })
}

proptest! {
    /// One writer changes one resource, and the cache follows at any pace.
    #[test]
    fn a_writer_always_reads_its_last_write(steps in prop::collection::vec(step(), 1..40)) {
        let mut server: BTreeMap<u64, Option<Arc<Resource>>> = BTreeMap::from([(0, None)]);
        let (mut writes, mut through) = (OwnWrites::default(), 0_u64);
        for Step { deletes, tells_revision, caught_up } in steps {
            let (last, current) = server.last_key_value().map(|(at, state)| (*at, state.clone())).expect("it has a state");
            let at = last + 1;
            let uid = current.as_ref().map_or_else(|| at.to_string(), |current| current.uid().to_owned());
            let (state, write) = match &current {
                Some(current) if deletes => {
                    let known = current.revision().0;
                    (None, gone(&uid, known, tells_revision.then_some(at)))
                }
                _ => (Some(resource("a", &uid, at, 0)), put(&uid, at)),
            };
            server.insert(at, state.clone());
            let cached = |through: u64| server.range(..=through).next_back().and_then(|(_, state)| state.clone());
            let before = cached(through);
            writes.record(path("a"), write, Revision(through), before.as_deref().map(Resource::uid));
            for _ in 0..=caught_up {
                let seen = cached(through);
                let read = match writes.get(&path("a")) {
                    Some(OwnWrite::Put(resource)) => Some(Arc::clone(resource)),
                    Some(OwnWrite::Gone { .. }) => None,
                    None => seen,
                };
                prop_assert_eq!(&read, &state);
                if through < at {
                    through += 1;
                    let now = cached(through);
                    writes.settle(Revision(through), |_| now.as_deref().map(Resource::uid));
                }
            }
        }
        let last = server.last_key_value().and_then(|(_, state)| state.clone());
        writes.settle(Revision(u64::MAX), |_| last.as_deref().map(Resource::uid));
        prop_assert!(writes.writes.is_empty() && writes.by_revision.is_empty() && writes.without_revision.is_empty());
    }
}
