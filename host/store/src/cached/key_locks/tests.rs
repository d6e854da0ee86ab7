use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::*;

const TURN_MAX: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_long_row_of_writers_that_are_answered_ends_no_wait() {
    let locks = Arc::new(KeyLocks::default());
    let mut writers = JoinSet::new();
    for _ in 0..20 {
        let locks = Arc::clone(&locks);
        writers.spawn(async move {
            let guard = locks.lock_within("a", TURN_MAX).await;
            sleep(TURN_MAX / 2).await;
            guard.is_some()
        });
    }
    assert_eq!(writers.join_all().await, [true; 20]);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_is_never_answered_ends_the_wait_of_the_next() {
    let locks = KeyLocks::default();
    let _held = locks.lock("a").await;
    let began = Instant::now();
    assert!(locks.lock_within("a", TURN_MAX).await.is_none());
    assert!(began.elapsed() < TURN_MAX * 2);
}
