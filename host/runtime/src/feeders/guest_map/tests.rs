use std::sync::atomic::{AtomicUsize, Ordering};

use homeostat_component::{Changes, Mapping, Role};
use homeostat_testing::{grows_by_at_most, measured, soon, with_slack};
use homeostat_workqueue::Options;
use serde_json::json;

use super::super::tests::{intake, key};
use super::*;
use crate::bounds::tests::KEY_BYTES;
use crate::feeders::SyncBarrier;

/// Returns this many keys for each change, different for each; fails where told to.
struct Answers {
    keys: usize,
    fails: bool,
    asked: AtomicUsize,
}

#[async_trait]
impl Guest for Answers {
    async fn map(&self, _: &Watch, changed: &Resource) -> Option<Result<Vec<Key>, String>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let name = changed.key().name();
        let keys = (0..self.keys).map(|n| key(&format!("{name}-{n}"))).collect();
        Some(if self.fails { Err("on purpose".into()) } else { Ok(keys) })
    }

    fn refused(&self, _: &str) {}
}

fn map(keys: usize, fails: bool) -> (Arc<Answers>, Arc<GuestMap>) {
    map_within(Options::default(), keys, fails)
}

fn map_within(options: Options, keys: usize, fails: bool) -> (Arc<Answers>, Arc<GuestMap>) {
    let of = json!({
        "kind": { "group": "demo.homeostat.dev", "version": "v1", "name": "Part" }, "plural": "parts", "namespaced": true, "keysOnly": false,
        "schema": null,
    });
    let (of, mapping) = (serde_json::from_value(of).unwrap(), Mapping::Guest);
    let watch = Box::new(Watch { name: "parts".into(), of, mapping, changes: Changes::All, role: Role::Tertiary });
    let guest = Arc::new(Answers { keys, fails, asked: AtomicUsize::new(0) });
    (guest.clone(), Arc::new(GuestMap::new(watch, guest, Queue::new(options))))
}

fn part(name: &str, bytes: usize) -> Arc<Resource> {
    let document = json!({
        "apiVersion": "demo.homeostat.dev/v1", "kind": "Part", "metadata": { "name": name, "namespace": "default" },
        "spec": { "text": "x".repeat(bytes) },
    });
    Arc::new(Resource::from_document(document).unwrap())
}

/// Calls the guest for all waiting changes, and returns the queue with the keys.
async fn run(map: &Arc<GuestMap>) -> Queue<Key> {
    let (queue, intake) = intake(&SyncBarrier::new());
    let asking = tokio::spawn({
        let map = map.clone();
        async move { map.run(&intake).await }
    });
    soon(async {
        while map.changes.counts().keys() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
    asking.abort();
    queue
}

#[tokio::test(start_paused = true)]
async fn documents_waiting_for_map_are_bounded_and_free_their_room() {
    let (_, map) = map(0, false);
    let taken = (0..200).filter(|n| map.changed(&part(&format!("p{n}"), 1 << 20), false, Priority::NORMAL).is_ok());
    let taken = taken.count() as u64;
    assert!(taken > 20 && taken << 20 <= WAITING_BYTES_MAX, "{taken} documents of 1 MiB");
    assert!(map.places().iter().any(|place| place.room < 2 << 20), "{:?}", map.places());
    // A waiting change is replaced at no cost; a deletion that finds no room does not wait.
    assert_eq!(map.changed(&part("p0", 1 << 20), false, Priority::NORMAL), Ok(()));
    assert_eq!(map.changed(&part("late", 1 << 20), true, Priority::NORMAL), Err(Vec::new()));
    run(&map).await;
    assert_eq!(map.seen.lock().waiting_bytes, 0);
    assert_eq!(map.changed(&part("late", 1 << 20), false, Priority::NORMAL), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn deleted_resources_whose_map_keeps_failing_are_bounded() {
    let (guest, map) = map(0, true);
    let (_, intake) = intake(&SyncBarrier::new());
    let asking = tokio::spawn({
        let map = map.clone();
        async move { map.run(&intake).await }
    });
    for n in 0..200 {
        drop(map.changed(&part(&format!("p{n}"), 1 << 20), true, Priority::NORMAL));
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(guest.asked.load(Ordering::Relaxed) > 50, "they are tried again");
    let all = map.seen.lock();
    assert!(all.waiting_bytes <= WAITING_BYTES_MAX && all.by_key.len() < 40, "{} documents", all.by_key.len());
    drop(all);
    asking.abort();
}

#[tokio::test(start_paused = true)]
async fn remembered_keys_of_map_are_bounded_and_every_key_is_still_added() {
    const EACH: usize = 10_000;
    let (_, map) = map(EACH, false);
    let parts = MAPPED_KEYS_MAX / EACH + 10;
    for n in 0..parts {
        map.changed(&part(&format!("p{n}"), 1), false, Priority::NORMAL).unwrap();
    }
    let queue = run(&map).await;
    assert_eq!(queue.len(), parts * EACH, "all are told");
    {
        let all = map.seen.lock();
        assert_eq!(all.led_to, MAPPED_KEYS_MAX);
        assert_eq!(all.led_to, all.by_key.values().map(|seen| seen.led_to.len()).sum::<usize>());
    }
    // Deleted resources make room for others.
    map.changed(&part("p0", 1), true, Priority::NORMAL).unwrap();
    run(&map).await;
    assert_eq!(map.seen.lock().led_to, MAPPED_KEYS_MAX - EACH);
}

#[tokio::test(start_paused = true)]
async fn documents_waiting_for_map_are_kept_as_text() {
    let (_, map) = map(0, false);
    let read = part("p", 1000);
    read.document();
    map.changed(&read, false, Priority::NORMAL).unwrap();
    let all = map.seen.lock();
    let waiting = all.by_key[read.key()].waiting.clone().unwrap();
    assert!(!Arc::ptr_eq(&waiting, &read), "its document would be kept with it");
    assert_eq!(waiting.text(), read.text());
}

/// Memory of a waiting document in addition to its text.
const DOCUMENT_BYTES: u64 = 1024;

measured! {
    /// So small that the bound on keys allows all of them.
    fn documents_waiting_for_map_take_no_more_memory_than_their_bound measure_documents {
        let keys_max = homeostat_component::Limits::default().keys_max;
        let bytes = WAITING_BYTES_MAX + u64::from(keys_max) * (KEY_BYTES + DOCUMENT_BYTES);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        grows_by_at_most(with_slack(bytes), || runtime.block_on(async {
            let map = map_within(Options { keys_max: Some(keys_max), ..Options::default() }, 0, false).1;
            for n in 0..3 * keys_max {
                drop(map.changed(&part(&format!("p{n}"), 1), n % 2 == 0, Priority::NORMAL));
            }
            map
        }));
    }

    fn remembered_keys_of_map_take_no_more_memory_than_their_bound measure_led_to {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        grows_by_at_most(with_slack(MAPPED_KEYS_MAX as u64 * KEY_BYTES), || runtime.block_on(async {
            const EACH: usize = 10_000;
            let (_, map) = map(EACH, false);
            for n in 0..MAPPED_KEYS_MAX / EACH + 10 {
                map.changed(&part(&format!("p{n}"), 1), false, Priority::NORMAL).unwrap();
                // Delivered keys are dropped with their queue.
                run(&map).await;
            }
            map
        }));
    }
}
