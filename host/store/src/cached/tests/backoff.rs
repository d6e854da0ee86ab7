//! Servers that end each stream after a moment. No reflector opens streams without a wait.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::server::{Faults, Server, create, kind, resize};
use super::{cache, open, subscribed, wait_for};
use crate::{CacheState, Store, View};

/// Most streams that are opened in a minute in which each of them ends at once. From the fifth failure on, the
/// shortest wait is half of five seconds.
const OPENS_MAX: u64 = 60 * 2 / 5;
/// The same of the first minute, whose first waits are shorter.
const FIRST_OPENS_MAX: u64 = OPENS_MAX + 6;

/// Returns the streams that were opened in each of two minutes, while widgets are changed ten times a second.
async fn opens_of_two_minutes(server: &Server) -> [u64; 2] {
    let mut opens = [0; 2];
    for of_minute in &mut opens {
        let (before, began) = (server.count(|counts| &counts.opens), Instant::now());
        for size in 1.. {
            if began.elapsed() >= Duration::from_secs(60) {
                break;
            }
            resize(&*server.store(), "a", size).await.expect("it is there");
            sleep(Duration::from_millis(100)).await;
        }
        *of_minute = server.count(|counts| &counts.opens) - before;
    }
    opens
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_cut_after_its_first_item_is_listed_with_longer_and_longer_waits() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        create(&*server.store(), name).await.expect("a free name");
    }
    server.fault(|faults| faults.ends_after = Some(1));
    let store = open(&server);
    let _user = store.subscribe(&kind("Widget"), View::Whole);
    let [first, second] = opens_of_two_minutes(&server).await;
    assert!((5..=FIRST_OPENS_MAX).contains(&first), "{first}");
    assert!((5..=OPENS_MAX).contains(&second), "{second}");
    server.fault(|faults| faults.ends_after = None);
    wait_for(|| cache(&store).state == CacheState::Synced).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_after_each_event_is_opened_with_longer_and_longer_waits() {
    let ends_after_one = |faults: &mut Faults| faults.ends_after = Some(1);
    // A list of one item, its end, and a change. Each second stream needs a list again.
    let ends_after_list = |faults: &mut Faults| (faults.ends_after, faults.forgets) = (Some(3), true);
    for fault in [&ends_after_one as &dyn Fn(&mut Faults), &ends_after_list] {
        let server = Server::new();
        create(&*server.store(), "a").await.expect("a free name");
        let (store, _user) = subscribed(&server).await;
        server.fault(fault);
        server.cut();
        let [first, second] = opens_of_two_minutes(&server).await;
        assert!((5..=FIRST_OPENS_MAX).contains(&first), "{first}");
        assert!((5..=OPENS_MAX).contains(&second), "{second}");
        server.fault(|faults| faults.ends_after = None);
        let newest = server.store().status()[0].revision;
        wait_for(|| cache(&store).revision == newest).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_has_lived_is_opened_again_at_once() {
    let server = Server::new();
    create(&*server.store(), "a").await.expect("a free name");
    let (store, _user) = subscribed(&server).await;
    for size in 1..=20 {
        sleep(Duration::from_secs(6)).await;
        let began = Instant::now();
        server.cut();
        resize(&*server.store(), "a", size).await.expect("it is there");
        let newest = server.store().status()[0].revision;
        wait_for(|| cache(&store).revision == newest).await;
        assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    }
}
