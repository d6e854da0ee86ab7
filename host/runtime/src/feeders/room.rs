//! Waiting for room: a feeder whose keys were refused waits, and then adds them again.

use std::time::Duration;

use tokio::time::Instant;

/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// After this long any room is enough.
const PATIENCE: Duration = Duration::from_secs(10);

/// One wait for room. It survives dropping the future that waits.
pub(crate) struct RoomWait {
    since: Instant,
    next: Instant,
}

impl RoomWait {
    /// Starts the wait.
    pub(crate) fn begin() -> Self {
        let now = Instant::now();
        Self { since: now, next: now + POLL_INTERVAL }
    }

    /// Waits until everything has free room for an eighth of its current size or, after a while, any room.
    /// The feeder may have to list a whole kind again, and should not do that for single keys.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn wait(&mut self, places: impl Fn() -> Vec<Capacity>) {
        loop {
            tokio::time::sleep_until(self.next).await;
            self.next = Instant::now() + POLL_INTERVAL;
            let patience = self.since.elapsed() >= PATIENCE;
            if places().iter().all(|place| place.is_worth_it(patience)) {
                return;
            }
        }
    }

    /// As [`RoomWait::wait`], but never returns without a wait.
    pub(crate) async fn wait_if_some(waiting: Option<&mut Self>, places: impl Fn() -> Vec<Capacity>) {
        match waiting {
            Some(waiting) => waiting.wait(places).await,
            None => std::future::pending().await,
        }
    }
}

/// The free room and the used room of a bounded structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) room: u64,
    pub(crate) used: u64,
}

impl Capacity {
    fn is_worth_it(self, anything: bool) -> bool {
        self.room > 0 && (anything || self.room.saturating_mul(8) >= self.used)
    }
}
