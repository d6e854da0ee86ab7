use std::sync::Arc;
use std::time::Duration;

use homeostat_fixtures::{demo, demo_key};
use homeostat_store::semantics::{Decision, WritePlan};
use homeostat_store::{Change, Error, Key, Precondition, Propagation, Resource, Write};
use serde_json::json;

use super::{BACKOFF, guard};

fn key() -> Key {
    demo_key("Widget", "a")
}

fn resource(generation: u64, is_deleting: bool) -> Arc<Resource> {
    let mut document = demo("Widget", "a", json!({}));
    (document["metadata"]["uid"], document["metadata"]["generation"]) = (json!("u"), json!(generation));
    if is_deleting {
        document["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:00:00Z");
    }
    Arc::new(Resource::from_document(document).expect("a whole document"))
}

#[test]
fn only_metadata_and_status_of_a_foreign_resource_can_be_written() {
    let patch = Write::Patch { key: key(), change: Change::Merge(json!({})), precondition: Precondition::default() };
    let deletion = Write::Delete {
        key: key(),
        precondition: Precondition::default(),
        propagation: Propagation::Background,
        grace_seconds: None,
    };
    let create = Write::Create { document: json!({}) };
    let table = [
        ("a creation", &create, None, Decision::Put(resource(1, false)), false),
        ("an apply that creates", &patch, None, Decision::Put(resource(1, false)), false),
        ("metadata", &patch, Some(resource(2, false)), Decision::Put(resource(2, false)), true),
        ("a spec", &patch, Some(resource(2, false)), Decision::Put(resource(3, false)), false),
        ("nothing", &patch, Some(resource(2, false)), Decision::Unchanged(resource(2, false)), true),
        ("a deletion", &deletion, Some(resource(2, false)), Decision::Remove(resource(2, false)), false),
        ("a mark of deletion", &deletion, Some(resource(2, false)), Decision::Put(resource(2, true)), false),
        ("a second deletion", &deletion, Some(resource(2, true)), Decision::Unchanged(resource(2, true)), true),
        ("the last finalizer", &patch, Some(resource(2, true)), Decision::Remove(resource(2, true)), true),
    ];
    for (what, write, previous, decision, is_allowed) in table {
        let plan = WritePlan { key: key(), previous, decision, unknown_fields: Vec::new() };
        let answer = guard(write, &plan);
        assert_eq!(answer.is_ok(), is_allowed, "{what}: {answer:?}");
        assert!(is_allowed || matches!(answer, Err(Error::Forbidden { .. })), "{what}");
    }
}

#[test]
fn waits_after_failures_grow_and_have_bounds() {
    for failures in 1..100 {
        for jitter in [0.0, 0.5, 1.0] {
            let wait = BACKOFF.delay(failures, jitter);
            assert!(wait >= Duration::from_millis(500) && wait <= BACKOFF.longest, "{failures}: {wait:?}");
        }
    }
    assert!(BACKOFF.delay(1, 1.0) <= Duration::from_secs(1) && BACKOFF.delay(9, 0.0) >= BACKOFF.longest / 2);
}
