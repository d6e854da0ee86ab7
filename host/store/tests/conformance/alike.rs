//! Every store returns the same results, lists and events for any sequence of writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::memory::MemoryStore;
use homeostat_store::{
    Change, ClockAndIds, Options, Precondition, Propagation, Query, Revision, Scope, Selector, Store, Write,
};
use proptest::prelude::*;
use serde_json::json;

use homeostat_conformance::{next, with_metadata};

use crate::{key, kind, newest, thing};

/// Gives every store the same uids, suffixes and times.
#[derive(Default)]
struct CountingIds(AtomicU64);

impl ClockAndIds for CountingIds {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn uid(&self) -> String {
        format!("uid-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn suffix(&self) -> String {
        // Few names, so that they collide.
        format!("{:05}", self.0.fetch_add(1, Ordering::Relaxed) % 7)
    }
}

fn options() -> Options {
    Options { history_max: 1000, clock: Arc::new(CountingIds::default()), ..Options::default() }
}

fn write() -> impl Strategy<Value = Write> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c")];
    let owner = prop_oneof![Just("u1"), Just("u2"), Just("u3")];
    let propagation =
        prop_oneof![Just(Propagation::Background), Just(Propagation::Foreground), Just(Propagation::Orphan)];
    (0..8_u8, name, owner, propagation, 0..3_u64, any::<bool>(), proptest::option::of(1..30_u64)).prop_map(
        |(verb, name, owner, propagation, size, held, revision)| {
            let owners = json!([{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": owner}]);
            let finalizers = if held { json!(["example.dev/held"]) } else { json!([]) };
            let metadata =
                json!({"ownerReferences": owners, "finalizers": finalizers, "labels": {"size": size.to_string()}});
            let document = with_metadata(thing(name, json!({"size": size})), metadata);
            let precondition = Precondition { uid: None, revision: revision.map(Revision) };
            let key = key(name);
            match verb {
                0 => Write::Create { document },
                1 => {
                    let mut document = document;
                    document["metadata"]["generateName"] = json!("g-");
                    document["metadata"].as_object_mut().unwrap().remove("name");
                    Write::Create { document }
                }
                2 | 3 => Write::Update { document, precondition },
                4 => Write::UpdateStatus { key, status: json!({"size": size}), precondition },
                5 => Write::Patch { key, change: Change::Merge(json!({"spec": {"size": size}})), precondition },
                6 => Write::Apply { document, manager: "me".into(), force: held },
                _ => Write::Delete { key, precondition, propagation, grace_seconds: None },
            }
        },
    )
}

async fn compare(writes: Vec<Write>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let memory = MemoryStore::new(options());
    let embedded = EmbeddedStore::open(&path, options()).unwrap();
    for write in writes {
        assert_eq!(memory.write(write.clone()).await, embedded.write(write).await);
    }
    drop(embedded);
    // From the file, not from memory.
    let embedded = EmbeddedStore::open(&path, options()).unwrap();
    let at = newest(&memory).await;
    assert_eq!(at, newest(&embedded).await);
    assert_eq!(memory.kinds().await, embedded.kinds().await);
    for uid in ["u1", "u2", "u3"] {
        assert_eq!(memory.dependents(uid).await, embedded.dependents(uid).await);
    }
    for labels in ["", "size=1", "size!=1"] {
        let selector = Selector { labels: Selector::parse_labels(labels).unwrap(), ..Selector::default() };
        let query = Query { selector, ..Query::all(kind("Thing")) };
        assert_eq!(memory.list(&query).await, embedded.list(&query).await);
    }
    let mut watches = [
        memory.watch(Scope::Everything, Revision::ZERO).await.unwrap(),
        embedded.watch(Scope::Everything, Revision::ZERO).await.unwrap(),
    ];
    for _ in 0..at.0 {
        let [one, two] = &mut watches;
        assert_eq!(next(one).await, next(two).await);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_store_answers_alike(writes in proptest::collection::vec(write(), 1..60)) {
        tokio::runtime::Runtime::new().unwrap().block_on(compare(writes));
    }
}
