//! Drives each bounded structure beyond its bound and measures the memory of the process.

use std::sync::Arc;

use homeostat_component::{Level, Severity};
use homeostat_fixtures::demo_key;
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Key, Kind, Revision, Scope, Store, Write};
use homeostat_testing::{grows_by_at_most, measured, with_slack};
use homeostat_workqueue::{Next, Priority, Queue};
use serde_json::json;

use crate::events::{self, EventLog, EventSource, NewEvent};
use crate::follows::{self, Follows, Target};
use crate::logs::{self, LogBook, LogLine};

/// Memory of a key on a queue, with names, failure state and table entry.
pub(crate) const KEY_BYTES: u64 = 512;

/// The same for a key with the longest names.
const LONGEST_KEY_BYTES: u64 = 1536;

/// Memory that a store uses for pages of its file, see [`EmbeddedStore::open`].
const PAGES_BYTES_MAX: u64 = 128 << 20;

/// Returns one of many keys with kind, namespace and name of maximum length.
pub(crate) fn longest_key(number: usize) -> Key {
    let kind = Kind::new("g".repeat(253), "v".repeat(63), "K".repeat(63));
    Key::new(kind, &"n".repeat(63), &format!("{number:0>253}"))
}

/// Fills the queue of a controller with keys that each fail and are parked.
fn failing(key: impl Fn(usize) -> Key) -> Queue<Key> {
    let limits = homeostat_component::Limits::default();
    let (keys_max, error_bytes_max) = (Some(limits.keys_max), Some(limits.error_bytes_max));
    let queue = Queue::new(homeostat_workqueue::Options { keys_max, error_bytes_max, ..Default::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for n in 0..3 * limits.keys_max as usize {
            if queue.add(key(n), Priority::NORMAL).is_ok() {
                let claim = queue.claim().await.unwrap();
                claim.finish(Next::Park { error: "x".repeat(4096).into() });
            }
        }
    });
    assert_eq!(queue.counts().keys() as u32, limits.keys_max);
    queue
}

/// Returns the memory of the keys of a controller with their errors, if a key takes this many bytes.
fn keys_bytes(each: u64) -> u64 {
    let limits = homeostat_component::Limits::default();
    with_slack(u64::from(limits.keys_max) * each + limits.error_bytes_max)
}

measured! {
    fn events_without_end_take_no_more_memory_than_their_bound measure_events {
        // The message is stored twice, the second time as part of the key that merges equal events.
        let each = 2 * events::MESSAGE_BYTES_MAX as u64 + 1024;
        grows_by_at_most(with_slack(events::EVENTS_MAX as u64 * each), || {
            let (log, text) = (EventLog::default(), "x".repeat(2 * events::MESSAGE_BYTES_MAX));
            for n in 0..3 * events::EVENTS_MAX {
                let (controller, message) = (format!("flooder-{}", n % 5).into(), format!("{n} {text}"));
                let (source, key, severity) = (EventSource::Guest, Some(demo_key("App", "a")), Severity::Warning);
                let event = NewEvent { controller: &controller, source, key, severity, reason: "Flood", message: &message };
                log.record("now".into(), event);
            }
            log
        });
    }

    fn log_lines_without_end_take_no_more_memory_than_their_bound measure_logs {
        grows_by_at_most(with_slack(logs::BYTES_OF_ALL_MAX), || {
            let book = LogBook::default();
            for n in 0..60_000 {
                book.write(LogLine {
                    sequence: 0,
                    time: "2026-11-21T00:00:00Z".into(),
                    controller: format!("flooder-{}", n % 50).into(),
                    key: Some(demo_key("App", "a")),
                    level: Level::Info,
                    message: "x".repeat(4096),
                    fields: Vec::new(),
                });
            }
            book
        });
    }

    /// The documents have many small values, which take many times as much memory as their text.
    fn changes_without_end_that_somebody_reads_take_no_more_memory_than_their_bound measure_changes {
        let kept = homeostat_store::embedded::memory_bounds();
        let bytes: u64 = kept.iter().filter(|kept| kept.in_bytes).map(|kept| kept.most).sum();
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let values = vec![1; 4096];
        grows_by_at_most(with_slack(bytes + PAGES_BYTES_MAX), || {
            let store = EmbeddedStore::open(folder.path().join("store"), homeostat_store::Options::default()).unwrap();
            let store = Arc::new(store);
            runtime.block_on(async {
                let mut watch = store.watch(Scope::Everything, Revision::ZERO).await.unwrap();
                for batch in 0..12 {
                    let mut writes = tokio::task::JoinSet::new();
                    for n in 0..512 {
                        let document = json!({ "apiVersion": "demo.homeostat.dev/v1", "kind": "App",
                            "metadata": { "namespace": "default", "name": format!("a-{batch}-{n}") }, "spec": values });
                        let store = store.clone();
                        writes.spawn(async move { store.write(Write::Create { document }).await.unwrap() });
                    }
                    writes.join_all().await;
                    for _ in 0..512 {
                        watch.next().await.unwrap().resource.document();
                    }
                }
            });
            store
        });
    }

    fn follows_without_end_take_no_more_memory_than_their_bound measure_follows {
        grows_by_at_most(with_slack(follows::BYTES_MAX), || {
            let follows = Follows::default();
            for n in 0..200_000 {
                let follower = demo_key("App", &format!("follower-{n}"));
                if follows.gather(&follower, Target::One(demo_key("App", &format!("followed-{n}")))) {
                    follows.keep(&follower);
                }
            }
            follows
        });
    }

    fn failing_keys_without_end_take_no_more_memory_than_their_bound measure_keys {
        grows_by_at_most(keys_bytes(KEY_BYTES), || failing(|n| demo_key("App", &format!("flood-{n}"))));
    }

    fn failing_keys_of_the_longest_names_take_no_more_memory_than_their_bound measure_longest_keys {
        grows_by_at_most(keys_bytes(LONGEST_KEY_BYTES), || failing(longest_key));
    }
}
