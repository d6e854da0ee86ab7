use homeostat_fixtures::memory_store;
use homeostat_store::{CacheState, CacheStatus, View};

use super::*;
use crate::stores::tests::two;

#[tokio::test]
async fn a_transition_is_reported_once() {
    let bus = memory_store();
    let mut monitor = StoreMonitor::new(two(memory_store(), bus.clone()).whole());
    assert_eq!(monitor.transitions(), []);
    bus.close().await;
    let [transition] = &monitor.transitions()[..] else { panic!("one store was closed") };
    assert_eq!(&*transition.store, "bus");
    assert!(transition.reason.is_some());
    assert_eq!(monitor.transitions(), []);
    // As if the store could be used again.
    monitor.store = two(memory_store(), memory_store()).whole();
    assert_eq!(
        monitor.transitions(),
        [Transition { store: "bus".into(), kind: None, event: "StoreBack", reason: None }]
    );
    assert_eq!(monitor.transitions(), []);
}

/// Returns the status of a store with one cache.
fn with_cache(kind: &str, obstacle: Option<Obstacle>) -> StoreStatus {
    let cache = CacheStatus {
        kind: Kind::new("demo.dev", "v1", kind),
        view: View::Whole,
        state: CacheState::Listing,
        users: 1,
        resources: 0,
        unreadable: 0,
        bytes: 0,
        revision: None,
        stale_lists: 0,
        reason: Some("no".to_owned()),
        obstacle,
    };
    let status = memory_store().status().remove(0);
    StoreStatus { name: "bus".into(), caches: vec![cache], ..status }
}

#[tokio::test]
async fn a_kind_that_a_server_refuses_is_reported_once_and_again_when_it_is_back() {
    let mut monitor = StoreMonitor::new(memory_store());
    let refused = |obstacle| Some(("Widget".to_owned(), obstacle, Some("store bus: no".to_owned())));
    let mut next = |kind: &str, obstacle| {
        let mut transitions = monitor.kind_transitions(&[with_cache(kind, obstacle)]);
        assert!(transitions.len() <= 1, "{transitions:?}");
        transitions.pop().map(|transition| (transition.kind.unwrap().name, transition.event, transition.reason))
    };
    assert_eq!(next("Widget", None), None);
    assert_eq!(next("Widget", Some(Obstacle::Forbidden)), refused("KindForbidden"));
    assert_eq!(next("Widget", Some(Obstacle::Forbidden)), None);
    assert_eq!(next("Widget", Some(Obstacle::Full)), refused("CacheFull"));
    assert_eq!(next("Widget", None), Some(("Widget".to_owned(), "KindBack", None)));
    assert_eq!(next("Widget", Some(Obstacle::NotServed)), refused("KindNotServed"));
    assert_eq!(next("Other", None), None, "nobody uses the kind any more");
}
