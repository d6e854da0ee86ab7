//! What a feeder does whose keys found no room: it waits for some, and comes back to what it could not tell.

use std::time::Duration;

use tokio::time::Instant;

/// How often the queue is asked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// After this long any room is enough.
const PATIENCE: Duration = Duration::from_secs(10);

/// One wait for room. It goes on where it was when the future that waits is dropped.
pub(crate) struct RoomWait {
    since: Instant,
    next: Instant,
}

impl RoomWait {
    /// Begins to wait now.
    pub(crate) fn begin() -> Self {
        let now = Instant::now();
        Self { since: now, next: now + POLL_INTERVAL }
    }

    /// Waits until every place has room for an eighth of what it has, or, after a while, for anything: whoever comes back may have to list a
    /// whole kind, and should not do that for one key after the other.
    ///
    /// *Cancel safety*: it takes nothing.
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

    /// As [`RoomWait::room`], for whoever may not wait for any: then it never returns.
    pub(crate) async fn wait_if_some(waiting: Option<&mut Self>, places: impl Fn() -> Vec<Capacity>) {
        match waiting {
            Some(waiting) => waiting.wait(places).await,
            None => std::future::pending().await,
        }
    }
}

/// Something that has room for so much more.
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
