//! What a host keeps between calls is driven beyond its bound, and the memory of the process measured.
//!
//! Each is measured in a process of its own, which runs one test and nothing else.

use std::process::Command;
use std::sync::Arc;

use homeostat_component::{Level, Severity};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Key, Kind, Revision, Scope, Store, Write};
use homeostat_workqueue::{Next, Priority, Queue};
use serde_json::json;

use crate::events::{self, EventLog, EventSource, NewEvent};
use crate::follows::{self, Follows, Target};
use crate::logs::{self, LogBook, LogLine};

/// What a key of the queue takes with its names, what is known of its failures, and its place in the table.
pub(crate) const KEY_BYTES: u64 = 512;

/// What a store keeps of its file in memory, see [`EmbeddedStore::open`].
const PAGES_BYTES_MAX: u64 = 128 << 20;

/// What the allocator may keep beside what is in use, as a share of that: a half.
pub(crate) fn with_slack(bytes: u64) -> u64 {
    bytes / 2 * 3
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Fills something, and asserts that the process has grown by so many bytes at most. What was filled is kept until then.
pub(crate) fn grows_by_at_most<T>(bytes: u64, fill: impl FnOnce() -> T) {
    let before = resident();
    let filled = fill();
    let grown = resident().saturating_sub(before);
    drop(filled);
    assert!(grown <= bytes, "grown by {grown} bytes, and {bytes} are allowed");
    // What is not there was not measured.
    assert!(grown > bytes / 32, "grown by {grown} bytes of {bytes}");
}

/// Runs a test of a module in a process of its own.
pub(crate) fn alone(module: &str, test: &str) {
    let name = format!("{}::{test}", module.split_once("::").unwrap().1);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--ignored", "--test-threads", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{name}:\n{said}");
}

/// Makes a test that is measured, and the one that runs it alone.
macro_rules! measured {
    ($($(#[$doc:meta])* fn $name:ident $alone:ident $body:block)*) => {
        $(
            $(#[$doc])*
            #[test]
            #[cfg(target_os = "linux")]
            fn $name() {
                $crate::bounds::tests::alone(module_path!(), stringify!($alone));
            }

            #[test]
            #[ignore = "run by another test, in a process of its own"]
            fn $alone() $body
        )*
    };
}
pub(crate) use measured;

fn key(name: &str) -> Key {
    Key::new(Kind::new("demo.dev", "v1", "App"), "default", name)
}

measured! {
    fn events_without_end_take_no_more_memory_than_their_bound measure_events {
        // Its message is kept twice: once to find equal ones.
        let each = 2 * events::MESSAGE_BYTES_MAX as u64 + 1024;
        grows_by_at_most(with_slack(events::EVENTS_MAX as u64 * each), || {
            let (log, text) = (EventLog::default(), "x".repeat(2 * events::MESSAGE_BYTES_MAX));
            for n in 0..3 * events::EVENTS_MAX {
                let (controller, message) = (format!("flooder-{}", n % 5).into(), format!("{n} {text}"));
                let (source, key, severity) = (EventSource::Guest, Some(key("a")), Severity::Warning);
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
                    key: Some(key("a")),
                    level: Level::Info,
                    message: "x".repeat(4096),
                    fields: Vec::new(),
                });
            }
            book
        });
    }

    /// The documents are of many small values, which take many times as much in memory as their text.
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
                        let document = json!({ "apiVersion": "demo.dev/v1", "kind": "App",
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
                let follower = key(&format!("follower-{n}"));
                if follows.gather(&follower, Target::One(key(&format!("followed-{n}")))) {
                    follows.keep(&follower);
                }
            }
            follows
        });
    }

    fn failing_keys_without_end_take_no_more_memory_than_their_bound measure_keys {
        let limits = homeostat_component::Limits::default();
        let bytes = u64::from(limits.keys_max) * KEY_BYTES + limits.error_bytes_max;
        grows_by_at_most(with_slack(bytes), || {
            let (keys_max, error_bytes_max) = (Some(limits.keys_max), Some(limits.error_bytes_max));
            let options = homeostat_workqueue::Options { keys_max, error_bytes_max, ..Default::default() };
            let queue = Queue::new(options);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                for n in 0..3 * limits.keys_max {
                    if queue.add(key(&format!("flood-{n}")), Priority::NORMAL).is_ok() {
                        let claim = queue.claim().await.unwrap();
                        claim.finish(Next::Park { error: "x".repeat(4096).into() });
                    }
                }
            });
            assert_eq!(queue.counts().keys() as u32, limits.keys_max);
            queue
        });
    }
}
