use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::time::{Instant, sleep, timeout};

use super::*;

const PERIOD: Duration = Duration::from_secs(10);

/// Polls that take this long, one after another. Returns the seconds of the first minute in which each
/// started.
async fn began(takes: impl Fn(u32) -> u64 + Send + Sync + 'static) -> Vec<u64> {
    let began = Arc::new(Mutex::new(Vec::new()));
    let (start, at_once, number) = (Instant::now(), AtomicU32::new(0), AtomicU32::new(0));
    let polling = at_fixed_rate(PERIOD, || async {
        assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0, "two polls at a time");
        began.lock().unwrap().push(start.elapsed().as_secs());
        sleep(Duration::from_secs(takes(number.fetch_add(1, Ordering::SeqCst)))).await;
        at_once.fetch_sub(1, Ordering::SeqCst);
    });
    assert!(timeout(Duration::from_secs(59), polling).await.is_err(), "it goes on without end");
    began.lock().unwrap().clone()
}

/// W9: a poll runs at once, then at a fixed rate, and never two at a time.
#[tokio::test(start_paused = true)]
async fn the_first_poll_comes_at_once_and_the_others_at_a_fixed_rate() {
    assert_eq!(began(|_| 3).await, [0, 10, 20, 30, 40, 50]);
}

/// W9: an overdue poll runs at once, and once; later ones keep their times.
#[tokio::test(start_paused = true)]
async fn a_poll_that_overruns_delays_the_next_one_and_the_rate_stays() {
    assert_eq!(began(|number| if number == 1 { 25 } else { 1 }).await, [0, 10, 35, 40, 50]);
}
