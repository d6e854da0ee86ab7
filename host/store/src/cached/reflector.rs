//! Follows one kind of a server: opens streams one after another, and applies what they deliver to the cache.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::availability::reopen_delay;
use super::backoff::{ExponentialBackoff, jitter};
use super::budget::BudgetExceeded;
use super::kind::{CachedKind, ListRefusal, PartialList, StaleList};
use super::shared_state::SharedState;
use super::upstream::{Delta, Start};
use crate::{CacheState, Error, Revision};

/// Wait before a stream is opened again that failed although its server answers. It ends when the server comes back.
const REOPEN_BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_millis(500), longest: Duration::from_secs(5), spread: (0.5, 1.5) };
/// The shortest of these waits, also before a server that comes back again and again.
const REOPEN_MIN: Duration = Duration::from_secs(1);
/// The same for a kind that the server refuses.
const REFUSED_BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_secs(30), longest: Duration::from_secs(300), spread: (0.5, 1.5) };
/// Wait before a kind is listed again that exceeded the memory.
const FULL_BACKOFF: ExponentialBackoff =
    ExponentialBackoff { first: Duration::from_secs(60), longest: Duration::from_secs(300), spread: (0.5, 1.5) };
/// A stream that told changes for as long as this was a good one. Its end is the first failure.
const LIFE_MIN: Duration = Duration::from_secs(5);
/// Wait after a list that is older than what was shown. A second one is taken as the server's last word.
const STALE_DELAY: Duration = Duration::from_secs(5);

/// The state of the task of one kind.
struct Reflector {
    shared: Arc<SharedState>,
    kind: Arc<CachedKind>,
    /// The start of the first list.
    first: Start,
    /// Whether changes were missed since the end of the cache.
    needs_list: bool,
    /// Streams in a row that ended before the end of their list, or within [`LIFE_MIN`] after it.
    failures: u32,
    /// The end of the list of the stream, or its beginning without a list. `None` before that.
    live_since: Option<Instant>,
    /// Whether the last list was older than the cache.
    was_stale: bool,
    /// Changes when the server comes back.
    recoveries: watch::Receiver<u64>,
    /// How often it had come back when the last stream was opened.
    recoveries_seen: u64,
}

/// The wait before the next stream.
struct Pause {
    delay: Duration,
    /// Whether it ends when the server comes back, once [`REOPEN_MIN`] is over.
    ends_with_recovery: bool,
}

impl Pause {
    fn of(delay: Duration) -> Self {
        Self { delay, ends_with_recovery: false }
    }
}

/// Why a stream ended.
enum StreamEnd {
    Failed(Error),
    Stale(StaleList),
    Full,
    /// The content of the server was replaced.
    Replaced,
}

impl From<Error> for StreamEnd {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<BudgetExceeded> for StreamEnd {
    fn from(_: BudgetExceeded) -> Self {
        Self::Full
    }
}

impl From<ListRefusal> for StreamEnd {
    fn from(refusal: ListRefusal) -> Self {
        match refusal {
            ListRefusal::Stale(stale) => Self::Stale(stale),
            ListRefusal::Full => Self::Full,
        }
    }
}

/// Follows a kind until it has had no user for a while, or the store is closed.
pub(super) async fn reflect(shared: Arc<SharedState>, kind: Arc<CachedKind>, first: Start) {
    let mut reflector = Reflector {
        shared: Arc::clone(&shared),
        kind: Arc::clone(&kind),
        first,
        needs_list: false,
        failures: 0,
        live_since: None,
        was_stale: false,
        recoveries: shared.monitor.recoveries(),
        recoveries_seen: 0,
    };
    loop {
        tokio::select! {
            biased;
            () = unused(&kind, shared.options.idle_max) => {}
            () = reflector.run() => return,
        }
        if shared.remove_unused(&kind) {
            return;
        }
    }
}

/// Waits until a kind has had no user for a while.
async fn unused(kind: &CachedKind, idle_max: Duration) {
    let mut users = kind.users.subscribe();
    loop {
        // The sender lives as long as the kind.
        drop(users.wait_for(|users| *users == 0).await);
        if timeout(idle_max, users.wait_for(|users| *users > 0)).await.is_err() {
            return;
        }
    }
}

impl Reflector {
    /// Returns once the store is closed. Cancel safe: the next call goes on with the cache.
    async fn run(&mut self) {
        loop {
            let shared = Arc::clone(&self.shared);
            let has_contents = self.kind.lock().synced.is_some();
            let has_waited = tokio::select! {
                biased;
                () = shared.monitor.replaced(), if has_contents => {
                    self.handle(StreamEnd::Replaced).await;
                    continue;
                }
                ready = shared.monitor.ready() => match ready {
                    Ok(has_waited) => has_waited,
                    Err(_) => return,
                },
            };
            if has_waited {
                self.pause(Pause::of(reopen_delay(shared.kinds_len(), jitter()))).await;
            }
            self.forgive();
            let end = tokio::select! {
                biased;
                () = shared.monitor.replaced() => StreamEnd::Replaced,
                end = self.follow() => end,
            };
            if let StreamEnd::Failed(Error::Closed) = end {
                return;
            }
            let pause = self.handle(end).await;
            self.pause(pause).await;
        }
    }

    /// Waits before the next stream. A replacement of the content ends the wait, so that the contents of the cache end
    /// before anybody accepts other ones. Cancel safe.
    async fn pause(&mut self, Pause { delay, ends_with_recovery }: Pause) {
        let has_contents = self.kind.lock().synced.is_some();
        let recoveries = &mut self.recoveries;
        let recovery = async {
            sleep(REOPEN_MIN).await;
            // The sender lives as long as the store.
            drop(recoveries.changed().await);
        };
        tokio::select! {
            biased;
            () = self.shared.monitor.replaced(), if has_contents => {}
            () = sleep(delay) => {}
            () = recovery, if ends_with_recovery => {}
        }
    }

    /// Forgets the failures from before the server came back, except for one: a server that has just started may not open
    /// streams yet, and the waits for it begin with the shortest one.
    fn forgive(&mut self) {
        let count = *self.recoveries.borrow_and_update();
        if std::mem::replace(&mut self.recoveries_seen, count) != count {
            self.failures = self.failures.min(1);
        }
    }

    /// Opens a stream and applies its deltas. Returns why it ended.
    async fn follow(&mut self) -> StreamEnd {
        if self.kind.needs_revision() {
            match self.shared.upstream.revision(&self.kind.kind).await {
                Ok(revision) => self.kind.reached(revision),
                Err(error) => return error.into(),
            }
        }
        let start = self.kind.next_start(self.first, self.needs_list);
        tracing::debug!(store = self.shared.upstream.name(), kind = %self.kind.kind, ?start, "a stream of changes is opened");
        let mut stream = match self.shared.upstream.open(&self.kind.kind, self.kind.view, start).await {
            Ok(stream) => stream,
            Err(error) => return error.into(),
        };
        let mut list = match start {
            Start::After(_) => None,
            Start::Now { .. } | Start::Exactly(_) => Some(self.kind.begin_list(start)),
        };
        if list.is_none() {
            self.kind.reopened();
            self.live_since = Some(Instant::now());
        }
        loop {
            let delta = match stream.next().await {
                Ok(delta) => delta,
                Err(error) => return error.into(),
            };
            if let Err(end) = self.apply(&mut list, delta).await {
                return end;
            }
        }
    }

    async fn apply(&mut self, list: &mut Option<PartialList>, delta: Delta) -> Result<(), StreamEnd> {
        if list.is_none() {
            return self.apply_change(delta);
        }
        match (delta, list.as_mut()) {
            (Delta::Listed(resource) | Delta::Put(resource), Some(list)) => self.kind.add_listed(list, &resource)?,
            (Delta::Deleted { key, .. }, Some(list)) => list.remove(&key),
            (Delta::Unreadable { key, reason, .. }, Some(list)) => list.leave_out(&key, &reason),
            (Delta::ListEnd { at }, _) => {
                if self.kind.lock().synced.is_some() {
                    // Other content would delete everything that it lacks.
                    self.shared.monitor.verify().await?;
                }
                if let Some(list) = list.take() {
                    self.kind.end_list(list, at)?;
                }
                tracing::debug!(store = self.shared.upstream.name(), kind = %self.kind.kind, %at, "a kind was listed");
                (self.first, self.needs_list, self.was_stale) = (Start::Now { not_before: None }, false, false);
                self.live_since = Some(Instant::now());
            }
            _ => {}
        }
        Ok(())
    }

    /// Applies a delta after the list.
    fn apply_change(&mut self, delta: Delta) -> Result<(), StreamEnd> {
        match delta {
            Delta::Put(resource) => self.kind.apply_put(&resource)?,
            Delta::Deleted { key, last, at } => self.kind.apply_delete(&key, &last, at)?,
            Delta::Unreadable { key, reason, at } => self.kind.leave_out(&key, &reason, at)?,
            Delta::Bookmark(revision) => self.kind.advance(revision)?,
            // A list that the stream did not ask for has no beginning: list again.
            Delta::Listed(_) | Delta::ListEnd { .. } => {
                let oldest = self.kind.lock().seen;
                return Err(Error::Expired { oldest }.into());
            }
        }
        Ok(())
    }

    /// Records why a stream ended. Returns the wait before the next one.
    async fn handle(&mut self, end: StreamEnd) -> Pause {
        let was_good = self.live_since.take().is_some_and(|since| since.elapsed() >= LIFE_MIN);
        self.failures = if was_good { 1 } else { self.failures.saturating_add(1) };
        // The server may never have the revision at which the first user wanted to begin.
        self.first = Start::Now { not_before: None };
        let shared = Arc::clone(&self.shared);
        let store = shared.upstream.name();
        match end {
            StreamEnd::Replaced => {
                (self.needs_list, self.was_stale) = (false, false);
                self.kind.end(CacheState::Listing, |newest| Error::FutureRevision {
                    asked: newest,
                    current: Revision::ZERO,
                });
                Pause::of(Duration::ZERO)
            }
            StreamEnd::Full => {
                let reason = shared.budget.describe(store, &self.kind.kind);
                tracing::warn!(store, reason, "a kind is not cached");
                self.needs_list = false;
                self.kind.end(CacheState::Full, |newest| Error::Expired { oldest: newest });
                self.kind.failed(Error::unavailable(reason));
                Pause::of(FULL_BACKOFF.delay(self.failures, jitter()))
            }
            StreamEnd::Stale(StaleList { cached, listed }) => {
                let kind = self.kind.kind.to_string();
                tracing::warn!(store, kind, %cached, %listed, "refused a list with older content than the cache");
                self.needs_list = true;
                let before = format!("revision {cached} of {kind}");
                self.kind.failed(Error::unavailable(format!("the server listed revision {listed}, after {before}")));
                if std::mem::replace(&mut self.was_stale, true) {
                    shared.monitor.went_back(before, format!("revision {listed}"));
                }
                Pause::of(STALE_DELAY)
            }
            StreamEnd::Failed(error) => self.handle_error(error).await,
        }
    }

    async fn handle_error(&mut self, error: Error) -> Pause {
        self.shared.doubt_content();
        match &error {
            Error::Forbidden { .. } | Error::Unsupported { .. } => {
                tracing::warn!(store = self.shared.upstream.name(), %error, "a kind is not cached; it is tried again");
                self.kind.failed(error);
                return Pause::of(REFUSED_BACKOFF.delay(self.failures, jitter()));
            }
            Error::Expired { .. } | Error::FutureRevision { .. } => {
                self.needs_list = true;
            }
            _ => self.shared.monitor.look().await,
        }
        tracing::debug!(store = self.shared.upstream.name(), %error, "a stream of changes ended");
        self.kind.failed(error);
        match self.failures {
            1 => Pause::of(Duration::ZERO),
            failures => Pause { delay: REOPEN_BACKOFF.delay(failures - 1, jitter()), ends_with_recovery: true },
        }
    }
}
